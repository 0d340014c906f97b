"""Shared lookups of many queries under one weight vector: the filter against sums in numpy, and whole scans."""

import itertools

import numpy as np
import pytest

from cbid.search.blocks import to_blocks
from cbid.search.kernels.compile import compiled
from cbid.search.kernels.shared import (
    AT_A_TIME,
    MANY_SHARING,
    SHARED_LOOKUPS,
    fit_scale,
    make_shared,
    ready_to_share,
    set_limit,
    shared_candidates,
)
from cbid.search.kernels.vectors import BLOCKS, GROUP
from cbid.search.partition import Partition
from cbid.search.queries import Queries
from cbid.search.scan import topk
from tests.search.reference import random_codes

pytestmark = pytest.mark.skipif(not SHARED_LOOKUPS, reason="lookups are shared with AVX2 only")


@compiled
def run(weights, asked, blocks, rooms, queries, codes):
    shared = make_shared(weights, asked)
    fit_scale(shared, 3.0 * rooms.max(), len(blocks))  # tables that have to be rebuilt
    fit_scale(shared, rooms.max(), len(blocks))
    for q in range(len(rooms)):
        set_limit(shared, q, rooms[q])
    at, per_block = np.int64(blocks.ctypes.data), 32 * blocks.shape[1]
    count = shared_candidates(shared, at, len(blocks), per_block, queries, codes)
    return count, shared.tables.quantised[0].copy(), shared.tables.columns, shared.passes, shared.limits


@compiled
def shares(weights, asked, thresholds):
    """Whether queries with these thresholds are scanned together."""
    return ready_to_share(make_shared(weights, asked), thresholds, 64)


