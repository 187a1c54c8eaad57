import unittest

from reckon import ReckonError, parse
from reckon.nodes import Binary, Call, Name, Number, Unary
from reckon.tokens import tokenize


class TokenizeTest(unittest.TestCase):
    def test_kinds_and_positions(self):
        found = [(token.kind, token.text, token.position) for token in tokenize("a1 + 2.5")]
        self.assertEqual(
            found,
            [("name", "a1", 0), ("symbol", "+", 3), ("number", "2.5", 5), ("end", "", 8)],
        )

    def test_unexpected_character(self):
        with self.assertRaises(ReckonError) as caught:
            tokenize("1 + $")
        self.assertEqual(caught.exception.position, 4)


class ParseTest(unittest.TestCase):
    def test_precedence(self):
        self.assertEqual(
            parse("1 + 2 * x"),
            Binary("+", Number(1), Binary("*", Number(2), Name("x"))),
        )

    def test_left_to_right(self):
        self.assertEqual(
            parse("5 - 2 - 1"),
            Binary("-", Binary("-", Number(5), Number(2)), Number(1)),
        )

    def test_powers_group_from_the_right(self):
        self.assertEqual(parse("a ^ b ^ c"), parse("a ^ (b ^ c)"))

    def test_power_binds_tighter_than_a_sign_before_it(self):
        self.assertEqual(parse("-a ^ 2"), parse("-(a ^ 2)"))
        self.assertEqual(parse("a ^ -b ^ 2"), parse("a ^ (-(b ^ 2))"))

    def test_sign_and_parentheses(self):
        self.assertEqual(parse("-(1 + 2)"), Unary("-", Binary("+", Number(1), Number(2))))

    def test_call(self):
        self.assertEqual(parse("max(1, b)"), Call("max", (Number(1), Name("b"))))
        self.assertEqual(parse("f()"), Call("f", ()))

    def test_errors_have_positions(self):
        for source, position in (("1 +", 3), ("(1", 2), ("1 2", 2), ("f(1 2)", 4), ("1 end", 2)):
            with self.assertRaises(ReckonError) as caught:
                parse(source)
            self.assertEqual(caught.exception.position, position)


if __name__ == "__main__":
    unittest.main()
