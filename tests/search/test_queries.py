"""The query side: costs of stored bits."""

import numpy as np
import pytest

from cbid import codes as packed
from cbid.search.queries import Queries


def test_costs_of_codes_are_weights_of_differing_bits():
    asked = packed.pack([[1, 0, 1], [0, 0, 1]])
    if_zero, if_one = Queries.from_codes(asked, 3).costs(0, 2)
    np.testing.assert_array_equal(if_zero, [[1, 0, 1], [0, 0, 1]])
    np.testing.assert_array_equal(if_one, [[0, 1, 0], [1, 1, 0]])
    if_zero, if_one = Queries.from_codes(asked, 3, [2, 3, 5]).costs(1, 2)
    np.testing.assert_array_equal(if_zero, [[0, 0, 5]])
    np.testing.assert_array_equal(if_one, [[2, 3, 0]])
    if_zero, _ = Queries.from_codes(asked, 3, [[2, 3, 5], [7, 11, 13]]).costs(1, 2)
    np.testing.assert_array_equal(if_zero, [[0, 0, 13]])


def test_projections_of_equal_size_are_weighted_hamming():
    rng = np.random.default_rng(0)
    signs = np.sign(rng.normal(size=(4, 20)))
    weights = rng.random(20)
    real = Queries.from_projections(100 * signs, weights).costs(0, 4)
    hard = Queries.from_codes(packed.pack(signs), 20, weights).costs(0, 4)
    np.testing.assert_array_equal(real, hard)


def test_a_bit_costs_as_much_as_the_query_is_far_from_its_threshold():
    """The mean of |z| is 1: z = 0 costs nothing, z = -3 costs 3 weights if the stored bit is 1."""
    if_zero, if_one = Queries.from_projections([[0.0, -3.0, 0.5, 0.5]], [6, 1, 2, 4]).costs(0, 1)
    np.testing.assert_array_equal(if_zero, [[0, 0, 1, 2]])
    np.testing.assert_array_equal(if_one, [[0, 3, 0, 0]])


def test_without_weights_the_distance_is_an_inner_product():
    rng = np.random.default_rng(0)
    z, stored = rng.normal(size=(3, 10)), rng.integers(0, 2, (5, 10))
    if_zero, if_one = Queries.from_projections(z, scale=1.0).costs(0, 3)
    distances = if_zero @ (1 - stored).T + if_one @ stored.T
    np.testing.assert_allclose(distances, (np.abs(z).sum(axis=1)[:, None] - z @ (2 * stored - 1).T) / 2, rtol=1e-5)


def test_a_projection_far_above_the_scale_is_finite():
    if_zero, _ = Queries.from_projections([[1e300, 1.0]], scale=1e-300).costs(0, 1)
    np.testing.assert_array_equal(if_zero, [[2, 2]])


def test_the_units_of_projections_do_not_matter():
    z = np.random.default_rng(0).normal(size=(3, 10))
    for a, b in zip(Queries.from_projections(z).costs(0, 3), Queries.from_projections(1e6 * z).costs(0, 3)):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert np.all(np.isfinite(Queries.from_projections(np.zeros((1, 3))).costs(0, 1)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: Queries.from_codes(np.zeros((2, 2), np.uint8), 9, np.ones(8)),
            ValueError,
            r"\(9,\) or \(2, 9\)",
        ),
        (lambda: Queries.from_codes(np.zeros((2, 2), np.uint8), 20), ValueError, "2 bytes wide"),
        (lambda: Queries.from_codes(np.zeros((2, 2)), 16), TypeError, "float64"),
        (lambda: Queries.from_codes(np.zeros((2, 2), np.uint8), 16, -np.ones(16)), ValueError, "negative"),
        (lambda: Queries.from_projections([[np.nan]]), ValueError, "NaN"),
        (lambda: Queries.from_projections(np.zeros((2, 0))), ValueError, r"shape \(2, 0\)"),
        (lambda: Queries.from_projections([["a"]]), TypeError, "dtype"),
        (lambda: Queries.from_projections([[1.0]], scale=0), ValueError, "a positive number"),
    ],
)
def test_errors_say_what_was_given_and_what_is_accepted(call, error, message):
    with pytest.raises(error, match=message):
        call()
