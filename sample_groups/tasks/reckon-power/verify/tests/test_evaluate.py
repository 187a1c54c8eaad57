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

    def test_powers(self):
        self.assertEqual(evaluate("2 ^ 3 ^ 2"), 512)
        self.assertEqual(evaluate("-2 ^ 2"), -4)
        self.assertEqual(evaluate("(-2) ^ 2"), 4)
        self.assertEqual(evaluate("1 - 2 ^ 2"), -3)
        self.assertEqual(evaluate("2 ^ -1"), 0.5)
        self.assertEqual(evaluate("2 ^ -3 ^ 2"), 2**-9)
        self.assertEqual(evaluate("x ^ 2", {"x": -3}), 9)
        self.assertEqual(evaluate("(2 ^ 3) ^ 2"), 64)

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

    def test_error_is_shown_under_the_source(self):
        with self.assertRaises(ReckonError) as caught:
            evaluate("1 +\n 2 $")
        self.assertEqual(caught.exception.show("1 +\n 2 $"), " 2 $\n   ^ unexpected character '$'")


if __name__ == "__main__":
    unittest.main()
