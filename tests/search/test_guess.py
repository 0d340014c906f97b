"""Thresholds guessed from a sample: right if the sample is like the rest, else searched again."""

import numpy as np
import pytest

from cbid.search.blocks import to_blocks
from cbid.search.kernels import scan as _scan
from cbid.search.kernels.compile import HAS_AVX2
from cbid.search.kernels.vectors import BLOCKS
from cbid.search.queries import Queries
from cbid.search.scan import topk
from tests.search.test_scan import brute_force, nearest, random_codes

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


@pytest.mark.parametrize(("share", "k"), [(1, 50), (1.25, 3000), (2.25, 3000)])
def test_a_sample_of_all_alike_is_enough(share, k):
    rng = np.random.default_rng(0)
    codes = random_codes(rng, int(share * ENOUGH), 64)
    too_low, distances = kernel(codes, Queries.from_codes(random_codes(rng, 100, 64), 64), k)
    assert not too_low.any()
    assert np.isfinite(distances).all()


def planted(where):
    """Random codes but for copies of one code at these positions; queries for that and for another code."""
    codes = random_codes(np.random.default_rng(1), ENOUGH, 64)
    codes[where] = codes[where[0]]
    return codes, Queries.from_codes(codes[[where[0], 1]], 64)


SIXTEENTH = ENOUGH // _scan.PLACES
IN_THE_SAMPLE = [8, 9, SIXTEENTH, 2 * SIXTEENTH, 3 * SIXTEENTH]  # half of the ten nearest, and no other so near


@pytest.mark.parametrize("simd", PATHS)
def test_near_codes_in_the_sample_alone_do_not_hide_the_others(simd):
    codes, queries = planted(IN_THE_SAMPLE)
    too_low, distances = kernel(codes, queries, 10)
    assert too_low.tolist() == [True, False]  # so that this case is the one that it should be
    assert np.isinf(distances[0, 5:]).all()
    check(codes, queries, 10, simd)


@pytest.mark.parametrize("simd", PATHS)
@pytest.mark.parametrize("where", [8, 2 * SIXTEENTH, SIXTEENTH // 2])
def test_like_codes_side_by_side_are_no_guess(simd, where):
    codes, queries = planted(list(range(where, where + 6)))
    assert not kernel(codes, queries, 10)[0].any()
    check(codes, queries, 10, simd)


def test_without_a_guess_nothing_is_searched_again():
    codes, queries = planted(IN_THE_SAMPLE)
    too_low, distances = kernel(codes, queries, 10, guess=False)
    assert not too_low.any()
    np.testing.assert_array_equal(distances, nearest(brute_force(codes, queries), 10)[1])


def test_equal_distances_everywhere():
    codes = np.zeros((ENOUGH + 1, 3), np.uint8)
    queries = Queries.from_codes(np.zeros((1, 3), np.uint8), 24, np.ones(24))
    positions, distances = topk(to_blocks(codes), len(codes), queries, 12)
    assert positions.tolist() == [list(range(12))]
    assert not distances.any()
