import unittest

from tabular import Table, render

ROWS = [["tea", 3], ["coffee", 12]]


class RenderTest(unittest.TestCase):
    def setUp(self):
        self.table = Table.from_rows(ROWS, header=["drink", "cups"])

    def test_plain(self):
        self.assertEqual(
            render(self.table).split("\n"),
            ["drink   cups", "------  ----", "tea        3", "coffee    12"],
        )

    def test_compact_has_no_rule(self):
        self.assertEqual(len(render(self.table, style="compact").split("\n")), 3)

    def test_grid(self):
        self.assertEqual(
            render(self.table, style="grid").split("\n"),
            [
                "+--------+------+",
                "| drink  | cups |",
                "+--------+------+",
                "| tea    |    3 |",
                "+--------+------+",
                "| coffee |   12 |",
                "+--------+------+",
            ],
        )

    def test_unknown_style(self):
        with self.assertRaises(ValueError):
            render(self.table, style="fancy")

    def test_max_width_cuts(self):
        self.table.columns[0].max_width = 4
        self.assertEqual(render(self.table).split("\n")[3], "cof~     12")

    def test_wrapped_cells(self):
        table = Table.from_rows([["green tea with milk", 1]], header=["drink", "n"])
        table.columns[0].max_width = 10
        self.assertEqual(
            render(table, wrap_cells=True).split("\n")[2:], ["green tea  1", "with milk"]
        )


if __name__ == "__main__":
    unittest.main()
