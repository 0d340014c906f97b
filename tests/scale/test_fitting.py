"""Fits on stratified samples: every kind of source gives the same, within the memory budget."""

import json
import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from cbid.coders import ITQ, LDASign
from cbid.scale import fit_from
from cbid.scale.fitting import MIN_PER_CLASS, Reservoir, _allowed, iter_chunks, quotas, stratified
from cbid.scale.running import used_budget


def test_all_rows_where_they_fit(vectors):
    X, y = vectors
    report = fit_from(X, LDASign(n_bits=3), labels=y, max_memory="4GB")
    assert (report.n_rows, report.n_sample) == (1000, 1000)
    np.testing.assert_array_equal(report.rows, np.arange(1000))
    assert report.per_class == {0: 600, 1: 250, 2: 110, 3: 40}
    np.testing.assert_array_equal(report.coder.encode(X), LDASign(n_bits=3).fit(X, y).encode(X))


def test_a_sample_of_given_size(vectors, tmp_path):
    X, y = vectors
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    report = fit_from(
        tmp_path / "x.npy", LDASign(n_bits=3), labels=tmp_path / "y.npy", max_memory="4GB", max_sample=100
    )
    # 10 of each class, and 6 percent of the rest of each: 590, 240, 100 and 30.
    assert report.per_class == {0: 47, 1: 25, 2: 16, 3: 12}
    np.testing.assert_array_equal(
        report.coder.encode(X), LDASign(n_bits=3).fit(X[report.rows], y[report.rows]).encode(X)
    )


@pytest.mark.parametrize("cut", [130, 999])
def test_an_iterator_of_chunks(vectors, cut):
    X, y = vectors
    names = np.array(["cat", "dog", "eel", "fox"])[y]
    chunks = ((X[i : i + cut], names[i : i + cut]) for i in range(0, 1000, cut))
    report = fit_from(chunks, LDASign(n_bits=3), max_memory="4GB", max_sample=200)
    assert (report.n_rows, report.n_sample) == (1000, 200)
    assert set(report.per_class) == {"cat", "dog", "eel", "fox"}
    assert min(report.per_class.values()) >= 10
    expected = LDASign(n_bits=3).fit(X[report.rows], names[report.rows])
    np.testing.assert_array_equal(report.coder.encode(X), expected.encode(X))
    again = fit_from(iter([(X, names)]), LDASign(n_bits=3), max_memory="4GB", max_sample=200)
    np.testing.assert_array_equal(report.rows, again.rows)


def test_without_labels(vectors):
    report = fit_from(iter([vectors[0]]), ITQ(n_bits=4), max_memory="4GB")
    assert report.per_class is None
    assert report.n_sample == 1000


def test_rows_allowed_grow_with_memory_or_its_root(monkeypatch):
    monkeypatch.setattr("cbid.scale.fitting.used_budget", lambda: 10**8)
    monkeypatch.setattr("cbid.scale.fitting._MARGIN", 1.0)
    # 1 MB, and 400 bytes a row beside the 100 of the row: (10^9 - 10^8 - 10^6) / 500 = 1.798 million.
    line = [(1000, 1_400_000), (3000, 2_200_000)]
    assert _allowed(line, 100, 10**9, 0) == (1_700_000, 500)
    # 8 bytes a pair: 100 x + 8 x^2 = 9 10^8 at x = 10,600.3.
    pairs = [(1000, 8 * 1000**2), (3000, 8 * 3000**2)]
    assert _allowed(pairs, 100, 10**9, 0)[0] == 10_000
    with pytest.raises(ValueError, match=r"max_memory=100,000,000 bytes.*3000"):
        _allowed(line, 100, 10**8, 0)


