"""Packed codes: layout, prefixes, plain and weighted Hamming."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid import codes


@st.composite
def two_sets_of_bits(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_bits = draw(st.integers(1, 200))
    sizes = draw(st.tuples(st.integers(0, 12), st.integers(0, 12)))
    return [rng.integers(0, 2, (n, n_bits)) for n in sizes]


def test_layout_by_hand():
    """Bit 0 is the highest bit of byte 0; ten bits take two bytes, the last six bits of which are zero."""
    packed = codes.pack([1, 0, 0, 0, 0, 0, 0, 1, 1, 0])
    np.testing.assert_array_equal(packed, [0b10000001, 0b10000000])
    np.testing.assert_array_equal(codes.unpack(packed, 10), [1, -1, -1, -1, -1, -1, -1, 1, 1, -1])
    np.testing.assert_array_equal(codes.prefix(packed, 8), [0b10000001])
    np.testing.assert_array_equal(codes.prefix(packed, 7), [0b10000000])


@given(sets=two_sets_of_bits())
def test_pack_and_unpack_are_inverse(sets):
    bits, _ = sets
    packed = codes.pack(bits)
    assert packed.shape == (len(bits), codes.n_bytes(bits.shape[1]))
    np.testing.assert_array_equal(codes.unpack(packed, bits.shape[1]), 2 * bits - 1)
    np.testing.assert_array_equal(codes.pack(2 * bits - 1), packed)


@given(sets=two_sets_of_bits(), data=st.data())
def test_prefix_is_the_code_of_the_first_bits(sets, data):
    bits, _ = sets
    n_bits = data.draw(st.integers(1, bits.shape[1]))
    np.testing.assert_array_equal(codes.prefix(codes.pack(bits), n_bits), codes.pack(bits[:, :n_bits]))


@settings(deadline=None)
@given(sets=two_sets_of_bits(), data=st.data())
def test_distances_are_sums_over_differing_bits(sets, data):
    a, b = sets
    n_bits = data.draw(st.integers(1, a.shape[1]))
    weights = np.random.default_rng(0).exponential(size=a.shape[1])
    differ = a[:, None, :] != b[None, :, :]
    packed_a, packed_b = codes.pack(a), codes.pack(b)
    np.testing.assert_array_equal(codes.hamming(packed_a, packed_b), differ.sum(2))
    np.testing.assert_array_equal(codes.hamming(packed_a, packed_b, n_bits=n_bits), differ[..., :n_bits].sum(2))
    weighted = codes.weighted_hamming(packed_a, packed_b, weights)
    np.testing.assert_allclose(weighted, differ @ weights, rtol=1e-6)
    assert weighted.dtype == np.float32
    assert codes.hamming(packed_a, packed_b).dtype == np.int32


def test_tiles_do_not_change_distances(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, (n, 16), dtype=np.uint8) for n in (37, 23))
    whole = codes.hamming(a, b), codes.weighted_hamming(a, b, np.arange(128))
    monkeypatch.setattr(codes, "_PAIR_BYTES", 100)
    np.testing.assert_array_equal(codes.hamming(a, b), whole[0])
    np.testing.assert_array_equal(codes.weighted_hamming(a, b, np.arange(128)), whole[1])


def test_one_code_drops_its_axis():
    a = np.array([[0, 0], [255, 1], [3, 0]], np.uint8)
    np.testing.assert_array_equal(codes.hamming(a[1], a), [9, 0, 8 - 2 + 1])
    np.testing.assert_array_equal(codes.hamming(a, a[1]), [9, 0, 7])
    assert codes.hamming(a[0], a[1]) == 9
    assert codes.weighted_hamming(a[0], a[1], np.full(16, 0.5)) == 4.5
    assert codes.unpack(a[0], 16).shape == (16,)
    assert codes.check_codes(a[0]).shape == (1, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: codes.hamming(np.zeros((2, 3)), np.zeros((2, 3), np.uint8)),
            TypeError,
            "a has dtype float64",
        ),
        (
            lambda: codes.hamming(np.zeros(3, np.uint8), np.zeros(4, np.uint8)),
            ValueError,
            "3 bytes wide and b 4",
        ),
        (lambda: codes.unpack(np.zeros((2, 3), np.uint8), 25), ValueError, "expected 4 for 25 bits"),
        (lambda: codes.check_codes(np.ones((1, 2), np.uint8), 9), ValueError, "bits set past bit 9"),
        (lambda: codes.check_codes(np.zeros((2, 2, 2), np.uint8)), ValueError, r"shape \(2, 2, 2\)"),
        (lambda: codes.check_codes(np.zeros((2, 0), np.uint8)), ValueError, "at least one byte"),
        (lambda: codes.prefix(np.zeros((2, 3), np.uint8), 25), ValueError, "at most 24"),
        (lambda: codes.prefix(np.zeros((2, 3), np.uint8), 0), ValueError, "n_bits=0"),
        (lambda: codes.check_n_bits(8.0), TypeError, r"n_bits=8.0"),
        (lambda: codes.check_n_bits(True), TypeError, "n_bits=True"),
        (lambda: codes.check_weights([1, -1], 2), ValueError, "negative entries"),
        (lambda: codes.check_weights([1, np.nan], 2), ValueError, "NaN"),
        (lambda: codes.check_weights([1, np.inf], 2), ValueError, "infinite"),
        (lambda: codes.check_weights([1, 2, 3], 2), ValueError, r"shape \(3,\): expected \(2,\)"),
        (lambda: codes.check_weights(["a", "b"], 2), TypeError, "dtype"),
        (lambda: codes.check_weights([3e38, 3e38], 2), ValueError, "float32"),
        (
            lambda: codes.weighted_hamming(np.zeros(2, np.uint8), np.zeros(2, np.uint8), np.ones(8)),
            ValueError,
            "9 to 16 weights",
        ),
    ],
)
def test_errors_say_what_was_given_and_what_is_accepted(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("bits", "error", "words"),
    [
        ([[np.nan, 1, -1]], ValueError, "bits has NaN"),
        ([[1j, 1]], TypeError, "bits has dtype complex128"),
        ([["a", "b"]], TypeError, "bits has dtype <U1"),
        (1, ValueError, r"bits has shape \(\)"),
        (np.empty((3, 0)), ValueError, r"bits has shape \(3, 0\)"),
        (np.ones((2, 3, 4)), ValueError, r"bits has shape \(2, 3, 4\)"),
    ],
)
def test_pack_takes_rows_of_numbers_only(bits, error, words):
    with pytest.raises(error, match=words):
        codes.pack(bits)
