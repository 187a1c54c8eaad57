import unittest
from datetime import date

from spans import Interval
from spans.months import add_months, days_in_month, month_of, split_by_month


class AddMonthsTest(unittest.TestCase):
    def test_same_day(self):
        self.assertEqual(add_months(date(2024, 1, 15), 1), date(2024, 2, 15))

    def test_over_the_year(self):
        self.assertEqual(add_months(date(2024, 11, 5), 3), date(2025, 2, 5))
        self.assertEqual(add_months(date(2024, 1, 5), -2), date(2023, 11, 5))

    def test_shorter_month(self):
        self.assertEqual(add_months(date(2024, 1, 31), 1), date(2024, 2, 29))
        self.assertEqual(add_months(date(2024, 5, 31), 1), date(2024, 6, 30))


class MonthTest(unittest.TestCase):
    def test_length(self):
        self.assertEqual(days_in_month(2023, 2), 28)

    def test_month_of(self):
        self.assertEqual(month_of(date(2024, 12, 9)), Interval(date(2024, 12, 1), date(2025, 1, 1)))

    def test_split(self):
        parts = split_by_month(Interval(date(2024, 1, 30), date(2024, 3, 2)))
        self.assertEqual([part.days for part in parts], [2, 29, 1])


if __name__ == "__main__":
    unittest.main()
