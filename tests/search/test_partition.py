"""The nearest code of each part, against brute force, on every path."""

import os
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import binding

from cbid.search import partition
from cbid.search.kernels import compile as _compile
from cbid.search.partition import Partition
from tests.search.reference import distances, random_codes

# By the settings that choose it: buckets for codes up to 32 bits, SIMD or portable scans for the others.
PATHS = [("buckets", "off"), ("scans", "off"), *([("scans", "auto")] if _compile.HAS_AVX2 else [])]


@contextmanager
def way(path):
    buckets, simd = path
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBID_SIMD", simd)
        patch.setattr(partition, "BUCKETS_UP_TO", 32 if buckets == "buckets" else 0)
        yield


# Weights whose sums are exact, so that brute force comes to the very same numbers.
WEIGHTS = {
    "plain": lambda rng, shape: None,
    "equal": lambda rng, shape: np.full(shape, 0.25),
    "zero": lambda rng, shape: np.zeros(shape),
    "quarters": lambda rng, shape: rng.integers(0, 9, shape) / 4,
    "powers": lambda rng, shape: 2.0 ** rng.integers(-3, 4, shape),
    "huge": lambda rng, shape: np.full(shape, 2.0**99),
    "tiny": lambda rng, shape: np.full(shape, 2.0**-140),
    "below float32": lambda rng, shape: np.full(shape, 2.0**-1040),
}


def brute_force(parts, asked, n_bits, weights):
    """(q, parts) least distances."""
    out = np.full((len(asked), len(parts)), np.inf, np.float32)
    for i, part in enumerate(parts):
        if len(part):
            w = weights if weights is None or np.ndim(weights) == 1 else weights[:, i]
            out[:, i] = distances(part, asked, n_bits, w).min(axis=1)
    return out


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
@settings(deadline=None, max_examples=30)
@given(st.data())
def test_equals_brute_force(path, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    most = 32 if path[0] == "buckets" else 500
    n_bits = data.draw(st.one_of(st.integers(1, min(most, 40)), st.integers(1, most)))
    sizes = data.draw(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 1500)), min_size=1, max_size=4))
    parts = [random_codes(rng, size, n_bits) for size in sizes]
    if data.draw(st.booleans()):  # alike, as patches are, so that many distances tie
        parts = [part[rng.integers(0, min(len(part), 7), len(part))] if len(part) else part for part in parts]
    asked = random_codes(rng, data.draw(st.integers(0, 40)), n_bits)
    if sum(sizes):
        stored = np.concatenate(parts)
        asked = np.concatenate([asked, stored[rng.integers(0, len(stored), 3)]])
    shape = (n_bits, len(parts)) if data.draw(st.booleans()) else n_bits
    weights = WEIGHTS[data.draw(st.sampled_from(sorted(WEIGHTS)))](rng, shape)
    with way(path):
        found = Partition(parts, n_bits, weights).nearest(asked, n_threads=data.draw(st.integers(1, 3)))
    np.testing.assert_array_equal(found, brute_force(parts, asked, n_bits, weights))


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
@pytest.mark.parametrize("n_bits", [16, 31, 128, 1000])
def test_uneven_weights_to_the_last_digit(path, n_bits):
    """Both sum in float64 and round once, in another order: they may differ by the last digit of a float32."""
    rng = np.random.default_rng(n_bits)
    parts = [random_codes(rng, n, n_bits) for n in (3000, 1, 700)]
    asked = parts[0][:50] ^ parts[0][50:100] & parts[0][100:150]
    for weights in (rng.random(n_bits), rng.exponential(size=n_bits) ** 4, 10.0 ** rng.uniform(-30, 30, n_bits)):
        with way(path):
            found = Partition(parts, n_bits, weights).nearest(asked)
        np.testing.assert_allclose(found, brute_force(parts, asked, n_bits, weights), rtol=1.2e-7)


