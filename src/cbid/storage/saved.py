"""Estimators whose fitted state goes to a model file and comes back, without pickle."""

import os
from abc import ABCMeta, abstractmethod
from types import ModuleType
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cbid.storage.modelfile import Arrays, ModelFileError, read_model, write_model
from cbid.storage.state import classes_from_json, classes_to_json, params_from_json, params_to_json

__all__ = ["Saved", "load_from", "restore_from"]


class Saved(metaclass=ABCMeta):
    """A mixin of estimators: ``save``, and what ``load`` needs to make the same one again.

    A fitted estimator's state is its attributes that end in an underscore: arrays go into a model file as arrays,
    numbers and strings as JSON.
    """

    # What a model file may set: arrays, and values of JSON.
    _ARRAYS: frozenset[str] = frozenset()
    _VALUES: frozenset[str] = frozenset({"n_features_in_", "feature_names_in_"})

    @abstractmethod
    def _check_state(self) -> None:
        """Raise a ValueError when what was read from a file does not fit together."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a safetensors file, whole or not at all."""
        write_model(path, type(self).__name__, *self._parts_to_save())

    def _parts_to_save(self) -> tuple[dict[str, Any], Arrays]:
        """What ``_restore`` takes: values that JSON can hold, and arrays."""
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
        estimator: Any = cls(**params_from_json(state["params"]))
        foreign = (set(state["fitted"]) - cls._VALUES) | (set(arrays) - cls._ARRAYS)
        if foreign:
            raise ValueError(f"it holds {', '.join(sorted(foreign))}, which a {cls.__name__} does not have")
        for name, value in state["fitted"].items():
            setattr(estimator, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ModelFileError(f"array {name!r} holds values that are not finite")
            setattr(estimator, name, array)
        if "classes" in state:
            estimator.classes_ = classes_from_json(state["classes"])
        estimator._check_state()
        return estimator


def load_from(package: ModuleType, kinds: type, path: str | os.PathLike[str]) -> Any:
    """Open what ``save`` wrote: one of the classes that the package exports and that is one of ``kinds``."""
    return restore_from(package, kinds, *read_model(path), os.fspath(path))


def restore_from(
    package: ModuleType, kinds: type, kind: str, state: dict[str, Any], arrays: Arrays, source: str
) -> Any:
    """The same from the name of the class and what ``_parts_to_save`` gave; errors tell of the ``source``."""
    cls = getattr(package, kind) if kind in package.__all__ else None
    if not (isinstance(cls, type) and issubclass(cls, kinds) and issubclass(cls, Saved)):
        what = kinds.__name__.lower()
        raise ModelFileError(f"{source} holds a {what} of kind {kind!r}, which this cbid does not have")
    try:
        return cls._restore(state, arrays)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{source} holds no complete {kind}: {error}") from error
