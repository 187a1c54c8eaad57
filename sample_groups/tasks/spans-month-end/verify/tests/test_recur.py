import unittest
from datetime import date

from spans import Interval, SpanError
from spans.recur import Every


class EveryTest(unittest.TestCase):
    def test_days_and_weeks(self):
        self.assertEqual(
            Every(10, "days", date(2024, 2, 25)).first(2), [date(2024, 2, 25), date(2024, 3, 6)]
        )
        self.assertEqual(Every(2, "weeks", date(2024, 5, 1)).first(2)[1], date(2024, 5, 15))

    def test_months_and_years(self):
        self.assertEqual(Every(3, "months", date(2024, 11, 5)).first(2)[1], date(2025, 2, 5))
        self.assertEqual(Every(1, "years", date(2024, 11, 5)).first(2)[1], date(2025, 11, 5))

    def test_short_month_does_not_pull_later_days_forward(self):
        days = Every(1, "months", date(2023, 1, 31)).first(4)
        self.assertEqual(
            [(day.month, day.day) for day in days], [(1, 31), (2, 28), (3, 31), (4, 30)]
        )

    def test_leap_day_comes_back(self):
        days = Every(1, "years", date(2024, 2, 29)).first(5)
        self.assertEqual([day.day for day in days], [29, 28, 28, 28, 29])

    def test_until_is_included(self):
        rule = Every(1, "weeks", date(2024, 5, 1), until=date(2024, 5, 15))
        self.assertEqual(len(list(rule)), 3)

    def test_within(self):
        rule = Every(1, "weeks", date(2024, 5, 1))
        days = rule.within(Interval(date(2024, 5, 8), date(2024, 5, 22)))
        self.assertEqual(days, [date(2024, 5, 8), date(2024, 5, 15)])

    def test_bad_rules(self):
        with self.assertRaises(SpanError):
            Every(0, "days", date(2024, 5, 1))
        with self.assertRaises(SpanError):
            Every(1, "fortnights", date(2024, 5, 1))

    def test_start_on_the_28th_stays_there(self):
        days = Every(1, "months", date(2023, 2, 28)).first(3)
        self.assertEqual([day.day for day in days], [28, 28, 28])

    def test_start_on_the_30th_stays_there(self):
        days = Every(1, "months", date(2023, 11, 30)).first(5)
        self.assertEqual([day.day for day in days], [30, 30, 30, 29, 30])

    def test_every_third_month(self):
        days = Every(3, "months", date(2023, 5, 31)).first(5)
        self.assertEqual(
            [(day.month, day.day) for day in days], [(5, 31), (8, 31), (11, 30), (2, 29), (5, 31)]
        )

    def test_every_second_year(self):
        days = Every(2, "years", date(2024, 2, 29)).first(3)
        self.assertEqual(
            [day.isoformat() for day in days], ["2024-02-29", "2026-02-28", "2028-02-29"]
        )

    def test_until_cuts_a_monthly_rule(self):
        rule = Every(1, "months", date(2023, 1, 31), until=date(2023, 3, 30))
        self.assertEqual([day.isoformat() for day in rule], ["2023-01-31", "2023-02-28"])

    def test_until_before_start(self):
        self.assertEqual(list(Every(1, "months", date(2023, 1, 31), until=date(2023, 1, 30))), [])

    def test_within_a_monthly_rule(self):
        rule = Every(1, "months", date(2023, 1, 31))
        days = rule.within(Interval(date(2023, 3, 1), date(2023, 5, 1)))
        self.assertEqual(days, [date(2023, 3, 31), date(2023, 4, 30)])

    def test_iteration_is_lazy_and_repeatable(self):
        rule = Every(1, "months", date(2023, 1, 31))
        self.assertEqual(next(iter(rule)), rule.start)
        self.assertEqual(rule.first(2), rule.first(2))


if __name__ == "__main__":
    unittest.main()
