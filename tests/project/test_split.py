"""The split into what is learned from and what is held out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cbid.project.fitting import split

labels = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=60)


@given(labels, st.floats(0, 0.95), st.integers(0, 5))
def test_every_class_keeps_two_to_learn_from(given_labels, share, seed):
    names = [f"{i}.png" for i in range(len(given_labels))]
    parts = split(names, given_labels, share, seed, supervised=True)
    for label in {"a", "b", "c"} & set(given_labels):
        own = parts[[i for i, one in enumerate(given_labels) if one == label]]
        n = len(own)
        if n == 1:
            assert own.tolist() == ["added"]
            continue
        held = int((own == "held-out").sum())
        assert held == min(0 if share == 0 else max(1, round(share * n)), n - 2)
        assert int((own == "train").sum()) == n - held
    assert set(parts[[i for i, one in enumerate(given_labels) if one is None]]) <= {"added"}


@given(st.integers(3, 80), st.floats(0.05, 0.9))
def test_without_labels_all_are_one_class(n, share):
    parts = split([str(i) for i in range(n)], [None] * n, share, 0, supervised=False)
    assert int((parts == "held-out").sum()) == min(max(1, round(share * n)), n - 2)
    assert "added" not in parts


def test_a_class_that_grows_keeps_most_of_its_split():
    names = [f"{i}.png" for i in range(1000)]
    small = split(names[:900], ["a"] * 900, 0.2, 0, supervised=True)
    large = split(names, ["a"] * 1000, 0.2, 0, supervised=True)
    assert np.mean(small == large[:900]) > 0.95
    other = split(names, ["a"] * 1000, 0.2, 1, supervised=True)
    assert np.mean(other == large) < 0.8
