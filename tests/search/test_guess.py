"""Thresholds guessed from a sample: right where the sample is like the rest, asked for again where it is not."""

import numpy as np
import pytest
from tests.search.test_scan import brute_force, nearest, random_codes

from cbid.search import _scan
from cbid.search._compile import HAS_AVX2
from cbid.search._registers import BLOCKS
from cbid.search.queries import Queries
from cbid.search.scan import to_blocks, topk

PATHS = [False, True] if HAS_AVX2 else [False]
ENOUGH = 32 * BLOCKS * _scan.SAMPLED * _scan.PLACES  # codes from which on a sample is taken


def check(codes, queries, k, simd, **options):
    positions, distances = topk(to_blocks(codes), len(codes), queries, k, simd=simd, n_threads=1, **options)
    wanted = nearest(brute_force(codes, queries), k, **options)
    np.testing.assert_array_equal(distances, wanted[1])
    np.testing.assert_array_equal(positions, wanted[0])


def kernel(codes, queries, k, guess=True):
    """What the kernel says of its guesses, and the distances it found."""
    empty = np.empty(0, np.uint8)
    blocks = to_blocks(codes)
    for array in (empty, blocks):
        array.flags.writeable = False
    q = len(queries)
    distances, positions = np.empty((q, k), np.float32), np.empty((q, k), np.int64)
    thresholds = np.full(q, np.inf, np.float32)
    costs = queries.costs(0, q)
    too_low = _scan.scan_topk(
        blocks, 0, len(codes), empty, *costs, None if HAS_AVX2 else True, guess, thresholds, distances, positions
    )  # fmt: skip
    return too_low, distances


@pytest.mark.parametrize("simd", PATHS)
@pytest.mark.parametrize("k", [10, 100, 3000])
@pytest.mark.parametrize("kind", ["plain", "quarters"])
def test_a_sampled_scan_equals_brute_force(simd, k, kind):
    rng = np.random.default_rng(k)
    n, n_bits = ENOUGH + 77, 40
    codes = random_codes(rng, n, n_bits)
    weights = None if kind == "plain" else rng.integers(0, 9, n_bits) / 4
    queries = Queries.from_codes(np.concatenate([codes[:2], random_codes(rng, 3, n_bits)]), n_bits, weights)
    check(codes, queries, k, simd)
    keep = (rng.random(n) < 0.02).astype(np.uint8)
    check(codes, queries, k, simd, keep=keep)
    bound = np.sort(brute_force(codes, queries), axis=1)[:, [0, k // 2, k - 1, k, -1]].diagonal()
    check(codes, queries, k, simd, bound=bound)


def test_a_sample_of_all_alike_is_enough():
    rng = np.random.default_rng(0)
    codes = random_codes(rng, ENOUGH, 64)
    too_low, distances = kernel(codes, Queries.from_codes(random_codes(rng, 200, 64), 64), 50)
    assert not too_low.any()
    assert np.isfinite(distances).all()


def planted(near, where):
    """Random codes but for ``near`` copies of one code, from position ``where`` on."""
    rng = np.random.default_rng(1)
    codes = random_codes(rng, ENOUGH + 32, 64)
    codes[where : where + near] = codes[where]
    return codes, Queries.from_codes(codes[[where, 0]], 64)


@pytest.mark.parametrize("simd", PATHS)
def test_near_codes_in_the_sample_alone_do_not_hide_the_others(simd):
    # The sample begins at the first block: there lie five of the ten nearest, and no other is as near as they are.
    codes, queries = planted(near=5, where=8)
    too_low, distances = kernel(codes, queries, 10)
    assert too_low.tolist() == [True, False]  # so that this case is the one that it should be
    assert np.isinf(distances[0, 5:]).all()
    check(codes, queries, 10, simd)


@pytest.mark.parametrize("simd", PATHS)
def test_near_codes_beside_the_sample_are_found(simd):
    codes, queries = planted(near=40, where=32 * BLOCKS * _scan.SAMPLED // 2 + 5)
    assert not kernel(codes, queries, 10)[0].any()
    check(codes, queries, 10, simd)


def test_without_a_guess_nothing_is_asked_for_again():
    codes, queries = planted(near=5, where=8)
    too_low, distances = kernel(codes, queries, 10, guess=False)
    assert not too_low.any()
    np.testing.assert_array_equal(distances, nearest(brute_force(codes, queries), 10)[1])


def test_equal_distances_everywhere():
    codes = np.zeros((ENOUGH + 1, 3), np.uint8)
    queries = Queries.from_codes(np.zeros((1, 3), np.uint8), 24, np.ones(24))
    positions, distances = topk(to_blocks(codes), len(codes), queries, 12)
    assert positions.tolist() == [list(range(12))]
    assert not distances.any()
