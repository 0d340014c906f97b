"""The program ``cbid``. Errors are one line on stderr.

Exit status: 0 for success, 1 for an error, 2 for a wrong call, 130 after Ctrl-C.
"""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from cbid.extras import missing_extra
from cbid.text import escaped

TRACEBACK_VARIABLE = "CBID_TRACEBACK"
_FAILURE, _WRONG_CALL, _INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program with these arguments (default: those of the process) and exit."""
    in_main_thread = threading.current_thread() is threading.main_thread()  # only it may set signal handlers
    if in_main_thread and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        # Exit in order on SIGTERM: remove temporary files and stop worker processes. KeyboardInterrupt would not do,
        # because learning catches it and continues with the bits learned so far.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    try:
        import typer

        from cbid.commands import Interrupted, app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        return _fail(str(missing_extra("the command line", "cli")))
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED)

    # typer has no public name for the base class of its usage errors.
    usage_error = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status = typer.main.get_command(app).main(
                list(sys.argv[1:] if arguments is None else arguments), prog_name="cbid", standalone_mode=False
            )
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output is gone. Without this, Python reports the error again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILURE
    except Interrupted as error:
        return _fail(str(error), _INTERRUPTED)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", _INTERRUPTED)
    except Exception as error:
        if isinstance(error, usage_error):
            return _fail_usage(error)
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        if isinstance(error, (ValueError, OSError, ImportError, RuntimeError)):
            return _fail(_words(error))
        words = f"internal error, {type(error).__name__}: {_words(error)}"
        return _fail(f"{words} (set {TRACEBACK_VARIABLE}=1 for a traceback)")
    if status == _INTERRUPTED:  # some versions of typer return this after Ctrl-C, others raise
        return _fail("interrupted", _INTERRUPTED)
    return status if isinstance(status, int) else 0


def _words(error: Exception) -> str:
    """Return what an error says, and its notes: they tell whether a change took place."""
    words = str(error)
    if isinstance(error, OSError) and error.strerror:
        words = error.strerror if error.filename is None else f"{os.fsdecode(error.filename)}: {error.strerror}"
    return "; ".join([words, *getattr(error, "__notes__", [])])


def _fail_usage(error: Any) -> int:
    message = error.format_message()
    command = getattr(getattr(error, "ctx", None), "command_path", "cbid")
    # An empty message means that typer has printed the help.
    return _fail(f"{message} (see {command} --help)", _WRONG_CALL) if message else _WRONG_CALL


def _fail(message: str, status: int = _FAILURE) -> int:
    """Print the message as one line on stderr and return the status."""
    line = escaped(" ".join(message.split()))  # names and labels may hold control characters of the terminal
    print("cbid:", line.encode(errors="backslashreplace").decode(), file=sys.stderr)
    return status


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    _fail(f"warning: {message}")
