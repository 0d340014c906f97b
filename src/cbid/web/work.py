"""Work in threads, so that the event loop stays free: bounded in number and in time."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from cbid.web.problems import refuse

__all__ = ["Workers", "n_processors"]

T = TypeVar("T")


def n_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """``threads`` threads; at most ``max_waiting`` calls wait for one, and each has ``seconds`` from when it came.

    A call whose time is over is dropped if it waits still. One that runs goes on to its end, unheard, and counts as
    waiting until then: so work that hangs is felt as "too much to do", and never piles up. With ``to_the_end``
    whoever asked hears of it all the same: a change that is told to be given up, and then happens, is made twice.
    """

    def __init__(
        self, name: str, threads: int, max_waiting: int, seconds: float, *, to_the_end: bool = False
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"cbid-{name}")
        self._to_the_end = to_the_end
        self._threads, self._max_waiting, self._seconds = threads, max_waiting, seconds
        self._open = 0

    @property
    def n_open(self) -> int:
        """Calls that run or wait."""
        return self._open

    async def run(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        if self._open >= self._threads + self._max_waiting:
            raise refuse(503, "too much to do; come again in a second", **{"Retry-After": "1"})
        loop = asyncio.get_running_loop()
        self._open += 1
        work = self._pool.submit(partial(call, *arguments, **named))
        work.add_done_callback(lambda _: _on_loop(loop, self._closed))
        answer = asyncio.wrap_future(work)
        await asyncio.wait({answer}, timeout=self._seconds)
        if not answer.done() and (work.cancel() or not self._to_the_end):
            answer.cancel()
            raise refuse(
                503, f"this took longer than {self._seconds:g} seconds and was given up", **{"Retry-After": "1"}
            )
        return await answer

    def _closed(self) -> None:
        self._open -= 1

    def close(self) -> None:
        """Wait for what runs; what waits is dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
