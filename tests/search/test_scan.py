"""The scans against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid import codes as packed
from cbid.search._compile import HAS_AVX2
from cbid.search.queries import Queries
from cbid.search.scan import to_blocks, topk, within

PATHS = [False, True] if HAS_AVX2 else [False]


def brute_force(codes, queries):
    """Distances (q, n): each bit's cost, summed in float64 and rounded once."""
    bits = np.unpackbits(codes, axis=1, count=queries.n_bits).astype(float)
    if_zero, if_one = queries.costs(0, len(queries))
    return (if_zero @ (1 - bits).T + if_one @ bits.T).astype(np.float32)


def nearest(distances, k, keep=None, start=0, bound=np.inf):
    """Positions and distances (q, k) by (distance, position), empty places filled."""
    q, n = distances.shape
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
@settings(max_examples=60, deadline=None)
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
