import unittest
from datetime import date

from spans import Interval, IntervalSet


def span(first, last):
    """Return the interval between two days of May 2024."""
    return Interval(date(2024, 5, first), date(2024, 5, last))


class IntervalSetTest(unittest.TestCase):
    def test_sorted_and_merged(self):
        days = IntervalSet([span(10, 12), span(1, 5), span(3, 8)])
        self.assertEqual(list(days), [span(1, 8), span(10, 12)])

    def test_interval_inside_another(self):
        self.assertEqual(list(IntervalSet([span(1, 10), span(2, 3)])), [span(1, 10)])

    def test_touching_intervals_are_one(self):
        self.assertEqual(list(IntervalSet([span(1, 3), span(3, 5)])), [span(1, 5)])

    def test_empty_intervals_vanish(self):
        self.assertFalse(IntervalSet([span(3, 3)]))

    def test_days(self):
        self.assertEqual(IntervalSet([span(1, 5), span(10, 12)]).days, 6)

    def test_contains(self):
        days = IntervalSet([span(1, 5), span(10, 12)])
        self.assertIn(date(2024, 5, 11), days)
        self.assertNotIn(date(2024, 5, 5), days)

    def test_union_and_intersection(self):
        one = IntervalSet([span(1, 5), span(10, 15)])
        two = IntervalSet([span(4, 11)])
        self.assertEqual(list(one.union(two)), [span(1, 15)])
        self.assertEqual(list(one.intersection(two)), [span(4, 5), span(10, 11)])

    def test_difference(self):
        one = IntervalSet([span(1, 10)])
        two = IntervalSet([span(3, 4), span(8, 12)])
        self.assertEqual(list(one.difference(two)), [span(1, 3), span(4, 8)])

    def test_gaps(self):
        days = IntervalSet([span(3, 5), span(8, 9)])
        self.assertEqual(days.gaps(within=span(1, 10)), [span(1, 3), span(5, 8), span(9, 10)])

    def test_empty_set(self):
        self.assertFalse(IntervalSet())
        self.assertEqual(IntervalSet().gaps(within=span(1, 4)), [span(1, 4)])

    def test_inside_then_beyond(self):
        days = IntervalSet([span(1, 10), span(2, 3), span(9, 12)])
        self.assertEqual(list(days), [span(1, 12)])
        self.assertEqual(days.days, 11)

    def test_same_start(self):
        self.assertEqual(list(IntervalSet([span(1, 4), span(1, 9)])), [span(1, 9)])

    def test_free_day_keeps_them_apart(self):
        self.assertEqual(len(IntervalSet([span(1, 3), span(4, 6)])), 2)

    def test_chain_of_touching_intervals(self):
        days = IntervalSet([span(5, 7), span(1, 3), span(3, 5), span(7, 8)])
        self.assertEqual(list(days), [span(1, 8)])

    def test_equal_days_are_equal_sets(self):
        one = IntervalSet([span(1, 3), span(3, 5)])
        two = IntervalSet([span(1, 5), span(2, 2)])
        self.assertEqual(one, two)
        self.assertEqual(hash(one), hash(two))

    def test_empty_interval_between_touching_ones(self):
        self.assertEqual(list(IntervalSet([span(1, 3), span(3, 3), span(3, 4)])), [span(1, 4)])

    def test_union_merges_too(self):
        union = IntervalSet([span(1, 3)]).union(IntervalSet([span(3, 6)]))
        self.assertEqual(list(union), [span(1, 6)])

    def test_gaps_and_difference_after_merging(self):
        days = IntervalSet([span(1, 10), span(2, 3)])
        self.assertEqual(days.gaps(within=span(1, 12)), [span(10, 12)])
        self.assertEqual(list(IntervalSet([span(1, 12)]).difference(days)), [span(10, 12)])


if __name__ == "__main__":
    unittest.main()
