import unittest

from tabular.readers import convert_field, guess_delimiter, read_csv


class ReadCsvTest(unittest.TestCase):
    def test_header_and_numbers(self):
        table = read_csv("drink,cups\ntea,3\ncoffee,1.5\n")
        self.assertEqual(table.values("cups"), [3, 1.5])

    def test_without_conversion(self):
        self.assertEqual(read_csv("n\n3\n", convert=False).rows, [["3"]])

    def test_blank_lines_are_skipped(self):
        self.assertEqual(read_csv("n\n\n3\n\n4\n").values("n"), [3, 4])

    def test_quoted_field(self):
        self.assertEqual(read_csv('a,b\n"x, y",2\n').rows, [["x, y", 2]])

    def test_short_rows_are_filled_up(self):
        self.assertEqual(read_csv("a,b\n1\n2,3\n").rows, [[1, None], [2, 3]])

    def test_long_row_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "row 2 has 3 cells"):
            read_csv("a,b\n1,2\n1,2,3\n")

    def test_empty_text(self):
        with self.assertRaises(ValueError):
            read_csv("")


class GuessDelimiterTest(unittest.TestCase):
    def test_most_frequent_wins(self):
        self.assertEqual(guess_delimiter("a;b;c,d\n1,2,3"), ";")
        self.assertEqual(guess_delimiter("a\tb"), "\t")


class ConvertFieldTest(unittest.TestCase):
    def test_kinds(self):
        self.assertEqual(convert_field("-12"), -12)
        self.assertEqual(convert_field("2e5"), "2e5")
        self.assertEqual(convert_field(".5"), 0.5)
        self.assertIsNone(convert_field("  "))
        self.assertEqual(convert_field(" x "), " x ")


if __name__ == "__main__":
    unittest.main()