def test_bad_arguments(vectors):
    X, y = vectors
    with pytest.raises(ValueError, match="max_memory='lots'"):
        fit_from(X, ITQ(), max_memory="lots")
    with pytest.raises(ValueError, match="max_memory=1,000,000 bytes"):
        fit_from(X, ITQ(n_bits=4), max_memory="1MB")
    with pytest.raises(ValueError, match="source holds no chunks"):
        fit_from(iter([]), ITQ())
    with pytest.raises(ValueError, match="labels"):
        fit_from(iter([X]), ITQ(), labels=y)
    with pytest.raises(ValueError, match="max_sample=1"):
        fit_from(X, ITQ(), max_sample=1)
    with pytest.raises(ValueError, match=r"source has shape \(0, 12\)"):
        fit_from(X[:0], ITQ())
    with pytest.raises(ValueError, match=r"has shape \(1000, 0\)"):
        fit_from(X[:, :0], ITQ())
    with pytest.raises(ValueError, match=r"source has chunks of shape \(1000, 0\)"):
        fit_from(iter([X[:, :0]]), ITQ())
    with pytest.raises(ValueError, match="source has no row in 0 rows"):
        fit_from(iter([X[:0]]), ITQ())
    with pytest.raises(ValueError, match=r"labels has shape \(1000, 1\)"):
        fit_from(X, LDASign(), labels=y[:, None])
    no_labels = np.full(1000, None)
    with pytest.raises(ValueError, match="labels has None for every row"):
        fit_from(X, LDASign(), labels=no_labels)
    with pytest.raises(ValueError, match="source has no row with a label in 1000 rows"):
        fit_from(iter([(X, no_labels)]), LDASign())


class Counting(BaseEstimator):
    """Records the number of rows of each fit."""

    sizes: ClassVar[list[int]] = []

    def fit(self, X, y=None):
        self.sizes.append(len(X))
        return self


@pytest.fixture
def fitted_sizes(monkeypatch):
    monkeypatch.setattr(Counting, "sizes", [])
    return Counting.sizes


def test_pilots_stay_below_max_sample(vectors, fitted_sizes):
    X = np.repeat(vectors[0], 5, axis=0)
    assert fit_from(X, Counting(), max_sample=50).n_sample == 50
    assert fit_from(iter([X]), Counting(), max_sample=50).n_sample == 50
    assert max(fitted_sizes) == 50


def test_pilots_stay_within_the_budget(tmp_path, fitted_sizes):
    """160 MB of rows, all of which the pilots of 1,000 classes would take; 100 MB are left."""
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (20_000, 2_000)).flush()
    budget = used_budget() + 10**8
    with pytest.raises(ValueError, match=r"max_memory=.*20000"):
        fit_from(tmp_path / "x.npy", Counting(), labels=np.arange(20_000) // 20, max_memory=budget)
    assert fitted_sizes == []


def test_classes_are_not_lost_in_silence(vectors):
    X, labels = vectors[0], np.arange(1000) % 100
    for source, how in ((X, {"labels": labels}), (iter([(X, labels)]), {})):
        with pytest.raises(ValueError, match=r"50 rows .*100 classes"):
            fit_from(source, Counting(), max_sample=50, **how)
    assert fit_from(iter([X]), Counting(), max_sample=5).n_sample == 5  # of no classes


def test_rows_without_a_label_are_left_out(vectors):
    X, _ = vectors
    labels = np.array(["a", "b", None] * 333 + ["a"], dtype=object)
    for source, how in ((X, {"labels": labels}), (iter([(X[:10], labels[:10]), (X[10:], labels[10:])]), {})):
        report = fit_from(source, LDASign(n_bits=1), max_memory="4GB", **how)
        assert report.per_class == {"a": 334, "b": 333}
        assert report.n_rows == 1000
        assert 2 not in report.rows


@given(st.lists(st.integers(0, 500), min_size=1, max_size=20), st.integers(200, 2000))
def test_quotas_are_shares_above_a_floor(sizes, most):
    sizes = np.array(sizes)
    taken = quotas(sizes, most)
    assert taken.sum() == min(most, sizes.sum())
    assert (taken <= sizes).all()
    assert (taken >= np.minimum(sizes, MIN_PER_CLASS)).all()
    if most < sizes.sum():
        above = sizes - np.minimum(sizes, MIN_PER_CLASS)
        share = (most - np.minimum(sizes, MIN_PER_CLASS).sum()) / above.sum()
        assert (np.abs(taken - np.minimum(sizes, MIN_PER_CLASS) - share * above) <= 1).all()


def test_too_few_rows_for_the_classes():
    with pytest.raises(ValueError, match=r"15 rows .*2 classes.*20"):
        quotas(np.array([100, 100]), 15)


def test_a_stratified_sample():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2, -1], [900, 90, 10, 50])[rng.permutation(1050)]
    rows = stratified(labels, 1050, 100, np.random.default_rng(1))
    assert np.bincount(labels[rows]).tolist() == [74, 16, 10]
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, stratified(labels, 1050, 100, np.random.default_rng(1)))
    assert len(stratified(None, 1050, 100, rng)) == 100


