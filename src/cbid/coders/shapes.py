"""Arrays that a model file brought, held against each other."""

from typing import Any

__all__ = ["check_arrays", "check_indices"]


def check_arrays(coder: Any, expected: dict[str, tuple[int, ...]]) -> None:
    """Raise a ValueError unless every array is real and of the expected shape."""
    for name, shape in expected.items():
        array = getattr(coder, name)
        if array.shape != shape or array.dtype.kind != "f":
            raise ValueError(f"{name} is {array.dtype} {array.shape}; it must be real, {shape}")


def check_indices(coder: Any, name: str, shape: tuple[int, ...], below: int, least: int = 0) -> None:
    """Raise a ValueError unless an array is of integers from ``least`` to ``below`` - 1, of the expected shape."""
    array = getattr(coder, name)
    good = array.shape == shape and array.dtype.kind == "i"
    if not good or (array.size and not least <= array.min() <= array.max() < below):
        raise ValueError(f"{name} is {array.dtype} {array.shape}; it must be integers below {below}, {shape}")
