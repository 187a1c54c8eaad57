import unittest
from datetime import date

from spans import Interval, SpanError

MAY = Interval(date(2024, 5, 1), date(2024, 6, 1))


class IntervalTest(unittest.TestCase):
    def test_end_is_outside(self):
        self.assertIn(date(2024, 5, 31), MAY)
        self.assertNotIn(date(2024, 6, 1), MAY)
        self.assertEqual(MAY.days, 31)

    def test_end_before_start(self):
        with self.assertRaises(SpanError):
            Interval(date(2024, 5, 2), date(2024, 5, 1))

    def test_iteration(self):
        self.assertEqual(
            list(Interval.of_days(date(2024, 2, 28), 3)),
            [date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1)],
        )

    def test_overlap_and_touch(self):
        june = Interval(date(2024, 6, 1), date(2024, 7, 1))
        self.assertFalse(MAY.overlaps(june))
        self.assertTrue(MAY.touches(june))
        self.assertIsNone(MAY.intersection(june))

    def test_intersection(self):
        other = Interval(date(2024, 5, 20), date(2024, 6, 10))
        self.assertEqual(MAY.intersection(other), Interval(date(2024, 5, 20), date(2024, 6, 1)))

    def test_shift(self):
        self.assertEqual(MAY.shift(-1).start, date(2024, 4, 30))


if __name__ == "__main__":
    unittest.main()
