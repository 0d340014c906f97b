"""Accuracy over bits: cells, a run, what is shown, and how claims compare."""

import numpy as np
import pytest

from cbid.evaluation import accuracy
from cbid.paper.base import Context, by_test
from cbid.paper.coding import nearest_neighbours
from cbid.paper.over_bits import ORIGINAL, Draw, cells_of, run_cells, show_over_bits
from cbid.paper.report import Page, plot_style
from tests.paper.made import accuracies, row, together

DRAW = Draw("raw pixels", "held-out", 2, axes="pca", most_train=20, most_test=10)


def test_every_method_at_every_length_and_the_original_once():
    cells = cells_of({"digits": [DRAW], "scene15": [DRAW]}, ["digits"], ["a", "b"], [8, 16])
    assert len(cells) == 2 * (1 + 2 * 2)
    assert {c["set"] for c in cells} == {"digits"}
    assert [c["bits"] for c in cells if c["method"] == ORIGINAL] == [None, None]
    assert cells[0]["most_train"] == 20
    assert "classes" not in cells[0]


def test_a_run_on_digits(tmp_path):
    cells = cells_of({"digits": [DRAW]}, ["digits"], ["C-BID", "LSI"], [16, 1024])
    context = Context(None, tmp_path)
    found = {}
    for method in (ORIGINAL, "C-BID", "LSI"):
        part = [c for c in cells if c["method"] == method and c["repeat"] == 0 and c["bits"] != 1024]
        if method == "LSI":
            part = [c for c in cells if c["method"] == method and c["repeat"] == 0]
        for settings, result in run_cells(part, context, nearest_neighbours):
            found[method, settings["bits"]] = result
    assert accuracy(found["C-BID", 16]["truth"], found["C-BID", 16]["predicted"]) > 0.6
    assert (found["C-BID", 16]["bytes"], found["C-BID", 16]["n_bits"]) == (2, 16)
    assert accuracy(found[ORIGINAL, None]["truth"], found[ORIGINAL, None]["predicted"]) > 0.8
    assert "absent" in found["LSI", 1024]


RESULTS = together(
    accuracies([0.5, 0.6], set="digits", features="raw pixels", method="C-BID", bits=8),
    accuracies([0.7, 0.8], set="digits", features="raw pixels", method="C-BID", bits=16),
    accuracies([0.6, 0.6], set="digits", features="raw pixels", method="LSI", bits=8),
    [row({"absent": "too long"}, set="digits", features="raw pixels", method="LSI", bits=16, repeat=0)],
    [
        row(
            {"accuracy": 0.65, "bytes": 256},
            set="digits",
            features="raw pixels",
            method=ORIGINAL,
            bits=None,
            repeat=i,
        )
        for i in range(2)
    ],
)


def test_it_shows_a_plot_and_a_table(tmp_path):
    page = Page("x", tmp_path, Context(None, tmp_path), True)
    with plot_style():
        show_over_bits(RESULTS, page, "accuracy")
    assert len(page.parts) == 2
    assert (tmp_path / "x.png").exists()
    (table,) = page.tables
    assert table["head"] == ["", "8 bits", "16 bits"]
    assert table["rows"] == [
        ["C-BID", "55.0 ± 7.1", "75.0 ± 7.1"],
        ["LSI", "60.0 ± 0.0", "–"],
        ["original features (256 bytes)", "65.0 ± 0.0", ""],
    ]


def test_a_comparison_in_words():
    def figures(ours, theirs):
        return by_test(np.array(ours), np.array(theirs)).figures

    assert figures([0.8, 0.9, 1.0], [0.7, 0.8, 0.9]).startswith(
        "90.0 against 80.0 % (difference +10.0 to +10.0, p < 0.0001"
    )
    assert figures([0.8], [0.7]) == "80.0 against 70.0 % (one repeat, no test)."
    assert figures([0.8, 0.9], [0.7]) == "85.0 against 70.0 % (means of 2 and of 1 repeats)."


@pytest.mark.parametrize("repeats", [1, 2])
def test_one_repeat_has_no_bars_but_is_drawn(tmp_path, repeats):
    page = Page("x", tmp_path, Context(None, tmp_path), True)
    part = together([r for r in RESULTS if r.settings["repeat"] < repeats])
    with plot_style():
        show_over_bits(part, page, "accuracy")
    assert len(page.parts) == 2
