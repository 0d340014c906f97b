"""Parameter checks: accepted values pass, others raise a ValueError ``name=value: expected ...``."""

import functools

import numpy as np
import pytest

from cbid import checks

ACCEPTED = [
    (checks.check_integer, (1, 1)),
    (checks.check_integer, (np.int8(3), 1, 3)),
    (checks.check_real, (0.5, 0)),
    (checks.check_real, (np.float32(2), 0, 3)),
    (checks.check_real, (0, 0)),
    (checks.check_choice, ("a", ("a", None))),
    (checks.check_choice, (None, ("a", None))),
    (checks.check_bool, (True,)),
    (checks.check_bool, (np.bool_(False),)),
    (checks.check_pair, ((1, 2),)),
    (checks.check_pair, ([8, 9], 8)),
]

REJECTED = [
    (checks.check_integer, (0, 1), "0: expected an integer of at least 1"),
    (checks.check_integer, (70_000, 1, 65_536), "70000: expected an integer from 1 to 65,536"),
    (checks.check_integer, (True, 0), "True: expected an integer"),
    (checks.check_integer, (1.0, 0), "1.0: expected an integer"),
    (checks.check_integer, ("1", 0), "'1': expected an integer"),
    (checks.check_real, (float("nan"), 0), "nan: expected a finite number of at least 0"),
    (checks.check_real, (float("inf"), 0), "inf: expected a finite number"),
    (checks.check_real, (10**400, 0), f"{10**400}: expected a finite number"),
    (checks.check_real, (1.0, 0, 1), "1.0: expected a finite number of at least 0 and below 1"),
    (checks.check_real, (None, 0), "None: expected a finite number"),
    (checks.check_real, (False, 0), "False: expected a finite number"),
    (checks.check_choice, ("b", ("a", None)), "'b': expected one of 'a', None"),
    (checks.check_choice, (1, (True, False)), "1: expected one of True, False"),
    (checks.check_bool, (1,), "1: expected True or False"),
    (checks.check_pair, (64,), "64: expected a pair"),
    (checks.check_pair, ((1, 2, 3),), "(1, 2, 3): expected a pair"),
]


@pytest.mark.parametrize(("check", "arguments"), ACCEPTED)
def test_accepted(check, arguments):
    check("name", *arguments)


@pytest.mark.parametrize(("check", "arguments", "message"), REJECTED)
def test_rejected(check, arguments, message):
    with pytest.raises(ValueError, match="expected") as caught:
        check("name", *arguments)
    assert str(caught.value).startswith(f"name={message}")


def test_an_open_interval_excludes_its_end():
    with pytest.raises(ValueError, match="x=0: expected a finite number above 0"):
        checks.check_real("x", 0, 0, open_below=True)


def test_an_item_of_a_pair_is_named():
    with pytest.raises(ValueError, match=r"size\[1\]=7: expected an integer of at least 8"):
        checks.check_pair("size", (8, 7), 8)


def test_sequences():
    positive = functools.partial(checks.check_integer, least=1)
    checks.check_sequence("cells", (1, 2), "sides", positive)
    checks.check_sequence("cells", np.array([4]), "sides", positive)
    for value in ((), 3, "12", None):
        with pytest.raises(ValueError, match="expected a sequence of sides"):
            checks.check_sequence("cells", value, "sides", positive)
    with pytest.raises(ValueError, match="cells=0: expected an integer"):
        checks.check_sequence("cells", (1, 0), "sides", positive)


def test_n_jobs_and_verbose():
    for value in (None, 1, -1, np.int64(2)):
        checks.check_n_jobs(value)
    for value in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match=f"n_jobs={value!r}: expected"):
            checks.check_n_jobs(value)
    for value in (True, 0, 2):
        checks.check_verbose(value)
    for value in (-1, "yes", None):
        with pytest.raises(ValueError, match=f"verbose={value!r}: expected"):
            checks.check_verbose(value)


def test_random_states():
    generator = np.random.RandomState(3)
    assert checks.as_random_state(generator) is generator
    assert checks.as_random_state(5).randint(100) == np.random.RandomState(5).randint(100)
    for value in (-1, 2**32, "seed", 0.5):
        with pytest.raises(ValueError, match=f"random_state={value!r}: expected"):
            checks.as_random_state(value)


def test_attributes_are_restored_if_a_method_raises():
    class Model:
        def __init__(self):
            self.kept = 1

        @checks.unchanged_on_error
        def fit(self, error=None):
            """Fit."""
            self.kept, self.new_ = 2, 3
            if error is not None:
                raise error
            return self

    model = Model()
    for error in (ValueError("bad"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            model.fit(error)
        assert vars(model) == {"kept": 1}
    assert vars(model.fit()) == {"kept": 2, "new_": 3}
    assert Model.fit.__doc__ == "Fit."
