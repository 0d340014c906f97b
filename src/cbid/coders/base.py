"""The base class of coders: a scikit-learn transformer from vectors to bits, with packed codes and model files."""

import copy
import os
from abc import abstractmethod
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid import codes
from cbid.checks import unchanged_on_error
from cbid.storage.models import Saved, load_from

_CHUNK_BYTES = 64 * 2**20


class Coder(Saved, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of all coders. A subclass learns in ``fit``, sets ``n_bits_`` and implements ``_project``.

    The state of a fitted coder is its attributes that end in an underscore (``Saved``); ``_ARRAYS`` and ``_VALUES``
    name those that a model file may set.
    """

    n_bits_: int
    _VALUES: frozenset[str] = frozenset({"n_bits_", "n_features_in_", "feature_names_in_"})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # A fit that fails, also one that continues another, leaves the coder as it was.
        for name in {"extend", "fit", "fit_pairs", "fit_triplets"} & set(vars(cls)):
            setattr(cls, name, unchanged_on_error(vars(cls)[name]))
        super().__init_subclass__(**kwargs)

    @abstractmethod
    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return real values (n, n_bits_) whose signs are the bits."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_bits_")  # during a fit only X has been checked

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the representations of scikit-learn; in a notebook with what the fit has chosen."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._learned_html()
        return bundle

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_().get("text/html", "")

    def _learned_html(self) -> str:
        """Return a table of the scalars that were learned or chosen: bits, values, kernel, likeness."""
        names = ("n_bits_", "n_features_in_", "kernel_", "likeness_")
        learned = {name: value for name in names if (value := getattr(self, name, None)) is not None}
        if not learned or not hasattr(self, "n_bits_"):
            return ""
        cells = "".join(f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>" for name, value in learned.items())
        return f"<table>{cells}</table>"

    def project(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the real values (n, n_bits_) whose signs are the bits, in the scale of the coder."""
        return np.concatenate([self._project(part) for part in self._parts(X)])

    def transform(self, X: ArrayLike) -> NDArray[np.int8]:
        """Return bits (n, n_bits_) in -1/+1; sign(0) is +1."""
        return np.concatenate([np.where(self._project(part) >= 0, 1, -1).astype(np.int8) for part in self._parts(X)])

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return packed codes (n, ceil(n_bits_ / 8)) in the order of ``numpy.packbits``."""
        return np.concatenate([codes.pack(self._project(part) >= 0) for part in self._parts(X)])

    def _parts(self, X: ArrayLike) -> list[NDArray[np.floating]]:
        """Return X, checked, in slices whose projections stay small."""
        check_is_fitted(self)
        samples = self._samples(X)
        rows = self.slice_rows()
        return [samples[start : start + rows] for start in range(0, max(len(samples), 1), rows)]

    def slice_rows(self) -> int:
        """Return the rows projected at a time; slices of X at its multiples give exactly the codes of X."""
        return max(1, _CHUNK_BYTES // (8 * self._width()))

    def _samples(self, X: Any) -> NDArray[np.floating]:
        """Return X, checked, as the array (n, columns) that is projected."""
        checked: NDArray[np.floating] = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return checked

    def _width(self) -> int:
        """Return the length of the longest row in a projection."""
        return max(self.n_bits_, int(self.n_features_in_))

    @property
    def _n_features_out(self) -> int:
        return self.n_bits_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # bits are int8 for every type of X
        return tags

    def _cut(self, n_bits: int, fitted: dict[str, Any]) -> Self:
        """Return a copy with ``n_bits`` and other fitted values, for ``truncate``."""
        short = copy.copy(self)
        for name, value in {**fitted, "n_bits": n_bits, "n_bits_": n_bits}.items():
            setattr(short, name, value)
        return short


def load(path: str | os.PathLike[str]) -> Coder:
    """Open a coder that ``save`` wrote, on this or another machine."""
    import cbid.coders  # the classes themselves; they import this module

    coder: Coder = load_from(cbid.coders, Coder, path)
    return coder
