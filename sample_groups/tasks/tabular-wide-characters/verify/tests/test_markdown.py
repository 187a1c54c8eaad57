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

    def test_cell_text_is_kept(self):
        table = Table.from_rows([["a|b"], ["c*d"]], header=["x"])
        lines = to_markdown(table, align_source=False).split("\n")
        self.assertEqual(len(lines), 4)
        self.assertIn("a|b", lines[2])
        self.assertEqual(lines[3], "| c*d |")

    def test_wide_characters_line_up(self):
        table = Table.from_rows([["日本"], ["x"]], header=["a"])
        self.assertEqual(
            to_markdown(table).split("\n"), ["| a    |", "| ---- |", "| 日本 |", "| x    |"]
        )


if __name__ == "__main__":
    unittest.main()
