"""Parameters and class labels as JSON, and back."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["classes_from_json", "classes_to_json", "params_from_json", "params_to_json"]


_PLAIN_TYPES = frozenset(
    {"bool", "float16", "float32", "float64", *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64))}
)


def params_to_json(estimator: Any) -> dict[str, Any]:
    """Constructor parameters as JSON values.

    A callback stays behind: it belongs to the process, not to the model. An object (a user's own loss, a random
    generator) is kept by its name only, which the next ``fit`` will refuse by that name.
    """
    params = {}
    for name, value in estimator.get_params(deep=False).items():
        if callable(value) and not hasattr(value, "conjugate"):
            continue
        params[name] = _plain(value)
    return params


def params_from_json(saved: dict[str, Any]) -> dict[str, Any]:
    """Constructor parameters again; a sequence comes back as a tuple, which nothing can change by accident."""
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
    """Class labels with what is needed to make the same array again."""
    dtype = classes.dtype
    kind = dtype.name if dtype.name in _PLAIN_TYPES else "U" if dtype.kind == "U" else "O"
    return {"dtype": kind, "values": [_label_to_json(v) for v in classes.tolist()]}


def classes_from_json(saved: dict[str, Any]) -> NDArray[Any]:
    values = [_label_from_json(v) for v in saved["values"]]
    kind = saved["dtype"]
    if kind == "U":
        return np.array([str(v) for v in values], dtype=np.str_)  # as long as the longest, not as long as claimed
    if kind in _PLAIN_TYPES:
        return np.array(values, dtype=kind)
    if kind != "O":
        raise ValueError(f"classes of type {kind!r} are not known")
    classes = np.empty(len(values), dtype=object)
    classes[:] = values
    return classes


def _label_to_json(label: Any) -> Any:
    if isinstance(label, tuple):
        return {"tuple": [_label_to_json(v) for v in label]}
    plain = _plain(label)
    if isinstance(plain, str) and not isinstance(label, str):
        raise ValueError(
            f"the label {label!r} has no JSON form; labels of a saved coder are numbers, strings, "
            "booleans, None, or tuples of these"
        )
    return plain


def _label_from_json(saved: Any) -> Any:
    return tuple(_label_from_json(v) for v in saved["tuple"]) if isinstance(saved, dict) else saved