def passed(X, y, cuts, capacity):
    reservoir = Reservoir(capacity, X.shape[1], X.dtype, np.random.default_rng(3))
    for start, stop in zip([0, *cuts], [*cuts, len(X)]):
        reservoir.add(X[start:stop], None if y is None else y[start:stop])
    return reservoir.sample()


@given(st.lists(st.integers(1, 399), max_size=5), st.integers(40, 450))
def test_a_reservoir_holds_the_smallest_keys_whatever_the_chunks(cuts, capacity):
    """Sorted by class, as files often are; the rarest class has 12 members and keeps at least MIN_PER_CLASS."""
    y = np.repeat(["a", "bb", "c"], [300, 88, 12])
    X = np.arange(400.0)[:, None]
    values, rows, labels = passed(X, y, sorted(cuts), capacity)
    np.testing.assert_array_equal(values[:, 0], rows)
    np.testing.assert_array_equal(labels, y[rows])
    assert len(rows) == min(capacity, 400)
    keys = np.random.default_rng(3).random(400)
    first = np.concatenate(
        [np.flatnonzero(y == c)[np.argsort(keys[y == c])[:MIN_PER_CLASS]] for c in ("a", "bb", "c")]
    )
    rest = np.setdiff1d(np.argsort(keys), first, assume_unique=False)
    expected = np.concatenate([first, rest[np.argsort(keys[rest])]])[:capacity]
    if capacity >= len(first):
        np.testing.assert_array_equal(rows, np.sort(expected))


def test_chunks_must_be_alike():
    X = np.zeros((3, 2))
    assert [(a.shape, b) for a, b in iter_chunks([X, X])] == [((3, 2), None)] * 2
    for second, message in (
        (np.zeros((3, 4)), "chunk 1 has vectors of 4 values without labels; the first chunk has 2"),
        ((X, np.zeros(3)), "chunk 1 has vectors of 2 values with labels"),
        ((X, np.zeros(2)), r"chunk 1 has labels of shape \(2,\)"),
        (np.zeros(3), r"chunk 1 has shape \(3,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            list(iter_chunks([X, second]))


PROGRAM = r"""
import json, re, sys
import numpy as np
from cbid.coders import LDASign
from cbid.scale import encode_to, fit_from
folder, budget = sys.argv[1], int(sys.argv[2])
X = np.load(folder + "/x.npy", mmap_mode="r")
y = np.load(folder + "/y.npy")
report = fit_from(X, LDASign(n_bits=8), labels=y, max_memory=budget)
codes = encode_to(X, report.coder, folder + "/codes.npy", max_memory=budget)
# Of this program alone: the usual ru_maxrss begins with what the parent held when it started this one.
peak = 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1])
print(json.dumps({"peak": peak, "n_sample": report.n_sample, "n_codes": len(codes)}))
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is asked of Linux")
def test_the_peak_of_the_process_stays_within_the_budget(tmp_path):
    """512 MB of vectors; the budget of 700 MB is also that of Python and its libraries, which take over 250 MB."""
    n, width, budget = 250_000, 512, 700 * 10**6
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(n, width))
    y = rng.integers(0, 20, n)
    noise = rng.random((10_000, width), dtype=np.float32)
    for start in range(0, n, len(noise)):
        X[start : start + len(noise)] = noise
        X[start : start + len(noise), 0] += y[start : start + len(noise)]
    X.flush()
    del X
    np.save(tmp_path / "y.npy", y)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(budget)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["peak"] < budget
    assert found["n_codes"] == n
    assert 3000 < found["n_sample"] < n  # a part, and more than the pilots
