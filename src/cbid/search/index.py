"""CodeIndex: codes with ids and labels, searched exactly under weighted Hamming distance."""

import copy
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice
from cbid.codes import check_n_bits, n_bytes, prefix
from cbid.search.buckets import BUCKETS_UP_TO, METHODS
from cbid.search.checks import as_cells, as_codes, as_count, as_ids, as_radius, as_weights, float32_scale
from cbid.search.collection import Attached, AttachedFile, CodeCollection, IndexState
from cbid.search.ivf import CODES_PER_CELL, SAMPLE_PER_CELL, Cells
from cbid.search.matches import Matches, RangeMatches
from cbid.search.pairs import DuplicateGroup, Pairs, PairSearch, duplicate_groups, near_pairs, neighbour_graph
from cbid.search.queries import QueryBatch
from cbid.search.segment_search import Best, Filtered, filtered, search_all, search_cells, search_within
from cbid.search.segments import ANY, Segment
from cbid.search.store import IndexStore
from cbid.search.vocabulary import Vocabulary, named_columns
from cbid.storage.atomic import deferred_signals

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["CodeIndex"]

# A search for more neighbours than there are codes pads its result, up to this k: a larger k would only take memory.
_LARGEST_PADDED_K = 1 << 16

_N_CELLS = 1024  # the default of method="cells"; trained once there are 40 codes for each


