"""Run the command line with `python -m gagar_cli`."""

from gagar_cli.cli import main

main()