def sums(quantised, columns, passes, asked, codes):
    """(q, n): saturating sums of the costs of differences; with two passes, the average of four."""
    parts = []
    edges = [0, len(columns)] if len(passes) == 1 else [*passes[0], *passes[1, 1:]]
    for begin, end in itertools.pairwise(edges):
        total = np.zeros((len(asked), len(codes)), int)
        for step in range(begin, min(end, len(columns))):
            differing = asked[:, None, columns[step]] ^ codes[None, :, columns[step]]
            total += quantised[step, 0][differing >> 4].astype(int) + quantised[step, 1][differing & 15]
        parts.append(np.minimum(total, 255))
    while len(parts) > 1:
        parts = [(a + b + 1) // 2 for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


@pytest.mark.long  # compiles the filter alone; the whole scans below check the candidates they need
@pytest.mark.parametrize("n_queries", [GROUP + 1, 70])
@pytest.mark.parametrize("width", [1, 7, 16, 17, 32])
@pytest.mark.parametrize("weights", ["even", "exponential", "skewed", "first bits", "last bits"])
def test_candidates_are_the_codes_below_the_limit(weights, width, n_queries):
    rng = np.random.default_rng([len(weights), width, n_queries])
    weights = {
        "even": lambda: np.ones((1, 8 * width)),
        "exponential": lambda: rng.exponential(size=(1, 8 * width)),
        "skewed": lambda: rng.exponential(size=(1, 8 * width)) ** 6,
        "first bits": lambda: np.where(np.arange(8 * width) < 64, 1.0, 1e-9)[None],  # a part has no columns
        "last bits": lambda: np.repeat([[1e-9, 1.0]], [8 * width - 8, 8], axis=1),
    }[weights]()
    n_blocks = BLOCKS * int(rng.integers(1, AT_A_TIME + 1))
    blocks = rng.integers(0, 256, (n_blocks, width, 32), dtype=np.uint8)
    codes = blocks.transpose(0, 2, 1).reshape(-1, width)
    asked = rng.integers(0, 256, (n_queries, width), dtype=np.uint8)
    distances = np.unpackbits(asked[:, None] ^ codes[None], axis=2) @ weights[0]
    rooms = np.quantile(distances, 0.002 + 0.2 * rng.random(n_queries))
    rooms[: n_queries // 5] = 0.0  # no code is wanted
    queries, found = np.empty(32 * n_blocks * n_queries, np.int32), np.empty(32 * n_blocks * n_queries, np.int32)
    count, quantised, columns, passes, limits = run(weights, asked, blocks, rooms, queries, found)

    passing = sums(quantised, columns, passes, asked, codes) < limits[:n_queries, None]
    reported = np.zeros_like(passing)
    reported[queries[:count], found[:count]] = True
    assert count == passing.sum()
    np.testing.assert_array_equal(reported, passing)
    for q in range(n_queries):  # so that of equal distances the smaller position is found first
        assert np.all(np.diff(found[:count][queries[:count] == q]) > 0)
    # and so nothing that is wanted is missed
    assert passing[(distances <= rooms[:, None] * (1 - 1e-9)) & (rooms[:, None] > 0)].all()


def brute_force(asked, codes, n_bits, weights, k, keep):
    bits = np.unpackbits(asked, axis=1, count=n_bits), np.unpackbits(codes, axis=1, count=n_bits)
    signs = [2.0 * b - 1.0 for b in bits]
    distances = (weights.sum() - (signs[0] * weights) @ signs[1].T) / 2
    distances[:, keep == 0] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, axis=1)


# Multiples of powers of two, whose sums are exact: so that ties are ties.
WEIGHTS = {
    "plain": lambda rng, t: np.ones(t),
    "uniform": lambda rng, t: rng.integers(32, 96, t) / 64,
    "skewed": lambda rng, t: np.exp2(rng.integers(-6, 6, t)),
    "one": lambda rng, t: (np.arange(t) == t // 2) * 0.5,
    "tiny": lambda rng, t: rng.integers(32, 96, t) * 2.0**-140,
    "huge": lambda rng, t: rng.integers(32, 96, t) * 2.0**90,
}


def some_codes(rng, n, n_queries, n_bits):
    """Half of the codes around centres, half at random; half of the queries are codes."""
    centres = random_codes(rng, 40, n_bits)
    near = random_codes(rng, n, n_bits) & random_codes(rng, n, n_bits) & random_codes(rng, n, n_bits)
    codes = np.where(rng.random((n, 1)) < 0.5, centres[rng.integers(0, 40, n)] ^ near, random_codes(rng, n, n_bits))
    asked = np.concatenate([codes[: n_queries // 2], random_codes(rng, n_queries - n_queries // 2, n_bits)])
    return codes, asked


@pytest.mark.parametrize(
    ("kind", "n_bits"),
    [*((kind, 130) for kind in WEIGHTS), ("plain", 256), *(("uniform", n_bits) for n_bits in (8, 100, 128, 256))],
)
def test_many_queries_of_one_weight_vector_find_the_nearest(kind, n_bits):
    rng = np.random.default_rng([n_bits, len(kind)])
    weights = WEIGHTS[kind](rng, n_bits)
    n = 12_345
    codes, asked = some_codes(rng, n, MANY_SHARING + 9, n_bits)
    blocks, keep = to_blocks(codes), (rng.random(n) < 0.6).astype(np.uint8)
    queries = Queries.from_codes(asked, n_bits, None if kind == "plain" else weights)
    for k, start, kept in ((1, 0, None), (10, 77, None), (10, 0, keep), (100, 0, None), (n + 5, 12_000, keep)):
        wanted_from = np.arange(n) >= start if kept is None else (np.arange(n) >= start) & (kept > 0)
        wanted = brute_force(asked, codes, n_bits, weights, min(k, n), wanted_from)
        positions, distances = topk(blocks, n, queries, k, start=start, keep=kept, n_threads=1)
        check(positions[:, : wanted[0].shape[1]], distances[:, : wanted[0].shape[1]], wanted)
        if k > n:
            continue
        # With low bounds known beforehand, for some queries zero, the first chunk is shared already.
        bound = np.where(np.arange(len(asked)) % 7 == 3, 0.0, 0.75 * wanted[1][:, -1])
        expected = (
            np.where(wanted[1] <= bound[:, None], wanted[0], -1),
            np.where(wanted[1] <= bound[:, None], wanted[1], np.inf),
        )
        found = topk(blocks, n, queries, k, start=start, keep=kept, bound=bound, n_threads=1)
        check(*found, expected)


def check(positions, distances, wanted):
    missing = np.isinf(wanted[1])
    np.testing.assert_allclose(distances, wanted[1], rtol=1e-6)
    np.testing.assert_array_equal(positions, np.where(missing, -1, wanted[0]))


@pytest.mark.long
@pytest.mark.parametrize("n_bits", [64, 128, 256])
@pytest.mark.parametrize("kind", ["plain", "uniform"])
def test_sharing_begins_where_the_distances_are_known(kind, n_bits):
    """What the bounds of the test above rest on; and not where a limit would let everything pass."""
    rng = np.random.default_rng([n_bits, len(kind)])
    weights = WEIGHTS[kind](rng, n_bits)
    codes, asked = some_codes(rng, 12_345, MANY_SHARING, n_bits)
    nearest = brute_force(asked, codes, n_bits, weights, 1, np.ones(len(codes)))[1][:, 0].astype(np.float32)
    assert shares(weights[None], asked, np.float32(0.75) * nearest)
    assert not shares(weights[None], asked, np.full(len(asked), np.inf, np.float32))
    assert not shares(weights[None], asked, np.zeros(len(asked), np.float32))


@pytest.mark.parametrize("n_bits", [8, 128, 256])
def test_all_codes_are_the_query(n_bits):
    codes = np.repeat(random_codes(np.random.default_rng(n_bits), 1, n_bits), 3000, axis=0)
    positions, distances = topk(to_blocks(codes), len(codes), Queries.from_codes(codes[:100], n_bits), 5, n_threads=1)
    np.testing.assert_array_equal(positions, np.broadcast_to(np.arange(5), (100, 5)))
    np.testing.assert_array_equal(distances, 0)


@pytest.mark.parametrize(
    ("kind", "n_bits"),
    [*((kind, 128) for kind in (*WEIGHTS, "of each part")), ("uniform", 40), ("uniform", 200), ("of each part", 200)],
)
def test_the_nearest_of_each_part_for_many_queries(kind, n_bits):
    rng = np.random.default_rng([n_bits, len(kind)])
    parts = [random_codes(rng, n, n_bits) for n in (9000, 3, 4100)]
    asked = np.concatenate([random_codes(rng, 207, n_bits), parts[0][:50]])  # one more than share their readings
    if kind == "of each part":
        weights = np.stack([rng.integers(16, 96, n_bits) / 64 for _ in parts], axis=1)
    else:
        weights = np.repeat(WEIGHTS[kind](rng, n_bits)[:, None], len(parts), axis=1)
    given = weights if kind == "of each part" else weights[:, 0]
    found = Partition(parts, n_bits, given).nearest(asked, n_threads=1)
    for i, part in enumerate(parts):
        wanted = brute_force(asked, part, n_bits, weights[:, i], 1, np.ones(len(part)))[1][:, 0]
        np.testing.assert_allclose(found[:, i], wanted, rtol=1e-6)
