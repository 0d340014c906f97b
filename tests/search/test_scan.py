"""The scans against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid import codes as packed
from cbid.search.blocks import to_blocks
from cbid.search.kernels.compile import HAS_AVX2, simd_wanted
from cbid.search.queries import Queries
from cbid.search.scan import topk, within

PATHS = [False, True] if HAS_AVX2 else [False]


def brute_force(codes, queries):
    """Distances (q, n): each bit's cost, summed in float64 and rounded once."""
    bits = np.unpackbits(codes, axis=1, count=queries.n_bits).astype(float)
    if_zero, if_one = queries.costs(0, len(queries))
    return (if_zero @ (1 - bits).T + if_one @ bits.T).astype(np.float32)


def nearest(distances, k, keep=None, start=0, bound=np.inf):
    """Positions and distances (q, k) by (distance, position), empty places filled."""
    q = len(distances)
    wanted = np.zeros(distances.shape, bool)
    wanted[:, start:] = True
    if keep is not None:
        wanted &= keep.astype(bool)
    wanted &= distances <= np.reshape(bound, (-1, 1))
    masked = np.where(wanted, distances, np.inf)
    order = np.argsort(masked, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(wanted, order, axis=1)
    positions = np.full((q, k), -1)
    positions[:, : order.shape[1]] = np.where(found, order, -1)
    out = np.full((q, k), np.inf, np.float32)
    out[:, : order.shape[1]] = np.take_along_axis(masked, order, axis=1)
    return positions, out


def random_codes(rng, n, n_bits):
    return packed.pack(rng.integers(0, 2, (n, n_bits)).reshape(n, n_bits))


# Weights whose sums are exact in float32, so that brute force ties where the kernels tie.
EXACT_WEIGHTS = {
    "plain": lambda rng, t: None,
    "equal": lambda rng, t: np.full(t, 0.25),
    "zero": lambda rng, t: np.zeros(t),
    "quarters": lambda rng, t: rng.integers(0, 9, t) / 4,
    "powers": lambda rng, t: 2.0 ** rng.integers(-3, 4, t),
    "huge": lambda rng, t: np.full(t, 2.0**99),
    "tiny": lambda rng, t: np.full(t, 2.0**-99),
}
FLOAT_WEIGHTS = {
    "uniform": lambda rng, t: rng.uniform(0.5, 1.5, t),
    "exponential": lambda rng, t: rng.exponential(size=t),
    "1e30": lambda rng, t: 1e30 * rng.random(t),
    "1e-30": lambda rng, t: 1e-30 * rng.random(t),
    "mixed": lambda rng, t: 10.0 ** rng.uniform(-30, 30, t),
}


@st.composite
def cases(draw, weights):
    """Codes, their number of bits, and queries, some of them stored codes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_bits = draw(st.one_of(st.integers(1, 70), st.integers(1, 300), st.integers(1, 4096)))
    n = draw(st.one_of(st.integers(0, 100), st.integers(0, 5000 if n_bits < 300 else 600)))
    codes = random_codes(rng, n, n_bits)
    if n and draw(st.booleans()):  # duplicates
        codes = codes[rng.integers(0, min(n, 5), n)]
    asked = random_codes(rng, draw(st.integers(0, 9)), n_bits)
    if n:
        asked = np.concatenate([asked, codes[rng.integers(0, n, draw(st.integers(0, 2)))]])
    chosen = weights[draw(st.sampled_from(sorted(weights)))]
    w = chosen(rng, n_bits)
    if w is not None and draw(st.booleans()):
        w = np.array([chosen(rng, n_bits) for _ in asked]).reshape(len(asked), n_bits)
    return codes, asked, n_bits, w, rng


@pytest.mark.parametrize("simd", PATHS)
@settings(max_examples=30, deadline=None)
@given(case=cases(EXACT_WEIGHTS), k=st.integers(1, 120), data=st.data())
def test_topk_equals_brute_force(simd, case, k, data):
    codes, asked, n_bits, w, rng = case
    queries = Queries.from_codes(asked, n_bits, w)
    distances = brute_force(codes, queries)
    n = len(codes)
    start = data.draw(st.integers(0, n))
    keep = data.draw(st.sampled_from([None, 0.0, 0.02, 0.5, 0.97]))
    if keep is not None:
        keep = (rng.random(n) < keep).astype(np.uint8)
    bound = np.inf
    if n and len(asked) and data.draw(st.booleans()):
        bound = rng.choice(distances.ravel(), len(asked))
    n_threads = data.draw(st.integers(1, 2))
    positions, found = topk(
        to_blocks(codes), n, queries, k, start=start, keep=keep,
        bound=None if np.ndim(bound) == 0 else bound, n_threads=n_threads, simd=simd,
    )  # fmt: skip
    expected = nearest(distances, k, keep, start, bound)
    np.testing.assert_array_equal(found, expected[1])
    np.testing.assert_array_equal(positions, expected[0])
    assert positions.dtype == np.int64
    assert found.dtype == np.float32


@pytest.mark.parametrize("simd", PATHS)
@settings(max_examples=20, deadline=None)
@given(case=cases(FLOAT_WEIGHTS), k=st.integers(1, 40), asymmetric=st.booleans())
def test_float_weights_and_projections_are_near_brute_force(simd, case, k, asymmetric):
    """Positions may differ from brute force only between distances that rounding cannot tell apart."""
    codes, asked, n_bits, w, rng = case
    queries = Queries.from_codes(asked, n_bits, w)
    if asymmetric:
        queries = Queries.from_projections(rng.normal(size=(len(asked), n_bits)), w)
    distances = brute_force(codes, queries)
    positions, found = topk(to_blocks(codes), len(codes), queries, k, simd=simd, n_threads=1)
    expected = nearest(distances, k)
    np.testing.assert_allclose(found, expected[1], rtol=1e-5)
    np.testing.assert_array_equal(positions < 0, expected[0] < 0)
    filled = positions >= 0
    at = np.take_along_axis(distances, np.where(filled, positions, 0), axis=1) if len(codes) else found
    np.testing.assert_allclose(found[filled], at[filled], rtol=1e-5)
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in positions)
    pairs = np.lexsort((positions[:, ::-1], found[:, ::-1]), axis=1)
    np.testing.assert_array_equal(np.take_along_axis(found[:, ::-1], pairs, axis=1), found, "ordered by distance")


@pytest.mark.parametrize("simd", PATHS)
@settings(max_examples=20, deadline=None)
@given(case=cases(EXACT_WEIGHTS), share=st.floats(0, 1), data=st.data())
def test_within_equals_brute_force(simd, case, share, data):
    codes, asked, n_bits, w, rng = case
    queries = Queries.from_codes(asked, n_bits, w)
    distances = brute_force(codes, queries)
    n = len(codes)
    radius = np.quantile(distances, share, axis=1, method="nearest") if n else np.zeros(len(asked))
    start = data.draw(st.integers(0, n))
    keep = (rng.random(n) < 0.6).astype(np.uint8) if data.draw(st.booleans()) else None
    offsets, positions, found = within(
        to_blocks(codes), n, queries, radius, start=start, keep=keep, simd=simd,
        n_threads=data.draw(st.integers(1, 2)),
    )  # fmt: skip
    assert offsets[0] == 0
    assert len(offsets) == len(asked) + 1
    for q in range(len(asked)):
        wanted = np.flatnonzero((distances[q] <= radius[q]) & (np.arange(n) >= start))
        if keep is not None:
            wanted = wanted[keep[wanted] > 0]
        wanted = wanted[np.argsort(distances[q, wanted], kind="stable")]
        here = slice(offsets[q], offsets[q + 1])
        np.testing.assert_array_equal(positions[here], wanted)
        np.testing.assert_array_equal(found[here], distances[q, wanted])


@settings(max_examples=25, deadline=None)
@given(case=cases({**EXACT_WEIGHTS, **FLOAT_WEIGHTS}), k=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_xor_with_a_mask_changes_nothing(case, k, seed):
    codes, asked, n_bits, w, _ = case
    mask = random_codes(np.random.default_rng(seed), 1, n_bits)
    plain = topk(to_blocks(codes), len(codes), Queries.from_codes(asked, n_bits, w), k)
    masked = topk(to_blocks(codes ^ mask), len(codes), Queries.from_codes(asked ^ mask, n_bits, w), k)
    np.testing.assert_array_equal(plain[0], masked[0])
    np.testing.assert_array_equal(plain[1], masked[1])


@settings(max_examples=25, deadline=None)
@given(case=cases(FLOAT_WEIGHTS), k=st.integers(1, 40))
def test_filters_and_threads_do_not_change_a_bit(case, k):
    codes, asked, n_bits, w, rng = case
    queries = Queries.from_projections(rng.normal(size=(len(asked), n_bits)), w)
    blocks = to_blocks(codes)
    answers = [
        topk(blocks, len(codes), queries, k, simd=simd, n_threads=n_threads)
        for simd in PATHS
        for n_threads in (1, 2, 3)
    ]
    for positions, distances in answers[1:]:
        np.testing.assert_array_equal(positions, answers[0][0])
        np.testing.assert_array_equal(distances, answers[0][1])


@pytest.mark.parametrize(("n_bits", "n_queries"), [(64, 1), (128, 40), (250, 2), (1024, 2)])
def test_many_codes_in_threads(n_bits, n_queries):
    """Several chunks, both kinds of sums, both ways to divide the work; clusters, as real codes have."""
    rng = np.random.default_rng(n_bits)
    n = 40_011
    centres = rng.random((20, n_bits)) < 0.5
    bits = centres[rng.integers(0, 20, n)] ^ (rng.random((n, n_bits)) < 0.1)
    codes = packed.pack(bits)
    keep = (rng.random(n) < 0.3).astype(np.uint8)
    for w in (None, 2.0 ** rng.integers(-4, 5, n_bits)):
        queries = Queries.from_codes(codes[rng.integers(0, n, n_queries)], n_bits, w)
        distances = brute_force(codes, queries)
        for filtered in (None, keep):
            expected = nearest(distances, 25, filtered, start=77)
            for n_threads in (1, 2):
                positions, found = topk(
                    to_blocks(codes), n, queries, 25, start=77, keep=filtered, n_threads=n_threads
                )
                np.testing.assert_array_equal(positions, expected[0])
                np.testing.assert_array_equal(found, expected[1])


def test_segments_with_a_bound_give_what_one_scan_gives():
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 9000, 96)
    queries = Queries.from_codes(random_codes(rng, 6, 96), 96, rng.integers(0, 5, 96) / 4)
    whole = topk(to_blocks(codes), 9000, queries, 10)
    first = topk(to_blocks(codes[:4000]), 4000, queries, 10)
    second = topk(to_blocks(codes[4000:]), 5000, queries, 10, bound=first[1][:, -1])
    positions = np.concatenate([first[0], np.where(second[0] < 0, -1, second[0] + 4000)], axis=1)
    distances = np.concatenate([first[1], second[1]], axis=1)
    nearest_of_both = np.argsort(distances, axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(np.take_along_axis(positions, nearest_of_both, axis=1), whole[0])
    assert (second[1][second[0] >= 0] <= np.repeat(first[1][:, -1], (second[0] >= 0).sum(axis=1))).all()


def test_a_read_only_memory_map(tmp_path):
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 1000, 40)
    np.save(tmp_path / "blocks.npy", to_blocks(codes))
    mapped = np.load(tmp_path / "blocks.npy", mmap_mode="r")
    queries = Queries.from_codes(codes[:3], 40)
    for a, b in zip(topk(mapped, 1000, queries, 5), topk(to_blocks(codes), 1000, queries, 5)):
        np.testing.assert_array_equal(a, b)


def test_a_distance_that_rounds_to_the_bound_counts():
    """Two bits of weight 1 and 2**-30 sum to 1 in float32: within a bound, and a radius, of 1."""
    codes = packed.pack([[1, 1], [1, 0], [0, 1], [0, 0]])
    queries = Queries.from_codes(codes[3], 2, [1, 2.0**-30])
    positions, distances = topk(to_blocks(codes), 4, queries, 4, bound=[1.0])
    np.testing.assert_array_equal(positions, [[3, 2, 0, 1]])
    np.testing.assert_array_equal(distances, np.float32([[0, 2.0**-30, 1, 1]]))
    offsets, positions, _ = within(to_blocks(codes), 4, queries, 1 - 1e-12)
    np.testing.assert_array_equal(offsets, [0, 2])
    np.testing.assert_array_equal(positions, [3, 2])


def test_the_environment_chooses_the_filter(monkeypatch):
    monkeypatch.setenv("CBID_SIMD", "off")
    assert not simd_wanted()
    monkeypatch.setenv("CBID_SIMD", "auto")
    assert simd_wanted() == HAS_AVX2
    monkeypatch.setenv("CBID_SIMD", "fast")
    with pytest.raises(ValueError, match="CBID_SIMD='fast'"):
        simd_wanted()


BLOCKS = to_blocks(np.zeros((40, 2), np.uint8))
QUERIES = Queries.from_codes(np.zeros((3, 2), np.uint8), 16)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: topk(BLOCKS, 40, QUERIES, 0), ValueError, "k=0"),
        (lambda: topk(BLOCKS, 40, QUERIES, 2.0), TypeError, r"k=2\.0"),
        (lambda: topk(BLOCKS, 65, QUERIES, 1), ValueError, "n=65"),
        (lambda: topk(BLOCKS, 40, QUERIES, 1, start=41), ValueError, "start=41"),
        (lambda: topk(BLOCKS[0], 40, QUERIES, 1), ValueError, r"blocks has shape \(2, 32\)"),
        (
            lambda: topk(BLOCKS, 40, QUERIES, 1, keep=np.ones(41, np.uint8)),
            ValueError,
            r"keep has shape \(41,\)",
        ),
        (lambda: topk(BLOCKS, 40, QUERIES, 1, keep=np.ones(40)), ValueError, "dtype float64"),
        (lambda: topk(BLOCKS, 40, QUERIES, 1, bound=[1.0]), ValueError, r"bound has shape \(1,\)"),
        (lambda: topk(BLOCKS, 40, QUERIES, 1, n_threads=0), ValueError, "n_threads=0"),
        (lambda: within(BLOCKS, 40, QUERIES, np.nan), ValueError, "radius has shape .* NaN"),
        (
            lambda: topk(BLOCKS, 40, Queries.from_codes(np.zeros((1, 3), np.uint8), 24), 1),
            ValueError,
            "queries have 24 bits",
        ),
    ],
)
def test_errors_say_what_was_given_and_what_is_accepted(call, error, message):
    with pytest.raises(error, match=message):
        call()