def test_parts_larger_than_what_is_held_in_the_cache(monkeypatch):
    """More blocks than are scanned for all queries in turn: bounds carry over from one stretch to the next."""
    rng = np.random.default_rng(0)
    n_bits = 384
    codes = random_codes(rng, 60_000, n_bits)  # 2.9 MB
    asked = codes[[0, 31_000, 59_999]]
    asked = np.concatenate([asked, random_codes(rng, 6, n_bits)])
    np.testing.assert_array_equal(
        Partition([codes], n_bits).nearest(asked), brute_force([codes], asked, n_bits, None)
    )


def test_equal_codes_are_kept_once():
    for n_bits in (16, 64):
        codes = random_codes(np.random.default_rng(0), 100, n_bits)
        assert Partition([np.repeat(codes, 500, axis=0)], n_bits).nbytes == Partition([codes], n_bits).nbytes


def test_far_from_everything(monkeypatch):
    """Where buckets hold nothing near, a search gives them up for one pass over all codes."""
    codes = random_codes(np.random.default_rng(0), 2000, 28)
    codes[:, 0] = 0
    codes[:, 3] &= 0x0F
    asked = codes[:20] | np.array([0xFF, 0, 0, 0xF0], np.uint8)
    np.testing.assert_array_equal(Partition([codes], 28).nearest(asked), brute_force([codes], asked, 28, None))


def test_medium_and_long_codes_take_different_ways(monkeypatch):
    """What the kernel for parts and the general scan answer is the same."""
    rng = np.random.default_rng(1)
    parts = [random_codes(rng, n, 100) for n in (900, 0, 33)]
    asked, weights = random_codes(rng, 30, 100), rng.random((100, 3))
    found = Partition(parts, 100, weights).nearest(asked)
    monkeypatch.setattr(partition, "_LONG", 0)
    np.testing.assert_array_equal(Partition(parts, 100, weights).nearest(asked), found)


def test_bad_input_is_named():
    codes = np.zeros((3, 2), np.uint8)
    with pytest.raises(ValueError, match="part 1"):
        Partition([codes, np.zeros((3, 3), np.uint8)], 16)
    with pytest.raises(TypeError, match="part 0 has dtype int64"):
        Partition([codes.astype(np.int64)], 16)
    with pytest.raises(ValueError, match="weights has shape"):
        Partition([codes], 16, np.ones(15))
    with pytest.raises(ValueError, match=r"weights has shape \(3, 16\)"):
        Partition([codes, codes], 16, np.ones((16, 3)))
    with pytest.raises(ValueError, match="codes is 3 bytes wide"):
        Partition([codes], 16).nearest(np.zeros((1, 3), np.uint8))


AVX2 = """
    import numpy as np
    from cbid.search.kernels import vectors
    from cbid.search.partition import Partition
    assert not vectors.SIX_BIT
    rng = np.random.default_rng(0)
    for n_bits in (33, 64, 128, 300):
        parts = [np.packbits(rng.integers(0, 2, (n, n_bits)), axis=1) for n in (3000, 1, 77)]
        asked = np.packbits(rng.integers(0, 2, (70, n_bits)), axis=1)
        uneven = rng.exponential(size=(n_bits, 3)) ** 4
        for weights in (np.ones((n_bits, 3)), rng.uniform(0.5, 1.5, (n_bits, 3)), uneven):
            found = Partition(parts, n_bits, weights).nearest(asked)
            for i, part in enumerate(parts):
                differing = np.unpackbits(asked[:, None] ^ part[None], axis=2, count=n_bits)
                wanted = (differing @ weights[:, i]).min(axis=1)
                assert np.allclose(found[:, i], wanted, rtol=2e-7, atol=0), n_bits
"""


@pytest.mark.long
@pytest.mark.skipif(not _compile.HAS_VBMI, reason="the processor has no VBMI: the other tests cover these filters")
def test_avx2_on_a_processor_that_has_more():
    features = binding.get_host_cpu_features()
    wanted = [f"{'+' if on and not name.startswith('avx512') else '-'}{name}" for name, on in features.items()]
    environment = {**os.environ, "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ",".join(wanted)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(AVX2)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
