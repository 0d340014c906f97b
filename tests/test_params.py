"""Parameters of estimators: declared once, stored unchanged, checked by ``check_params``."""

import inspect
from dataclasses import field

import pytest
from sklearn.base import BaseEstimator, clone

from cbid.params import check_params, choice, estimator, flag, integer, jobs, param, positive, real


@estimator
class Base(BaseEstimator):
    n_jobs: int | None = param(None, jobs)


@estimator
class Model(Base):
    size: int = param(2, integer(1, 9))
    share: float = param(0.5, real(0, 1))
    width: float | None = param(1.0, positive, or_none=True)
    gamma: float | None = param(None, positive)
    kind: str = param("a", choice("a", "b"))
    whole: bool = param(True, flag)
    free: object = ()
    learned_: int = field(init=False)


def test_it_is_an_estimator_with_keyword_only_parameters():
    model = Model(size=3, free=[1])
    assert clone(model).get_params() == model.get_params()
    others = {"n_jobs": None, "share": 0.5, "width": 1.0, "gamma": None, "kind": "a", "whole": True}
    assert model.get_params() == {"size": 3, "free": [1], **others}
    assert all(p.kind is p.KEYWORD_ONLY for p in inspect.signature(Model).parameters.values())
    assert repr(model) == "Model(free=[1], size=3)"
    assert model != Model(size=3, free=[1]), "estimators are compared by identity"
    assert isinstance(hash(model), int)


@pytest.mark.parametrize(
    "given", [{}, {"size": 9, "n_jobs": -1}, {"width": None, "gamma": 2}, {"kind": "b", "whole": False, "free": None}]
)
def test_accepted(given):
    check_params(Model(**given))


@pytest.mark.parametrize(
    "given",
    [
        {"size": 10}, {"size": None}, {"share": 1}, {"width": 0}, {"gamma": -1}, {"kind": "c"}, {"whole": 1},
        {"n_jobs": 0},
    ],
)  # fmt: skip
def test_rejected(given):
    ((name, value),) = given.items()
    with pytest.raises(ValueError, match=f"^{name}={value!r}"):
        check_params(Model(**given))
