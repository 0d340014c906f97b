"""The program ``cbid``: exit status 0 when all went well, 1 for an error, 2 for a wrong call; errors in one line."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any

__all__ = ["main"]

TRACEBACK_VARIABLE = "CBID_TRACEBACK"
_INTERRUPTED = 130  # what some versions of typer make of Ctrl-C; others raise


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program with these arguments, or with those of the process, and exit."""
    in_main_thread = threading.current_thread() is threading.main_thread()  # others may not set handlers
    if in_main_thread and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        # Temporary files are removed, and worker processes do not go on by themselves. Not KeyboardInterrupt, at
        # which learning keeps the bits that it has and the program would go on.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """The same, returning the exit status."""
    try:
        import typer

        from cbid.commands import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        return _fail("the command line needs the extra 'cli': pip install 'cbid[cli]'")
    except KeyboardInterrupt:
        return _fail("interrupted")

    # typer has no public name for the base of all errors in a call.
    wrong_call = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status = typer.main.get_command(app).main(
                list(sys.argv[1:] if arguments is None else arguments), prog_name="cbid", standalone_mode=False
            )
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has stopped; Python would complain once more when it closes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted")
    except Exception as error:
        if isinstance(error, wrong_call):
            return _fail_call(error)
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        if isinstance(error, (ValueError, OSError, ImportError, RuntimeError)):
            return _fail(str(error))
        return _fail(f"internal error, {type(error).__name__}: {error} ({TRACEBACK_VARIABLE}=1 shows where)")
    if status == _INTERRUPTED:
        return _fail("interrupted")
    return status if isinstance(status, int) else 0


def _fail_call(error: Any) -> int:
    message = error.format_message()
    where = getattr(getattr(error, "ctx", None), "command_path", "cbid")
    return _fail(f"{message} (see {where} --help)", 2) if message else 2  # nothing to say: the help was shown


def _fail(message: str, status: int = 1) -> int:
    print("cbid:", " ".join(message.split()).encode(errors="backslashreplace").decode(), file=sys.stderr)
    return status


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    _fail(f"warning: {message}")
