import unittest

from tabular import Table
from tabular.markdown import to_markdown


class ToMarkdownTest(unittest.TestCase):
    def test_columns_line_up(self):
        table = Table.from_rows([["tea", 3], ["coffee", 12]], header=["drink", "cups"])
        self.assertEqual(
            to_markdown(table).split("\n"),
            [
                "| drink  | cups |",
                "| ------ | ---: |",
                "| tea    |    3 |",
                "| coffee |   12 |",
            ],
        )

    def test_without_aligned_source(self):
        table = Table.from_rows([["tea", 3]], header=["drink", "cups"])
        self.assertEqual(
            to_markdown(table, align_source=False).split("\n"),
            ["| drink | cups |", "| --- | --: |", "| tea |   3 |"],
        )

    def test_centered_column(self):
        table = Table.from_rows([["x"]], header=["long title"])
        table.columns[0].align = "center"
        self.assertEqual(to_markdown(table).split("\n")[1], "| :--------: |")

    def test_pipes_and_backslashes_are_escaped(self):
        table = Table.from_rows([["a|b"], ["c\\d"], ["c*d"]], header=["x|y"])
        lines = to_markdown(table, align_source=False).split("\n")
        self.assertEqual(lines[0], "| x\\|y |")
        self.assertEqual(lines[2:], ["| a\\|b |", "| c\\\\d |", "| c*d |"])

    def test_line_breaks_become_br(self):
        table = Table.from_rows([["a\nb"], ["c\r\nd"]], header=["x"])
        self.assertEqual(to_markdown(table).split("\n")[2:], ["| a<br>b |", "| c<br>d |"])

    def test_all_in_one_cell(self):
        table = Table.from_rows([["a\\|b\n|"]], header=["x"])
        self.assertEqual(
            to_markdown(table, align_source=False).split("\n")[2], "| a\\\\\\|b<br>\\| |"
        )

    def test_backslash_at_the_end(self):
        table = Table.from_rows([["a\\"]], header=["x"])
        self.assertEqual(to_markdown(table).split("\n")[2], "| a\\\\ |")

    def test_titles_are_escaped_too(self):
        table = Table.from_rows([[1]], header=["per\nday|week"])
        self.assertEqual(to_markdown(table).split("\n")[0], "| per<br>day\\|week |")

    def test_lone_carriage_return(self):
        table = Table.from_rows([["a\rb"]], header=["x"])
        self.assertEqual(to_markdown(table).split("\n")[2], "| a<br>b |")

    def test_markup_is_left_alone(self):
        table = Table.from_rows([["<b>*x*</b> &amp; _y_"]], header=["x"])
        self.assertIn("| <b>*x*</b> &amp; _y_ |", to_markdown(table))

    def test_escaped_cells_line_up(self):
        table = Table.from_rows([["a|b|c"], ["x"]], header=["t"])
        widths = {len(line) for line in to_markdown(table).split("\n")}
        self.assertEqual(len(widths), 1)


if __name__ == "__main__":
    unittest.main()
