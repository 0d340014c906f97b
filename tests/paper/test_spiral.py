"""The spiral: its points, and the measures of regions."""

import numpy as np
import pytest

from cbid.paper import Results, Row, spiral


def test_points_lie_on_their_arms(monkeypatch):
    monkeypatch.setattr(spiral, "NOISE", 0.0)
    X, y = spiral.spiral(50, np.random.default_rng(0))
    r = np.hypot(*X.T)
    angle = 2 * np.pi * spiral.TURNS * r**2
    expected = np.column_stack([np.cos(angle), np.sin(angle)]) * (r * np.where(y, -1, 1))[:, None]
    np.testing.assert_allclose(X, expected, atol=1e-12)
    assert np.bincount(y).tolist() == [50, 50]


def test_points_are_not_in_the_order_of_the_classes():
    _, y = spiral.spiral(200, np.random.default_rng(0))
    changes = np.count_nonzero(np.diff(y))
    assert 150 < changes < 250  # 199.5 expected; 1 if ordered


def region(rule):
    points = spiral.grid().reshape(spiral.GRID, spiral.GRID, 2)
    return np.array([[int(rule(*p)) for p in row] for row in points])


def test_the_boundary_of_a_half_plane_is_one_side_long():
    assert spiral.boundary(region(lambda x, y: x > 0)) == 1
    assert spiral.boundary(region(lambda x, y: y > 0)) == 1
    assert spiral.boundary(region(lambda x, y: (x > 0) != (y > 0))) == 2
    assert spiral.boundary(region(lambda x, y: True)) == 0


def results(**regions):
    found = [
        Row({"method": m, "repeat": 0}, {"region": ["".join(map(str, line)) for line in r.tolist()]}, 0.0)
        for m, r in regions.items()
    ]
    return Results(found)


def test_agreement_is_a_share_of_the_square():
    left, quarter = region(lambda x, y: x < 0), region(lambda x, y: x < 0 and y < 0)
    assert spiral.agreement(results(a=left, b=quarter), "a", "b") == pytest.approx([0.75])


def test_every_method_learns_better_than_chance():
    quick = [c | {"test": 100} for c in spiral.cells([], True) if c["repeat"] == 0]
    found = list(spiral.run(quick, None))
    assert [settings["method"] for settings, _ in found] == list(spiral.METHODS)
    accuracy = {s["method"]: np.mean(np.array(r["truth"]) == r["predicted"]) for s, r in found}
    assert min(accuracy.values()) > 0.65
    assert accuracy["3-NN"] > 0.95
    assert {len(line) for _, r in found for line in r["region"]} == {spiral.GRID}
