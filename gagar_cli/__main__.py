"""Run the command line, as `gagar` or as `python -m gagar_cli`."""

import sys


def main() -> None:
    """Run the command line and exit; an interrupt while it loads is one too."""
    try:
        from gagar_cli.cli import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
