"""Checks of parameters. Errors read ``name=value: expected ...``."""

import functools
import sys
from collections.abc import Callable, Collection
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from sklearn.utils import check_random_state

_P = ParamSpec("_P")
_R = TypeVar("_R")


def invalid(name: str, value: Any, expected: str) -> ValueError:
    """Return the error for an argument: what was given, then what is accepted.

    >>> str(invalid("n_bits", 0, "an integer of at least 1"))
    'n_bits=0: expected an integer of at least 1'
    """
    return ValueError(f"{name}={value!r}: expected {expected}")


def check_integer(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Raise unless ``value`` is an integer from ``least`` to ``most``."""
    if not _is_integer(value) or value < least or (most is not None and value > most):
        limits = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise invalid(name, value, f"an integer {limits}")


def check_real(name: str, value: Any, least: float, most: float = float("inf"), *, open_below: bool = False) -> None:
    """Raise unless least <= value < most, or least < value < most with ``open_below``."""
    too_large = isinstance(value, int) and abs(value) > sys.float_info.max
    if not _is_real(value) or too_large or not least <= value < most or (open_below and value == least):
        limits = f"{'above' if open_below else 'of at least'} {least:g}"
        if most != float("inf"):
            limits += f" and below {most:g}"
        raise invalid(name, value, f"a finite number {limits}")


def check_share(name: str, value: Any) -> None:
    """Raise unless 0 <= value <= 1."""
    if not _is_real(value) or not 0 <= value <= 1:
        raise invalid(name, value, "a number from 0 to 1")


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raise unless ``value`` is one of the choices: an equal string, or the same object (None, True)."""
    if not any(value is c or (isinstance(c, str) and isinstance(value, str) and value == c) for c in choices):
        raise invalid(name, value, f"one of {', '.join(map(repr, choices))}")


def check_bool(name: str, value: Any) -> None:
    """Raise unless ``value`` is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise invalid(name, value, "True or False")


def check_pair(name: str, value: Any, least: int = 1) -> None:
    """Raise unless ``value`` is a pair (height, width) of integers of at least ``least``."""
    if not (isinstance(value, (tuple, list)) and len(value) == 2):
        raise invalid(name, value, "a pair (height, width)")
    check_integer(f"{name}[0]", value[0], least)
    check_integer(f"{name}[1]", value[1], least)


def check_sequence(name: str, value: Any, of: str, check: Callable[[str, Any], None]) -> None:
    """Raise unless ``value`` is a sequence of at least one item, each accepted by ``check(name, item)``."""
    if isinstance(value, (str, bytes)) or not np.iterable(value) or len(tuple(value)) == 0:
        raise invalid(name, value, f"a sequence of {of}")
    for item in value:
        check(name, item)


def check_arrays(model: Any, shapes: dict[str, tuple[int, ...]], dtype: str = "float") -> None:
    """Raise unless these attributes of a model, read from a file, are arrays of these shapes and this type."""
    for name, shape in shapes.items():
        array = getattr(model, name)
        if array.shape != shape or not array.dtype.name.startswith(dtype):
            raise ValueError(f"{name} {array.dtype} {array.shape}: expected {dtype} {shape}")


def check_verbose(value: Any) -> None:
    """Raise unless ``value`` is a boolean or an integer of at least 0."""
    if not isinstance(value, (bool, np.bool_)):
        check_integer("verbose", value, 0)


def check_n_jobs(value: Any) -> None:
    """Raise unless ``value`` is None or an integer other than 0, as in scikit-learn."""
    if value is not None and (not _is_integer(value) or value == 0):
        raise invalid("n_jobs", value, "an integer other than 0, or None for one job")


def as_random_state(value: Any) -> np.random.RandomState:
    """Return the generator for a ``random_state`` as scikit-learn accepts it."""
    try:
        state: np.random.RandomState = check_random_state(value)
    except (ValueError, TypeError):
        raise invalid("random_state", value, f"an integer from 0 to {2**32 - 1:,}, a RandomState, or None") from None
    return state


def unchanged_on_error(method: Callable[Concatenate[Any, _P], _R]) -> Callable[Concatenate[Any, _P], _R]:
    """Decorate a method so that its object keeps its attributes if the method raises.

    The method must replace attributes, not modify them in place.
    """

    @functools.wraps(method)
    def restoring(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        before = vars(self).copy()
        try:
            return method(self, *args, **kwargs)
        except BaseException:  # KeyboardInterrupt too
            vars(self).clear()
            vars(self).update(before)
            raise

    return restoring


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
