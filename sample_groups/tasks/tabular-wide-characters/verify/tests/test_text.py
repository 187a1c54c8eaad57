import unittest

from tabular.text import pad, truncate, wrap


class PadTest(unittest.TestCase):
    def test_left_right_center(self):
        self.assertEqual(pad("ab", 5), "ab   ")
        self.assertEqual(pad("ab", 5, "right"), "   ab")
        self.assertEqual(pad("ab", 5, "center"), " ab  ")

    def test_long_text_is_kept(self):
        self.assertEqual(pad("abcdef", 3), "abcdef")

    def test_unknown_alignment(self):
        with self.assertRaises(ValueError):
            pad("ab", 5, "middle")


class TruncateTest(unittest.TestCase):
    def test_short_text_is_kept(self):
        self.assertEqual(truncate("abc", 3), "abc")

    def test_cut_text_ends_in_the_marker(self):
        self.assertEqual(truncate("abcdef", 4), "abc~")
        self.assertEqual(truncate("abcdef", 4, marker=".."), "ab..")


class CellsTest(unittest.TestCase):
    def test_wide_characters_take_two_cells(self):
        self.assertEqual(pad("茶", 4), "茶  ")
        self.assertEqual(pad("茶", 4, "right"), "  茶")
        self.assertEqual(pad("おちゃ", 8, "center"), " おちゃ ")
        self.assertEqual(pad("한국", 5), "한국 ")

    def test_fullwidth_latin_is_wide(self):
        self.assertEqual(pad("ＡＢ", 6), "ＡＢ  ")

    def test_combining_marks_take_no_cell(self):
        self.assertEqual(pad("cafe\u0301", 6), "cafe\u0301  ")

    def test_cut_never_passes_the_width(self):
        self.assertEqual(truncate("日本語", 5), "日本~")
        self.assertEqual(truncate("日本語", 4), "日~")
        self.assertEqual(truncate("日本語", 6), "日本語")

    def test_wrap_counts_cells(self):
        self.assertEqual(wrap("日本 日本 日本", 9), ["日本 日本", "日本"])
        self.assertEqual(wrap("日本 日本 日本", 8), ["日本", "日本", "日本"])

    def test_accents_outside_ascii_take_one_cell(self):
        self.assertEqual(pad("Größe", 7), "Größe  ")
        self.assertEqual(truncate("éééé", 4), "éééé")


class WrapTest(unittest.TestCase):
    def test_breaks_at_spaces(self):
        self.assertEqual(wrap("one two three", 7), ["one two", "three"])

    def test_keeps_line_breaks(self):
        self.assertEqual(wrap("one\n\ntwo", 10), ["one", "", "two"])

    def test_long_word_is_not_broken(self):
        self.assertEqual(wrap("a incredible b", 4), ["a", "incredible", "b"])


if __name__ == "__main__":
    unittest.main()
