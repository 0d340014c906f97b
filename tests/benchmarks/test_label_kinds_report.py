"""Tables of docs/labels.md, from raw lines made up here."""

from benchmarks import label_kinds, label_kinds_report


def line(method, bits, value, seed=0, **more):
    figures = dict.fromkeys(label_kinds.FIGURES, value)
    return (
        {"part": "sets", "set": "scene", "seed": seed, "validation": False, "method": method, "bits": bits}
        | figures
        | more
    )


def with_lines(monkeypatch, lines):
    for module in (label_kinds, label_kinds_report):
        monkeypatch.setattr(module, "load_lines", lambda name: lines)


def test_cells_behind_are_found_by_means_over_seeds(monkeypatch):
    """SDH leads by .6 - (.4 + .6) / 2 at 16 bits, and C-BID leads at 32; the older of two lines is ignored."""
    lines = [line("raw", 0, 0.1), line("C-BID", 16, 0.9), line("C-BID", 16, 0.4), line("C-BID", 16, 0.6, seed=1)]
    lines += [line("SDH", 16, 0.6), line("C-BID", 32, 0.7), line("SDH", 32, 0.6)]
    with_lines(monkeypatch, lines)
    text = "\n".join(label_kinds_report.behind(label_kinds_report.sets_cells()))
    assert "leads all others in 4 of 8 cells" in text
    assert "| scene, 16 | NDCG@10 -.100 (SDH), ACG@10 -.100 (SDH)" in text
    assert "| scene, 32" not in text


def test_cells_are_counted_with_and_without_fasthash(monkeypatch):
    """FastHash leads at 32 bits, SDH at 16: four cells each."""
    lines = [line("raw", 0, 0.1), line("C-BID", 16, 0.5), line("SDH", 16, 0.6)]
    with_lines(monkeypatch, [*lines, line("C-BID", 32, 0.5), line("FastHash", 32, 0.6), line("SDH", 32, 0.4)])
    text = " ".join(label_kinds_report.behind(label_kinds_report.sets_cells()))
    assert "leads all others in 0 of 8 cells" in text
    assert "decision trees, in 4." in text


def test_settings_come_from_validation_lines_alone(monkeypatch):
    tuned = [
        line("SDH", 32, value, part="tune", validation=True, settings={"ridge": ridge})
        for ridge, value in ((0.01, 0.5), (0.1, 0.7), (1.0, 0.6))
    ]
    with_lines(monkeypatch, [*tuned, line("SDH", 32, 0.9, settings={"ridge": 1.0})])
    assert label_kinds.chosen("scene", "SDH") == {"ridge": 0.1}
    assert label_kinds.chosen("yeast", "SDH") == label_kinds.GRIDS["SDH"][0]


def test_cost_is_compared_with_fasthash(monkeypatch):
    about = {"part": "cost", "set": "scene", "seed": 0, "validation": False, "bits": 64}
    lines = [about | {"method": "C-BID", "microseconds": 12.4, "bytes": 2_340_000}]
    with_lines(monkeypatch, lines)
    assert list(label_kinds_report.cost()) == []
    with_lines(monkeypatch, [*lines, about | {"method": "FastHash", "microseconds": 99.6, "bytes": 750_000}])
    text = "\n".join(label_kinds_report.cost())
    assert "| C-BID | 12 / 2.3 |" in text
    assert "| FastHash | 100 / 0.8 |" in text


def test_room_is_the_mean_of_the_best_accuracies():
    """Classes .90 by the SVM, groups .94 by the tree: .92, two points above the .90 of the flat code."""
    lines = {
        ("flat", 64, 0): {"hp10": 0.90, "fine": 0.88, "coarse": 0.93},
        ("tree", 64, 0): {"hp10": 0.90, "fine": 0.87, "coarse": 0.94},
    }
    text = " ".join(label_kinds_report.room(lines, [{"fine": 0.90, "coarse": 0.92}]))
    assert ".900 for classes and .940 for groups, so .920, 2.0 points above the 64 bits without a tree" in text
    assert list(label_kinds_report.room({}, [{"fine": 0.90, "coarse": 0.92}])) == []


def test_room_of_groups_is_up_to_the_best_of_all():
    """Two seeds: .90 for the first 16 bits without a tree, .93 for the best, the tree's 64 bits."""
    of = {("flat", 16): (0.89, 0.91), ("tree", 64): (0.92, 0.94), ("svm", 0): (0.91, 0.92)}
    lines = {(*key, seed): {"coarse": value} for key, values in of.items() for seed, value in enumerate(values)}
    text = " ".join(label_kinds_report.room_of_groups(lines))
    assert "at any length, is .930, 3.0 points above the first 16 bits without a tree" in text
    assert list(label_kinds_report.room_of_groups({})) == []
