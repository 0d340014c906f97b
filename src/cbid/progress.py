"""Progress bars for learning and describing, and notes on long steps; only if requested."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_show: Callable[[str], None] | None = None


@contextmanager
def notes(show: Callable[[str], None]) -> Iterator[None]:
    """Pass the notes of the library to ``show`` during the block."""
    global _show
    before, _show = _show, show
    try:
        yield
    finally:
        _show = before


def note(text: str) -> None:
    """Report that a step takes long, inside of ``notes``."""
    if _show is not None:
        _show(text)


def say(message: str, *, shown: bool) -> None:
    """Print a line on stderr."""
    if shown:
        from rich.console import Console

        Console(stderr=True, highlight=False).print(message, markup=False)


@contextmanager
def bit_progress(total: int, done: int, *, shown: bool) -> Iterator[Callable[[float, float], None]]:
    """Yield a function to call after each bit with its objective and duality gap."""
    if not shown:
        yield lambda objective, gap: None
        return
    with _bar("learning bits", width=12) as progress:
        task = progress.add_task("bits", total=total, completed=done, state="")

        def update(objective: float, gap: float) -> None:
            speed = progress.tasks[0].speed
            rate = f" {speed:.0f}/s" if speed else ""
            progress.update(task, advance=1, state=f"objective {objective:.4f} gap {gap:.0e}{rate}")

        yield update


@contextmanager
def image_progress(total: int, doing: str, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of images done since the last call."""
    if not shown:
        yield lambda done: None
        return
    with _bar(doing, width=20) as progress:
        task = progress.add_task(doing, total=total, state="")
        yield lambda done: progress.update(task, advance=done)


def _bar(doing: str, *, width: int) -> "Progress":
    """Return a bar with a count, the field "state" of the task and the time left, in at most 80 characters."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    left = (TextColumn("{task.fields[state]}"), TimeRemainingColumn(compact=True), TextColumn("left"))
    columns = (TextColumn(doing), BarColumn(bar_width=width), MofNCompleteColumn(), *left)
    return Progress(*columns, console=Console(stderr=True))
