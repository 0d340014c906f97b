"""MilvusStore: the verbs of CodeIndex on a Milvus collection that several services share."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_real
from cbid.codes import check_weights
from cbid.search import CodeIndex, Matches
from cbid.search.checks import as_codes, as_count
from cbid.search.milvus.address import Address
from cbid.search.milvus.collection import MOST_ANSWERS, Collection, Rows
from cbid.search.milvus.connection import Connection
from cbid.search.milvus.contents import Contents
from cbid.search.milvus.rerank import distances_of, nearest, recalls
from cbid.search.milvus.settings import Settings

__all__ = ["MilvusStore"]

_CONSISTENCY = ("Strong", "Session", "Bounded", "Eventually")
_MOST_CANDIDATES = MOST_ANSWERS - 384  # room for the rows of negative ids
_UNMEASURED = 1_000  # candidates of a store whose recall nobody has measured
_HITS = 50_000  # candidates that are re-ranked at a time
_GRID = (10, 20, 50, 100, 200, 500, 1000)


class MilvusStore(Contents):
    """Packed codes with ids and labels in Milvus, searched by Hamming distance there and by weights here.

    Made by `create` or `open`; ``address`` is "milvus://host:port/collection", or for an embedded milvus-lite
    "milvus:///folder/name.db/collection". A search takes a number of candidates by Hamming distance from Milvus and
    orders them by d(q, h) = sum_s w_s [q_s != h_s]: what is found is right but may be incomplete, see
    `measure_recall` and `choose_candidates`. Length, weights and number of candidates are kept with the collection.

    Reads see all that was written before, by anyone (Milvus's "Strong"). Every request to Milvus ends within
    ``timeout`` seconds: a server that restarts is waited for so long, then there is a `MilvusError`. Searches from
    several threads are safe.
    """

    def __init__(self, collection: Collection, consistency: str) -> None:
        """See `create` and `open`."""
        super().__init__(collection)
        self.consistency = consistency
        self._kept = collection.kept_candidates()

    @classmethod
    def create(
        cls,
        address: str | Address,
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
        """A new collection.

        Parameters
        ----------
        weights, classes
            As in `CodeIndex`.
        labels : "int", "str", "bool" or None
            The kind of labels that codes will have; None for none.
        cells, probes : int, optional
            Milvus's BIN_IVF_FLAT with so many cells, of which a search scans ``probes`` (default: a 32nd). None scans
            all (BIN_FLAT). On a server alone.
        made_by : str
            Any text, kept with the collection, such as a digest of the coder.
        exist_ok : bool
            Open a collection of this name that is there, if it was made with the same arguments; ``cells`` and
            ``probes`` are compared where they are given.
        overwrite : bool
            Drop a collection of this name that is there; with ``exist_ok`` only one that is not opened.
        token : str, optional
            "name:password" or an API key of the server; by default the environment's CBID_MILVUS_TOKEN.
        timeout : float
            Seconds that any request to Milvus may take, with waiting for a server that restarts.
        consistency : {"Strong", "Session", "Bounded", "Eventually"}
            "Session" sees at once only what this process wrote, "Bounded" and "Eventually" wait for no news.
        """
        settings = Settings.checked(n_bits, weights, classes, labels, cells, probes, made_by)
        return cls._connected(
            address,
            token,
            timeout,
            consistency,
            lambda c: Collection.create(c, settings, exist_ok=exist_ok, overwrite=overwrite),
        )

    @classmethod
    def open(
        cls,
        address: str | Address,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        consistency: str = "Strong",
    ) -> Self:
        """A collection that `create` has made; see there."""
        at = Address.parse(address)
        if at.file is not None and not at.file.exists():
            raise FileNotFoundError(f"{at}: there is no file {at.file}")
        return cls._connected(at, token, timeout, consistency, Collection.open)

    @classmethod
    def _connected(
        cls, address: str | Address, token: str | None, timeout: float, consistency: str, make: Any
    ) -> Self:
        check_choice("consistency", consistency, _CONSISTENCY)
        check_real("timeout", timeout, 0, open_below=True)
        connection = Connection(Address.parse(address), token, timeout)
        try:
            return cls(make(connection), consistency)
        except BaseException:
            connection.close()
            raise

    def __repr__(self) -> str:
        return f"MilvusStore({str(self.address)!r}, n_bits={self.n_bits})"

    @property
    def candidates(self) -> dict[int, int]:
        """The numbers of candidates that were kept, by k, as they were at opening."""
        return dict(self._kept)

    # Searching

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
        """The ``k`` nearest of each query (q, ceil(t/8)), or of one (ceil(t/8),), among its candidates.

        ``weighted=False``, ``labels``, ``weights``: as in `CodeIndex.search`. ``candidates``: how many are taken
        from Milvus by Hamming distance, instead of the number that was chosen for this k.
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
                raise ValueError("labels is given, but this collection holds no labels to filter by")
            wanted = self._settings.as_labels(labels)
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        distances = np.full((len(queries), k), np.inf, dtype=np.float32)
        names = np.full((len(queries), k), self._settings.missing, dtype=object)
        if wanted is None or len(wanted):
            for query, (rows, near) in enumerate(self._candidates(queries, max(n, k), own, wanted)):
                best = nearest(rows.ids, near, k)
                ids[query, : len(best)], distances[query, : len(best)] = rows.ids[best], near[best]
                names[query, : len(best)] = rows.labels[best]
        if self.labels is None:
            return Matches(ids, distances, None)
        return Matches(ids, distances, self._settings.decoded(names.ravel().tolist()).reshape(names.shape))

    def _weights(
        self, weighted: bool, given: ArrayLike | None, n_queries: int
    ) -> NDArray[np.float64] | Settings | None:
        if given is not None:
            if not weighted:
                raise ValueError("weights is given and weighted is False; a search takes one or the other")
            return check_weights(given, self.n_bits, n_rows=n_queries)
        if not weighted or self.weights is None:
            return None
        return self._settings if self.weights.ndim == 2 else self.weights

    def _n_candidates(self, k: int) -> int:
        """As kept for this k or the next larger; in proportion past the largest; a thousand where nothing is kept."""
        larger = [kept for kept in self._kept if kept >= k]
        if larger:
            return self._kept[min(larger)]
        if not self._kept:
            return min(max(_UNMEASURED, 10 * k), _MOST_CANDIDATES)
        largest = max(self._kept)
        return min(-(-self._kept[largest] * k // largest), _MOST_CANDIDATES)

    def _candidates(
        self,
        queries: NDArray[np.uint8],
        n: int,
        weights: NDArray[np.float64] | Settings | None,
        labels: NDArray[Any] | None = None,
    ) -> Iterator[tuple[Rows, NDArray[np.float32]]]:
        """For each query its candidates, nearest by Hamming distance first, and their distances under ``weights``."""
        span = max(1, _HITS // n)
        for start in range(0, len(queries), span):
            part = queries[start : start + span]
            near = self._collection.search(part, n, labels, self.consistency, len(self._kept))
            rows = self._fetched(np.unique(np.concatenate(near)))
            for place, (query, ids) in enumerate(zip(part, near), start):
                # What was removed between the two questions is no candidate any more.
                ids = ids[np.isin(ids, rows.ids)]
                found = rows.taken(np.searchsorted(rows.ids, ids))
                own = weights[place] if isinstance(weights, np.ndarray) and weights.ndim == 2 else weights
                yield found, distances_of(query, found.codes, found.labels, own)

    def _fetched(self, ids: NDArray[np.int64]) -> Rows:
        """Rows that a search has just found. Most are read without waiting; only what a replica has not got yet, or
        what was removed, is asked for again."""
        rows = self._collection.fetch(ids, "Eventually")
        absent = ids[~np.isin(ids, rows.ids)]
        if not len(absent):
            return rows
        late = self._collection.fetch(absent)
        both = Rows(*(np.concatenate([first, second]) for first, second in zip(rows, late)))
        return both.taken(np.argsort(both.ids))

    # How complete it is

    def measure_recall(
        self,
        sample: ArrayLike | int = 100,
        k: int = 10,
        candidates: Sequence[int] = _GRID,
        *,
        weights: ArrayLike | None = None,
        exact: CodeIndex | None = None,
    ) -> dict[int, float]:
        """The share of the exact ``k`` nearest that a search finds, for each number of candidates.

        ``sample``: packed queries, or how many stored codes to take as such (each then finds itself, so with real
        queries the recall is a little lower). ``weights``: as in `search`. ``exact``: an index of the same codes; by
        default one is made of all that is stored, which takes the memory of such an index.
        """
        k = as_count(k, "k")
        tried = sorted({as_count(c, "candidates", at_most=_MOST_CANDIDATES) for c in candidates})
        if not tried:
            raise ValueError("candidates is empty; give the numbers of candidates to try")
        index = self.to_index() if exact is None else exact
        if index.n_bits != self.n_bits:
            raise ValueError(f"exact has codes of {index.n_bits} bits; this collection's have {self.n_bits}")
        if isinstance(sample, int | np.integer):
            n, ids = as_count(sample, "sample"), index.ids
            drawn = np.random.default_rng(0).choice(ids, min(n, len(ids)), replace=False)
            queries = index.reconstruct(drawn)
        else:
            queries = as_codes(sample, self.n_bits)
        if len(queries) == 0 or len(index) == 0:
            raise ValueError(f"sample has {len(queries)} queries for {len(index)} codes; recall takes some of both")
        own = self._weights(True, weights, len(queries))
        found = [near for _, near in self._candidates(queries, tried[-1], own)]
        # Those of each class must be the index's own; others can be told.
        how: dict[str, Any] = {} if isinstance(own, Settings) else {"weights": own, "weighted": own is not None}
        return recalls(found, index.search(queries, k, **how).distances, tried)

    def choose_candidates(
        self,
        target: float = 0.99,
        sample: ArrayLike | int = 100,
        k: int = 10,
        candidates: Sequence[int] = _GRID,
        *,
        exact: CodeIndex | None = None,
    ) -> int:
        """The least number of candidates whose measured recall reaches ``target``; kept with the collection, for
        everybody who opens it from now on. Numbers below ``k`` are passed over. If none reaches it, an error tells
        what was reached, and nothing is kept."""
        check_real("target", target, 0, 1 + 1e-9, open_below=True)
        k = as_count(k, "k")
        tried = [c for c in candidates if as_count(c, "candidates", at_most=_MOST_CANDIDATES) >= k]
        if len(candidates) and not tried:
            raise ValueError(f"candidates={tuple(candidates)}: expected at least k={k}")
        measured = self.measure_recall(sample, k, tried, exact=exact)
        enough = [c for c, recall in measured.items() if recall >= target]
        if not enough:
            most, best = list(measured.items())[-1]
            raise ValueError(f"target={target} is not reached: {most} candidates have recall {best:.4f}; try more")
        self.keep_candidates(enough[0], k)
        return enough[0]

    def keep_candidates(self, candidates: int, k: int = 10) -> None:
        """Have searches for ``k`` take so many candidates from now on, also those of whoever opens the collection."""
        n = as_count(candidates, "candidates", at_least=as_count(k, "k"), at_most=_MOST_CANDIDATES)
        self._collection.keep_candidates(k, n)
        self._kept[k] = n
