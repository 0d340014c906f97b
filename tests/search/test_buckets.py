"""Buckets against the scan, bit for bit."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.search import CodeIndex, buckets
from cbid.search.buckets import BucketTables, SearchClock
from cbid.search.queries import Queries
from tests.search.reference import random_codes


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    """Tables for a few codes, and searches that never give up on them."""
    monkeypatch.setattr(buckets, "FEWEST_CODES", 1)
    monkeypatch.setattr(buckets, "_LEAST_VISITS", 1 << 16)
    monkeypatch.setattr(buckets, "_LEAST_WORK", 1 << 40)


def clustered(rng, n, n_bits, flips=0.1):
    centres = rng.integers(0, 2, (5, n_bits), dtype=np.uint8)
    bits = centres[rng.integers(0, 5, n)] ^ (rng.random((n, n_bits)) < flips)
    return np.packbits(bits, axis=1)


def weights_of(kind, rng, n_bits):
    if kind == "plain":
        return None
    if kind == "whole":  # many ties
        return rng.integers(0, 3, n_bits).astype(float)
    return rng.exponential(size=n_bits)


@st.composite
def indexes(draw):
    """The same codes in two indexes, by scan and by buckets: several segments, removed codes, labels."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_bits = draw(st.sampled_from([5, 40, 64, 70, 128, 250]))
    weights = weights_of(draw(st.sampled_from(["plain", "whole", "real"])), rng, n_bits)
    n = draw(st.integers(1, 600))
    codes = clustered(rng, n, n_bits, draw(st.sampled_from([0.02, 0.2])))
    codes[: n // 4] = codes[0]  # equal codes: ties by id
    ids, labels = rng.permutation(3 * n)[:n], rng.integers(0, 3, n)
    removed = rng.choice(ids, n // 5, replace=False)
    made = []
    for method in ("scan", "buckets"):
        index = CodeIndex(n_bits, weights, method=method, n_threads=draw(st.sampled_from([1, 2])))
        index.add(codes[: n // 2], ids[: n // 2], labels[: n // 2])
        index.search(codes[:2], 1)  # builds tables before the other half is added
        index.add(codes[n // 2 :], ids[n // 2 :], labels[n // 2 :])
        if len(removed):
            index.remove(removed)
        made.append(index)
    queries = np.concatenate([codes[rng.integers(0, n, 6)], random_codes(rng, 3, n_bits), clustered(rng, 8, n_bits)])
    return made, queries


@settings(max_examples=40, deadline=None)
@given(indexes(), st.sampled_from([1, 3, 10, 700]), st.booleans(), st.sampled_from([None, [0, 2]]))
def test_k_nearest_are_those_of_the_scan(made, k, weighted, labels):
    (by_scan, by_buckets), queries = made
    expected = by_scan.search(queries, k, weighted=weighted, labels=labels)
    found = by_buckets.search(queries, k, weighted=weighted, labels=labels)
    assert (found.ids == expected.ids).all()
    assert (found.distances == expected.distances).all()
    assert (found.labels == expected.labels).all()


@settings(max_examples=30, deadline=None)
@given(indexes(), st.sampled_from([0, 1, 2.5, 9, 1e9]), st.booleans(), st.sampled_from([None, [0, 2]]))
def test_codes_within_a_radius_are_those_of_the_scan(made, radius, weighted, labels):
    (by_scan, by_buckets), queries = made
    expected = by_scan.range_search(queries, radius, weighted=weighted, labels=labels)
    found = by_buckets.range_search(queries, radius, weighted=weighted, labels=labels)
    assert (found.offsets == expected.offsets).all()
    assert (found.ids == expected.ids).all()
    assert (found.distances == expected.distances).all()


def made_index(method="buckets", n=3000, n_bits=64, **options):
    rng = np.random.default_rng(0)
    index = CodeIndex(n_bits, rng.exponential(size=n_bits), method=method, **options)
    codes = clustered(rng, n, n_bits, 0.05)
    index.add(codes)
    return index, codes[:20]


def test_tables_serve_near_queries_without_a_scan(monkeypatch):
    index, queries = made_index()
    expected = CodeIndex(64, index.weights, method="scan")
    expected.add(index.reconstruct(index.ids))
    wanted = expected.search(queries, 10)
    monkeypatch.setattr(buckets, "topk", None)  # a scan would raise
    monkeypatch.setattr(buckets, "within", None)
    found = index.search(queries, 10)
    assert (np.diff(index.range_search(queries, 2).offsets) > 0).all()
    assert (found.ids == wanted.ids).all()
    assert (found.distances == wanted.distances).all()


@pytest.mark.parametrize("visits", [1, 1 << 16])
def test_a_search_that_is_given_up_is_scanned(monkeypatch, visits):
    monkeypatch.setattr(buckets, "_LEAST_VISITS", visits)
    monkeypatch.setattr(buckets, "_LEAST_WORK", 10)
    rng = np.random.default_rng(1)
    codes, queries = random_codes(rng, 2000, 256), random_codes(rng, 9, 256)  # far from everything
    tables = BucketTables(codes, 256)
    assert tables.topk(Queries.from_codes(queries, 256), 5, most_work=10)[2].all()
    assert tables.within(Queries.from_codes(queries, 256), np.float32(200), most_work=10)[3].all()
    index = CodeIndex(256, method="buckets")
    index.add(codes)
    scan = CodeIndex(256, method="scan")
    scan.add(codes)
    assert (index.search(queries, 5).ids == scan.search(queries, 5).ids).all()
    assert (index.range_search(queries, 110).ids == scan.range_search(queries, 110).ids).all()


def test_save_open_add_and_copy_keep_the_answers(tmp_path):
    index, queries = made_index()
    wanted = index.search(queries, 10)
    without = sum(segment.nbytes - segment.tables.nbytes for segment in index._segments())
    assert index.nbytes > without + 12 * len(index)
    index.save(tmp_path / "index")
    opened = CodeIndex.open(tmp_path / "index", method="buckets")
    assert opened.method == "buckets"
    assert CodeIndex.open(tmp_path / "index").method == "auto"
    for other in (opened, copy.copy(index)):
        assert all(segment.tables is None for segment in other._segments())
        assert (other.search(queries, 10).ids == wanted.ids).all()
    opened.add(queries)
    opened.remove(wanted.ids[0, :1])
    found = opened.search(queries[:1], 1)
    assert found.ids[0, 0] != wanted.ids[0, 0]
    assert found.distances[0, 0] == 0


def test_filters_projections_and_weights_of_a_search():
    index, queries = made_index(n=500)
    scan = CodeIndex(64, index.weights, method="scan")
    scan.add(index.reconstruct(index.ids))
    own = np.random.default_rng(5).random((len(queries), 64))
    for options in (
        {"codes": queries, "among": index.ids[::3]},
        {"codes": queries, "weights": own},
        {"projections": own - 0.5},
    ):
        assert (index.search(k=7, **options).ids == scan.search(k=7, **options).ids).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "hash"}, "method='hash'"),
        ({"method": "scan", "cells": 4}, "method='scan' and cells=4"),
        ({"method": "buckets", "n_bits": 1024}, "n_bits=1024"),
        ({"method": "buckets", "weights": np.ones((64, 2))}, "per class"),
    ],
)
def test_methods_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        CodeIndex(**{"n_bits": 64, **options})


def test_method_of_an_index_with_cells(tmp_path):
    index = CodeIndex(16, cells=2)
    assert index.method == CodeIndex(16, method="cells", cells=2).method == "cells"
    assert CodeIndex(16, method="cells").cells == 1024
    index.save(tmp_path / "index")
    with pytest.raises(ValueError, match="method='buckets' and cells=2"):
        CodeIndex.open(tmp_path / "index", method="buckets", writable=True)
    CodeIndex.open(tmp_path / "index", writable=True).close()  # the lock was released


def test_auto_builds_after_scans_and_uses_the_faster_method(monkeypatch):
    index, queries = made_index("auto")
    wanted = index.search(queries, 10)
    (segment,) = index._segments()
    assert segment.tables is None
    assert segment.clock.scanned > 0
    segment.clock.scanned = 1e9
    for _ in range(3):
        assert (index.search(queries, 10).ids == wanted.ids).all()
        assert (index.range_search(queries, 1).ids == index.range_search(queries, 1).ids).all()
    assert segment.tables is not None
    kind = ("k", 10, False, True)
    assert segment.clock.expected(kind, "scan") > 0
    assert segment.clock.expected(kind, "buckets") > 0
    index.search(queries, 10, labels=None, among=[0])  # filtered: not measured
    monkeypatch.setattr(buckets.os, "sysconf", lambda name: 1)
    copied = copy.copy(index)
    copied._segments()[0].clock.scanned = 1e9
    copied.search(queries, 10)
    assert copied._segments()[0].tables is None  # not enough memory


def test_the_time_of_a_search_that_compiles_is_not_recorded(monkeypatch):
    """The first scan of a process loads its kernel: recorded, it would count as slower than buckets for very long."""
    index, queries = made_index("auto")
    loaded = itertools.count()
    monkeypatch.setattr(buckets, "_n_kernels", lambda: next(loaded))
    index.search(queries, 10)
    (segment,) = index._segments()
    assert segment.clock.expected(("k", 10, False, True), "scan") is None
    monkeypatch.setattr(buckets, "_n_kernels", lambda: 2)
    index.search(queries, 10)
    assert segment.clock.expected(("k", 10, False, True), "scan") > 0


def test_clock_counts_queries_that_take_long():
    """Buckets are three times as fast for 60 % of the queries, and four times as slow for the others."""
    clock, kind = SearchClock(), ("k", 1)
    for i in range(20):
        clock.record(kind, "scan", 1, 3e-3)
        clock.record(kind, "buckets", 1, 1e-3 if i % 5 < 3 else 12e-3)
    assert clock.expected(kind, "buckets") > clock.expected(kind, "scan")


def test_clock_tries_the_slower_method_seldom():
    clock, kind = SearchClock(), ("k", 1)
    assert clock.plan(kind, 100) == [("buckets", 64), ("scan", 36)]
    assert clock.plan(kind, 4096) == [("buckets", 256), ("scan", 3840)]
    assert clock.plan(kind, 20) == [("buckets", 20), ("scan", 0)]
    clock.record(kind, "buckets", 64, 64 * 1e-3)
    assert clock.plan(kind, 100) == [("scan", 64), ("buckets", 36)]
    clock.record(kind, "scan", 64, 64 * 2e-3)
    plans = []
    for _ in range(400):
        plans.append(clock.plan(kind, 100))
        for method, n in plans[-1]:
            clock.record(kind, method, n, n * {"scan": 2e-3, "buckets": 1e-3}[method])
    assert [("buckets", 100)] in plans
    assert [("scan", 64), ("buckets", 36)] in plans
    tried = sum(n * 2e-3 for plan in plans for method, n in plan if method == "scan")
    assert tried < 0.015 * sum(n * 1e-3 for plan in plans for method, n in plan if method == "buckets")
    for radius in range(300):  # does not grow without bound
        clock.record(("radius", radius), "scan", 1, 1e-3)
    assert len(clock._seconds) <= 256
