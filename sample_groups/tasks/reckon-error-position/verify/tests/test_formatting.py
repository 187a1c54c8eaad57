import unittest

from reckon import parse
from reckon.formatting import format_node, names


def tidy(source):
    """Return ``source`` read and printed again."""
    return format_node(parse(source))


class FormatNodeTest(unittest.TestCase):
    def test_spaces(self):
        self.assertEqual(tidy("1+2*x"), "1 + 2 * x")
        self.assertEqual(tidy("max( 1,b )"), "max(1, b)")

    def test_needless_parentheses_go(self):
        self.assertEqual(tidy("((1)) + (2 * 3)"), "1 + 2 * 3")

    def test_needed_parentheses_stay(self):
        self.assertEqual(tidy("(1 + 2) * 3"), "(1 + 2) * 3")
        self.assertEqual(tidy("-(1 + 2)"), "-(1 + 2)")

    def test_right_operand_of_the_same_precedence(self):
        for source in ("a - (b - c)", "a / (b * c)", "a - b - c", "a * (b % c)"):
            self.assertEqual(tidy(source), source)

    def test_powers_and_signs(self):
        for source in ("(a ^ b) ^ c", "a ^ b ^ c", "(-a) ^ 2", "-a ^ 2", "a ^ -b", "a * -b"):
            self.assertEqual(tidy(source), source)

    def test_numbers(self):
        self.assertEqual(tidy("2.50 + 3.0 + 1e30"), "2.5 + 3.0 + 1e+30")


class NamesTest(unittest.TestCase):
    def test_all_are_found_once(self):
        self.assertEqual(names(parse("a + f(b, -a) * 2")), {"a", "b"})


if __name__ == "__main__":
    unittest.main()
