"""Neighbours with their ties: all of them, or a fair subset of very many, and the work of a query."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid import CodeIndex
from cbid.classify import votes
from cbid.classify.votes import nearest_codes, neighbours_with_ties
from cbid.search import segments


def found(index, codes, k, **options):
    """Ids, distances and labels of each query, as lists without the missing places."""
    answers = [None] * len(codes)
    for near in neighbours_with_ties(index, codes, k, **options):
        for row, *values in zip(near.rows.tolist(), *(array.tolist() for array in near[1:])):
            answers[row] = [entry for entry in zip(*values) if entry[0] >= 0]
    return answers


@pytest.fixture
def few(monkeypatch):
    """Very many are 200 ties, and 40 of them are enough."""
    monkeypatch.setattr(votes, "MAX_TIED", 200)
    monkeypatch.setattr(votes, "_ENOUGH_TIED", 40)
    monkeypatch.setattr(votes, "_FIRST_SAMPLE", 64)


def test_a_query_with_very_many_ties_does_not_handle_all_ids():
    """After the first, no query allocates as much as a quarter of an array of all ids (the kernels take 2 MB)."""
    n = 1 << 21
    index = CodeIndex(8, n_threads=1)
    index.add(np.zeros((n, 1), np.uint8), labels=np.arange(n) % 2)
    query = np.zeros((1, 1), np.uint8)
    (first,) = (near for near in neighbours_with_ties(index, query, 10) if len(near.rows))
    tracemalloc.start()
    (second,) = (near for near in neighbours_with_ties(index, query, 10) if len(near.rows))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(first.ids, second.ids)
    assert 512 <= first.ids.shape[1] < 10_000
    assert peak < n * first.ids.itemsize / 4


def test_no_query_draws_the_subset_again(monkeypatch):
    """Ids are given their random numbers once; what is added later gets its own, and removals need none."""
    drawn = []

    def counted(values):
        drawn.append(len(values))
        return keys(values)

    keys = segments.random_keys
    monkeypatch.setattr(segments, "random_keys", counted)
    index = CodeIndex(8)
    index.add(np.zeros((50_000, 1), np.uint8), labels=np.zeros(50_000, int))
    for _ in range(3):
        found(index, np.zeros((2, 1), np.uint8), 5)
    assert drawn == [50_000]
    index.add(np.zeros((3, 1), np.uint8), labels=[0, 0, 0])
    index.remove([7, 50_001])
    for _ in range(3):
        found(index, np.zeros((2, 1), np.uint8), 5)
    assert drawn == [50_000, 3]


@pytest.mark.usefixtures("few")
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 999), n_bits=st.sampled_from([1, 3, 6]), kind=st.sampled_from(["plain", "cells", "classes"])
)
def test_all_ties_or_a_subset_of_very_many(seed, n_bits, kind):
    """By brute force: what is nearer than the k-th is complete; ties are complete, or at least 40 of at least 100.

    200 are very many, but their number is estimated. Neither the order of insertion, nor its batches, nor other
    queries, nor removed codes change the answer.
    """
    rng = np.random.default_rng(seed)
    n, k = 3000, 5
    codes = np.packbits(rng.integers(0, 2, (n, n_bits), np.uint8), axis=1)
    ids, labels = rng.choice(10**12, n, replace=False), rng.integers(0, 3, n)
    options = {"cells": 8, "probes": 8} if kind == "cells" else {}
    weights = np.arange(1, n_bits + 1) / 4
    if kind == "classes":
        weights = np.stack([weights, 2 * weights, weights], axis=1)
    gone, excluded = ids[:500], ids[500:510]

    def index_of(order, n_batches):
        index = CodeIndex(n_bits, weights, **options)
        for part in np.array_split(order, n_batches):
            index.add(codes[part], ids=ids[part], labels=labels[part])
        return index

    one = index_of(np.arange(n), 1)
    one.remove(gone)
    queries = codes[:4]
    answers = found(one, queries, k, excluded=excluded)
    other = index_of(rng.permutation(np.arange(500, n)), 7)
    assert [sorted(a) for a in found(other, queries[::-1], k, excluded=excluded)[::-1]] == [
        sorted(a) for a in answers
    ]
    left = np.arange(510, n)
    per_class = np.broadcast_to(weights.reshape(n_bits, -1), (n_bits, 3))
    for query, answer in zip(queries, answers):
        differ = np.unpackbits(query ^ codes[left], axis=1)[:, :n_bits]
        distances = np.einsum("ns,sn->n", differ, per_class[:, labels[left]])
        kth = np.sort(distances)[k - 1]
        wanted = set(zip(ids[left].tolist(), distances.tolist(), labels[left].tolist()))
        assert set(answer) <= {entry for entry in wanted if entry[1] <= kth}
        assert {e for e in answer if e[1] < kth} == {e for e in wanted if e[1] < kth}
        n_tied, n_found = (distances == kth).sum(), sum(entry[1] == kth for entry in answer)
        assert n_found == n_tied or (n_tied >= 100 and n_found >= 40)
        assert n_found == n_tied or n_tied > n_found
        if n_tied > 800:
            assert n_found < n_tied


@pytest.mark.parametrize("order", ["class by class", "in turn", "shuffled"])
def test_the_subset_favours_no_class_and_no_place(order):
    """Of 40,000 ties in ten even classes a subset votes: neither classes nor places are over-represented.

    Shares of m ids drawn at random have a standard deviation of sqrt(.1 x .9 / m); 4.5 of them are allowed.
    """
    n = 40_000
    labels = {
        "class by class": np.repeat(np.arange(10), n // 10),
        "in turn": np.arange(n) % 10,
        "shuffled": np.random.default_rng(0).integers(0, 10, n),
    }[order]
    index = CodeIndex(8)
    index.add(np.zeros((n, 1), np.uint8), labels=labels)
    (answer,) = found(index, np.zeros((1, 1), np.uint8), 10)
    ids, _, voters = map(np.array, zip(*answer))
    assert 512 <= len(ids) < n
    limit = 4.5 * np.sqrt(0.09 / len(ids))
    for groups in (voters, ids * 10 // n):
        assert np.abs(np.bincount(groups, minlength=10) / len(ids) - 0.1).max() < limit


def test_nearest_codes_are_those_of_a_search_without_the_excluded():
    """Ids 0 to 5 at distances 0, 0, 1, 1, 2, 2: without 0 and 3, the nearest three are 1, 2 and 4."""
    index = CodeIndex(8)
    index.add(np.array([[0], [0], [1], [2], [3], [3]], np.uint8), labels=list("abcdef"))
    near = nearest_codes(index, np.zeros((1, 1), np.uint8), 3, excluded=np.array([0, 3]))
    assert near.ids.tolist() == [[1, 2, 4]]
    assert near.labels.tolist() == [["b", "c", "e"]]
    assert nearest_codes(index, np.zeros((1, 1), np.uint8), 6, excluded=np.array([0])).ids.tolist() == [
        [1, 2, 3, 4, 5, -1]
    ]
