"""CodeIndex: codes with ids and labels, and the exact nearest of them under weighted Hamming distance."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.codes import check_n_bits
from cbid.search.checks import as_codes, as_count, as_ids, as_radius, as_weights
from cbid.search.collection import Collection
from cbid.search.durable import Durable
from cbid.search.filters import selected
from cbid.search.ivf import CODES_PER_CELL, SAMPLE_PER_CELL, Cells
from cbid.search.matches import Matches, RangeMatches
from cbid.search.nearest import Best, search_all, search_cells, search_within
from cbid.search.query_side import QuerySide
from cbid.search.segments import Segment
from cbid.search.store import State
from cbid.search.vocabulary import Vocabulary

__all__ = ["CodeIndex"]

# A search for more neighbours than there are codes pads its answer, up to so many places: any number would take the
# memory of the machine for nothing.
_MOST_PADDED = 1 << 16


class CodeIndex(Durable):
    """Packed codes of ``n_bits`` with 64-bit ids, searched exactly under d(q, h) = sum_s w_s [q_s != h_s].

    Parameters
    ----------
    n_bits : int
    weights : None, (n_bits,) or (n_bits, n_classes), non-negative
        None: plain Hamming. Two-dimensional: one vector per class of the stored item; labels are then needed.
    classes : (n_classes,), default 0 to n_classes - 1
        The label that each column of two-dimensional weights belongs to (``coder.classes_``).
    n_threads : int, default all
    cells : int, optional
        IVF: codes are grouped into so many cells, and a search scans the ``probes`` cells nearest to its
        query. What is found is then right but may be incomplete; see `measure_recall`. Cells are trained by
        `train`, or at the first search or save that meets 40 codes a cell; until then, searches are exact.
    probes : int, default a 32nd of the cells

    Ids are distinct; adding one that is stored is an error, and an error changes nothing. Searches from
    several threads are safe, also while one adds or removes. Results: `Matches`, ties by smaller id.

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
                    f"classes has {len(vocabulary)} names; weights has {checked.shape[1]} columns, one each"
                )
        elif classes is not None:
            raise ValueError(
                "classes is given, but weights is not (n_bits, n_classes); it names the columns of these"
            )
        n_cells = None if cells is None else as_count(cells, "cells", at_least=2)
        if n_cells is None and probes is not None:
            raise ValueError(
                f"probes is {probes}, but cells is None; probes belongs to IVF, CodeIndex(..., cells=4096)"
            )
        n_probes = 0 if n_cells is None else max(n_cells // 32, 1)
        if n_cells is not None and probes is not None:
            n_probes = as_count(probes, "probes", at_most=n_cells)
        super().__init__(State(n_bits, checked, vocabulary, 0, n_cells, n_probes, None, []))
        self.n_threads = None if n_threads is None else as_count(n_threads, "n_threads")

    def __repr__(self) -> str:
        parts = [f"n_bits={self.n_bits}", f"{len(self)} codes"]
        if self.cells is not None:
            parts.append(f"cells={self.cells}, probes={self.probes}")
        return f"CodeIndex({', '.join(parts)})"

    @property
    def cells(self) -> int | None:
        """The number of IVF cells, or None when every search scans everything."""
        return self._state.n_cells

    @property
    def probes(self) -> int:
        """Cells that a search scans in IVF mode; may be set."""
        return self._state.probes

    @probes.setter
    def probes(self, value: int) -> None:
        if self.cells is None:
            raise ValueError("probes belongs to IVF; this index has no cells")
        self._state.probes = as_count(value, "probes", at_most=self.cells)
        self._dirty = True

    # Searching

    def search(
        self,
        codes: ArrayLike | None = None,
        k: int = 10,
        *,
        weighted: bool = True,
        labels: ArrayLike | None = None,
        among: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        projections: ArrayLike | None = None,
        probes: int | None = None,
    ) -> Matches:
        """The ``k`` nearest stored codes of each query (q, ceil(t/8)), or of one query (ceil(t/8),). Where there are
        fewer, ids are -1 and distances inf; so ``k`` may be as large as the index, or 65,536.

        ``weighted=False``: plain Hamming distance. ``weights``: others than the index's own, (t,) or one
        vector per query (q, t). ``projections`` (q, t), instead of codes: the real-valued query side of an
        asymmetric search (`Queries.from_projections`). ``labels``, ``among``: only codes with one of these
        labels, or one of these ids; those that are not stored match nothing. ``probes``: IVF cells to scan,
        instead of the index's own number.
        """
        k = as_count(k, "k")
        if k > max(len(self), _MOST_PADDED):
            raise ValueError(f"k is {k}; the index has {len(self)} codes, and at most {_MOST_PADDED} is accepted")
        asking = self._asking(codes, projections, weights, weighted)
        segments = self._selected(labels, among, len(asking))
        cells = self._levels.cells
        n_probes = self._n_probes(probes)
        best = Best(len(asking), k)
        if len(asking) and segments:
            if cells is None:
                search_all(best, segments, asking.queries_of, n_threads=self.n_threads)
            else:
                near = None  # all of them
                if n_probes < len(cells):
                    near = cells.nearest(asking.values(), n_probes, asking.mean_weights())
                search_cells(best, segments, asking.queries_of, near, n_threads=self.n_threads)
        return Matches(best.ids, best.distances, self._decoded(best.labels))

    def range_search(
        self,
        codes: ArrayLike | None = None,
        radius: float = 0.0,
        *,
        weighted: bool = True,
        labels: ArrayLike | None = None,
        among: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        projections: ArrayLike | None = None,
    ) -> RangeMatches:
        """All stored codes at distance <= ``radius`` of each query; exact also in IVF mode. See `search`."""
        limit = as_radius(radius)
        asking = self._asking(codes, projections, weights, weighted)
        segments = self._selected(labels, among, len(asking))
        offsets, ids, distances, label_codes = search_within(
            segments, asking.queries_of, len(asking), limit, n_threads=self.n_threads
        )
        return RangeMatches(offsets, ids, distances, self._decoded(label_codes))

    def _asking(
        self,
        codes: ArrayLike | None,
        projections: ArrayLike | None,
        weights: ArrayLike | None,
        weighted: bool,
    ) -> QuerySide:
        if (codes is None) == (projections is None):
            raise ValueError("codes and projections: exactly one of them is given to a search")
        if weights is not None and not weighted:
            raise ValueError("weights is given and weighted is False; a search takes one or the other")
        own = self._state.weights if weighted and weights is None else None
        if projections is not None:
            return QuerySide.soft(projections, self.n_bits, own, weights)
        assert codes is not None
        return QuerySide.hard(as_codes(codes, self.n_bits), self.n_bits, own, weights)

    def _selected(
        self, labels: ArrayLike | None, among: ArrayLike | None, n_queries: int
    ) -> list[tuple[Segment, NDArray[np.uint8] | None]]:
        label_codes = None
        if labels is not None:
            if self._state.vocabulary is None:
                raise ValueError("labels is given, but this index holds no labels to filter by")
            label_codes = self._state.vocabulary.codes_of(labels)
        ids = None if among is None else as_ids(among, "among")
        return selected(self._segments(), label_codes, ids, n_queries)

    def _decoded(self, label_codes: NDArray[np.int64]) -> NDArray[Any] | None:
        vocabulary = self._state.vocabulary
        return None if vocabulary is None else vocabulary.decode(label_codes)

    # IVF

    def train(self, codes: ArrayLike | None = None) -> None:
        """Train the IVF cells on packed codes (default: those stored), and put what is stored into them."""
        if self.cells is None:
            raise ValueError("train belongs to IVF; this index has no cells: CodeIndex(..., cells=4096)")
        with self._mutex:
            sample = self._sample(SAMPLE_PER_CELL * self.cells) if codes is None else as_codes(codes, self.n_bits)
            weights = self._state.weights
            per_bit = weights.mean(axis=1) if weights is not None and weights.ndim == 2 else weights
            cells = Cells.train(sample, self.n_bits, self.cells, per_bit)
            self._levels.use_cells(cells)
            self._state.cells = cells
            self._dirty = True

    def _segments(self) -> list[Segment]:
        with self._mutex:
            untrained = self.cells is not None and self._levels.cells is None
            if untrained and self.cells is not None and len(self) >= CODES_PER_CELL * self.cells:
                self.train()
            return super()._segments()

    def measure_recall(self, sample: ArrayLike | int = 100, k: int = 10, *, probes: int | None = None) -> float:
        """The share of the exact ``k`` nearest that a search with ``probes`` cells finds; 1 without cells.

        ``sample``: packed queries, or how many stored codes to take as such (each then finds itself, so with
        real queries the recall is a little lower). A code as near as the k-th exact one counts as found.
        """
        if isinstance(sample, int | np.integer):
            queries = self._sample(as_count(sample, "sample"))
        else:
            queries = as_codes(sample, self.n_bits)
        if len(queries) == 0 or len(self) == 0:
            raise ValueError(f"sample has {len(queries)} queries for {len(self)} codes; recall takes some of both")
        found = self.search(queries, k, probes=probes)
        exact = self.search(queries, k, probes=self.cells)
        wanted = np.count_nonzero(exact.ids >= 0)
        furthest = np.where(exact.ids >= 0, exact.distances, -1).max(axis=1, keepdims=True)
        return float(np.count_nonzero((found.ids >= 0) & (found.distances <= furthest)) / wanted)

    def _sample(self, n: int) -> NDArray[np.uint8]:
        """Up to ``n`` stored codes, drawn at random, the same ones every time."""
        with self._mutex:
            segments = Collection._segments(self)
        sizes = np.array([segment.n_live for segment in segments], dtype=np.int64)
        drawn = np.random.default_rng(0).choice(sizes.sum(), min(n, int(sizes.sum())), replace=False)
        edges = np.concatenate([[0], np.cumsum(sizes)])
        parts = [
            segment.rows(segment.live()[np.sort(drawn[(drawn >= first) & (drawn < last)] - first)]).codes
            for segment, first, last in zip(segments, edges[:-1], edges[1:])
        ]
        return np.concatenate(parts) if parts else as_codes([], self.n_bits)

    def _n_probes(self, probes: int | None) -> int:
        if probes is None:
            return self.probes
        if self.cells is None:
            raise ValueError(f"probes is {probes}, but this index has no cells; every search is exact")
        return as_count(probes, "probes", at_most=self.cells)
