"""The command line: registers the commands, and maps errors to exit codes.

0    done
1    an expected failure: bad data, no such repository, a disk that is full
2    usage
3    the output is complete, but groups that needed a grade have none
130  interrupted; 143 terminated; 141 the reader of standard output went away
"""

import errno
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any

import typer

from gagar_cli import __version__
from gagar_cli.commands._console import error_line
from gagar_cli.commands.assemble import assemble_command
from gagar_cli.commands.audit import audit_command
from gagar_cli.commands.export_sft import export_sft_command
from gagar_cli.commands.filter import filter_command
from gagar_cli.commands.grade import grade_command
from gagar_cli.commands.redistribute import redistribute_command
from gagar_cli.commands.run import run_command
from gagar_cli.commands.show import show_command
from gagar_cli.commands.validate import validate_command
from gagar_cli.errors import GagarError, OptionError

FAILED, USAGE, UNGRADED, INTERRUPTED, READER_GONE, TERMINATED = 1, 2, 3, 130, 141, 143

COMMANDS: dict[str, Callable[..., int | None]] = {
    "run": run_command,
    "filter": filter_command,
    "assemble": assemble_command,
    "grade": grade_command,
    "redistribute": redistribute_command,
    "validate": validate_command,
    "show": show_command,
    "audit": audit_command,
    "export-sft": export_sft_command,
}

app = typer.Typer(
    name="gagar",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help is never cut, and can be read by other programs
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001
    if asked:
        typer.echo(f"gagar {__version__}")
        raise typer.Exit


@app.callback()
def _gagar(
    version: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Score rollouts of code agents beyond pass and fail.

    Each stage reads and writes Parquet, one row per rollout, and can be piped:
    gagar filter r.parquet | gagar assemble | gagar grade | gagar redistribute > out.parquet
    """


class TerminatedError(BaseException):
    """The process was asked to end."""


def _with_exit_code(command: Callable[..., int | None]) -> Callable[..., None]:
    """Run a command; end with the exit code of what happened, after one line on standard error."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:  # noqa: ANN401
        try:
            ungraded = command(*args, **options)
            if sys.stdout is not None:
                sys.stdout.flush()
            code = UNGRADED if ungraded else 0
        except GagarError as error:
            error_line(f"error: {error}")
            code = USAGE if isinstance(error, OptionError) else FAILED
        except BrokenPipeError:
            _give_up_stdout()
            code = READER_GONE
        except OSError as error:
            _give_up_stdout()
            where = error.filename or "output"
            error_line(f"error: {where}: {error.strerror or error}. Next: {_advice(error)}")
            code = FAILED
        except KeyboardInterrupt:
            error_line("interrupted")
            code = INTERRUPTED
        except TerminatedError:
            code = TERMINATED
        except MemoryError:
            error_line("error: out of memory. Next: fewer --jobs, or smaller row groups")
            code = FAILED
        except Exception:  # noqa: BLE001  the last line of defence, told apart as our defect
            traceback.print_exc()
            error_line("error: this is a defect in gagar; please report the lines above")
            code = FAILED
        raise typer.Exit(code)

    return run


def _give_up_stdout() -> None:
    """Keep Python from complaining once more when it flushes standard output at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _advice(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "free some space"
    return "check that the place is a folder, and may be written"


for _name, _command in COMMANDS.items():
    app.command(_name)(_with_exit_code(_command))


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise TerminatedError


def main() -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        # Without a word after it, gagar shows its help, which is all there is to say.
        if error.format_message():
            name = next((word for word in sys.argv[1:2] if word in COMMANDS), "")
            help_ = " ".join(filter(None, ("gagar", name, "--help")))
            error_line(f"error: {error.format_message().rstrip('.')}. Next: {help_}")
        code = USAGE
    except typer.Abort:
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
