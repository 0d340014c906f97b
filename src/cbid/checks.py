"""Parameter checks with errors that name the argument, what came, and what is accepted."""

from collections.abc import Collection
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

__all__ = [
    "as_random_state",
    "check_bool",
    "check_choice",
    "check_integer",
    "check_n_jobs",
    "check_real",
    "check_verbose",
]


def check_integer(name: str, value: Any, least: int, most: int | None = None) -> None:
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not good or value < least or (most is not None and value > most):
        accepted = f"an integer from {least} to {most}" if most is not None else f"an integer of at least {least}"
        raise ValueError(f"{name}={value!r} is not accepted; give {accepted}")


def check_real(name: str, value: Any, least: float, most: float = float("inf"), *, open_below: bool = False) -> None:
    """least <= value < most, or least < value < most with ``open_below``."""
    good = (
        isinstance(value, (int, float, np.integer, np.floating))
        and not isinstance(value, bool)
        and least <= value < most
    )
    if not good or (open_below and value == least):
        accepted = f"a finite number {'above' if open_below else 'of at least'} {least:g}"
        if most != float("inf"):
            accepted += f" and below {most:g}"
        raise ValueError(f"{name}={value!r} is not accepted; give {accepted}")


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    if not any(value is c or (isinstance(c, str) and isinstance(value, str) and value == c) for c in choices):
        raise ValueError(f"{name}={value!r} is not accepted; choose one of {', '.join(map(repr, choices))}")


def check_bool(name: str, value: Any) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}={value!r} is not accepted; give True or False")


def check_verbose(value: Any) -> None:
    if not isinstance(value, (bool, np.bool_)):
        check_integer("verbose", value, 0)


def check_n_jobs(value: Any) -> None:
    """By the rules of scikit-learn, where 0 means nothing."""
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value != 0
    if value is not None and not good:
        raise ValueError(f"n_jobs={value!r} is not accepted; give an integer other than 0, or None for one")


def as_random_state(value: Any) -> np.random.RandomState:
    """A generator from what scikit-learn takes as ``random_state``."""
    try:
        state: np.random.RandomState = check_random_state(value)
    except (ValueError, TypeError):
        raise ValueError(
            f"random_state={value!r} is not accepted; give an integer from 0 to {2**32 - 1}, a RandomState or None"
        ) from None
    return state
