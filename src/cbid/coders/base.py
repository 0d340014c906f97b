"""What every coder is: a scikit-learn transformer from vectors to bits, with packed codes and model files."""

import copy
import os
from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from cbid import codes
from cbid.coders.modelfile import Arrays, ModelFileError, read_model, write_model
from cbid.coders.state import classes_from_json, classes_to_json, params_to_json

__all__ = ["Coder", "coder_from_state", "load"]

_CHUNK_BYTES = 64 * 2**20


class Coder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of all coders. A subclass learns in ``fit``, sets ``n_bits_`` and gives ``_project``.

    A fitted coder's state is its attributes that end in an underscore: arrays go into a model file as arrays, numbers
    and strings as JSON.
    """

    n_bits_: int
    # What a model file may set: arrays, and values of JSON.
    _ARRAYS: frozenset[str] = frozenset()
    _VALUES: frozenset[str] = frozenset({"n_bits_", "n_features_in_", "feature_names_in_"})

    @abstractmethod
    def _check_state(self) -> None:
        """Raise a ValueError when what was read from a file does not fit together."""

    @abstractmethod
    def _project(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Real values (n, n_bits_) whose sign is the bit."""

    def project(self, X: ArrayLike) -> NDArray[np.floating]:
        """Signed distances (n, n_bits_) before the sign is taken, in the coder's own scale."""
        return np.concatenate([self._project(part) for part in self._parts(X)])

    def transform(self, X: ArrayLike) -> NDArray[np.int8]:
        """Bits (n, n_bits_) in -1/+1; sign(0) is +1."""
        return np.concatenate([np.where(self._project(part) >= 0, 1, -1).astype(np.int8) for part in self._parts(X)])

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes (n, ceil(n_bits_ / 8)) in the order of ``numpy.packbits``."""
        return np.concatenate([codes.pack(self._project(part) >= 0) for part in self._parts(X)])

    def _parts(self, X: ArrayLike) -> list[NDArray[np.floating]]:
        """X, checked, in slices whose projections stay small."""
        check_is_fitted(self)
        samples = self._samples(X)
        rows = max(1, _CHUNK_BYTES // (8 * self._width()))
        return [samples[start : start + rows] for start in range(0, max(len(samples), 1), rows)]

    def _samples(self, X: Any) -> NDArray[np.floating]:
        """X, checked, as the array (n, columns) that is projected."""
        checked: NDArray[np.floating] = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return checked

    def _width(self) -> int:
        """The widest row that a projection makes."""
        return max(self.n_bits_, int(self.n_features_in_))

    @property
    def _n_features_out(self) -> int:
        return self.n_bits_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # bits are int8 whatever X is
        return tags

    # Model files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted coder to a safetensors file, whole or not at all."""
        write_model(path, type(self).__name__, *self.state())

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What ``save`` writes: JSON values and arrays, from which ``coder_from_state`` makes the coder again."""
        check_is_fitted(self)
        arrays: Arrays = {}
        state: dict[str, Any] = {"params": params_to_json(self), "fitted": {}}
        for name, value in vars(self).items():
            if not name.endswith("_") or name.startswith("_"):
                continue
            if name == "classes_":
                state["classes"] = classes_to_json(value)
            elif name == "feature_names_in_":
                state["fitted"][name] = [str(v) for v in value]
            elif isinstance(value, np.ndarray):
                arrays[name] = value
            else:
                state["fitted"][name] = value.item() if isinstance(value, np.generic) else value
        return state, arrays

    @classmethod
    def _restore(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        coder = cls(**state["params"])
        foreign = (set(state["fitted"]) - cls._VALUES) | (set(arrays) - cls._ARRAYS)
        if foreign:
            raise ValueError(f"it holds {', '.join(sorted(foreign))}, which a {cls.__name__} does not have")
        for name, value in state["fitted"].items():
            setattr(coder, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ModelFileError(f"array {name!r} holds values that are not finite")
            setattr(coder, name, array)
        if "classes" in state:
            coder.classes_ = classes_from_json(state["classes"])
        coder._check_state()
        return coder

    def _cut(self, n_bits: int, fitted: dict[str, Any]) -> Self:
        """A copy with ``n_bits`` and other fitted values: what ``truncate`` returns."""
        short = copy.copy(self)
        for name, value in {**fitted, "n_bits": n_bits, "n_bits_": n_bits}.items():
            setattr(short, name, value)
        return short


def coder_from_state(kind: str, state: dict[str, Any], arrays: Arrays, source: str) -> Coder:
    """A coder of the class named ``kind`` from what its ``state`` gave; errors tell of ``source``."""
    import cbid.coders  # the classes themselves; they import this module

    cls = getattr(cbid.coders, kind) if kind in cbid.coders.__all__ else None
    if not (isinstance(cls, type) and issubclass(cls, Coder)):
        raise ModelFileError(f"{source} holds a coder of kind {kind!r}, which this cbid does not have")
    try:
        return cls._restore(state, arrays)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{source} holds no complete {kind}: {error}") from error


def load(path: str | os.PathLike[str]) -> Coder:
    """Open a coder that ``save`` wrote, here or on another machine."""
    return coder_from_state(*read_model(path), os.fspath(path))