class CodeIndex:
    """Exact search over packed codes with 64-bit ids.

    The distance is d(q, h) = sum_s w_s [q_s != h_s]. Ids are distinct; adding one that is stored raises, and a
    call that raises changes nothing. Searches from several threads are safe, also while another thread adds or
    removes. Ties go to the smaller id.

    Parameters
    ----------
    n_bits : int
        Length t of the codes.
    weights : array-like of shape (n_bits,) or (n_bits, n_classes), default=None
        Non-negative weights of the bits; None is plain Hamming distance. A column per class applies to stored
        codes of that class, which then need labels.
    classes : array-like of shape (n_classes,), default=None
        The label of each column of two-dimensional weights (``coder.classes_``); by default 0 to n_classes - 1.
    n_threads : int, default=None
        Threads of a search; None uses all processors.
    method : {"auto", "scan", "buckets", "cells"}, default=None
        How to search; all but "cells" are exact and give the same result. "scan" compares a query with all codes.
        "buckets" looks near codes up in tables, which the first search builds and which take 12 bytes per code for
        about every log2(n) bits, plus the code if it has more than 64 bits. It is for codes of up to 512 bits and one
        weight vector for all queries; other searches scan. "auto" measures both and uses the faster one; it builds
        tables once scans have taken as long as building them, in up to a quarter of the memory. None is "cells" if
        ``cells`` is given, else "auto".
    cells : int, default=None
        IVF: group the codes into this many cells. A search scans only the ``probes`` cells nearest to its query:
        distances are exact, but neighbours may be missing (see `measure_recall`). `train` trains the cells;
        otherwise the first search or save with at least 40 codes per cell does. Until then searches are exact.
        With ``method="cells"`` the default is 1,024.
    probes : int, default=None
        Cells that a search scans; by default 1/32 of them.

    Examples
    --------
    >>> import numpy as np
    >>> index = CodeIndex(n_bits=8, weights=[8, 7, 6, 5, 4, 3, 2, 1])
    >>> index.add(np.array([[0b00000000], [0b00000111], [0b10000000]], dtype=np.uint8))
    array([0, 1, 2])
    >>> matches = index.search(np.array([0b00000001], dtype=np.uint8), k=2)
    >>> matches.ids, matches.distances
    (array([[0, 1]]), array([[1., 5.]], dtype=float32))
    """

    def __init__(
        self,
        n_bits: int,
        weights: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        n_threads: int | None = None,
        method: str | None = None,
        cells: int | None = None,
        probes: int | None = None,
    ) -> None:
        n_bits = check_n_bits(n_bits)
        checked = None if weights is None else as_weights(weights, n_bits)
        vocabulary = None
        if checked is not None and checked.ndim == 2:
            names = np.arange(checked.shape[1]) if classes is None else classes
            vocabulary = Vocabulary.of_classes(names)
            if len(vocabulary) != checked.shape[1]:
                raise ValueError(
                    f"classes has {len(vocabulary)} names; expected one per column of weights, {checked.shape[1]}"
                )
        elif classes is not None:
            raise ValueError("classes is given, but weights is not; expected weights of shape (n_bits, n_classes)")
        if method == "cells" and cells is None:
            cells = _N_CELLS
        n_cells, n_probes = as_cells(cells, probes)
        self.n_threads = None if n_threads is None else as_count(n_threads, "n_threads")
        self._codes = CodeCollection(IndexState(n_bits, checked, vocabulary, 0, n_cells, n_probes or 0, None, []))
        self._method = self._checked_method(method)
        self._store: IndexStore | None = None
        self._attachment_is_current = False  # only the owner of attached files may save

    def __repr__(self) -> str:
        parts = [f"n_bits={self.n_bits}", f"{len(self)} codes"]
        if self.cells is not None:
            parts.append(f"cells={self.cells}, probes={self.probes}")
        if self.full_n_bits > self.n_bits:
            parts.append(f"{self.recoded:.0%} recoded to {self.full_n_bits} bits")
        return f"CodeIndex({', '.join(parts)})"

    def _checked_method(self, method: str | None) -> str:
        check_choice("method", method, (None, *METHODS))
        state = self._codes.state
        if method is None:
            return "auto" if state.n_cells is None else "cells"
        if (method == "cells") != (state.n_cells is not None):
            expected = "an index with cells" if method == "cells" else "method='cells'"
            raise ValueError(f"method={method!r} and cells={state.n_cells}: expected {expected}")
        if method == "buckets" and state.n_bits > BUCKETS_UP_TO:
            raise ValueError(f"method='buckets' and n_bits={state.n_bits}: expected at most {BUCKETS_UP_TO} bits")
        if method == "buckets" and state.weights is not None and state.weights.ndim == 2:
            raise ValueError("method='buckets': the weights are per class; expected one weight vector")
        return method

    # Content

    @property
    def method(self) -> str:
        """How searches find codes: "auto", "scan", "buckets" or "cells"."""
        return self._method

    @property
    def n_bits(self) -> int:
        """Length of the codes; while the index is being lengthened that of the common prefix, which searches use."""
        return self._codes.state.n_bits

    @property
    def full_n_bits(self) -> int:
        """Length that the codes have or are being lengthened to."""
        state = self._codes.state
        return state.n_bits if state.longer is None else state.longer.n_bits

    @property
    def recoded(self) -> float:
        """Share of the codes that have their full length."""
        with self._codes.mutex:
            longer = self._codes.longer
            return 1.0 if longer is None else len(longer) / len(self)

    @property
    def short_ids(self) -> NDArray[np.int64]:
        """The ids of codes without their full length, ascending: those to `recode`."""
        return self._codes.short_ids()

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """The weights of the bits that searches use (read-only), or None."""
        weights = self._codes.state.weights
        if weights is None:
            return None
        view = weights.view()
        view.flags.writeable = False
        return view

    def __len__(self) -> int:
        return len(self._codes)

    def __contains__(self, id: object) -> bool:
        return id in self._codes

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    @property
    def nbytes(self) -> int:
        """Bytes of codes, ids, labels, cells, tables of buckets and bookkeeping, in memory or mapped."""
        with self._codes.mutex:
            longer = [] if self._codes.longer is None else self._codes.longer.segments()
            cells = self._codes.state.cells
            return sum(segment.nbytes for segment in (*self._segments(), *longer)) + (
                0 if cells is None else cells.nbytes
            )

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, ascending."""
        return self._codes.ids()

    @property
    def labels(self) -> NDArray[Any] | None:
        """The labels of all codes in the order of `ids`, or None if the index has none; sets if there are several."""
        return self._codes.labels()

    @property
    def label_names(self) -> list[Any] | None:
        """The distinct labels in the order in which they were added, or None if the index has none."""
        vocabulary = self._codes.state.vocabulary
        return None if vocabulary is None else list(vocabulary.values)

    def reconstruct(self, ids: ArrayLike) -> NDArray[np.uint8]:
        """Return the stored codes of ``ids``, in their order: (n, ceil(t/8)), t = ``n_bits``."""
        return self._codes.reconstruct(ids)

    def add(
        self,
        codes: ArrayLike,
        ids: ArrayLike | None = None,
        labels: Any = None,
        *,
        label_names: ArrayLike | None = None,
    ) -> NDArray[np.int64]:
        """Add codes and return their ids.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(full_n_bits / 8)), uint8
        ids : array-like of shape (n,), default=None
            Distinct integers >= 0 that are not stored; by default they continue from the largest ever stored.
        labels : array-like of shape (n,), or several per code, default=None
            Integers, strings or bools. Either all codes of an index have labels or none. Several labels per code are
            a list of lists or sets, or a 0/1 matrix (n, labels), dense or sparse; a code may then have none. From
            then on the labels of all codes are sets.
        label_names : array-like of shape (labels,), default=None
            The labels of the columns of a matrix; by default 0, 1, ...
        """
        if label_names is not None:
            labels = named_columns(labels, label_names)
        return self._codes.add(codes, ids, labels)

    def remove(self, ids: ArrayLike) -> None:
        """Remove ids, all of which must be stored."""
        self._codes.remove(ids)

    def lengthen(self, n_bits: int, weights: ArrayLike | None = None) -> None:
        """Begin to replace the codes by longer ones that start with the same bits, as `CBID.extend` makes them.

        Give the longer codes to `recode`, in any number of calls, with `save` in between if you like; `add` takes
        longer codes from now on. Until every code has its full length, searches compare the common prefix under the
        weights that the index has, and take queries of either length. Then codes and weights are replaced at once.
        `recoded` is the share that is done, and `short_ids` are the others.

        Parameters
        ----------
        n_bits : int
            The new length. The present length discards the longer codes: the index is as before.
        weights : array-like of shape (n_bits,), default=None
            Weights of the bits at the new length. None: plain Hamming distance.
        """
        with self._codes.mutex:
            state = self._codes.state
            n_bits = as_count(n_bits, "n_bits", at_least=state.n_bits)
            if state.weights is not None and state.weights.ndim == 2:
                raise ValueError("lengthen: this index has weights per class; expected one weight vector or none")
            checked = None if weights is None else as_weights(weights, n_bits)
            if checked is not None and checked.ndim == 2:
                raise ValueError(f"weights has shape {checked.shape}; expected ({n_bits},)")
            if state.longer is not None and n_bits > state.n_bits:
                raise ValueError(
                    f"n_bits={n_bits}: this index is being lengthened to {state.longer.n_bits} bits; recode all of "
                    f"`short_ids` first, or discard the longer codes with lengthen({state.n_bits})"
                )
            if self._method == "buckets" and n_bits > BUCKETS_UP_TO:
                raise ValueError(f"method='buckets' and n_bits={n_bits}: expected at most {BUCKETS_UP_TO} bits")
            self._codes.lengthen(n_bits, checked)

    def recode(self, codes: ArrayLike, ids: ArrayLike) -> None:
        """Store longer codes of stored ids; see `lengthen`.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(full_n_bits / 8)), uint8
            The first bits stay as they are stored. A code that differs there in more than one of 64 bits, which may
            come from rounding, belongs to another item and raises.
        ids : array-like of shape (n,)
            Distinct stored ids. Those recoded before are replaced.
        """
        self._codes.recode(codes, ids)

    # Search

    def search(
        self,
        codes: ArrayLike | None = None,
        k: int = 10,
        *,
        weighted: bool = True,
        labels: ArrayLike | None = None,
        match: str = "any",
        among: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        projections: ArrayLike | None = None,
        probes: int | None = None,
    ) -> Matches:
        """Return the ``k`` nearest stored codes of each query.

        Parameters
        ----------
        codes : array-like of shape (q, ceil(n_bits / 8)) or (ceil(n_bits / 8),), uint8
            The queries, or of ``full_n_bits`` while the index is being lengthened.
        k : int, default=10
            At most the size of the index, or 65,536. Missing places have id -1 and distance inf.
        weighted : bool, default=True
            False: plain Hamming distance.
        labels, among : array-like, default=None
            Return only codes with one of these labels, or one of these ids; unknown ones match nothing.
        match : {"any", "all", "branch"}, default="any"
            With ``labels``: codes that have one of them, all of them, or one of them or a path below it
            ("animal" also finds "animal/dog").
        weights : array-like of shape (n_bits,) or (q, n_bits), default=None
            Weights for this search, shared or per query, instead of those of the index.
        projections : array-like of shape (q, n_bits), default=None
            Real-valued queries instead of ``codes``: an asymmetric search (`Queries.from_projections`).
        probes : int, default=None
            IVF cells to scan, instead of the default of the index.
        """
        k = as_count(k, "k", at_most=max(len(self), _LARGEST_PADDED_K))
        state, stored = self._view()
        batch = self._batch(state, codes, projections, weights, weighted)
        segments = self._filtered(state, stored, labels, match, among, len(batch))
        cells = state.cells
        n_probes = self._n_probes(probes)
        best = Best(len(batch), k)
        if len(batch) and segments:
            if cells is None:
                method = self._exact_method(weights, labels, among)
                search_all(best, segments, batch.for_class, method=method, n_threads=self.n_threads)
            else:
                near = None  # all cells
                if n_probes < len(cells):
                    near = cells.nearest(batch.values(), n_probes, batch.mean_weights())
                search_cells(best, segments, batch.for_class, near, n_threads=self.n_threads)
        return Matches(best.ids, _unscaled(best.distances, batch.scale), _decoded(state, best.labels))

    def range_search(
        self,
        codes: ArrayLike | None = None,
        radius: float = 0.0,
        *,
        weighted: bool = True,
        labels: ArrayLike | None = None,
        match: str = "any",
        among: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        projections: ArrayLike | None = None,
        halvings: int = 0,
    ) -> RangeMatches:
        """Return all stored codes at distance <= ``radius`` of each query, exactly also with IVF; see `search`.

        With ``halvings``, return those in a random subset of the codes, which each halving makes half as large. It is
        drawn by a fixed function of the ids, so the order of the codes plays no part, and is kept for later searches.
        """
        limit = as_radius(radius)
        halvings = as_count(halvings, "halvings", at_least=0, at_most=63)
        state, stored = self._view()
        if halvings:
            stored = [subset for segment in stored if (subset := segment.thinned(halvings)) is not None]
        batch = self._batch(state, codes, projections, weights, weighted)
        limit = limit if batch.scale == 1 else as_radius(float(radius) * batch.scale)
        segments = self._filtered(state, stored, labels, match, among, len(batch))
        method = "scan" if halvings else self._exact_method(weights, labels, among)
        offsets, ids, distances, label_codes = search_within(
            segments, batch.for_class, len(batch), limit, method=method, n_threads=self.n_threads
        )
        return RangeMatches(offsets, ids, _unscaled(distances, batch.scale), _decoded(state, label_codes))

    def pairs(
        self,
        radius: float,
        *,
        weighted: bool = True,
        limit: int = 100_000_000,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Pairs:
        """Return all pairs of stored codes at distance <= ``radius``, exactly also with IVF: near-duplicates.

        The codes are searched in blocks, by buckets or by a scan of the codes that follow (see ``method``).

        Parameters
        ----------
        radius : float
        weighted : bool, default=True
            False: plain Hamming distance.
        limit : int, default=100,000,000
            Bounds the number of pairs held in memory: more raise a ValueError.
        checkpoint : path-like, default=None
            A file for the state of a long search. It is replaced atomically every half minute, and removed when the
            search is complete. If it exists, the search goes on from it; that of another search raises.
        """
        limit = as_count(limit, "limit")
        search, scale = self._pair_search(radius, weighted, checkpoint)
        found = near_pairs(search, limit=limit)
        return dataclasses.replace(found, distances=_unscaled(found.distances, scale))

    def groups(
        self, radius: float, *, weighted: bool = True, checkpoint: str | os.PathLike[str] | None = None
    ) -> list[DuplicateGroup]:
        """Return groups of codes connected by pairs at distance <= ``radius``, each with a representative.

        The representative has the most codes within the radius; ties go to the smallest id. Groups are ordered by
        their smallest id. ``checkpoint`` is that of `pairs`.
        """
        return duplicate_groups(self._pair_search(radius, weighted, checkpoint)[0])

    def neighbours(self, k: int = 10, *, checkpoint: str | os.PathLike[str] | None = None) -> "csr_array":
        """Return the k-NN graph: row i holds the distances of the k codes nearest to ``ids[i]``, without itself.

        Rows and columns are in the order of `ids`, and each row is ordered by (distance, id). Distance 0 is stored
        explicitly. The graph is exact also with IVF. ``checkpoint`` is that of `pairs`.
        """
        return neighbour_graph(self, as_count(k, "k"), checkpoint)

    def _pair_search(
        self, radius: float, weighted: bool, checkpoint: str | os.PathLike[str] | None
    ) -> tuple[PairSearch, float]:
        """Return the search for pairs, and the scale of its distances."""
        limit = as_radius(radius)
        with self._codes.mutex:
            state, ids = self._codes.state, self.ids
            codes = self.reconstruct(ids)
        weights = state.weights if weighted else None
        if weights is not None and weights.ndim == 2:
            raise ValueError(
                "weighted=True: with weights per class a distance depends on the direction; expected weighted=False"
            )
        scale = float32_scale(weights)
        if weights is not None and scale != 1:
            weights, limit = weights * scale, as_radius(float(radius) * scale)
        method = "auto" if self._method == "cells" else self._method
        return PairSearch(ids, codes, state.n_bits, weights, float(limit), method, checkpoint, self.n_threads), scale

    def _exact_method(self, weights: ArrayLike | None, labels: ArrayLike | None, among: ArrayLike | None) -> str:
        """The method of a search that is not by cells."""
        if weights is not None or self._method == "cells":  # one search is not worth an order of buckets
            return "scan"
        # A filter would distort what "auto" measures.
        return "scan" if self._method == "auto" and (labels is not None or among is not None) else self._method

    def _view(self) -> tuple[IndexState, list[Segment]]:
        """The state and its segments; a change of length replaces both."""
        with self._codes.mutex:
            segments = self._segments()
            return self._codes.state, segments

    def _batch(
        self,
        state: IndexState,
        codes: ArrayLike | None,
        projections: ArrayLike | None,
        weights: ArrayLike | None,
        weighted: bool,
    ) -> QueryBatch:
        if (codes is None) == (projections is None):
            raise ValueError("codes and projections: expected exactly one of them")
        if weights is not None and not weighted:
            raise ValueError("weights is given and weighted=False; expected only one of them")
        own = state.weights if weighted and weights is None else None
        n_bits, full = state.n_bits, None if state.longer is None else state.longer.n_bits
        if projections is not None:
            if full is not None and np.shape(projections)[-1:] == (full,):
                projections = np.asarray(projections)[..., :n_bits]
            return QueryBatch.from_projections(projections, n_bits, own, weights)
        assert codes is not None
        if full is not None and np.shape(codes)[-1:] == (n_bytes(full),):
            codes = prefix(as_codes(codes, full), n_bits)
        return QueryBatch.from_codes(as_codes(codes, n_bits), n_bits, own, weights)

    def _filtered(
        self,
        state: IndexState,
        segments: list[Segment],
        labels: ArrayLike | None,
        match: str,
        among: ArrayLike | None,
        n_queries: int,
    ) -> Filtered:
        label_codes = None
        if labels is None and match != "any":
            raise ValueError(f"match={match!r} is given without labels; expected labels too")
        if labels is not None:
            if state.vocabulary is None:
                raise ValueError("labels is given, but this index has no labels; expected None")
            label_codes = state.vocabulary.codes_of(labels, match)
        ids = None if among is None else as_ids(among, "among")
        return filtered(segments, label_codes, ids, n_queries)

    def _segments(self) -> list[Segment]:
        """The segments to search; trains the cells when there are enough codes."""
        with self._codes.mutex:
            cells, trained = self.cells, self._codes.state.cells
            if cells is not None and trained is None and len(self) >= CODES_PER_CELL * cells:
                self.train()
            return self._codes.segments()

    # IVF

    @property
    def cells(self) -> int | None:
        """Number of IVF cells, or None when every search scans all codes."""
        return self._codes.state.n_cells

    @property
    def probes(self) -> int:
        """IVF cells that a search scans; can be set."""
        return self._codes.state.probes

    @probes.setter
    def probes(self, value: int) -> None:
        self._codes.state.probes = self._n_probes(value)
        self._codes.changed = True

    def _n_probes(self, probes: int | None) -> int:
        if probes is None:
            return self.probes
        if self.cells is None:
            raise ValueError(f"probes={probes}: this index has no cells; expected None")
        return as_count(probes, "probes", at_most=self.cells)

    def train(self, codes: ArrayLike | None = None) -> None:
        """Train the IVF cells on packed codes (default: the stored ones), and sort the stored codes into them."""
        if self.cells is None:
            raise ValueError("train: this index has no cells; create it with CodeIndex(..., cells=4096)")
        with self._codes.mutex:
            n_sampled = SAMPLE_PER_CELL * self.cells
            sample = self._codes.sample(n_sampled) if codes is None else as_codes(codes, self.n_bits)
            weights = self._codes.state.weights
            per_bit = weights.mean(axis=1) if weights is not None and weights.ndim == 2 else weights
            self._codes.use_cells(Cells.train(sample, self.n_bits, self.cells, per_bit))

    def probes_to_reach(
        self, ids: NDArray[np.int64], codes: ArrayLike | None = None, *, projections: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Return with how many probes a search of query i scans the stored code ids[i, j]: (q, m); 0 if all do.

        The queries are those of `search`. Ids that are not stored, such as -1, count as 0.
        """
        state, stored = self._view()
        batch = self._batch(state, codes, projections, None, True)
        if state.cells is None:
            return np.zeros(ids.shape, np.int64)
        nearest = state.cells.nearest(batch.values(), len(state.cells), batch.mean_weights())
        place = np.empty_like(nearest)
        np.put_along_axis(place, nearest, np.arange(1, len(state.cells) + 1)[None], axis=1)
        distinct, at = np.unique(ids, return_inverse=True)
        cells = np.full(len(distinct), ANY)
        for segment in stored:
            found, positions = segment.positions_of(distinct)
            cells[found] = segment.cells_at(positions)
        own = cells[at.reshape(ids.shape)]
        return np.where(own == ANY, 0, np.take_along_axis(place, np.maximum(own, 0), axis=1))

    def measure_recall(self, sample: ArrayLike | int = 100, k: int = 10, *, probes: int | None = None) -> float:
        """Return the share of the exact ``k`` nearest that a search with ``probes`` cells finds; 1 without cells.

        ``sample`` holds packed queries, or says how many stored codes to use as queries. Each of these finds
        itself, so the recall of real queries is slightly lower. A code as near as the k-th exact one counts as found.
        """
        if isinstance(sample, int | np.integer):
            queries = self._codes.sample(as_count(sample, "sample"))
        else:
            queries = as_codes(sample, self.n_bits)
        if len(queries) == 0 or len(self) == 0:
            raise ValueError(
                f"sample has {len(queries)} queries for {len(self)} codes; expected at least one of each"
            )
        found = self.search(queries, k, probes=probes)
        exact = self.search(queries, k, probes=self.cells)
        wanted = np.count_nonzero(exact.ids >= 0)
        furthest = np.where(exact.ids >= 0, exact.distances, -1).max(axis=1, keepdims=True)
        return float(np.count_nonzero((found.ids >= 0) & (found.distances <= furthest)) / wanted)

    # On disk

    @property
    def attached(self) -> Attached | None:
        """What the owner of this index has attached, or None."""
        return self._codes.state.attached

    def attach(self, values: dict[str, Any], files: dict[str, AttachedFile]) -> None:
        """Commit JSON values and files together with the codes at the next `save`; for classes that own an index."""
        with self._codes.mutex:
            self._codes.state.attached = Attached(values, files)
            self._attachment_is_current = self._codes.changed = True

    @property
    def path(self) -> Path | None:
        """The directory that `save` commits to, or None."""
        return None if self._store is None else self._store.directory

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        writable: bool = False,
        verify: bool = False,
        n_threads: int | None = None,
        method: str | None = None,
    ) -> Self:
        """Map a saved index; codes are read only when needed.

        Parameters
        ----------
        path : path-like
            The directory of the index.
        writable : bool, default=False
            Take the writer lock and hold it until `close`. Otherwise `save` takes it only during the commit, and
            raises `IndexConflictError` if another writer has committed in between.
        verify : bool, default=False
            Read all files and compare their checksums. Sizes and the manifest are always checked.
        n_threads : int, default=None
            Threads of a search; None uses all processors.
        method : {"auto", "scan", "buckets", "cells"}, default=None
            How to search, as in the constructor; it is not stored.
        """
        index = cls.__new__(cls)
        index.n_threads = None if n_threads is None else as_count(n_threads, "n_threads")
        index._store = store = IndexStore(Path(path))
        if writable:
            store.acquire()
        try:
            index._codes = CodeCollection(store.read())
            if verify:
                store.verify()
            index._method = index._checked_method(method)
        except BaseException:
            store.close()
            raise
        index._attachment_is_current = index._codes.changed = False
        return index

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Commit to a directory atomically: a process killed at any moment leaves the old state or the new one.

        Parameters
        ----------
        path : path-like, default=None
            By default the directory that the index was opened from or first saved to; only changes are written.
            Another path gets a complete copy. An index that exists there is replaced; any other content raises.

        Readers in other processes keep the state they have open until they `refresh`.
        """
        with self._codes.mutex:
            if path is None and self._store is None:
                raise ValueError("path=None: this index was never opened or saved; expected a directory")
            self._segments()  # trains the cells when there are enough codes
            state = self._codes.snapshot()
            if state.attached is not None and not self._attachment_is_current:
                raise ValueError("save: this directory holds a VectorIndex; change it through VectorIndex.open")
            with deferred_signals("the index was saved before this error"):
                if self._store is None or (path is not None and not _same(path, self._store.directory)):
                    assert path is not None
                    store = IndexStore(Path(path))
                    if self._store is not None:
                        store.commit(state.unnamed())
                        return
                else:
                    store = self._store
                try:
                    store.commit(state, changed=self._codes.changed)
                finally:
                    if store.is_committed:  # also if an error followed the commit
                        self._store, self._codes.changed, self._attachment_is_current = store, False, False

    @property
    def is_saved(self) -> bool | None:
        """Whether the directory holds what the index holds; None if an error left this unknown."""
        if self._store is None:
            return False
        return None if self._store.is_committed is None else not self._codes.changed

    def refresh(self) -> bool:
        """Load what other processes have committed; return whether anything changed."""
        with self._codes.mutex:
            store = self._stored("refresh")
            if not store.changed():
                return False
            if self._codes.changed:
                raise ValueError("refresh: this index has unsaved changes; open the directory again to see both")
            self._codes.load(store.read())
            return True

    def verify(self) -> None:
        """Read every committed file and compare its checksum; raise `IndexCorruptError` if one differs."""
        self._stored("verify").verify()

    def close(self) -> None:
        """Release the writer lock; unsaved changes stay in memory."""
        if self._store is not None:
            self._store.close()

    def _stored(self, action: str) -> IndexStore:
        if self._store is None:
            raise ValueError(f"{action}: this index was never opened or saved")
        return self._store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        with self._codes.mutex:
            return copy.deepcopy(self)  # removals change segments, so two indexes cannot share them

    def __getstate__(self) -> dict[str, Any]:
        # Copies within a program (joblib, deepcopy) hold the codes, but no directory.
        return {**self.__dict__, "_store": None}


def _decoded(state: IndexState, label_codes: NDArray[np.int64]) -> NDArray[Any] | None:
    return None if state.vocabulary is None else state.vocabulary.decode(label_codes)


def _unscaled(distances: NDArray[np.float32], scale: float) -> NDArray[np.float32]:
    return distances if scale == 1 else (distances / np.float64(scale)).astype(np.float32)


def _same(a: str | os.PathLike[str], b: Path) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)
