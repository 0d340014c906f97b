"""Methods that change an estimator wholly or not at all."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["unchanged_on_error"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def unchanged_on_error(method: Callable[Concatenate[Any, _P], _R]) -> Callable[Concatenate[Any, _P], _R]:
    """The method; when it raises, the attributes of its object are again what they were before the call.

    An attribute must be replaced by the method, not changed in place.
    """

    @functools.wraps(method)
    def whole(self: Any, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        before = vars(self).copy()
        try:
            return method(self, *args, **kwargs)
        except BaseException:  # an interrupt that leaves the method has kept nothing either
            vars(self).clear()
            vars(self).update(before)
            raise

    return whole
