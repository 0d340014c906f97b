"""Model files: fitted estimators in one safetensors file and back, without pickle.

Arrays are stored as tensors; parameters, class labels and numbers as JSON in the header.
"""

import os
from abc import ABCMeta, abstractmethod
from numbers import Integral, Real
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cbid.label_trees import LabelTree, parse_tree
from cbid.storage.digests import digest_of
from cbid.storage.tensors import Arrays, FileKind

_DTYPES = frozenset(
    {"bool", "float16", "float32", "float64", *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64))}
)


class ModelFileError(ValueError):
    """The file is not a model, or is damaged."""


MODEL = FileKind(format="cbid-coder", version=1, noun="model", error=ModelFileError)


def write_model(path: str | os.PathLike[str], kind: str, state: dict[str, Any], arrays: Arrays) -> None:
    """Write a model of class ``kind``; ``state`` holds JSON values."""
    MODEL.write(path, {"kind": kind, "state": state}, arrays)


def read_model(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Arrays]:
    """Return kind, state and arrays of a model file."""
    content, arrays = MODEL.read(path)
    kind, state = (content.get(name) if isinstance(content, dict) else None for name in ("kind", "state"))
    if not isinstance(kind, str) or not isinstance(state, dict):
        raise ModelFileError(f"{os.fspath(path)} is damaged: the header does not describe a model")
    return kind, state, arrays


class Saved(metaclass=ABCMeta):
    """Mixin of estimators with ``save``.

    The fitted state consists of the attributes that end in an underscore: arrays are stored as arrays, numbers and
    strings as JSON.
    """

    # The attributes that a model file may set: arrays, and JSON values.
    _ARRAYS: frozenset[str] = frozenset()
    _VALUES: frozenset[str] = frozenset({"n_features_in_", "feature_names_in_"})

    @abstractmethod
    def _check_state(self) -> None:
        """Raise a ValueError if the attributes read from a file are inconsistent."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a safetensors file; an existing file is replaced atomically."""
        write_model(path, type(self).__name__, *model_parts(self))

    @classmethod
    def _restore(cls, state: dict[str, Any], arrays: Arrays) -> Self:
        estimator: Any = cls(**params_from_json(state["params"]))
        unknown = (set(state["fitted"]) - cls._VALUES) | (set(arrays) - cls._ARRAYS)
        if unknown:
            raise ValueError(f"{cls.__name__} has no attribute {', '.join(sorted(unknown))}")
        for name, value in state["fitted"].items():
            setattr(estimator, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ModelFileError(f"array {name!r} holds values that are not finite")
            setattr(estimator, name, array)
        if "classes" in state:
            estimator.classes_ = classes_from_json(state["classes"])
        if "tree" in state:
            estimator.tree_ = _tree_from_json(state["tree"], estimator.classes_)
        estimator._check_state()
        return estimator


def model_parts(model: Saved) -> tuple[dict[str, Any], Arrays]:
    """Return the JSON state and the arrays of a fitted model, as its own file or another one holds them."""
    check_is_fitted(model)
    arrays: Arrays = {}
    state: dict[str, Any] = {"params": params_to_json(model), "fitted": {}}
    for name, value in vars(model).items():
        if not name.endswith("_") or name.startswith("_"):
            continue
        if name == "classes_":
            state["classes"] = classes_to_json(value)
        elif isinstance(value, LabelTree):
            state["tree"] = _tree_to_json(value)
        elif name == "feature_names_in_":
            state["fitted"][name] = [str(v) for v in value]
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            state["fitted"][name] = value.item() if isinstance(value, np.generic) else value
    return state, arrays


def model_digest(model: Saved) -> str:
    """Return a digest of what a model computes: its class, its settings and its fitted state."""
    state, arrays = model_parts(model)
    params = {k: v for k, v in state["params"].items() if k not in ("n_jobs", "verbose")}
    fitted = [part for name in sorted(arrays) for part in (name, arrays[name])]
    return digest_of(type(model).__name__, {**state, "params": params}, *fitted)


def load_from(package: ModuleType, base: type, path: str | os.PathLike[str]) -> Any:
    """Read a file that ``save`` wrote, if its class is a subclass of ``base`` that ``package`` exports."""
    return restore_from(package, base, *read_model(path), os.fspath(path))


def restore_from(
    package: ModuleType, base: type, kind: str, state: dict[str, Any], arrays: Arrays, source: str
) -> Any:
    """Build a model from its class name ``kind`` and its ``model_parts``; errors name the ``source``."""
    cls = getattr(package, kind) if kind in package.__all__ else None
    if not (isinstance(cls, type) and issubclass(cls, base) and issubclass(cls, Saved)):
        noun = base.__name__.lower()
        raise ModelFileError(f"{source} holds a {noun} of kind {kind!r}, which this version of cbid does not know")
    try:
        return cls._restore(state, arrays)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{source} does not hold a complete {kind}: {error}") from error


def params_to_json(estimator: Any) -> dict[str, Any]:
    """Return constructor parameters as JSON values.

    Callbacks are left out. Any other object (a custom loss, a random generator) is stored as its class name, which
    the next ``fit`` rejects.
    """
    params = {}
    for name, value in estimator.get_params(deep=False).items():
        if callable(value) and not hasattr(value, "conjugate"):
            continue
        params[name] = _plain(value)
    return params


def params_from_json(saved: dict[str, Any]) -> dict[str, Any]:
    """Return constructor parameters; sequences become tuples."""
    return {name: _tuples(value) for name, value in saved.items()}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def classes_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    """Return class labels and their dtype as JSON values."""
    dtype = classes.dtype
    kind = dtype.name if dtype.name in _DTYPES else "U" if dtype.kind == "U" else "O"
    return {"dtype": kind, "values": [_label_to_json(v) for v in classes.tolist()]}


def classes_from_json(saved: dict[str, Any]) -> NDArray[Any]:
    """Return the array that ``classes_to_json`` stored."""
    values = [_label_from_json(v) for v in saved["values"]]
    kind = saved["dtype"]
    if kind == "U":
        return np.array([str(v) for v in values], dtype=np.str_)
    if kind in _DTYPES:
        return np.array(values, dtype=kind)
    if kind != "O":
        raise ValueError(f"classes of type {kind!r} are unknown")
    classes = np.empty(len(values), dtype=object)
    classes[:] = values
    return classes


def _tree_to_json(tree: LabelTree) -> dict[str, Any]:
    return {
        "nodes": [_label_to_json(node) for node in tree.parents],
        "parents": [_label_to_json(parent) for parent in tree.parents.values()],
    }


def _tree_from_json(saved: dict[str, Any], classes: NDArray[Any]) -> LabelTree:
    nodes, parents = ([_label_from_json(v) for v in saved[name]] for name in ("nodes", "parents"))
    return parse_tree(dict(zip(nodes, parents, strict=True)), classes.tolist())


def _label_to_json(label: Any) -> Any:
    if isinstance(label, tuple):
        return {"tuple": [_label_to_json(v) for v in label]}
    plain = _plain(label)
    if isinstance(plain, str) and not isinstance(label, str):
        raise ValueError(
            f"label {label!r} has no JSON form: expected a number, string, boolean, None, or a tuple of these"
        )
    return plain


def _label_from_json(saved: Any) -> Any:
    return tuple(_label_from_json(v) for v in saved["tuple"]) if isinstance(saved, dict) else saved
