import unittest

from reckon import parse
from reckon.formatting import format_node, names
from reckon.nodes import Binary, Call, Name, Unary


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


def trees(depth):
    """Yield all trees up to a depth, over one name and all kinds of operators."""
    yield Name("a")
    if depth:
        for operand in trees(depth - 1):
            yield Unary("-", operand)
            yield Call("f", (operand,))
        for operator in "+-*/^":
            for left in trees(depth - 1):
                for right in trees(depth - 1):
                    yield Binary(operator, left, right)


class RoundTripTest(unittest.TestCase):
    def test_every_small_tree_comes_back(self):
        for tree in trees(2):
            self.assertEqual(parse(format_node(tree)), tree, format_node(tree))

    def test_no_parentheses_are_needless(self):
        for tree in trees(2):
            text = format_node(tree)
            for start, char in enumerate(text):
                if char == "(" and text[start - 1 : start] != "f":
                    end = closing(text, start)
                    without = text[:start] + text[start + 1 : end] + text[end + 1 :]
                    self.assertNotEqual(parse(without), tree, text)


def closing(text, start):
    """Return the position of the parenthesis that closes the one at ``start``."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if not depth:
            return position
    raise ValueError(text)


class NamesTest(unittest.TestCase):
    def test_all_are_found_once(self):
        self.assertEqual(names(parse("a + f(b, -a) * 2")), {"a", "b"})


if __name__ == "__main__":
    unittest.main()
