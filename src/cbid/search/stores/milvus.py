"""MilvusStore: the methods of CodeIndex on a Milvus collection that several services share."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_real
from cbid.codes import check_weights
from cbid.search.checks import LARGEST_ID, as_codes, as_count, as_ids, check_known, sorted_distinct
from cbid.search.index import CodeIndex
from cbid.search.matches import Matches
from cbid.search.stores.milvus_collection import LARGEST_RESULT, CollectionSettings, MilvusCollection, StoredRows
from cbid.search.stores.milvus_connection import MilvusAddress, MilvusConnection

_CONSISTENCY = ("Strong", "Session", "Bounded", "Eventually")
_MOST_CANDIDATES = LARGEST_RESULT - 384  # leaves space for the rows with negative ids
_DEFAULT_CANDIDATES = 1_000  # if no recall was measured
_HITS = 50_000  # candidates that are re-ranked at a time
_GRID = (10, 20, 50, 100, 200, 500, 1000)


class MilvusStore:
    """Packed codes with ids and labels in Milvus, searched there by Hamming distance and re-ranked here by weights.

    Use `create` or `open`. ``address`` is "milvus://host:port/collection" or, for an embedded milvus-lite,
    "milvus:///folder/name.db/collection". A search fetches a number of candidates by Hamming distance from Milvus and
    sorts them by d(q, h) = sum_s w_s [q_s != h_s]. Distances are exact, but neighbours may be missing: see
    `measure_recall` and `choose_candidates`. Code length, weights and number of candidates are stored in Milvus.

    Reads see everything written before, by any process (consistency "Strong"). Every request ends within ``timeout``
    seconds, including retries while a server restarts; then it raises `MilvusError`. Searches from several threads
    are safe.
    """

    def __init__(self, collection: MilvusCollection, consistency: str) -> None:
        self._collection = collection
        self._settings = collection.settings
        self.consistency = consistency
        self._kept = collection.kept_candidates()

    @classmethod
    def create(
        cls,
        address: str | MilvusAddress,
        n_bits: int,
        weights: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        labels: str | None = None,
        cells: int | None = None,
        probes: int | None = None,
        made_by: str = "",
        exist_ok: bool = False,
        overwrite: bool = False,
        token: str | None = None,
        timeout: float = 30.0,
        consistency: str = "Strong",
    ) -> Self:
        """Create a collection.

        Parameters
        ----------
        weights, classes
            As in `CodeIndex`.
        labels : "int", "str", "bool" or None
            The kind of the labels of the codes; None for none.
        cells, probes : int, optional
            Use the Milvus index BIN_IVF_FLAT with this many cells, of which a search scans ``probes``, by default
            1/32. None scans all codes (BIN_FLAT). Only on a server.
        made_by : str
            Any text, stored with the collection, such as a digest of the coder.
        exist_ok : bool
            Open an existing collection if it has the same settings; ``cells`` and ``probes`` are compared if given.
        overwrite : bool
            Drop an existing collection; with ``exist_ok``, only if it has other settings.
        token : str, optional
            "name:password" or an API key of the server; by default the environment variable CBID_MILVUS_TOKEN.
        timeout : float
            Limit in seconds for each request, including retries while a server restarts.
        consistency : {"Strong", "Session", "Bounded", "Eventually"}
            "Session" only guarantees to see writes of this process; "Bounded" and "Eventually" guarantee less.
        """
        settings = CollectionSettings.checked(n_bits, weights, classes, labels, cells, probes, made_by)
        return cls._connected(
            address,
            token,
            timeout,
            consistency,
            lambda c: MilvusCollection.create(c, settings, exist_ok=exist_ok, overwrite=overwrite),
        )

    @classmethod
    def open(
        cls,
        address: str | MilvusAddress,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        consistency: str = "Strong",
    ) -> Self:
        """Open a collection that `create` made; see there for the arguments."""
        at = MilvusAddress.parse(address)
        if at.file is not None and not at.file.exists():
            raise FileNotFoundError(f"{at}: the file {at.file} does not exist")
        return cls._connected(at, token, timeout, consistency, MilvusCollection.open)

    @classmethod
    def _connected(
        cls,
        address: str | MilvusAddress,
        token: str | None,
        timeout: float,
        consistency: str,
        make: Callable[[MilvusConnection], MilvusCollection],
    ) -> Self:
        check_choice("consistency", consistency, _CONSISTENCY)
        check_real("timeout", timeout, 0, open_below=True)
        connection = MilvusConnection(MilvusAddress.parse(address), token, timeout)
        try:
            return cls(make(connection), consistency)
        except BaseException:
            connection.close()
            raise

    def __repr__(self) -> str:
        return f"MilvusStore({str(self.address)!r}, n_bits={self.n_bits})"

    @property
    def candidates(self) -> dict[int, int]:
        """The stored numbers of candidates by k, as read when the store was opened."""
        return dict(self._kept)

    def close(self) -> None:
        """Close the connection; the store cannot be used afterwards."""
        self._collection.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Content

    @property
    def address(self) -> MilvusAddress:
        """The address of the collection."""
        return self._collection.connection.address

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        return self._settings.n_bits

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """The weights given to `create`, or None."""
        return self._settings.weights

    @property
    def labels(self) -> str | None:
        """The kind of the labels, or None."""
        return self._settings.labels

    @property
    def made_by(self) -> str:
        """The text given to `create`."""
        return self._settings.made_by

    def __len__(self) -> int:
        return self._collection.count()

    def __contains__(self, id: object) -> bool:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= int(id) <= LARGEST_ID:
            return False
        return bool(self._collection.held(np.array([id], dtype=np.int64))[0])

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(rows.ids for rows in self.rows())])

    def rows(self) -> Iterator[StoredRows]:
        """Yield all stored codes by ascending id, in batches of ``ids``, ``codes`` and ``labels``."""
        return self._collection.stream()

    def reconstruct(self, ids: ArrayLike) -> NDArray[np.uint8]:
        """Return the stored codes of ``ids``, in their order: (n, ceil(t/8))."""
        wanted, inverse = np.unique(as_ids(ids), return_inverse=True)
        rows = self._collection.fetch(wanted)
        check_known(wanted, np.isin(wanted, rows.ids), "the collection")
        return rows.codes[inverse.reshape(-1)]

    def stored(self, ids: ArrayLike) -> StoredRows:
        """Return the stored rows of these ids, by ascending id; unknown ids are skipped."""
        return self._collection.fetch(sorted_distinct(as_ids(ids)))

    def to_index(self, n_threads: int | None = None) -> CodeIndex:
        """Return an exact `CodeIndex` of all stored codes."""
        settings = self._settings
        index = CodeIndex(settings.n_bits, settings.weights, classes=settings.classes, n_threads=n_threads)
        for rows in self.rows():
            index.add(rows.codes, rows.ids, None if settings.labels is None else rows.labels)
        return index

    # Change

    def add(self, codes: ArrayLike, ids: ArrayLike, labels: ArrayLike | None = None) -> None:
        """Add codes (n, ceil(t/8)) under new ids; a stored id raises and changes nothing.

        Complete an interrupted addition by `upsert`.
        """
        rows = self._as_rows(codes, ids, labels)
        stored = rows.ids[self._collection.held(rows.ids)]
        if len(stored):
            more = f" and {len(stored) - 1} more" if len(stored) > 1 else ""
            raise ValueError(f"ids holds {stored[0]}{more}, already stored in the collection; remove it, or upsert")
        for _ in self._collection.upsert(rows):
            pass

    def upsert(self, codes: ArrayLike, ids: ArrayLike, labels: ArrayLike | None = None) -> None:
        """Store codes under these ids, replacing stored ones; repeating a call changes nothing.

        When it returns, Milvus has all codes in its log, which survives a crash of the server.
        """
        for _ in self._collection.upsert(self._as_rows(codes, ids, labels)):
            pass

    def remove(self, ids: ArrayLike) -> None:
        """Remove codes; an unknown id raises and changes nothing."""
        wanted = sorted_distinct(as_ids(ids))
        check_known(wanted, self._collection.held(wanted), "the collection")
        self._collection.delete(wanted)

    def flush(self) -> None:
        """Make Milvus write its log into segments, as it does from time to time."""
        self._collection.flush()

    def _as_rows(self, codes: ArrayLike, ids: ArrayLike, labels: ArrayLike | None) -> StoredRows:
        checked, given = as_codes(codes, self.n_bits), as_ids(ids)
        if len(given) != len(checked):
            raise ValueError(f"ids has {len(given)} entries; expected one per code, {len(checked)}")
        distinct, counts = np.unique(given, return_counts=True)
        if len(distinct) != len(given):
            raise ValueError(f"ids holds {distinct[counts > 1][0]} more than once; expected distinct ids")
        return StoredRows(given, checked, self._settings.as_labels(labels, len(given)))

    # Search

    def search(
        self,
        codes: ArrayLike,
        k: int = 10,
        *,
        weighted: bool = True,
        labels: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        candidates: int | None = None,
    ) -> Matches:
        """Return the ``k`` nearest candidates of each query (q, ceil(t/8)), or of one query (ceil(t/8),).

        ``weighted``, ``labels`` and ``weights`` are as in `CodeIndex.search`. ``candidates``: how many to fetch from
        Milvus by Hamming distance, instead of the number stored for this k.
        """
        k = as_count(k, "k", at_most=_MOST_CANDIDATES)
        queries = as_codes(codes, self.n_bits)
        own = self._weights(weighted, weights, len(queries))
        n = (
            self._n_candidates(k)
            if candidates is None
            else as_count(candidates, "candidates", at_most=_MOST_CANDIDATES)
        )
        wanted = None
        if labels is not None:
            if self.labels is None:
                raise ValueError("labels is given, but this collection has no labels; expected None")
            wanted = self._settings.as_labels(labels)
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        distances = np.full((len(queries), k), np.inf, dtype=np.float32)
        names = np.full((len(queries), k), self._settings.missing, dtype=object)
        if wanted is None or len(wanted):
            for query, (rows, near) in enumerate(self._candidates(queries, max(n, k), own, wanted)):
                best = np.lexsort((rows.ids, near))[:k]
                ids[query, : len(best)], distances[query, : len(best)] = rows.ids[best], near[best]
                names[query, : len(best)] = rows.labels[best]
        if self.labels is None:
            return Matches(ids, distances, None)
        return Matches(ids, distances, self._settings.decoded(names.ravel().tolist()).reshape(names.shape))

    def _weights(self, weighted: bool, given: ArrayLike | None, n_queries: int) -> list[NDArray[np.float64] | None]:
        """The weights of each query: None, (n_bits,), or (n_bits, n_classes)."""
        if given is not None:
            if not weighted:
                raise ValueError("weights is given and weighted=False; expected only one of them")
            checked = check_weights(given, self.n_bits, n_rows=n_queries)
            return list(np.broadcast_to(checked, (n_queries, self.n_bits)))
        return [self.weights if weighted else None] * n_queries

    def _n_candidates(self, k: int) -> int:
        """The number stored for this k or the next larger one; in proportion above the largest one."""
        larger = [kept for kept in self._kept if kept >= k]
        if larger:
            return self._kept[min(larger)]
        if not self._kept:
            return min(max(_DEFAULT_CANDIDATES, 10 * k), _MOST_CANDIDATES)
        largest = max(self._kept)
        return min(-(-self._kept[largest] * k // largest), _MOST_CANDIDATES)

    def _candidates(
        self,
        queries: NDArray[np.uint8],
        n: int,
        weights: list[NDArray[np.float64] | None],
        labels: NDArray[Any] | None = None,
    ) -> Iterator[tuple[StoredRows, NDArray[np.float32]]]:
        """Yield the candidates of each query, nearest by Hamming distance first, and their weighted distances."""
        span = max(1, _HITS // n)
        for start in range(0, len(queries), span):
            part = queries[start : start + span]
            near = self._collection.search(part, n, labels, self.consistency, len(self._kept))
            rows = self._fetched(np.unique(np.concatenate(near)))
            for query, ids, own in zip(part, near, weights[start:]):
                ids = ids[np.isin(ids, rows.ids)]  # without codes removed between the two requests
                found = rows.at(np.searchsorted(rows.ids, ids))
                yield found, self._settings.distances(query, found, own)

    def _fetched(self, ids: NDArray[np.int64]) -> StoredRows:
        """The rows of a search. Most are read without waiting for replicas; missing ones are requested again."""
        rows = self._collection.fetch(ids, "Eventually")
        absent = ids[~np.isin(ids, rows.ids)]
        if not len(absent):
            return rows
        late = self._collection.fetch(absent)
        both = StoredRows(*(np.concatenate([first, second]) for first, second in zip(rows, late)))
        return both.at(np.argsort(both.ids))

    # Recall

    def measure_recall(
        self,
        sample: ArrayLike | int = 100,
        k: int = 10,
        candidates: Sequence[int] = _GRID,
        *,
        weights: ArrayLike | None = None,
        exact: CodeIndex | None = None,
    ) -> dict[int, float]:
        """Return the share of the exact ``k`` nearest that a search finds, for each number of candidates.

        ``sample`` holds packed queries, or says how many stored codes to use as queries; each of these finds itself,
        so the recall of real queries is slightly lower. ``weights``: as in `search`. ``exact``: an index of the same
        codes; by default it is built from all stored codes, in memory.
        """
        k = as_count(k, "k")
        tried = sorted({as_count(c, "candidates", at_most=_MOST_CANDIDATES) for c in candidates})
        if not tried:
            raise ValueError("candidates is empty; expected the numbers of candidates to try")
        index = self.to_index() if exact is None else exact
        if index.n_bits != self.n_bits:
            raise ValueError(f"exact has codes of {index.n_bits} bits; expected {self.n_bits}")
        if isinstance(sample, int | np.integer):
            n, ids = as_count(sample, "sample"), index.ids
            drawn = np.random.default_rng(0).choice(ids, min(n, len(ids)), replace=False)
            queries = index.reconstruct(drawn)
        else:
            queries = as_codes(sample, self.n_bits)
        if len(queries) == 0 or len(index) == 0:
            raise ValueError(
                f"sample has {len(queries)} queries for {len(index)} codes; expected at least one of each"
            )
        own = self._weights(True, weights, len(queries))
        given = [vector for vector in own if vector is not None]
        found = [near for _, near in self._candidates(queries, tried[-1], own)]
        if weights is None and self.weights is not None and self.weights.ndim == 2:
            best = index.search(queries, k)  # weights per class can only be those of the index
        else:
            best = index.search(queries, k, weighted=bool(given), weights=np.stack(given) if given else None)
        return _recalls(found, best.distances, tried)

    def choose_candidates(
        self,
        target: float = 0.99,
        sample: ArrayLike | int = 100,
        k: int = 10,
        candidates: Sequence[int] = _GRID,
        *,
        exact: CodeIndex | None = None,
    ) -> int:
        """Store and return the smallest number of candidates whose measured recall reaches ``target``.

        It applies to everyone who opens the collection from now on. Numbers below ``k`` are skipped. If none reaches
        ``target``, raise ValueError with the best recall, and store nothing.
        """
        check_real("target", target, 0, 1 + 1e-9, open_below=True)
        k = as_count(k, "k")
        tried = [c for c in candidates if as_count(c, "candidates", at_most=_MOST_CANDIDATES) >= k]
        if len(candidates) and not tried:
            raise ValueError(f"candidates={tuple(candidates)}: expected numbers of at least k={k}")
        measured = self.measure_recall(sample, k, tried, exact=exact)
        enough = [c for c, recall in measured.items() if recall >= target]
        if not enough:
            most, best = list(measured.items())[-1]
            raise ValueError(
                f"target={target}: not reached, {most} candidates have recall {best:.4f}; try more candidates"
            )
        self.keep_candidates(enough[0], k)
        return enough[0]

    def keep_candidates(self, candidates: int, k: int = 10) -> None:
        """Store the number of candidates of searches for ``k``, for everyone who opens the collection."""
        n = as_count(candidates, "candidates", at_least=as_count(k, "k"), at_most=_MOST_CANDIDATES)
        self._collection.keep_candidates(k, n)
        self._kept[k] = n


def _recalls(found: list[NDArray[np.float32]], exact: NDArray[np.float32], candidates: list[int]) -> dict[int, float]:
    """The share of the exact k nearest among the first candidates, for each number of candidates.

    found: for each query, the distances of its candidates, in the order of Milvus
    exact: (q, k) distances of the exact result, inf for missing places
    A candidate as near as the k-th exact one counts as found.
    """
    wanted = np.isfinite(exact).sum(axis=1)  # (q,)
    furthest = np.where(np.isfinite(exact), exact, -1).max(axis=1)
    return {
        c: float(
            sum(min(int(np.count_nonzero(d[:c] <= f)), int(w)) for d, f, w in zip(found, furthest, wanted))
            / wanted.sum()
        )
        for c in candidates
    }
