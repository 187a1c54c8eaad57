import contextlib
import io
import unittest
from unittest import mock

from tabular.cli import main


def run(argv, text):
    """Return exit code, standard output and standard error of one call."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch("sys.stdin", io.StringIO(text)):
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(argv)
    return code, out.getvalue(), err.getvalue()


class MainTest(unittest.TestCase):
    def test_plain_table(self):
        code, out, _ = run([], "drink,cups\ntea,3\n")
        self.assertEqual(code, 0)
        self.assertEqual(out, "drink  cups\n-----  ----\ntea       3\n")

    def test_markdown_and_sorting(self):
        code, out, _ = run(["--markdown", "--sort", "n"], "n\n2\n1\n")
        self.assertEqual(code, 0)
        self.assertEqual(out.split("\n")[2:4], ["|   1 |", "|   2 |"])

    def test_unknown_column(self):
        code, out, err = run(["--sort", "m"], "n\n1\n")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("no column called 'm'", err)

    def test_missing_file(self):
        code, _, err = run(["no-such-file.csv"], "")
        self.assertEqual(code, 1)
        self.assertIn("no-such-file.csv", err)


if __name__ == "__main__":
    unittest.main()
