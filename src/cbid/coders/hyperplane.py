"""Base class of coders whose bits are hyperplanes, over X or over similarities to anchors."""

import os
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cbid.checks import as_random_state, check_arrays, check_integer, check_real
from cbid.coders.base import Coder
from cbid.coders.onnx_file import OnnxGraph, write_onnx
from cbid.learning.features import Anchors, fit_anchors

Array = NDArray[np.floating]
MOST_BITS = 65_536


class HyperplaneCoder(Coder):
    """Bit s is sign(coef_s . f(x) + intercept_s), where f(x) is x, or its similarities to m anchors a.

    Attributes
    ----------
    coef_, intercept_ : (n_bits_, d) or (n_bits_, m), and (n_bits_,)
    mean_ : (d,) or (m,)
        The mean of f(x) over the training samples; products are computed around it, where float32 is most precise.
    anchors_, gamma_ : (m, d) and float
        Only if f(x) are similarities.
    """

    _ARRAYS = frozenset({"coef_", "intercept_", "mean_", "anchors_"})
    _VALUES = Coder._VALUES | {"gamma_"}
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    mean_: NDArray[np.float64]
    anchors_: Array
    gamma_: float

    def _set_hyperplanes(
        self, directions: Array, offsets: Array | float, mean: NDArray[np.float64], anchors: Anchors | None = None
    ) -> Self:
        """Set the bits sign((f(x) - mean) . directions + offsets) with directions (m, t) and offsets (t,)."""
        self.coef_ = np.ascontiguousarray(directions.T, dtype=np.float64)
        self.mean_ = np.asarray(mean, dtype=np.float64)
        self.intercept_ = np.broadcast_to(offsets, len(self.coef_)) - self.coef_ @ self.mean_
        self.n_bits_ = len(self.coef_)
        if anchors is not None:
            self.anchors_, self.gamma_ = anchors.points, anchors.gamma
        elif hasattr(self, "anchors_"):  # of an earlier fit
            del self.anchors_, self.gamma_
        return self

    def _anchors(self) -> Anchors:
        """Return the similarities that hyperplanes see."""
        return Anchors(self.anchors_, self.gamma_, getattr(self, "kernel_", "rbf"))

    def _width(self) -> int:
        return max(super()._width(), self.coef_.shape[1])

    def _project(self, X: Array) -> Array:
        if hasattr(self, "anchors_"):
            F: Array = self._anchors()(X)
            F -= self.mean_.astype(F.dtype)
        else:
            F = X - self.mean_.astype(X.dtype)
        values = F @ self.coef_.T.astype(F.dtype)
        values += (self.intercept_ + self.coef_ @ self.mean_).astype(F.dtype)
        return values

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        network: str | os.PathLike[str] | None = None,
        output: str | None = None,
    ) -> None:
        """Write the coder to an ONNX file whose output equals ``encode``.

        Alone, the graph has the input ``X``, float32 (n, n_features_in_), and opset 17. Behind a network it has the
        inputs and the opset of the network. The output is ``codes`` (``cbid/codes`` if the network uses that name),
        uint8 (n, ceil(n_bits_ / 8)), in the order of ``numpy.packbits``. A bit may differ from ``encode`` only if the
        projection is zero up to rounding.

        Parameters
        ----------
        path : path
            The file to write. It is complete or absent.
        network : path, default=None
            An ONNX file of opset 13 or newer whose output (n, n_features_in_) the coder reads.
        output : str, default=None
            Name of that output, if the network has several.
        """
        check_is_fitted(self)
        write_onnx(self, path, network=network, output=output)

    def _onnx_values(self, graph: OnnxGraph, X: str) -> str:
        """Add `_project` to a graph and return the name of its values."""
        kinds, n_shares = [X], len(getattr(self, "class_coef_", ()))
        if hasattr(self, "anchors_"):
            # Bits of likeness see X in addition to the similarities.
            beside = kinds if self.coef_.shape[1] - n_shares > len(self.anchors_) else []
            kinds = [graph.similarities(X, self.anchors_, self.gamma_, self._anchors().kernel), *beside]
        if n_shares:
            kinds.append(graph.shares(X, self.class_mean_, self.class_coef_, self.class_intercept_))
        features = kinds[0] if len(kinds) == 1 else graph.add("Concat", *kinds, axis=1)
        offset = self.intercept_ + self.coef_ @ self.mean_
        centred = graph.add("Sub", features, self.mean_.astype(np.float32))
        product = graph.add("MatMul", centred, self.coef_.T.astype(np.float32))
        return graph.add("Add", product, offset.astype(np.float32))

    def _check_state(self) -> None:
        check_integer("n_bits_", self.n_bits_, 1, MOST_BITS)
        t, m = self.n_bits_, len(self.mean_)
        expected = {"coef_": (t, m), "intercept_": (t,), "mean_": (m,)}
        if hasattr(self, "anchors_"):
            expected["anchors_"] = (m, self.n_features_in_)
            check_real("gamma_", self.gamma_, 0, open_below=True)
        elif m != self.n_features_in_:
            raise ValueError(f"mean_ has {m} values for {self.n_features_in_} features")
        check_arrays(self, expected)


def generator(random_state: object) -> np.random.Generator:
    """Return a generator for a ``random_state`` as scikit-learn accepts it."""
    return np.random.default_rng(as_random_state(random_state).randint(2**31 - 1))


def kernel_features(
    X: Array, *, kernel: str | None, n_anchors: int, gamma: float | None, rng: np.random.Generator
) -> tuple[Anchors | None, Array]:
    """Return anchors drawn from X and the similarities of X to them; None and X itself without a kernel."""
    if kernel is None:
        return None, X
    anchors = fit_anchors(X, n_anchors=n_anchors, gamma=gamma, rng=rng)
    return anchors, anchors(X)
