"""Parameters of estimators: each is declared once, with its type, default and accepted values.

>>> @estimator
... class Smoother(BaseEstimator):
...     width: float = param(1.0, positive)
...     n_iter: int | None = param(None, integer(1))
>>> Smoother(width=2)
Smoother(width=2)
>>> check_params(Smoother(n_iter=0))
Traceback (most recent call last):
    ...
ValueError: n_iter=0: expected an integer of at least 1
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

from sklearn.base import BaseEstimator

from cbid.checks import check_choice, check_integer, check_n_jobs, check_real

Check = Callable[[str, Any], None]  # raises a ValueError with the name and the value
_Estimator = TypeVar("_Estimator", bound=BaseEstimator)
_Default = TypeVar("_Default")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def estimator(cls: type[_Estimator]) -> type[_Estimator]:
    """Give a scikit-learn estimator its ``__init__``: keyword-only parameters that are stored, and not checked."""
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


def param(default: _Default, check: Check, *, or_none: bool = False) -> _Default:
    """Declare a parameter with its accepted values; None is accepted with ``or_none``, or if it is the default.

    A subclass that declares the parameter again, for another default, replaces the accepted values too.
    """
    declared: Any = field(default=default, metadata={"check": check, "or_none": or_none or default is None})
    return declared


def check_params(model: Any) -> None:
    """Raise a ValueError that names the first parameter with a value that is not accepted."""
    for declared in fields(model):
        if "check" in declared.metadata:
            value = getattr(model, declared.name)
            if value is not None or not declared.metadata["or_none"]:
                declared.metadata["check"](declared.name, value)


def integer(least: int, most: int | None = None) -> Check:
    """Accept integers from ``least`` to ``most``."""
    return lambda name, value: check_integer(name, value, least, most)


def real(least: float, most: float = float("inf"), *, open_below: bool = False) -> Check:
    """Accept numbers with least <= value < most, or least < value < most with ``open_below``."""
    return lambda name, value: check_real(name, value, least, most, open_below=open_below)


def choice(*choices: Any) -> Check:
    """Accept one of the choices."""
    return lambda name, value: check_choice(name, value, choices)


def jobs(name: str, value: Any) -> None:
    """Accept a number of jobs as in scikit-learn."""
    check_n_jobs(value)


positive = real(0, open_below=True)
flag = choice(True, False)
