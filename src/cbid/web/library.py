"""The project that is served: read by many threads, changed by one, and never behind what other programs commit."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cbid.project import ImageRecord, Project
from cbid.search import UnknownIdError
from cbid.search.milvus import MilvusStore
from cbid.web.metrics import Metrics
from cbid.web.problems import refuse
from cbid.web.settings import Settings
from cbid.web.work import Workers, n_processors

__all__ = ["Library"]

T = TypeVar("T")
_LOG = logging.getLogger("cbid.web")
_LOOK_SECONDS = 1.0  # between two looks for what other programs have committed


class Library:
    """An open project and the threads that work on it.

    Reading goes through one handle that maps the files. A change opens the project for writing, commits and closes it
    again, so that other programs (``cbid fit`` on a folder that has grown) have their turn; the reader then takes up
    the committed state as a whole. Searches that run meanwhile end with what they began with.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Settings) -> None:
        self.path = Path(path)
        self.settings = settings
        self.metrics = Metrics()
        self.project = Project.open(self.path)
        self._store = None if settings.store is None else self._search_in(settings.store)
        threads = settings.threads or n_processors()
        waiting, seconds = settings.max_waiting, settings.seconds
        self.searching = Workers("search", threads, waiting, seconds)
        self.imaging = Workers("image", max(1, threads // 2), waiting, seconds)  # must not hold up searches by code
        self._writing = Workers("write", 1, waiting, seconds, to_the_end=True)

    def _search_in(self, address: str) -> MilvusStore:
        # A reader alone: what others wrote may show some seconds later, and no search waits for it.
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
        """What the first request would otherwise wait for: kernels, weights and the descriptor."""
        project = self.project
        code = np.zeros((1, (project.n_bits + 7) // 8), dtype=np.uint8)
        for length in project.lengths:
            project.weights(length)
        if len(project):
            project.search(code, 1)
        if project.descriptor is not None:
            project.describe_image(np.zeros((64, 64), dtype=np.uint8))

    async def follow(self) -> None:
        """Take up, until cancelled, what other programs commit."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await asyncio.to_thread(self.project.refresh)
            except (OSError, ValueError) as error:  # a fit is replacing it; the old state stays in use
                _LOG.warning("the project cannot be read again: %s", error)

    def steady(self, work: Callable[[], T]) -> T:
        """What ``work`` makes of the project; once more where a fit was committed meanwhile, so that no answer mixes
        codes of one with the index of another."""
        for _ in range(3):
            before = self.project.version
            try:
                answer = work()
            except ValueError:
                if self.project.version == before:
                    raise
            else:
                if self.project.version == before:
                    return answer
        return work()

    def records(self, ids: NDArray[np.int64]) -> list[ImageRecord]:
        """The records of those ids that are still there."""
        try:
            return self.project.records_of(ids)
        except UnknownIdError:  # one was removed since it was found: all that are left, one by one
            return [] if len(ids) == 1 else [record for id in ids for record in self.records(np.array([id]))]

    async def add(self, images: Sequence[bytes], labels: list[str | None], names: list[str]) -> NDArray[np.int64]:
        return await self._change(lambda writer: writer.add(list(images), labels, names))

    async def remove(self, id: int) -> None:
        await self._change(lambda writer: writer.remove([id]))

    async def _change(self, change: Callable[[Project], T]) -> T:
        if self.settings.read_only:
            where = f"; it searches {self.settings.store}" if self._store is not None else ""
            raise refuse(403, f"the service is read-only{where}")
        return await self._writing.run(self._committed, change)

    def _committed(self, change: Callable[[Project], T]) -> T:
        with Project.open(self.path, write=True) as writer:
            done = change(writer)
        self.project.refresh()
        return done

    def close(self) -> None:
        for workers in (self._writing, self.imaging, self.searching):
            workers.close()
        if self._store is not None:
            self._store.close()
        self.project.close()
