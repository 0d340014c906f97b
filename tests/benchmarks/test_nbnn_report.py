"""What docs/nbnn.md says of stored rows, on made ones."""

import pytest

from benchmarks import nbnn_report
from cbid.paper.base import Results, Row


def rows(method, accuracies, name="scene15"):
    """A row for each draw, of ten images."""
    results = [{"truth": [0] * 10, "predicted": [0] * n + [1] * (10 - n)} for n in accuracies]
    return [Row({"set": name, "method": method, "repeat": draw}, result, 1.0) for draw, result in enumerate(results)]


def found(*of):
    return Results([row for part in of for row in part])


def test_only_draws_of_both_are_compared():
    lead = nbnn_report.compared(found(rows("cbid128", [9, 8, 7]), rows("itq128", [6, 7])), "cbid128", "itq128", 2,
                                "scene15", "")  # fmt: skip
    assert (lead.draws, lead.ours, lead.theirs) == (2, 85, 65)
    assert lead.gain == pytest.approx(20)


@pytest.mark.parametrize(
    ("ours", "theirs", "met"),
    [
        ([9, 8, 8, 9, 8], [5, 5, 5, 5, 5], "yes"),
        ([9, 1, 9, 1, 9], [5, 5, 5, 5, 5], "no"),  # large, but by chance
        ([5, 5, 5, 5, 6], [5, 5, 5, 5, 5], "no"),  # less than the lead asked for
        ([9], [5], "too few draws"),
    ],
)
def test_a_lead_is_large_enough_and_significant(ours, theirs, met):
    lead = nbnn_report.compared(found(rows("cbid128", ours), rows("itq128", theirs)), "cbid128", "itq128", 3,
                                "scene15", "")  # fmt: skip
    assert lead.met == met


def test_pairs_have_equal_information_where_the_table_says_so():
    """Both with class factors, or neither: "balanced" rivals beside the default, plain rivals beside "nearest"."""
    for ours, theirs, _ in nbnn_report.PAIRS["both"]:
        assert ours.startswith("cbid")
        assert "balanced" in theirs
    for ours, theirs, _ in nbnn_report.PAIRS["neither"]:
        assert ours.startswith("nearest")
        assert "balanced" not in theirs
    assert nbnn_report.about_pair("nearest32", "lshbalanced32") == (32, "random hyperplanes")


def test_the_summary_counts_comparisons_at_equal_information_alone():
    text = nbnn_report.summary(
        found(rows("cbid128", [9, 8, 8, 9, 8]), rows("itq128", [5] * 5), rows("itqbalanced128", [9] * 5)), []
    )
    assert "0 of 1 such comparisons reach it" in text
    assert "128 bits against ITQ: Scene -6.0 without place" in text
    assert "128 bits against ITQ: Scene +34.0 without place" in text
    assert "32 bits against ITQ: not run" in text


def line(what, training, validation, draw=0, name="scene15"):
    about = {"set": name, "draw": draw, "place": 0, "seed": 0, "bits": 128, "what": what}
    return {**about, "found": {"factors": [0.5, validation], "training": [0.6, training]}}


def test_taught_rotations_are_counted_by_both_losses():
    first, one, two, *_ = nbnn_report.TAUGHT
    told = nbnn_report.taught_table([line(first, 1.0, 1.0), line(one, 0.9, 1.1), line(two, 0.8, 0.9)])
    assert "2 of 2 taught rotations lower the log loss of the stored images, and 1 that" in told["verdict"]
    assert f"| {one} | 50.0 / 1.100 / 0.900 |" in told["taught"]


def test_the_guide_is_a_rank_correlation_of_each_draw():
    same, turned = ([line(f"try {i}", i, sign * i**3, draw) for i in range(12)] for draw, sign in enumerate((1, -1)))
    assert nbnn_report.guide([*same, *turned, line("try 0", 0, 0, draw=2)]) == "+1.00 and -1.00 on Scene-15 (2 draws)"


def test_cells_run_with_earlier_and_present_code(monkeypatch):
    def stored(method, predicted, **about):
        settings = {"set": "scene15", "method": method, "repeat": 0, "queries": nbnn_report.QUERIES}
        return {"settings": settings, "result": {"truth": [0] * 4, "predicted": predicted}, **about}

    lines = [
        stored("itq128", [0, 0, 0, 1]),
        stored("itq128", [0, 0, 1, 1], made="2026-11-18"),
        stored("exact", [0] * 4),
        stored("exact", [0] * 4, made="2026-11-18"),
        stored("lsh32", [0] * 4),
        stored("cbid128", [0] * 4),
        stored("cbid128", [1] * 4, made="2026-11-18"),  # depends on the defaults
    ]
    monkeypatch.setattr(nbnn_report, "load_lines", lambda name: lines)
    text = " ".join(nbnn_report.again().split())
    told = "Of 2 cells that were run with both, 1 have the same accuracy; the others differ by at most 25.0 points:"
    assert text == told
