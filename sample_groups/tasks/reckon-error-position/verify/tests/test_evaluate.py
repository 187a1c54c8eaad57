import math
import unittest

from reckon import ReckonError, evaluate


class EvaluateTest(unittest.TestCase):
    def test_arithmetic(self):
        self.assertEqual(evaluate("1 + 2 * 3 - 4 / 2"), 5)
        self.assertEqual(evaluate("(1 + 2) * 3"), 9)
        self.assertEqual(evaluate("7 % 4"), 3)
        self.assertEqual(evaluate("2 ^ 10"), 1024)
        self.assertEqual(evaluate("2 * -3"), -6)

    def test_variables_and_constants(self):
        self.assertEqual(evaluate("2 * r", {"r": 4}), 8)
        self.assertAlmostEqual(evaluate("tau"), 2 * math.pi)
        self.assertEqual(evaluate("e", {"e": 1}), 1)

    def test_functions(self):
        self.assertEqual(evaluate("max(1, 5, 3)"), 5)
        self.assertEqual(evaluate("mean(1, 2, 3)"), 2)
        self.assertEqual(evaluate("round(2.345, 1)"), 2.3)

    def test_errors(self):
        for source in ("1 / 0", "nope", "nope(1)", "sqrt(-1)", "sqrt()", "9.9 ^ 999"):
            with self.assertRaises(ReckonError):
                evaluate(source)

    def test_errors_have_positions(self):
        for source, position in (
            ("1 + nope", 4),
            ("1 + 2 / 0", 6),
            ("1 + nope(2)", 4),
            ("2 * sqrt(-1)", 4),
            ("1 + round()", 4),
            ("1 + 9.9 ^ 999", 8),
        ):
            with self.assertRaises(ReckonError) as caught:
                evaluate(source)
            self.assertEqual(caught.exception.position, position)

    def test_second_of_two_equal_names(self):
        for source, position in (("xy + y", 5), ("xy / (x - x)", 3), ("max(xy, 2) + m", 13)):
            with self.assertRaises(ReckonError) as caught:
                evaluate(source, {"xy": 1, "x": 2})
            self.assertEqual(caught.exception.position, position)

    def test_inner_cause_wins(self):
        with self.assertRaises(ReckonError) as caught:
            evaluate("max(1, 2 / (3 - 3), 4)")
        self.assertEqual(caught.exception.position, 9)

    def test_division_in_a_chain(self):
        with self.assertRaises(ReckonError) as caught:
            evaluate("8 / 4 / 0 / 2")
        self.assertEqual(caught.exception.position, 6)

    def test_remainder_and_power(self):
        for source, position in (("5 % 0", 2), ("0 ^ -1", 2), ("1 + 0 ^ -(1)", 6)):
            with self.assertRaises(ReckonError) as caught:
                evaluate(source)
            self.assertEqual(caught.exception.position, position)

    def test_second_line(self):
        with self.assertRaises(ReckonError) as caught:
            evaluate("1 +\n 2 * nope")
        self.assertEqual(
            caught.exception.show("1 +\n 2 * nope"), " 2 * nope\n     ^ unknown name 'nope'"
        )

    def test_error_is_shown_under_the_source(self):
        with self.assertRaises(ReckonError) as caught:
            evaluate("1 +\n 2 $")
        self.assertEqual(caught.exception.show("1 +\n 2 $"), " 2 $\n   ^ unexpected character '$'")


if __name__ == "__main__":
    unittest.main()
