"""Metrics against scikit-learn without ties, and against enumeration of all orders with them."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from cbid.evaluation import (
    average_precision,
    average_precision_bounds,
    mean_average_precision,
    precision_at,
    recall_at,
)


def test_without_ties_it_is_scikit_learns():
    rng = np.random.default_rng(0)
    distances, relevant = rng.permuted(np.tile(np.arange(50.0), (8, 1)), axis=1), rng.random((8, 50)) < 0.3
    expected = [average_precision_score(r, -d) for d, r in zip(distances, relevant)]
    np.testing.assert_allclose(average_precision(distances, relevant), expected)


def over_all_orders(distances, relevant, metric, summary=np.mean):
    """Mean of the metric, or another summary, over every order of the items that the distances allow."""
    allowed = (
        order
        for order in itertools.permutations(range(len(distances)))
        if all(distances[a] <= distances[b] for a, b in itertools.pairwise(order))
    )
    return summary([metric([relevant[i] for i in order]) for order in allowed])


def plain_ap(ranked):
    return np.mean([sum(ranked[: i + 1]) / (i + 1) for i in range(len(ranked)) if ranked[i]])


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6).filter(
        lambda v: any(r for _, r in v)
    )
)
def test_with_ties_it_is_the_mean_over_all_orders(items):
    distances, relevant = zip(*items)
    found = average_precision([distances], [relevant])[0]
    assert found == pytest.approx(over_all_orders(distances, relevant, plain_ap))
    for k in range(1, len(items) + 1):
        expected = over_all_orders(distances, relevant, lambda ranked, k=k: np.mean(ranked[:k]))
        assert precision_at([distances], [relevant], k)[0] == pytest.approx(expected)
        expected = over_all_orders(distances, relevant, lambda ranked, k=k: sum(ranked[:k]) / sum(ranked))
        assert recall_at([distances], [relevant], k)[0] == pytest.approx(expected)
    low, high = average_precision_bounds([distances], [relevant])
    assert low[0] == pytest.approx(over_all_orders(distances, relevant, plain_ap, np.min))
    assert high[0] == pytest.approx(over_all_orders(distances, relevant, plain_ap, np.max))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 5), st.sampled_from([0, 3, 2000]), st.booleans()), min_size=1, max_size=40))
def test_whole_distances_are_counted_as_they_would_be_sorted(items):
    """Small, negative and large ones: the first are counted, the others fall back to sorting."""
    distances, relevant = [a + b for a, b, _ in items], [r for _, _, r in items]
    by_count = average_precision(np.array([distances]), [relevant])
    np.testing.assert_allclose(by_count, average_precision(np.array([distances], dtype=float), [relevant]))
    small = np.abs(distances) % 6
    np.testing.assert_allclose(
        average_precision(small[None], [relevant]), average_precision(small[None].astype(float), [relevant])
    )


def test_plain_hamming_distance_is_that_of_equal_weights(monkeypatch):
    rng = np.random.default_rng(0)
    Q, B = rng.choice([-1, 1], (30, 9)), rng.choice([-1, 1], (200, 9))
    labels = rng.integers(0, 3, 30), rng.integers(0, 3, 200)
    plain = mean_average_precision(Q, labels[0], B, labels[1])
    assert plain == pytest.approx(mean_average_precision(Q, labels[0], B, labels[1], weights=np.full(9, 0.3)))
    monkeypatch.setattr("cbid.evaluation.metrics._PAIRS", 700)  # three queries at a time
    assert plain == pytest.approx(mean_average_precision(Q, labels[0], B, labels[1]))


def test_a_query_without_relevant_items_is_nan_and_left_out_of_the_mean():
    nothing = [[1.0, 2.0]], [[False, False]]
    found = [average_precision(*nothing), *average_precision_bounds(*nothing), recall_at(*nothing, 1)]
    assert np.isnan(np.concatenate(found)).all()
    bits = np.array([[1, 1], [-1, -1]])
    assert mean_average_precision(bits, ["a", "z"], bits, ["a", "b"]) == 1


def test_weights_decide_the_order():
    """The query differs from one item in a heavy bit and from the other in two light ones."""
    query, database = [[1, 1, 1]], [[-1, 1, 1], [1, -1, -1]]
    assert mean_average_precision(query, [0], database, [0, 1]) == 1
    assert mean_average_precision(query, [0], database, [0, 1], weights=[3, 1, 1]) == 0.5


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"distances \(3,\)"):
        average_precision([1, 2, 3], [True, False, True])
    with pytest.raises(ValueError, match="k=3"):
        precision_at([[1, 2]], [[True, False]], 3)
    with pytest.raises(ValueError, match=r"k=1\.5"):
        recall_at([[1, 2]], [[True, False]], 1.5)
    with pytest.raises(ValueError, match=r"distances: .*NaN"):
        average_precision([[1, np.nan]], [[True, False]])


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8])
def test_distances_of_any_whole_type(kind):
    distances, relevant = np.array([[3, 0, 3, 7], [1, 1, 2, 0]]), np.array([[1, 0, 1, 0], [0, 1, 0, 1]], bool)
    at_two = [partial(precision_at, k=2), partial(recall_at, k=2)]
    for metric in (average_precision, average_precision_bounds, *at_two):
        np.testing.assert_array_equal(metric(distances.astype(kind), relevant), metric(distances, relevant))


BITS = np.array([[1, -1, 1], [-1, -1, 1]])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"queries": (BITS > 0).astype(int)}, "queries of type int64"),
        ({"database": BITS > 0}, "database of type bool"),
        ({"database": np.packbits(BITS > 0, axis=1)}, "database of type uint8"),
        ({"queries": BITS * np.nan}, "queries of type float64"),
        ({"queries": BITS[0]}, r"queries \(3,\)"),
        ({"queries": BITS[:0]}, r"queries \(0, 3\)"),
        ({"queries": BITS[:, :2]}, "queries have 2 bits, database 3"),
        ({"query_labels": [0]}, r"query_labels \(1,\): expected \(2,\)"),
        ({"labels": [[0], [1]]}, r"labels \(2, 1\): expected \(2,\)"),
        ({"weights": [1.0, 2.0]}, r"weights \(2,\): expected 3 finite numbers"),
        ({"weights": np.ones((3, 2))}, r"weights \(3, 2\)"),
        ({"weights": [1.0, np.nan, 1.0]}, "3 finite numbers"),
    ],
)
def test_what_is_no_code_is_named(changes, told):
    given = {"queries": BITS, "query_labels": [0, 1], "database": BITS, "labels": [0, 1]}
    assert mean_average_precision(**given) == 1
    with pytest.raises(ValueError, match=told):
        mean_average_precision(**given | changes)
