import unittest
from datetime import date

from spans import Interval, SpanError
from spans.iso import Duration, parse_duration, parse_interval


class DurationTest(unittest.TestCase):
    def test_years_months_days(self):
        self.assertEqual(parse_duration("P1Y6M"), Duration(months=18))
        self.assertEqual(parse_duration("P2M10D"), Duration(months=2, days=10))

    def test_not_a_duration(self):
        with self.assertRaises(SpanError):
            parse_duration("1 year")

    def test_weeks(self):
        self.assertEqual(parse_duration("P3W"), Duration(days=21))

    def test_weeks_stand_alone(self):
        self.assert_refused("P1W2D", "P1Y1W", "P1WT1H")

    def test_time(self):
        self.assertEqual(parse_duration("PT36H"), Duration(seconds=129_600))
        self.assertEqual(parse_duration("P1DT2H30M"), Duration(days=1, seconds=9000))
        self.assertEqual(parse_duration("P1MT1M"), Duration(months=1, seconds=60))
        self.assertEqual(parse_duration("PT5S"), Duration(seconds=5))

    def test_fraction_in_the_last_part(self):
        self.assertEqual(parse_duration("PT1,5H"), Duration(seconds=5400))
        self.assertEqual(parse_duration("PT1H0.5M"), Duration(seconds=3630))
        self.assertEqual(parse_duration("PT0.1H"), Duration(seconds=360))

    def test_fraction_elsewhere(self):
        self.assert_refused("PT1.5H3M", "P1.5D", "P0,5Y", "PT1.H", "PT.5H")

    def test_full_seconds_only(self):
        self.assert_refused("PT0.5S", "PT0.01M", "PT0.0001H")

    def test_sign(self):
        self.assertEqual(parse_duration("-P1M2D"), Duration(months=-1, days=-2))
        self.assertEqual(parse_duration("-P2W"), Duration(days=-14))
        self.assertEqual(parse_duration("-PT1M"), Duration(seconds=-60))
        self.assertEqual(parse_duration("+P1D"), Duration(days=1))
        self.assert_refused("P-1D", "--P1D", "- P1D")

    def test_at_least_one_part(self):
        self.assert_refused("P", "PT", "P1DT", "-P", "")

    def test_order_and_leftovers(self):
        self.assert_refused("P1D2M", "PT1M2H", "P1Dx", "xP1D", " P1D", "P1D ", "P1D\n", "P1H")

    def test_zero_is_a_duration(self):
        self.assertEqual(parse_duration("P0D"), Duration())

    def test_whole_days_of_seconds(self):
        self.assertEqual(parse_duration("PT48H").after(date(2024, 5, 1)), date(2024, 5, 3))
        self.assertEqual(parse_duration("-PT24H").after(date(2024, 5, 1)), date(2024, 4, 30))

    def test_part_of_a_day(self):
        for text in ("PT36H", "P1DT1S", "-PT1H"):
            with self.assertRaises(SpanError):
                parse_duration(text).after(date(2024, 5, 1))

    def assert_refused(self, *texts):
        for text in texts:
            with self.assertRaises(SpanError, msg=text):
                parse_duration(text)

    def test_months_come_before_days(self):
        self.assertEqual(Duration(months=1, days=1).after(date(2024, 1, 31)), date(2024, 3, 1))


class IntervalTextTest(unittest.TestCase):
    def test_two_dates(self):
        self.assertEqual(
            parse_interval("2024-05-01/2024-05-04"), Interval(date(2024, 5, 1), date(2024, 5, 4))
        )

    def test_date_and_duration(self):
        self.assertEqual(parse_interval("2024-01-31/P1M").end, date(2024, 2, 29))

    def test_date_and_weeks_or_hours(self):
        self.assertEqual(parse_interval("2024-05-01/P2W").days, 14)
        self.assertEqual(parse_interval("2024-05-01/PT48H").days, 2)
        with self.assertRaises(SpanError):
            parse_interval("2024-05-01/PT12H")

    def test_bad_text(self):
        for text in ("2024-05-01", "2024-5-1/P1D", "2024-02-30/P1D"):
            with self.assertRaises(SpanError):
                parse_interval(text)


if __name__ == "__main__":
    unittest.main()
