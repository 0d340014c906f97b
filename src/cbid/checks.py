"""Parameter checks with errors that name the argument, what came, and what is accepted."""

from collections.abc import Collection
from typing import Any

import numpy as np

__all__ = ["check_choice", "check_integer", "check_real"]


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
