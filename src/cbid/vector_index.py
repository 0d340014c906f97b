"""VectorIndex: vectors in, neighbours out. It holds a coder, the codes, and optionally the vectors themselves."""

import dataclasses
import math
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_real
from cbid.coders import load
from cbid.search import CodeIndex, IndexCorruptError, Matches
from cbid.search.checks import as_count
from cbid.search.collection import AttachedFile
from cbid.search.pairs import Pairs
from cbid.search.recall import (
    RecallPromise,
    Setting,
    frontier,
    geometric,
    p_value_of_mean,
    queries_needed,
    recall_losses,
)
from cbid.search.vectors import KEEP, METRICS, KeptVectors

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["RecallPromise", "VectorIndex"]

_KIND = "VectorIndex"
_MOST_CANDIDATES = 1 << 16
_SAMPLE = 1000  # stored vectors that serve as queries of a calibration
_PILOT = 250  # stored vectors that choose which probes and candidates are tested
_CANDIDATE_COST = 25  # of one candidate, in codes scanned; a measure of time only, no promise depends on it
_TRIES = 20  # a reader retries when a commit replaces files while it opens them


class FittedCoder(Protocol):
    """What an index needs of a coder; every coder of `cbid.coders` has it once it is fitted."""

    n_bits_: int
    n_features_in_: int

    def encode(self, X: ArrayLike, /) -> NDArray[np.uint8]:
        """Return packed codes."""

    def project(self, X: ArrayLike, /) -> NDArray[np.floating]:
        """Return real values whose signs are the bits."""

    def save(self, path: Path, /) -> None:
        """Write a model file."""


