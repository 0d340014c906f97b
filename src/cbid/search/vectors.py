"""Vectors kept with the codes, in 16 or 8 bits per number, for a second look at the best candidates."""

import functools
import itertools
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.search.blocks import read_only
from cbid.search.checks import IndexCorruptError
from cbid.search.collection import AttachedFile
from cbid.search.scan import even_edges, run_in_threads, thread_count
from cbid.storage.tensors import DAMAGED_NPY, map_npy

KEEP = ("float16", "int8")
METRICS = ("cosine", "ip", "l2")

_BLOCK_BYTES = 1 << 26  # of float32 vectors in memory at a time
_FEW = 256  # candidates; for fewer, a second thread costs more than it saves
_SPARE = 16  # places beyond k in the fast pass of `nearest`, for distances that differ only by rounding

Floats = NDArray[np.float32]


@dataclass(eq=False)
class Chunk:
    """Vectors sorted by id, in memory or mapped; only ``live`` changes."""

    ids: NDArray[np.int64]  # (n,) ascending
    rows: NDArray[Any]  # (n, d) float16 or int8
    scales: Floats | None  # (n,), with int8: a vector is its row times its scale
    live: NDArray[np.bool_]  # (n,) False for removed vectors
    names: dict[str, str] | None = None  # the files in the store, None until they are written

    @property
    def n_live(self) -> int:
        """Number of vectors that are not removed."""
        return int(np.count_nonzero(self.live))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store."""
        stored: dict[str, NDArray[Any]] = {"ids": self.ids, "rows": self.rows}
        return stored if self.scales is None else {**stored, "scales": self.scales}

    def vectors(self, at: NDArray[np.int64] | slice) -> Floats:
        """Return vectors as float32."""
        rows = self.rows[at].astype(np.float32)
        return rows if self.scales is None else rows * self.scales[at, None]


class KeptVectors:
    """Vectors by id, and their distances to queries under one metric.

    Distances ascend from near to far: 1 - cosine, minus the inner product, or Euclidean distance. With the metric
    "cosine" vectors are scaled to length 1; a zero vector has similarity 0 to all others.

    Parameters
    ----------
    keep : {"float16", "int8"}
        The type of the numbers. With "int8" each vector has its own scale.
    metric : {"cosine", "ip", "l2"}
    n_features : int
        Length d of the vectors.
    """

    def __init__(self, keep: str, metric: str, n_features: int) -> None:
        self.keep, self.metric, self.n_features = keep, metric, n_features
        self._chunks: list[Chunk] = []
        self._mutex = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mutex": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _mutex=threading.RLock())

    @property
    def nbytes(self) -> int:
        """Bytes of vectors, ids and scales, in memory or mapped."""
        return sum(array.nbytes for chunk in self._chunks for array in chunk.arrays().values())

    # Content

    def compressed(self, X: NDArray[np.floating]) -> tuple[NDArray[Any], Floats | None]:
        """Return vectors (n, d) as they are kept: rows, and scales with "int8"."""
        vectors = self.as_queries(X)
        largest = np.abs(vectors).max(axis=1, initial=0)
        if self.keep == "float16":
            limit = np.finfo(np.float16).max
            if len(vectors) and largest.max() > limit:
                raise ValueError(f"X holds {largest.max():g} in size; keep='float16' accepts up to {limit:g}")
            return vectors.astype(np.float16), None
        scales = np.where(largest > 0, largest / 127, 1).astype(np.float32)
        rows = np.rint(vectors / scales[:, None]).clip(-127, 127).astype(np.int8)
        if self.metric == "cosine":  # length 1 also after rounding
            length = np.linalg.norm(rows.astype(np.float32), axis=1)
            scales = np.where(length > 0, 1 / np.maximum(length, 1), 1).astype(np.float32)
        return rows, scales

    def as_queries(self, X: NDArray[np.floating]) -> Floats:
        """Return vectors as float32, with length 1 for the metric "cosine"."""
        if self.metric == "cosine":
            # Divide by the largest entry first: the square of a large number overflows.
            top = np.abs(X).max(axis=1, keepdims=True, initial=0)
            X = X / np.where(top > 0, top, 1)
            length = np.linalg.norm(X, axis=1, keepdims=True)
            X = X / np.where(length > 0, length, 1)
        with np.errstate(over="ignore"):
            vectors = X.astype(np.float32)
        if not np.isfinite(vectors).all():
            raise ValueError("X holds numbers that do not fit in float32; expected finite numbers")
        return vectors

    def add(self, ids: NDArray[np.int64], rows: NDArray[Any], scales: Floats | None) -> None:
        """Add vectors under ids that are not stored."""
        if len(ids) == 0:
            return
        order = np.argsort(ids)
        chunk = Chunk(ids[order], rows[order], None if scales is None else scales[order], np.ones(len(ids), bool))
        with self._mutex:
            self._chunks = [*self._chunks, chunk]
            unsaved = [c for c in self._chunks if c.names is None]
            if len(unsaved) > 64:  # many small additions
                self._merge([c for c in self._chunks if c.names is not None], unsaved)

    def remove(self, ids: NDArray[np.int64]) -> None:
        """Remove ids (distinct); unknown ones are ignored."""
        with self._mutex:
            for chunk, _, at in self._found(np.sort(ids), self._chunks):
                chunk.live[at] = False

    def get(self, ids: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the vectors of ids (sorted, distinct), and which of them are stored; the others are zero."""
        with self._mutex:
            chunks = self._chunks
        vectors = np.zeros((len(ids), self.n_features), np.float32)
        known = np.zeros(len(ids), bool)
        for chunk, place, at in self._found(ids, chunks):
            vectors[place] = chunk.vectors(at)
            known[place] = True
        return vectors, known

    @staticmethod
    def _found(
        ids: NDArray[np.int64], chunks: list[Chunk]
    ) -> list[tuple[Chunk, NDArray[np.int64], NDArray[np.int64]]]:
        """Where ids (sorted, distinct) are: chunk, places in ``ids``, rows of the chunk."""
        found = []
        for chunk in chunks:
            at = np.minimum(np.searchsorted(chunk.ids, ids), len(chunk.ids) - 1)
            place = np.flatnonzero((chunk.ids[at] == ids) & chunk.live[at])
            if len(place):
                found.append((chunk, place, at[place]))
        return found

    # Distances

    def distances_to_ids(self, queries: Floats, ids: NDArray[np.int64], n_threads: int | None = 1) -> Floats:
        """Return the distances of query i to its own ids (q, c); inf for ids that are not stored, such as -1."""
        from cbid.search.kernels.scan import second_look  # at the first search: importing the kernels takes time

        with self._mutex:
            chunks = self._chunks
        queries, ids = np.ascontiguousarray(queries), np.ascontiguousarray(ids)
        distances, metric = np.full(ids.shape, np.inf, np.float32), METRICS.index(self.metric)

        def look(begin: int, end: int) -> None:
            for chunk in chunks:
                rows = chunk.rows if chunk.scales is not None else chunk.rows.view(np.uint16)
                scales = np.empty(0, np.float32) if chunk.scales is None else chunk.scales
                stored = (read_only(array) for array in (chunk.ids, chunk.live, rows, scales))
                second_look(queries[begin:end], ids[begin:end], *stored, metric, distances[begin:end])

        n_parts = max(min(thread_count(n_threads), ids.size // _FEW), 1)
        run_in_threads(look, list(itertools.pairwise(even_edges(0, len(ids), n_parts, 1))))
        return distances

    def nearest(
        self, queries: Floats, k: int, without: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return the k nearest of all kept vectors by (distance, id): ids and distances, (q, k).

        ``without`` (q,) is an id that each query leaves out. Missing places have id -1 and distance inf.
        """
        with self._mutex:
            chunks = self._chunks
        held = k + 1 + _SPARE
        ids = np.full((len(queries), held), -1)
        near = np.full((len(queries), held), np.inf, np.float32)
        step = max(_BLOCK_BYTES // (4 * max(self.n_features, len(queries))), 1)
        for chunk in chunks:
            live = np.flatnonzero(chunk.live)
            for first in range(0, len(live), step):
                at = live[first : first + step]
                vectors = chunk.vectors(at)
                score = -(queries @ vectors.T)
                if self.metric == "l2":  # the squared distance without the length of the query
                    score = 2 * score + np.einsum("nd,nd->n", vectors, vectors)
                all_scores = np.concatenate([near, score], axis=1)
                all_ids = np.concatenate([ids, np.broadcast_to(chunk.ids[at], score.shape)], axis=1)
                best = np.argpartition(all_scores, held - 1, axis=1)[:, :held]
                near, ids = np.take_along_axis(all_scores, best, axis=1), np.take_along_axis(all_ids, best, axis=1)
        if without is not None:
            ids[ids == without[:, None]] = -1
        near = self.distances_to_ids(queries, ids)  # exactly as the second look computes them
        order = np.lexsort((ids, near), axis=1)[:, :k]
        return np.take_along_axis(ids, order, axis=1), np.take_along_axis(near, order, axis=1)

    # On disk

    def files(self) -> tuple[list[dict[str, int]], dict[str, AttachedFile]]:
        """Merge chunks to geometric sizes; return their sizes, and the files to attach to an index."""
        with self._mutex:
            kept = [c for c in self._chunks if c.names is not None]
            joined = [c for c in self._chunks if c.names is None]
            if any(2 * c.n_live < len(c.ids) for c in kept):
                joined = [*(c for c in kept if 2 * c.n_live < len(c.ids)), *joined]
                kept = [c for c in kept if 2 * c.n_live >= len(c.ids)]
            kept.sort(key=lambda c: -c.n_live)
            while kept and joined and kept[-1].n_live <= sum(c.n_live for c in joined):
                joined.append(kept.pop())
            self._merge(kept, joined)
            files = {}
            for i, chunk in enumerate(self._chunks):
                for name, array in chunk.arrays().items():
                    stored_as = None if chunk.names is None else chunk.names[name]
                    files[f"{name}-{i}"] = AttachedFile(".npy", functools.partial(_write, array=array), stored_as)
                if chunk.n_live < len(chunk.ids):
                    live = np.packbits(chunk.live)
                    files[f"live-{i}"] = AttachedFile(".npy", functools.partial(_write, array=live))
            return [{"n": len(c.ids), "n_live": c.n_live} for c in self._chunks], files

    def load(
        self, directory: Path, sizes: list[dict[str, int]], files: dict[str, AttachedFile], n_codes: int
    ) -> None:
        """Map the vectors that a commit wrote, one for each of ``n_codes``."""
        chunks: list[Chunk] = []
        for i, size in enumerate(sizes):
            names = {key.removesuffix(f"-{i}"): f.stored_as for key, f in files.items() if key.endswith(f"-{i}")}
            arrays = {name: _map(directory / str(file)) for name, file in names.items()}
            n = size["n"]
            expected: dict[str, Any] = {"ids": ((n,), "int64"), "rows": ((n, self.n_features), self.keep)}
            if self.keep == "int8":
                expected["scales"] = ((n,), "float32")
            if size["n_live"] < n:
                expected["live"] = ((-(-n // 8),), "uint8")
            found = {name: (array.shape, array.dtype.name) for name, array in arrays.items()}
            if found != expected:
                raise IndexCorruptError(f"{directory} holds vectors of shape and type {found}; expected {expected}")
            live = np.unpackbits(arrays["live"], count=n).view(bool) if "live" in arrays else np.ones(n, bool)
            texts = {name: str(file) for name, file in names.items() if name != "live"}
            chunks.append(Chunk(arrays["ids"], arrays["rows"], arrays.get("scales"), live, texts))
        if sum(chunk.n_live for chunk in chunks) != n_codes:
            raise IndexCorruptError(f"{directory} does not hold one vector for each of its {n_codes} codes")
        with self._mutex:
            self._chunks = chunks

    def _merge(self, kept: list[Chunk], joined: list[Chunk]) -> None:
        joined = [c for c in joined if c.n_live]
        if len(joined) > 1 or any(c.n_live < len(c.ids) for c in joined):
            ids = np.concatenate([c.ids[c.live] for c in joined])
            order = np.argsort(ids)
            rows = np.concatenate([c.rows[c.live] for c in joined])[order]
            scales = None
            if self.keep == "int8":
                scales = np.concatenate([c.scales[c.live] for c in joined if c.scales is not None])[order]
            joined = [Chunk(ids[order], rows, scales, np.ones(len(ids), bool))]
        self._chunks = [*kept, *joined]


def _write(path: Path, array: NDArray[Any]) -> None:
    np.save(path, array, allow_pickle=False)


def _map(path: Path) -> NDArray[Any]:
    try:
        return map_npy(path)
    except DAMAGED_NPY as error:
        raise IndexCorruptError(f"{path} is damaged: it is not a .npy file ({error})") from error
