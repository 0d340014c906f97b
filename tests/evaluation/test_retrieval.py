"""Metrics against scikit-learn without ties, and against enumeration of all orders with them."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from cbid.evaluation import (
    acg_at,
    average_hierarchical_precision,
    average_precision,
    average_precision_bounds,
    hierarchical_precision_at,
    mean_average_precision,
    ndcg_at,
    neighbour_recall,
    precision_at,
    recall_at,
    weighted_average_precision,
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


def plain_wap(ranked):
    return np.mean([np.mean(ranked[: i + 1]) for i in range(len(ranked)) if ranked[i] > 0])


def plain_dcg(ranked, k, f):
    return sum(f(r) / np.log2(i + 2) for i, r in enumerate(ranked[:k]))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6).filter(
        lambda v: any(g for _, g in v)
    )
)
def test_graded_metrics_with_ties_are_the_mean_over_all_orders(items):
    distances, gains = zip(*items)
    best = sorted(gains, reverse=True)

    def check(found, plain):
        assert found[0] == pytest.approx(over_all_orders(distances, gains, plain))

    check(weighted_average_precision([distances], [gains]), plain_wap)
    for k in range(1, len(items) + 1):
        check(acg_at([distances], [gains], k), lambda ranked, k=k: np.mean(ranked[:k]))
        for gain, f in (("exponential", lambda r: 2**r - 1), ("linear", float)):
            found = ndcg_at([distances], [gains], k, gain=gain)
            check(found, lambda ranked, k=k, f=f: plain_dcg(ranked, k, f) / plain_dcg(best, k, f))
        precision = [lambda ranked, k=k: sum(ranked[:k]) / sum(best[:k]) for k in range(1, k + 1)]
        check(hierarchical_precision_at([distances], [gains], k), precision[-1])
        found = average_hierarchical_precision([distances], [gains], k)
        check(found, lambda ranked, of=precision: np.mean([at(ranked) for at in of]))


def test_ndcg_of_real_distances_is_scikit_learns_also_with_ties():
    rng = np.random.default_rng(0)
    distances, gains = rng.integers(0, 6, (9, 40)) / 7, rng.integers(0, 4, (9, 40))
    for k in (1, 10, 40):
        expected = [ndcg_score(g[None], -d[None], k=k) for d, g in zip(distances, gains)]
        np.testing.assert_allclose(ndcg_at(distances, gains, k, gain="linear"), expected)


def test_gains_of_0_and_1_give_the_plain_metrics():
    rng = np.random.default_rng(0)
    distances, relevant = rng.integers(0, 9, (5, 70)), rng.random((5, 70)) < 0.2
    np.testing.assert_allclose(
        weighted_average_precision(distances, relevant), average_precision(distances, relevant)
    )
    np.testing.assert_allclose(acg_at(distances, relevant, 7), precision_at(distances, relevant, 7))


def test_graded_metrics_without_any_gain_are_nan():
    nothing = [[1, 2]], [[0, 0]]
    found = [weighted_average_precision(*nothing)]
    found += [metric(*nothing, 1) for metric in (ndcg_at, hierarchical_precision_at, average_hierarchical_precision)]
    assert np.isnan(np.concatenate(found)).all()
    assert acg_at(*nothing, 1) == 0


@pytest.mark.parametrize(
    ("gains", "settings", "message"),
    [
        ([[1, -1]], {}, "gains: expected finite numbers of at least 0"),
        ([[1, np.nan]], {}, "gains: expected finite"),
        ([1, 2], {}, r"gains \(2,\)"),
        ([[1, 2000]], {}, "gains holds 2000: expected at most 1,000"),
        ([[1, 2]], {"gain": "square"}, "gain='square'"),
        ([[1, 2]], {"k": 3}, "k=3"),
    ],
)
def test_bad_gains_are_named(gains, settings, message):
    with pytest.raises(ValueError, match=message):
        ndcg_at([[1, 2]], gains, **{"k": 1} | settings)


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
    monkeypatch.setattr("cbid.evaluation.ranking._PAIRS", 700)  # three queries at a time
    assert plain == pytest.approx(mean_average_precision(Q, labels[0], B, labels[1]))


def test_items_that_share_at_least_one_label_are_relevant():
    rng = np.random.default_rng(0)
    Q, B = rng.choice([-1, 1], (20, 6)), rng.choice([-1, 1], (80, 6))
    of_queries, of_items = rng.random((20, 4)) < 0.3, rng.random((80, 4)) < 0.3
    found = mean_average_precision(Q, of_queries, B, of_items)
    expected = average_precision((6 - Q @ B.T) // 2, of_queries.astype(int) @ of_items.T.astype(int) > 0)
    assert found == pytest.approx(np.nanmean(expected))
    sets = [[np.flatnonzero(row).tolist() for row in of] for of in (of_queries, of_items)]
    assert mean_average_precision(Q, sets[0], B, sets[1]) == pytest.approx(found)
    single = rng.integers(0, 3, 20), rng.integers(0, 3, 80)
    plain = mean_average_precision(Q, single[0], B, single[1])
    assert mean_average_precision(Q, [[v] for v in single[0]], B, single[1]) == pytest.approx(plain)


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
    ("changes", "message"),
    [
        ({"queries": (BITS > 0).astype(int)}, "queries of type int64"),
        ({"database": BITS > 0}, "database of type bool"),
        ({"database": np.packbits(BITS > 0, axis=1)}, "database of type uint8"),
        ({"queries": BITS * np.nan}, "queries of type float64"),
        ({"queries": BITS[0]}, r"queries \(3,\)"),
        ({"queries": BITS[:0]}, r"queries \(0, 3\)"),
        ({"queries": BITS[:, :2]}, "queries have 2 bits, database 3"),
        ({"query_labels": [0]}, r"query_labels \(1,\): expected \(2,\)"),
        ({"labels": [[0, 1]]}, r"labels \(1,\): expected \(2,\)"),
        ({"labels": np.zeros((2, 2))}, "query_labels and labels"),
        ({"labels": np.zeros((2, 2)), "query_labels": np.zeros((3, 2))}, r"query_labels \(3,\): expected \(2,\)"),
        ({"labels": [[0], [1], [1]]}, r"labels \(3,\): expected \(2,\)"),
        ({"weights": [1.0, 2.0]}, r"weights \(2,\): expected 3 finite numbers"),
        ({"weights": np.ones((3, 2))}, r"weights \(3, 2\)"),
        ({"weights": [1.0, np.nan, 1.0]}, "3 finite numbers"),
    ],
)
def test_what_is_no_code_is_named(changes, message):
    given = {"queries": BITS, "query_labels": [0, 1], "database": BITS, "labels": [0, 1]}
    assert mean_average_precision(**given) == 1
    with pytest.raises(ValueError, match=message):
        mean_average_precision(**given | changes)


def test_neighbour_recall_counts_ties_by_their_expectation():
    """The two nearest are items 0 and 1. By code item 0 is first, and items 1 and 2 share the second place."""
    assert neighbour_recall([[0, 1, 1, 2]], [[0.1, 0.2, 0.3, 0.4]], 2).tolist() == [0.75]
    assert neighbour_recall([[0, 1, 2, 3]], [[0.1, 0.2, 0.3, 0.4]], 2).tolist() == [1.0]
    assert neighbour_recall([[0, 0, 0, 0]], [[5, 1, 1, 1]], 4).tolist() == [1.0]
    with pytest.raises(ValueError, match=r"original \(1, 2\)"):
        neighbour_recall([[0, 1, 1]], [[1, 2]], 1)
    with pytest.raises(ValueError, match="k=4"):
        neighbour_recall([[0, 1, 1]], [[1, 2, 3]], 4)
