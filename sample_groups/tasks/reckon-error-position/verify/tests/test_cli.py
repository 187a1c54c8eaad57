import io
import unittest

from reckon import ReckonError
from reckon.cli import Session, run_lines


class SessionTest(unittest.TestCase):
    def test_assignment_and_last_value(self):
        session = Session()
        self.assertEqual(session.run("x = 3"), 3)
        self.assertEqual(session.run("x * 2"), 6)
        self.assertEqual(session.run("ans + 1"), 7)

    def test_comments_and_blank_lines(self):
        session = Session()
        self.assertIsNone(session.run("  # nothing"))
        self.assertEqual(session.run("1 + 1  # two"), 2)

    def test_constants_are_safe(self):
        with self.assertRaises(ReckonError):
            Session().run("pi = 3")


class RunLinesTest(unittest.TestCase):
    def test_goes_on_after_an_error(self):
        out, err = io.StringIO(), io.StringIO()
        self.assertEqual(run_lines(["1 +\n", "2 + 3\n"], out, err), 1)
        self.assertEqual(out.getvalue(), "5\n")
        self.assertEqual(err.getvalue(), "1 +\n   ^ unexpected the end, expected an operand\n")

    def test_caret_stands_under_the_cause(self):
        err = io.StringIO()
        run_lines(["total = 2 * nope"], io.StringIO(), err)
        self.assertEqual(err.getvalue(), "total = 2 * nope\n            ^ unknown name 'nope'\n")

    def test_positions_after_an_assignment(self):
        for line, position in (("  a=1/0", 5), ("a = 1 +", 7), ("nope", 0), ("a = a", 4)):
            with self.assertRaises(ReckonError) as caught:
                Session().run(line)
            self.assertEqual(caught.exception.position, position)


if __name__ == "__main__":
    unittest.main()