class VectorIndex:
    """Search over vectors through their codes, with a second look at the best candidates.

    Parameters
    ----------
    coder : fitted coder
        Turns vectors into codes. Its ``weights_``, if any, are the weights of the bits.
    keep : {None, "float16", "int8"}, default=None
        Keep the vectors too. A search then ranks its best candidates again by the original metric.
    metric : {"cosine", "ip", "l2"}, default="cosine"
        The metric of the kept vectors. Distances are 1 - cosine, minus the inner product, or Euclidean.
    asymmetric : bool, default=True
        Compare the real-valued projections of a query, not its bits, with the stored codes.
    n_threads : int, default=None
        Threads of a search; None uses all processors.
    cells, probes : int, default=None
        IVF: search only the codes in the ``probes`` of this many cells that are nearest to a query; see `CodeIndex`.
        `calibrate` finds probes and candidates for a recall.

    Examples
    --------
    >>> import numpy as np
    >>> from cbid.coders import LSH
    >>> X = np.random.default_rng(0).normal(size=(100, 16))
    >>> index = VectorIndex(LSH(n_bits=64, random_state=0).fit(X), keep="float16")
    >>> ids = index.add(X)
    >>> index.search(X[:2], k=1).ids.tolist()
    [[0], [1]]
    """

    def __init__(
        self,
        coder: FittedCoder,
        keep: str | None = None,
        metric: str = "cosine",
        *,
        asymmetric: bool = True,
        n_threads: int | None = None,
        cells: int | None = None,
        probes: int | None = None,
    ) -> None:
        for name in ("encode", "project", "save", "n_bits_", "n_features_in_"):
            if not hasattr(coder, name):
                raise ValueError(f"coder={coder!r} has no {name}: expected a fitted coder of cbid.coders")
        check_choice("keep", keep, (None, *KEEP))
        check_choice("metric", metric, METRICS)
        self.coder, self.metric, self.asymmetric, self.keep = coder, metric, bool(asymmetric), keep
        weights = getattr(coder, "weights_", None)
        by_class = weights is not None and np.ndim(weights) == 2
        classes = getattr(coder, "classes_", None) if by_class else None
        self.codes = CodeIndex(
            coder.n_bits_, weights, classes=classes, n_threads=n_threads, cells=cells, probes=probes
        )
        self.promises: list[RecallPromise] = []
        self._kept = None if keep is None else KeptVectors(keep, metric, int(coder.n_features_in_))
        self._coder_name: str | None = None  # the model file in the store
        self._mutex = threading.RLock()

    def __repr__(self) -> str:
        return f"VectorIndex({self.coder!r}, keep={self.keep!r}, metric={self.metric!r}, {len(self)} vectors)"

    # Content

    def __len__(self) -> int:
        return len(self.codes)

    def __contains__(self, id: object) -> bool:
        return id in self.codes

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        return self.codes.ids

    @property
    def labels(self) -> NDArray[Any] | None:
        """The labels in the order of `ids`, or None if there are none."""
        return self.codes.labels

    @property
    def nbytes(self) -> int:
        """Bytes of codes, ids, labels and kept vectors, in memory or mapped."""
        return self.codes.nbytes + (0 if self._kept is None else self._kept.nbytes)

    def add(
        self, X: ArrayLike, ids: ArrayLike | None = None, labels: Any = None, *, label_names: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Encode vectors (n, n_features), add them and return their ids; see `CodeIndex.add`."""
        vectors = self._vectors(X)
        compressed = None if self._kept is None else self._kept.compressed(vectors)
        with self._mutex:
            codes: ArrayLike = self.coder.encode(vectors) if len(vectors) else []
            new_ids = self.codes.add(codes, ids, labels, label_names=label_names)
            if self._kept is not None and compressed is not None:
                self._kept.add(new_ids, *compressed)
            self._void(len(new_ids))
        return new_ids

    def lengthen(self, coder: FittedCoder) -> None:
        """Begin to use an extended coder (`CBID.extend`), whose codes start with the bits that are stored.

        Give the stored vectors to `recode`; until all are recoded, searches compare the common prefix. See
        `CodeIndex.lengthen`; ``codes.recoded`` is the share that is done and ``codes.short_ids`` are the others.
        """
        d = int(self.coder.n_features_in_)
        if getattr(coder, "n_features_in_", None) != d:
            raise ValueError(f"coder={coder!r}: expected a fitted coder of {d} features, that of the index extended")
        with self._mutex:
            if coder.n_bits_ <= self.codes.n_bits:
                raise ValueError(
                    f"coder has {coder.n_bits_} bits; expected more than the {self.codes.n_bits} of the stored codes"
                )
            self.codes.lengthen(coder.n_bits_, getattr(coder, "weights_", None))
            self.coder, self._coder_name = coder, None

    def recode(self, X: ArrayLike, ids: ArrayLike) -> None:
        """Encode stored vectors again, at the full length: X (n, n_features) and their ids; see `CodeIndex.recode`.

        X are the vectors as they were added; kept vectors are rounded, and their codes may differ.
        """
        vectors = self._vectors(X)
        with self._mutex:
            before = self.codes.n_bits
            self.codes.recode(self.coder.encode(vectors) if len(vectors) else [], ids)
            self._void(self.codes.n_bits - before)

    def remove(self, ids: ArrayLike) -> None:
        """Remove ids, all of which must be stored."""
        with self._mutex:
            self.codes.remove(ids)
            given = np.unique(np.asarray(ids, dtype=np.int64).reshape(-1))
            if self._kept is not None:
                self._kept.remove(given)
            self._void(len(given))

    def vectors(self, ids: ArrayLike) -> NDArray[np.float32]:
        """Return the kept vectors of ids, as they are kept: rounded, and of length 1 with the metric "cosine"."""
        kept = self._kept_vectors("vectors")
        self.codes.reconstruct(ids)  # raises for unknown ids
        distinct, inverse = np.unique(np.asarray(ids, dtype=np.int64).reshape(-1), return_inverse=True)
        return kept.get(distinct)[0][inverse]

    def _void(self, n_changed: int) -> None:
        if n_changed:
            for promise in self.promises:
                promise.valid = False

    def _vectors(self, X: ArrayLike) -> NDArray[np.floating]:
        array = np.asarray(X)
        d = int(self.coder.n_features_in_)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"X has dtype {array.dtype}; expected real numbers")
        if array.size == 0:
            array = np.empty((0, d)) if array.ndim == 1 else array
        array = np.atleast_2d(array)
        if array.ndim != 2 or array.shape[1] != d:
            raise ValueError(f"X has shape {np.shape(X)}; expected (n, {d}), the features of the coder")
        array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
        if not np.isfinite(array).all():
            raise ValueError("X holds NaN or infinite numbers; expected finite numbers")
        return array

    def _kept_vectors(self, action: str) -> KeptVectors:
        if self._kept is None:
            raise ValueError(f"{action}: this index keeps no vectors; create it with keep='float16' or 'int8'")
        return self._kept

    # Search

    def search(
        self,
        X: ArrayLike,
        k: int = 10,
        recall: float | None = None,
        *,
        candidates: int | None = None,
        rerank: bool = True,
        labels: ArrayLike | None = None,
        match: str = "any",
        among: ArrayLike | None = None,
        probes: int | None = None,
    ) -> Matches:
        """Return the ``k`` nearest stored vectors of each query.

        Without kept vectors, neighbours are ranked by the distance of the codes. With kept vectors, the best
        candidates by code are ranked again by the metric, and ``distances`` are those of the metric.

        Parameters
        ----------
        X : array-like of shape (q, n_features) or (n_features,)
        k : int, default=10
            Missing places have id -1 and distance inf.
        recall : float, default=None
            Use the candidates, and the probes, that `calibrate` found for this mean recall. The first search
            calibrates on stored vectors if there is no promise yet; a void promise raises until `check_recall`.
        candidates : int, default=None
            Number of candidates to rank again; by default 10 k, at least 100.
        rerank : bool, default=True
            False: rank by the distance of the codes, and use the kept vectors only to break ties.
        labels, among : array-like, default=None
            Return only vectors with one of these labels, or one of these ids. A recall cannot be combined with them.
        match : {"any", "all", "branch"}, default="any"
            How ``labels`` filter; see `CodeIndex.search`.
        probes : int, default=None
            IVF cells to scan, instead of the default of the index.
        """
        queries = self._vectors(X)
        k = as_count(k, "k", at_most=max(len(self), _MOST_CANDIDATES))
        if recall is not None:
            self._kept_vectors(f"recall={recall}")
            if any(value is not None for value in (candidates, probes, labels, among)) or not rerank:
                raise ValueError(
                    f"recall={recall}: expected no candidates, probes, rerank=False, labels or among with it"
                )
            promise = self._promise(k, recall)
            candidates, probes = promise.candidates, promise.probes
        if candidates is not None:
            self._kept_vectors(f"candidates={candidates}")
            candidates = as_count(candidates, "candidates", at_least=k)
        filters = {"labels": labels, "match": match, "among": among, "probes": probes}
        if self._kept is None:
            return self._by_code(queries, k, filters)
        n_candidates = k if not rerank else candidates or max(10 * k, 100)
        found, complete = self._with_vectors(queries, k, n_candidates, rerank, filters)
        if not complete:
            with self._mutex:  # no removal meanwhile
                found, _ = self._with_vectors(queries, k, n_candidates, rerank, filters)
        return found

    def _with_vectors(
        self, queries: NDArray[np.floating], k: int, n_candidates: int, rerank: bool, filters: dict[str, Any]
    ) -> tuple[Matches, bool]:
        """Search codes and look up their vectors; False if another thread may have removed one in between."""
        from cbid.search.kernels.scan import nearest_columns  # at the first search: importing the kernels takes time

        assert self._kept is not None
        if rerank:
            found = self._by_code(queries, min(n_candidates, max(len(self), k)), filters)
        else:
            found = self._with_ties(queries, k, filters)
        with self._mutex:  # an addition in another thread has finished: each code found has its vector
            kept = self._kept
        near = kept.distances_to_ids(kept.as_queries(queries), found.ids, self.codes.n_threads)
        complete = not (np.isinf(near) & (found.ids >= 0)).any()
        if rerank:
            return _reordered(found, nearest_columns(near, found.ids, k), near), complete
        order = np.lexsort((found.ids, near, found.distances), axis=1)[:, :k]
        return _reordered(found, order, found.distances), complete

    def _by_code(self, queries: NDArray[np.floating], k: int, filters: dict[str, Any]) -> Matches:
        return self.codes.search(k=k, **self._code_queries(queries), **filters)

    def _code_queries(self, queries: NDArray[np.floating]) -> dict[str, Any]:
        """The queries as arguments of a search of codes."""
        if len(queries) == 0:
            return {"codes": []}
        return (
            {"projections": self.coder.project(queries)} if self.asymmetric else {"codes": self.coder.encode(queries)}
        )

    def _with_ties(self, queries: NDArray[np.floating], k: int, filters: dict[str, Any]) -> Matches:
        """The k nearest by code, and all others whose codes are as near as the k-th."""
        n = max(len(self), k)
        wanted = min(2 * k, n)
        while True:
            found = self._by_code(queries, wanted, filters)
            if wanted == n or not (found.distances[:, -1] == found.distances[:, k - 1]).any():
                return found
            if not np.isfinite(found.distances[:, -1]).any():
                return found
            wanted = min(4 * wanted, n)

    def pairs(
        self,
        radius: float,
        *,
        weighted: bool = True,
        limit: int = 100_000_000,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Pairs:
        """Return all pairs of vectors whose codes differ by at most ``radius``; see `CodeIndex.pairs`."""
        return self.codes.pairs(radius, weighted=weighted, limit=limit, checkpoint=checkpoint)

    def neighbours(self, k: int = 10, *, checkpoint: str | os.PathLike[str] | None = None) -> "csr_array":
        """Return the k-NN graph of the codes; see `CodeIndex.neighbours`."""
        return self.codes.neighbours(k, checkpoint=checkpoint)

    # Recall

    def calibrate(
        self, recall: float = 0.99, k: int = 10, queries: ArrayLike | None = None, *, delta: float = 0.05
    ) -> RecallPromise:
        """Find the number of candidates, and of probes, that gives a mean recall at k of at least ``recall``.

        The promise holds with confidence 1 - delta for queries distributed as those given. Settings are tested from
        the safest to the cheapest, each at level delta, until one fails (a fixed-sequence test). Each test is that
        of `p_value_of_mean`. Recall counts the k nearest by exact search over the kept vectors.
        With cells, up to 250 stored vectors that are no queries of the test choose the settings: those with a higher
        recall than every cheaper one.

        Parameters
        ----------
        recall : float in (0, 1), default=0.99
        k : int, default=10
        queries : array-like of shape (q, n_features), default=None
            Independent queries like those to come; by default up to 1,000 stored vectors, each without itself.
        delta : float in (0, 1), default=0.05

        Raises
        ------
        ValueError
            If there are too few queries for this recall and delta, or if 65,536 candidates are too few.
        """
        self._kept_vectors("calibrate")
        for name, value in (("recall", recall), ("delta", delta)):
            check_real(name, value, 0, 1, open_below=True)
        k = as_count(k, "k")
        with self._mutex:
            drawn = np.random.default_rng(1).permutation(self.ids)
            n_pilot = 0 if self.codes.cells is None else min(_PILOT, len(drawn) // 5)
            pilot, drawn = drawn[:n_pilot], drawn[n_pilot:]
            own = None if queries is not None else drawn[:_SAMPLE]
            sample = self.vectors(own) if own is not None else self._vectors(queries if queries is not None else [])
            needed = queries_needed(recall, delta)
            if len(sample) < needed:
                what = "stored vectors" if queries is None else "queries"
                raise ValueError(
                    f"recall={recall}: {len(sample)} {what} cannot support it with confidence {1 - delta:g}; "
                    f"expected at least {needed} queries, or a lower recall"
                )
            n_other = len(self) - (own is not None)
            if k > n_other:
                raise ValueError(f"k={k}: expected at most {n_other}, the vectors that a query can find")
            largest = min(n_other, _MOST_CANDIDATES)
            probes: list[int | None] = [None] if self.codes.cells is None else [*geometric(self.codes.cells, 1)]
            settings = [Setting(0, count) for count in geometric(largest, k)]
            if self.codes.cells is not None:
                settings = self._settings(pilot, k, largest, probes)
            ranks = self._ranks(sample, k, largest, own, probes)
            chosen = Setting(0, len(self)) if largest == n_other else None  # all vectors: the recall is 1
            for setting in settings:
                if setting == (0, n_other):
                    continue
                if p_value_of_mean(recall_losses(ranks, setting), 1 - recall, delta) > delta:
                    break
                chosen = setting
            if chosen is None:
                raise ValueError(f"recall={recall}: {largest:,} candidates are too few; expected a lower recall")
            promise = RecallPromise(
                k, float(recall), float(delta), chosen.candidates, len(sample), own is not None,
                probes=probes[chosen.place],
            )  # fmt: skip
            others = [p for p in self.promises if (p.k, p.recall) != (k, promise.recall)]
            self.promises = [*others, promise]
            return promise

    def _settings(self, pilot: NDArray[np.int64], k: int, largest: int, probes: list[int | None]) -> list[Setting]:
        """The settings to test, from the safest to the cheapest, chosen on stored vectors."""
        counts = geometric(largest, k)
        ranks = self._ranks(self.vectors(pilot), k, largest, pilot, probes)
        scanned = np.array([len(self) * (at or 1) / (self.codes.cells or 1) for at in probes])
        found = frontier(ranks, scanned[:, None] + _CANDIDATE_COST * np.array(counts), counts)
        # The pilot may find all its neighbours with too few candidates for other queries.
        first = found[0]
        larger = [Setting(max(first.place - 4 * i, 0), min(2**i * first.candidates, largest)) for i in (3, 2, 1)]
        return [Setting(0, largest), *larger, *found]

    def check_recall(self, queries: ArrayLike | None = None) -> list[RecallPromise]:
        """Renew every promise on the vectors stored now, and return the promises.

        Promises that were made on given queries need ``queries`` again.
        """
        with self._mutex:
            for promise in list(self.promises):
                if queries is None and not promise.stored_queries:
                    raise ValueError(
                        f"queries=None: recall={promise.recall} at k={promise.k} was promised for given queries; "
                        "expected queries"
                    )
                self.calibrate(promise.recall, promise.k, queries, delta=promise.delta)
            return list(self.promises)

    def _promise(self, k: int, recall: float) -> RecallPromise:
        with self._mutex:
            made = [p for p in self.promises if (p.k, p.recall) == (k, recall)]
            if made and not made[0].valid:
                raise ValueError(
                    f"recall={recall}: the promise at k={k} is void because vectors were added or removed; "
                    "call check_recall() first"
                )
            return made[0] if made else self.calibrate(recall, k)

    def _ranks(
        self,
        queries: NDArray[np.floating],
        k: int,
        largest: int,
        own: NDArray[np.int64] | None,
        probes: list[int | None],
    ) -> NDArray[np.int64]:
        """The places (probes, q, k) of the true neighbours of queries among the codes of so many cells, descending.

        A place is ``largest`` if the neighbour is beyond it, or in another cell.
        """
        assert self._kept is not None
        ranks = np.full((len(probes), len(queries), k), largest)
        step = max((1 << 22) // largest, 64)
        for first in range(0, len(queries), step):
            rows = np.arange(first, min(first + step, len(queries)))
            true, _ = self._kept.nearest(self._kept.as_queries(queries[rows]), k, None if own is None else own[rows])
            wanted = min(8 * k, largest)
            while len(rows):
                asked = self._code_queries(queries[rows])
                found = self.codes.search(k=min(wanted + 1, len(self)), probes=self.codes.cells, **asked).ids
                if own is not None:  # leave the query itself out: it moves to the end
                    is_own = found == own[rows, None]
                    found = np.take_along_axis(found, np.argsort(is_own, axis=1, kind="stable"), axis=1)
                found = found[:, :wanted]
                order = np.argsort(found, axis=1)
                ascending = np.take_along_axis(found, order, axis=1)
                reach = None if probes == [None] else self.codes.probes_to_reach(found, **asked)
                for i, row in enumerate(rows):
                    at = np.minimum(np.searchsorted(ascending[i], true[i]), wanted - 1)
                    hit = ascending[i][at] == true[i]
                    place = order[i][at[hit]]
                    if reach is None:
                        ranks[0, row, hit] = place
                        continue
                    scanned = reach[i] <= np.array(probes)[:, None]
                    before = np.cumsum(scanned, axis=1) - 1
                    ranks[:, row, hit] = np.where(scanned[:, place], before[:, place], largest)
                if wanted == largest:
                    break
                missing = (ranks[0, rows] == largest).any(axis=1)
                rows, true = rows[missing], true[missing]
                wanted = min(4 * wanted, largest)
        return ranks

    # On disk

    @property
    def path(self) -> Path | None:
        """The directory that `save` commits to, or None."""
        return self.codes.path

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Commit codes, vectors, coder and promises to one directory atomically; see `CodeIndex.save`.

        Afterwards the kept vectors are mapped from the files.
        """
        with self._mutex:
            sizes, files = ([], {}) if self._kept is None else self._kept.files()
            files["coder"] = AttachedFile(".safetensors", self.coder.save, self._coder_name)
            values = {
                "kind": _KIND,
                "keep": self.keep,
                "metric": self.metric,
                "asymmetric": self.asymmetric,
                "chunks": sizes,
                "promises": [dataclasses.asdict(promise) for promise in self.promises],
            }
            self.codes.attach(values, files)
            self.codes.save(path)
            if path is None or (self.path is not None and os.path.realpath(path) == os.path.realpath(self.path)):
                self._load_attached(coder_too=False)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        writable: bool = False,
        verify: bool = False,
        n_threads: int | None = None,
    ) -> Self:
        """Open a saved index; codes and vectors are mapped, and read when needed. See `CodeIndex.open`."""
        index = cls.__new__(cls)
        index._mutex, index._coder_name = threading.RLock(), None
        index.codes = CodeIndex.open(path, writable=writable, verify=verify, n_threads=n_threads)
        try:
            index._load_attached(coder_too=True)
        except BaseException:
            index.close()
            raise
        return index

    def refresh(self) -> bool:
        """Load what other processes have committed; return whether anything changed."""
        with self._mutex:
            changed = self.codes.refresh()
            if changed:
                self._load_attached(coder_too=True)
            return changed

    def close(self) -> None:
        """Release the writer lock; unsaved changes stay in memory."""
        self.codes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mutex": None, "_coder_name": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _mutex=threading.RLock())

    def _load_attached(self, *, coder_too: bool) -> None:
        """Map what the last commit wrote; retry if another writer replaces files in between."""
        for _ in range(_TRIES):
            try:
                self._load_once(coder_too)
                return
            except FileNotFoundError as error:
                if not self.codes.refresh():
                    raise IndexCorruptError(f"{error.filename} is missing") from error
        raise IndexCorruptError(f"{self.path} changed during each of {_TRIES} attempts to read it")

    def _load_once(self, coder_too: bool) -> None:
        directory, attached = self.path, self.codes.attached
        assert directory is not None
        if attached is None or attached.values.get("kind") != _KIND or "coder" not in attached.files:
            raise IndexCorruptError(f"{directory} is not a VectorIndex; open it with CodeIndex.open")
        values, files = attached.values, dict(attached.files)
        name = str(files.pop("coder").stored_as)
        try:
            keep, metric, asymmetric = values["keep"], values["metric"], bool(values["asymmetric"])
            promises = [RecallPromise(**promise) for promise in values["promises"]]
            sizes = [
                {name: as_count(chunk[name], name, at_least=0) for name in ("n", "n_live")}
                for chunk in values["chunks"]
            ]
            for promise in promises:
                if not all(
                    _is_number(value) or (key, value) == ("probes", None) for key, value in vars(promise).items()
                ):
                    raise TypeError("a promise of recall has entries that are not numbers")
        except (KeyError, TypeError, ValueError) as error:
            raise IndexCorruptError(f"{directory} has missing or unknown fields ({error})") from error
        if (keep is not None and keep not in KEEP) or metric not in METRICS:
            raise IndexCorruptError(f"{directory} has keep={keep!r} and metric={metric!r}, unknown to this release")
        coder: Any = load(directory / name) if coder_too else self.coder
        if coder.n_bits_ != self.codes.full_n_bits:
            raise IndexCorruptError(
                f"{directory} has codes of {self.codes.full_n_bits} bits, its coder {coder.n_bits_}"
            )
        kept = None if keep is None else KeptVectors(keep, metric, int(coder.n_features_in_))
        if kept is not None:
            kept.load(directory, sizes, files, len(self.codes))
        self.coder, self.keep, self.metric, self.asymmetric = coder, keep, metric, asymmetric
        self.promises, self._kept, self._coder_name = promises, kept, name


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _reordered(found: Matches, order: NDArray[np.int64], distances: NDArray[np.float32]) -> Matches:
    distances = np.take_along_axis(distances, order, axis=1)
    ids = np.where(np.isfinite(distances), np.take_along_axis(found.ids, order, axis=1), -1)
    labels = None if found.labels is None else np.take_along_axis(found.labels, order, axis=1)
    return Matches(ids, distances, labels)
