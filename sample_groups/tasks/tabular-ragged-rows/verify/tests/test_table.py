import unittest

from tabular import Table, render


class FromRowsTest(unittest.TestCase):
    def test_first_row_is_the_header(self):
        table = Table.from_rows([["a", "b"], [1, 2]])
        self.assertEqual([column.title for column in table.columns], ["a", "b"])
        self.assertEqual(table.rows, [[1, 2]])

    def test_header_given(self):
        table = Table.from_rows([[1, 2]], header=["a", "b"])
        self.assertEqual(table.rows, [[1, 2]])

    def test_nothing_at_all(self):
        with self.assertRaises(ValueError):
            Table.from_rows([])

    def test_short_rows_are_filled_up(self):
        table = Table.from_rows([[1], [], [2, 3]], header=["a", "b"])
        self.assertEqual(table.rows, [[1, None], [None, None], [2, 3]])

    def test_long_row_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "row 2 has 3 cells, expected at most 2"):
            Table.from_rows([[1], [1, 2, 3]], header=["a", "b"])


class RaggedRowsTest(unittest.TestCase):
    def test_first_row_as_header(self):
        table = Table.from_rows([["a", "b"], [1]])
        self.assertEqual(table.rows, [[1, None]])

    def test_row_numbers_count_after_the_header(self):
        with self.assertRaisesRegex(ValueError, "row 1 has 3 cells, expected at most 2"):
            Table.from_rows([["a", "b"], [1, 2, 3]])

    def test_rows_passed_in_are_not_changed(self):
        rows = [[1], [2, 3]]
        Table.from_rows(rows, header=["a", "b"])
        self.assertEqual(rows, [[1], [2, 3]])

    def test_rows_can_be_tuples_from_an_iterator(self):
        table = Table.from_rows(iter([(1,), (2, 3)]), header=["a", "b"])
        self.assertEqual(table.rows, [[1, None], [2, 3]])

    def test_filled_up_table_can_be_rendered(self):
        table = Table.from_rows([["tea", 3], ["coffee"]], header=["drink", "cups"])
        self.assertEqual(render(table).split("\n")[2:], ["tea        3", "coffee"])


class FromDictsTest(unittest.TestCase):
    def test_columns_in_order_of_appearance(self):
        table = Table.from_dicts([{"a": 1}, {"b": 2, "a": 3}])
        self.assertEqual([column.title for column in table.columns], ["a", "b"])
        self.assertEqual(table.rows, [[1, None], [3, 2]])


class SortByTest(unittest.TestCase):
    def test_missing_values_go_last(self):
        table = Table.from_rows([[3], [None], [1]], header=["n"])
        self.assertEqual(table.sort_by("n").values("n"), [1, 3, None])
        self.assertEqual(table.sort_by("n", reverse=True).values("n"), [3, 1, None])

    def test_unknown_column(self):
        with self.assertRaises(KeyError):
            Table.from_rows([[1]], header=["n"]).sort_by("m")


if __name__ == "__main__":
    unittest.main()
