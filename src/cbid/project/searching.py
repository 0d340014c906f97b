"""Questions to a project: codes of images, the nearest ones, their classes, and why."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbid.checks import check_choice, check_integer
from cbid.classify.knn import count_votes
from cbid.codes import check_codes, n_bytes, unpack
from cbid.data.decode import decode_image
from cbid.project.answers import BitSides, Explanation, ProjectMatches, Votes, nearest_vectors
from cbid.project.errors import ProjectError
from cbid.project.evaluating import evaluate
from cbid.project.opened import Opened, State
from cbid.project.prefixes import weights_of
from cbid.search import CodeIndex

if TYPE_CHECKING:
    from cbid.search.milvus import MilvusStore

__all__ = ["HOW", "NO_LABELS", "Searchable"]

HOW = ("weighted", "plain", "raw")
NO_LABELS = "the images have no labels"
_MOST_WEIGHTS = 64  # lengths whose weights are kept
_CERTAIN = 5_000  # images among which the most certain ones of a bit are looked for


class Searchable(Opened):
    """An opened project that answers."""

    # From images to codes

    def describe_image(self, image: "bytes | ArrayLike") -> NDArray[np.float32]:
        """The vector (d,) of an image: an array, a Pillow image, or the bytes of a file."""
        descriptor = self.descriptor
        if descriptor is None:
            raise ValueError("the project was made from vectors and has no descriptor; give vectors")
        array = decode_image(image) if isinstance(image, bytes) else np.asarray(image)
        return _as_vectors(self._state, descriptor.describe(array))[0]

    def encode(self, vectors: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes (n, ceil(n_bits/8)) of vectors (n, d), or of one (d,)."""
        return _as_codes(self._state, np.asarray(vectors, dtype=np.float32))

    # Searching

    def search(
        self,
        codes_or_vectors: ArrayLike,
        k: int = 10,
        *,
        n_bits: int | None = None,
        how: str = "weighted",
        exclude: int | Sequence[int] | None = None,
        label: str | None = None,
    ) -> ProjectMatches:
        """The k nearest images of each query: packed codes (uint8) or vectors, (q, ...) or one alone.

        n_bits : only the first bits of the codes, under the weights that were fitted at that length
        how : "weighted" or "plain" Hamming distance, or "raw": Euclidean distance of the vectors themselves
        exclude : ids that are not to be found, such as that of the query
        label : only images of this class
        """
        check_choice("how", how, HOW)
        check_integer("k", k, 1)
        state = self._state
        left_out = _as_ids(exclude)
        queries = np.asarray(codes_or_vectors)
        begun = time.perf_counter()
        if how == "raw":
            if queries.dtype == np.uint8:
                raise ValueError("how='raw' compares vectors; codes were given")
            if n_bits is not None:
                raise ValueError("how='raw' compares vectors; it takes no n_bits")
            return self._search_raw(state, _as_vectors(state, queries), k, left_out, label, begun)
        length = self._length(state, n_bits)
        labels = None if label is None else [label]
        codes, weights = _as_codes(state, queries), _weights(state, length, how)
        ids, distances, names = self._nearest(state, codes, k, weights, left_out, labels)
        return ProjectMatches(ids, distances, names, time.perf_counter() - begun, n_bytes(length))

    def search_in(self, store: "MilvusStore") -> None:
        """From now on searches by code ask this store, which holds the project's codes (``cbid index --to``)."""
        self._store = store
        self._searched(self._state)

    def _searched(self, state: State) -> "CodeIndex | MilvusStore":
        """What is asked: the project's index, or a store, as long as it holds codes of the project's coder."""
        if self._store is None:
            return state.index
        if state.digest is None:
            from cbid.storage.models import model_digest

            state.digest = model_digest(state.coder)
        if self._store.made_by != state.digest:
            raise ProjectError(
                f"{self._store.address} holds codes of another fit than {self.path}; send them again: cbid index --to"
            )
        return self._store

    def _length(self, state: State, n_bits: int | None) -> int:
        whole = state.coder.n_bits_
        if self._store is not None and n_bits is not None and n_bits != whole:
            raise ValueError(f"n_bits={n_bits}: Milvus compares whole codes: give {whole}")
        return whole if n_bits is None else n_bits

    def _nearest(
        self,
        state: State,
        codes: NDArray[np.uint8],
        k: int,
        weights: NDArray[np.float64],
        left_out: NDArray[np.int64],
        labels: list[str] | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.str_]]:
        """Ids, distances and labels (q, k) of the nearest codes that are not left out."""
        found = self._searched(state).search(codes, k + len(left_out), weights=weights, labels=labels)
        assert found.labels is not None
        if not len(left_out):
            return found.ids, found.distances, found.labels
        # A stable sort brings what is left out to the end; some of it may still be there where few were found.
        order = np.argsort(np.isin(found.ids, left_out), axis=1, kind="stable")[:, :k]
        ids, distances, names = (
            np.take_along_axis(a, order, axis=1) for a in (found.ids, found.distances, found.labels)
        )
        gone = np.isin(ids, left_out)
        return np.where(gone, -1, ids), np.where(gone, np.float32(np.inf), distances), np.where(gone, "", names)

    def _search_raw(
        self,
        state: State,
        queries: NDArray[np.float32],
        k: int,
        left_out: NDArray[np.int64],
        label: str | None,
        begun: float,
    ) -> ProjectMatches:
        ids, labels = state.ids_and_labels()[:2]
        keep = ~np.isin(ids, left_out) if len(left_out) else np.ones(len(ids), dtype=bool)
        if label is not None:
            keep &= labels == label
        at, near = nearest_vectors(queries, self._vectors(state, ids[keep]), ids[keep], k)
        found, distances = (
            np.full((len(queries), k), -1, dtype=np.int64),
            np.full((len(queries), k), np.inf, np.float32),
        )
        found[:, : at.shape[1]], distances[:, : at.shape[1]] = at, near
        names = np.full(found.shape, "", dtype=labels.dtype)
        names[:, : at.shape[1]] = labels[np.searchsorted(ids, at)]
        return ProjectMatches(found, distances, names, time.perf_counter() - begun, 4 * self.n_features)

    def weights(self, n_bits: int, how: str = "weighted") -> NDArray[np.float64]:
        """Weights (self.n_bits,) of a search with the first ``n_bits`` bits; zero past them."""
        return _weights(self._state, n_bits, how)

    def classify(
        self, codes: ArrayLike, k: int = 5, n_bits: int | None = None, *, exclude: int | Sequence[int] | None = None
    ) -> Votes:
        """The class that wins the vote of the k nearest labelled images, and all votes; codes may be vectors."""
        state = self._state
        stored = state.ids_and_labels()
        classes = stored.classes
        if not classes:
            raise ValueError(f"{NO_LABELS}; there is nothing to classify by")
        check_integer("k", k, 1)
        length = self._length(state, n_bits)
        ids, distances, labels = self._nearest(
            state,
            _as_codes(state, np.asarray(codes)),
            k,
            _weights(state, length, "weighted"),
            _as_ids(exclude),
            None if stored.labelled else classes,
        )
        names = np.array(classes)
        numbers = np.where(ids < 0, len(names), np.searchsorted(names, labels) % len(names))
        votes = count_votes(distances.astype(np.float64), numbers, len(names) + 1, "uniform")[:, :-1]
        return Votes(np.where(votes.any(axis=1), names[votes.argmax(axis=1)], ""), votes)

    def explain(self, code_a: ArrayLike, code_b: ArrayLike, n_bits: int | None = None) -> Explanation:
        """Whether two codes agree in each bit, and what it weighs; where they do not, the weights add up to the
        weighted distance."""
        length = self.n_bits if n_bits is None else n_bits
        weight = self.weights(length)[:length]
        a, b = (
            unpack(check_codes(np.asarray(code), self.n_bits)[0], self.n_bits)[:length] for code in (code_a, code_b)
        )
        return Explanation(a == b, weight.copy())

    def bit(self, s: int, count: int = 24) -> BitSides:
        """The images on the two sides of bit s (from 0), most certain first: furthest from where the bit turns.

        Looked for among up to 5,000 images, drawn once.
        """
        check_integer("s", s, 0, self.n_bits - 1)
        check_integer("count", count, 1)
        state = self._state
        kept = state.certain
        if kept is None or kept[0] != state.changes:
            changes, ids = state.changes, self.ids
            if len(ids) > _CERTAIN:
                ids = np.sort(np.random.default_rng(0).choice(ids, _CERTAIN, replace=False))
            values = state.coder.project(self._vectors(state, ids)[ids])
            kept = state.certain = changes, ids, values.astype(np.float32)
        _, ids, values = kept
        order = np.argsort(values[:, s], kind="stable")
        negative, positive = order[values[order, s] < 0], order[values[order, s] >= 0][::-1]
        return BitSides(ids[negative[:count]], ids[positive[:count]])

    def evaluate(self, vectors: ArrayLike, labels: Sequence[str | None]) -> dict[str, Any]:
        """What ``evaluation`` tells, with "confusion", measured by other images than those held out.

        vectors : (n, d) of images that are not in the project; labels : (n,), None where there is none
        """
        queries = _as_vectors(self._state, vectors)
        if len(labels) != len(queries):
            raise ValueError(f"labels has {len(labels)} entries for {len(queries)} vectors; each takes one")
        state = self._state
        ids, names = state.ids_and_labels()[:2]
        return evaluate(
            (queries, self.encode(queries), np.array([label or "" for label in labels])),
            (self._vectors(state, ids)[ids], state.index.reconstruct(ids), names),
            n_bits=self.n_bits,
            lengths=self.lengths,
            weights=self.weights,
        )


def _as_vectors(state: State, vectors: ArrayLike) -> NDArray[np.float32]:
    array = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    width = state.manifest.n_features
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"vectors has shape {array.shape}; vectors of {width} values are accepted")
    if not np.isfinite(array).all():
        raise ValueError("vectors has values that are not finite")
    return array


def _as_codes(state: State, queries: NDArray[Any]) -> NDArray[np.uint8]:
    if queries.dtype == np.uint8:
        return check_codes(queries, state.coder.n_bits_)
    return state.coder.encode(_as_vectors(state, queries))


def _weights(state: State, n_bits: int, how: str) -> NDArray[np.float64]:
    key = (n_bits, how)
    weights = state.weights.get(key)
    if weights is None:
        weights = weights_of(state.coder, n_bits, how)
        if len(state.weights) >= _MOST_WEIGHTS:  # whoever asks for every length does not fill the memory
            state.weights.clear()
        state.weights[key] = weights
    return weights


def _as_ids(exclude: int | Sequence[int] | None) -> NDArray[np.int64]:
    return np.unique(np.atleast_1d(np.asarray([] if exclude is None else exclude, dtype=np.int64)))
