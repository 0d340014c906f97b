"""A progress bar for learning, shown only when asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["bit_progress"]


@contextmanager
def bit_progress(total: int, done: int, *, shown: bool) -> Iterator[Callable[[float, float], None]]:
    """Yields a function to call after every bit with its objective and duality gap."""
    if not shown:
        yield lambda objective, gap: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("learning bits"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]} objective {task.fields[objective]} gap {task.fields[gap]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("bits", total=total, completed=done, speed="", objective="-", gap="-")

        def update(objective: float, gap: float) -> None:
            speed = progress.tasks[0].speed
            text = f"{speed:.1f} bits/s" if speed else ""
            progress.update(task, advance=1, speed=text, objective=f"{objective:.4g}", gap=f"{gap:.1e}")

        yield update
