"""The served project: read by many threads, changed by one, and kept up to date with commits of other programs."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from fastapi import Depends, Request
from numpy.typing import NDArray

from cbid.data.isolated import start_decoders
from cbid.project import ImageRecord, Project
from cbid.project.refitting import RefitProcess
from cbid.search import UnknownIdError
from cbid.search.scan import prepare_meanwhile, thread_count
from cbid.search.stores import MilvusStore
from cbid.web.errors import http_error
from cbid.web.middleware import Metrics, current_client
from cbid.web.settings import ServiceSettings

T = TypeVar("T")
_LOG = logging.getLogger("cbid.web")
_REFRESH_SECONDS = 1.0  # between two checks for commits of other programs
_MAX_RETRIES = 3  # of a read during which the project changed


class WorkerPool:
    """Run calls in threads to keep the event loop free, with limits on their number and time.

    Clients take turns, so that one with many or costly calls delays the others by one call at a time. A call that
    still waits when its time is over is dropped. A call that is running by then continues; its result is dropped, and
    it counts as open until it ends. So calls that hang make the pool reject new ones, and never pile up.

    Parameters
    ----------
    name : str
        Name of the threads.
    threads : int
        Number of threads.
    max_waiting : int
        Calls that may wait for a thread. Of more, the last one of the client with the most gets a 503.
    seconds : float
        Time limit of a call, counted from its arrival.
    wait_for_running : bool, default=False
        Wait for a call that has started, however long it takes. Use it for changes: a client that gets an error for a
        change that happens after all would send it again.
    """

    def __init__(
        self, name: str, threads: int, max_waiting: int, seconds: float, *, wait_for_running: bool = False
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"cbid-{name}")
        self._wait_for_running = wait_for_running
        self._free, self._max_waiting, self._seconds = threads, max_waiting, seconds
        self._n_running = 0
        # A call waits for the result of its future. The client whose turn is next comes first.
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    @property
    def n_running(self) -> int:
        """Number of calls that run."""
        return self._n_running

    @property
    def n_open(self) -> int:
        """Number of calls that run or wait."""
        return self._n_running + sum(map(len, self._waiting.values()))

    async def run(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run a call in a thread and return its result."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds
        if self._free:
            self._begin()
        else:
            await self._turn(current_client.get(), deadline)
        work = self._pool.submit(partial(call, *arguments, **named))
        work.add_done_callback(lambda _: None if loop.is_closed() else loop.call_soon_threadsafe(self._end))
        result = asyncio.wrap_future(work)
        await asyncio.wait({result}, timeout=deadline - loop.time())
        if not result.done() and not self._wait_for_running:
            result.cancel()
            raise self._too_long()
        return await result

    async def _turn(self, client: str, deadline: float) -> None:
        """Wait until a thread is free for this client."""
        if sum(map(len, self._waiting.values())) >= self._max_waiting:
            most = max(self._waiting, key=lambda other: len(self._waiting[other]), default=client)
            if len(self._waiting.get(most, ())) <= len(self._waiting.get(client, ())) + 1:
                raise self._busy()
            last = self._waiting[most].pop()
            if not last.done():
                last.set_exception(self._busy())
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, []).append(turn)
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except BaseException as error:
            if turn in (own := self._waiting.get(client, [])):
                own.remove(turn)
                if not own:
                    del self._waiting[client]
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                self._end()  # its turn came after its client had gone
            if isinstance(error, TimeoutError):
                raise self._too_long() from None
            raise

    def _begin(self) -> None:
        self._free -= 1
        self._n_running += 1

    def _end(self) -> None:
        """Give the thread of a call that has ended to the client whose turn it is."""
        self._free += 1
        self._n_running -= 1
        while self._free and self._waiting:
            client = next(iter(self._waiting))
            first, *others = self._waiting.pop(client)
            if others:
                self._waiting[client] = others  # behind those of other clients
            if not first.done():  # else it is cancelled
                self._begin()
                first.set_result(None)

    def _busy(self) -> Exception:
        return http_error(503, "the service is busy; retry in a second", **{"Retry-After": "1"})

    def _too_long(self) -> Exception:
        return http_error(503, f"the request took longer than {self._seconds:g} seconds", **{"Retry-After": "1"})

    def close(self) -> None:
        """Wait for the calls that run."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class ServedProject:
    """An open project and the threads that work on it.

    All reads share one project that is open for reading. A change opens the project for writing, commits and closes
    it again, so that other programs, such as ``cbid fit``, can write in between. The reader then switches to the new
    state. Searches that run meanwhile finish on the old state.
    """

    def __init__(self, path: str | os.PathLike[str], settings: ServiceSettings) -> None:
        self.path = Path(path)
        self.settings = settings
        self.metrics = Metrics()
        self.project = Project.open(self.path)
        self.project.limits = settings.limits
        self.following_error: str | None = None  # why the commits of other programs cannot be read
        self._store = None if settings.store is None else self._open_store(settings.store)
        threads = thread_count(settings.threads)
        waiting, seconds = settings.max_waiting, settings.seconds
        self.search_pool = WorkerPool("search", threads, waiting, seconds)
        # Decoding has its own threads: it must not delay searches by code.
        self._n_decoders = max(1, threads // 2)
        self.image_pool = WorkerPool("image", self._n_decoders, waiting, seconds)
        self.refit = RefitProcess()
        self._write_pool = WorkerPool("write", 1, waiting, seconds, wait_for_running=True)

    def _open_store(self, address: str) -> MilvusStore:
        # The service only reads, so it accepts data that is some seconds old, and no search waits for writes.
        try:
            store = MilvusStore.open(address, timeout=self.settings.seconds, consistency="Bounded")
            try:
                self.project.search_in(store)
            except BaseException:
                store.close()
                raise
        except BaseException:
            self.project.close()
            raise
        return store

    def warm_up(self) -> None:
        """Prepare what the first requests would otherwise wait for.

        Compile the kernels, also those of near-duplicates, load the weights and the descriptor, start the decoders.
        """
        with prepare_meanwhile() as prepare:  # the memory for compiling is then that of another process
            prepare()
        project = self.project
        code = np.zeros((1, (project.n_bits + 7) // 8), dtype=np.uint8)
        for length in project.lengths:
            project.weights(length)
        if len(project):
            project.search(code, 1)
        if project.descriptor is not None:
            start_decoders(project.limits, self._n_decoders)
            project.describe_image(b"P5 64 64 255 " + bytes(64 * 64))

    async def follow_commits(self) -> None:
        """Load the commits of other programs until cancelled."""
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            try:
                await asyncio.to_thread(self.project.refresh)
            except Exception as error:  # of any kind: the old state stays in use and the next try may succeed
                reason = f"{type(error).__name__}: {error}"
                if reason != self.following_error:
                    _LOG.warning("the project cannot be read again: %s", reason)
                self.following_error = reason
            else:
                if self.following_error is not None:
                    _LOG.warning("the project can be read again")
                self.following_error = None

    def read_consistently(self, read: Callable[[], T]) -> T:
        """Return ``read()``; repeat it if a commit arrives meanwhile, so that no result mixes two states.

        A search in it uses the processors that are left by the other searches that run: starting threads on a busy
        machine costs more than it saves.
        """
        self.project.index.n_threads = max(1, thread_count(None) // max(1, self.search_pool.n_running))
        for _ in range(_MAX_RETRIES):
            before = self.project.version
            try:
                result = read()
            except ValueError:
                if self.project.version == before:
                    raise
            else:
                if self.project.version == before:
                    return result
        return read()

    def records(self, ids: NDArray[np.int64]) -> list[ImageRecord]:
        """Return the records of these ids, without those removed since."""
        try:
            return self.project.records_of(ids)
        except UnknownIdError:
            return [] if len(ids) == 1 else [record for id in ids for record in self.records(np.array([id]))]

    def start_refit(self) -> None:
        """Start to learn again in a separate process; reject a second one."""
        self.check_writable()
        if not self.refit.start(self.path):
            raise http_error(409, "the project is being learned again already")

    def check_writable(self) -> None:
        """Raise a 403 if the service is read-only."""
        if self.settings.read_only:
            reason = f" because it searches {self.settings.store}" if self._store is not None else ""
            raise http_error(403, f"the service is read-only{reason}")

    async def change(self, change: Callable[[Project], T]) -> T:
        """Open the project for writing, change it, and return what the change returns once all can read it."""
        self.check_writable()
        return await self._write_pool.run(self._commit, change)

    def _commit(self, change: Callable[[Project], T]) -> T:
        with Project.open(self.path, write=True) as writer:
            writer.limits = self.settings.limits
            result = change(writer)
        self.project.refresh()
        return result

    def close(self) -> None:
        """Stop a refit that runs, wait for the running calls and close the project."""
        self.refit.cancel()
        for pool in (self._write_pool, self.image_pool, self.search_pool):
            pool.close()
        if self._store is not None:
            self._store.close()
        self.project.close()


async def _served_by(request: Request) -> ServedProject:
    served: ServedProject = request.app.state.served
    return served


Served = Annotated[ServedProject, Depends(_served_by)]  # the project that the application of a request serves


def work_in(
    pool: Literal["search", "image"], *, consistently: bool = False
) -> Callable[[Callable[..., T]], Callable[..., Awaitable[T]]]:
    """Let a route, a function with the parameter ``served``, do its work in the threads of a pool.

    With ``consistently``, it is repeated if a commit arrives meanwhile; see ``read_consistently``.
    """

    def decorate(route: Callable[..., T]) -> Callable[..., Awaitable[T]]:
        @wraps(route)
        async def work(*, served: ServedProject, **given: Any) -> T:
            threads = served.search_pool if pool == "search" else served.image_pool
            call = partial(route, served=served, **given)
            return await (threads.run(served.read_consistently, call) if consistently else threads.run(call))

        return work

    return decorate
