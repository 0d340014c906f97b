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


def test_cells_behind_are_told_by_means_over_seeds(monkeypatch):
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
