"""Whole runs of a small experiment: kept, continued, failed, killed."""

import json
import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import pytest

from cbid.paper import EXPERIMENTS, reproduce
from cbid.paper.raw import RawResults
from cbid.paper.report import new_figure
from tests.paper import toy

TOY = {"toy": "tests.paper.toy:EXPERIMENT"}
# What the program is, with one experiment.
PROGRAM = (
    f"from cbid.paper import EXPERIMENTS; EXPERIMENTS.clear(); EXPERIMENTS.update({TOY!r}); "
    "from cbid.cli import main; main()"
)


@pytest.fixture(autouse=True)
def _only_the_toy():
    """One experiment, and afterwards all of them in their order."""
    everything = dict(EXPERIMENTS)
    EXPERIMENTS.clear()
    EXPERIMENTS.update(TOY)
    yield
    EXPERIMENTS.clear()
    EXPERIMENTS.update(everything)


def lines(folder):
    path = folder / "raw" / "toy.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def test_a_run_is_kept_and_continued(tmp_path):
    states = []
    first = reproduce(out=tmp_path, quick=True, progress=states.append)
    assert (first.ran, first.kept, first.failures, first.left_out) == (4, 0, {}, {})
    assert [(s.done, s.of) for s in states] == [(1, 2), (2, 2)]
    assert states[-1].left == 0
    again = reproduce(out=tmp_path, quick=True)
    assert (again.ran, again.kept) == (0, 4)
    more = reproduce(out=tmp_path)  # the full run holds the cells of the quick one
    assert (more.ran, more.kept) == (4, 4)


def test_the_first_repeats_alone_and_later_the_others(tmp_path):
    first = reproduce(out=tmp_path, repeats=1)
    assert (first.ran, first.kept) == (2, 0)
    assert {json.loads(line)["settings"]["repeat"] for line in lines(tmp_path)} == {0}
    assert (
        "Run in part: 2 of 8 cells, in 1 of 4 repeats. The other cells take about 1 minute of one core."
        in first.report.read_text()
    )
    rest = reproduce(out=tmp_path)
    assert (rest.ran, rest.kept) == (6, 2)
    with pytest.raises(ValueError, match="repeats=0"):
        reproduce(out=tmp_path, repeats=0)


def test_repeats_are_run_one_after_the_other(tmp_path, monkeypatch):
    """An interrupted run has whole repeats, with which methods can be compared."""
    from dataclasses import replace

    monkeypatch.setattr(toy, "EXPERIMENT", replace(toy.EXPERIMENT, together=("method", "repeat")))
    reproduce(out=tmp_path)
    assert [json.loads(line)["settings"]["repeat"] for line in lines(tmp_path)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_report_of_stored_results_needs_no_data(tmp_path, monkeypatch):
    from dataclasses import replace

    def on_sets(present, quick):
        return [{"set": name, **cell} for name in present for cell in toy.cells(present, quick)]

    def run(cells, context):
        for settings in cells:
            ((_, result),) = toy.run([settings], context)
            yield settings, result

    monkeypatch.setattr(
        toy, "EXPERIMENT", replace(toy.EXPERIMENT, sets=("coil20", "daimler"), cells=on_sets, run=run)
    )
    nowhere = tmp_path / "nowhere"
    (nowhere / "coil20" / "images").mkdir(parents=True)
    assert reproduce(out=tmp_path, root=nowhere).ran == 8
    text = (tmp_path / "claims.md").read_text().split("\n\n", 1)[1]
    (nowhere / "coil20").rename(tmp_path / "gone")
    shown = reproduce(out=tmp_path, root=nowhere, run=False)
    assert shown.kept == 8
    assert (tmp_path / "claims.md").read_text().split("\n\n", 1)[1] == text
    (tmp_path / "raw" / "toy.jsonl").unlink()
    reproduce(out=tmp_path, root=nowhere, run=False)
    assert "Not run: 16 cells, about 3 minutes of one core." in (tmp_path / "claims.md").read_text()
    assert "Not run: 16 cells" in (tmp_path / "report.html").read_text()


def test_seconds_are_processor_time_of_the_cell(tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_SECONDS", "0.05")  # asleep, which takes none
    started = time.process_time()
    reproduce(out=tmp_path, quick=True)
    worked = time.process_time() - started
    seconds = [json.loads(line)["seconds"] for line in lines(tmp_path)]
    assert all(s >= 0 for s in seconds)
    assert sum(seconds) <= worked + 0.001 * len(seconds)  # rounded to milliseconds


def test_a_report_of_what_is_there(tmp_path):
    reproduce(out=tmp_path, quick=True)
    shown = reproduce(out=tmp_path, run=False)  # of the full run half is there
    assert (shown.ran, shown.kept) == (0, 4)
    text = shown.report.read_text()
    assert "Run in part: 4 of 8 cells, in 2 of 4 repeats." in text
    assert '<span class="untested">not run</span>' in text
    assert len(lines(tmp_path)) == 4


def test_several_workers_do_the_same(tmp_path):
    reproduce(out=tmp_path / "a", jobs=2)
    reproduce(out=tmp_path / "b", jobs=1)
    cut = [sorted(line.split('"result"')[1] for line in lines(tmp_path / name)) for name in "ab"]
    assert cut[0] == cut[1]
    assert len(cut[0]) == 8


def test_the_report_stands_alone(tmp_path):
    report = reproduce(out=tmp_path, quick=True).report
    text = report.read_text()
    for part in ("Coins &lt;dream&gt;", "5 &lt; 6 &amp; more", "--quick", "Two coins", "viewport"):
        assert part in text
    assert [text.count(f'<span class="{c}">') for c in ("holds", "fails", "untested")] == [1, 1, 1]
    assert [text.count(f'<span class="count {c}">1</span>') for c in ("holds", "fails", "untested")] == [1, 1, 1]
    assert text.index("claims by experiment") < text.index("Claims of the paper")
    for name in ("plots/toy.png", "plots/toy.svg", "raw/toy.jsonl"):
        assert (tmp_path / name).stat().st_size > 0

    class Reader(HTMLParser):
        """Every tag is closed, in order, and nothing but local files and data is referred to."""

        def __init__(self):
            super().__init__()
            self.open, self.links = [], []

        def handle_starttag(self, tag, attributes):
            if tag not in ("meta", "img"):
                self.open.append(tag)
            self.links += [value for name, value in attributes if name in ("src", "href")]

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    for link in reader.links:
        assert link.startswith(("data:image/png;base64,", "#")) or (tmp_path / link).exists()


def test_the_summary_holds_claims_and_tables(tmp_path):
    reproduce(out=tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    found = summary["experiments"]["toy"]
    assert [c["verdict"] for c in found["claims"]] == ["holds", "fails", "not testable here"]
    assert found["cells"] == found["expected"] == 8
    assert [row[0] for row in found["tables"][0]["rows"]] == ["fair", "loaded"]
    assert "numpy" in summary["machine"]["versions"]
    claims = (tmp_path / "claims.md").read_text()
    assert "| The loaded coin wins (nowhere) | **holds** |" in claims
    assert "**3 claims of the paper: holds 1, fails 1, not testable here 1**" in claims


def test_results_of_earlier_defaults_are_reported_and_run_again(tmp_path, monkeypatch):
    reproduce(out=tmp_path)
    raw = tmp_path / "raw" / "toy.jsonl"
    current = json.loads(raw.read_text().splitlines()[0])["defaults"]
    raw.write_text(raw.read_text().replace(current, "0123456789ab"))
    reproduce(out=tmp_path, run=False)
    text = (tmp_path / "claims.md").read_text()
    assert "were measured with other defaults of CBID than today’s" in text
    assert "Two coins: 8 of 8 cells (" in text
    assert reproduce(out=tmp_path).ran == 8
    assert "other defaults" not in (tmp_path / "claims.md").read_text()


def test_a_report_from_packed_raw_results(tmp_path):
    reproduce(out=tmp_path)
    before = (tmp_path / "claims.md").read_text().split("\n\n", 2)[2]
    RawResults(tmp_path / "raw" / "toy.jsonl").pack()
    assert not (tmp_path / "raw" / "toy.jsonl").exists()
    outcome = reproduce(out=tmp_path, run=False)
    assert outcome.kept == 8
    assert (tmp_path / "claims.md").read_text().split("\n\n", 2)[2] == before
    assert 'href="raw/toy.jsonl.gz"' in (tmp_path / "report.html").read_text()


def test_chapters_from_the_raw_results_of_the_benchmarks(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    few = [{"set": "digits", "seed": s, "labels": 5, "raw": 0.7, "labelled": 0.8, "spread": 0.9} for s in range(2)]
    (results / "few_labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in few))
    kinds = [{"part": "tree", "seed": s, "method": m, "bits": 16, "fine": 0.5 + s / 10} for s in (0, 1) for m in "ab"]
    (results / "label_kinds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kinds))
    reproduce(out=tmp_path / "out", benchmarks=results)
    text = (tmp_path / "out" / "report.html").read_text()
    assert "80.0 ± 0.0" in text
    assert "55.0 ± 7.1" in text
    assert "unseen_classes.jsonl is missing" in text
    assert 'href="../results/few_labels.jsonl"' in text


def test_plots_of_the_same_results_are_the_same(tmp_path):
    reproduce(out=tmp_path)
    before = [(tmp_path / "plots" / name).read_bytes() for name in ("toy.png", "toy.svg")]
    reproduce(out=tmp_path)
    assert [(tmp_path / "plots" / name).read_bytes() for name in ("toy.png", "toy.svg")] == before


def test_a_failure_is_reported_and_the_others_continue(tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_FAILS", "fair")
    monkeypatch.setattr(toy, "EXPERIMENT", _without_claims())
    done = reproduce(out=tmp_path)
    assert (done.ran, done.kept) == (4, 0)
    assert "the coin <rolled> away (toy.py, line" in done.failures["toy"][0]
    assert "Failed: ZeroDivisionError: the coin &lt;rolled&gt; away" in done.report.read_text()
    monkeypatch.delenv("TOY_FAILS")
    mended = reproduce(out=tmp_path)
    assert (mended.ran, mended.kept, mended.failures) == (4, 4, {})


def test_results_that_cannot_be_shown_do_not_cost_the_report(tmp_path, monkeypatch):
    from dataclasses import replace

    def show(results, page):
        page.note("so far")
        raise KeyError("axes")

    monkeypatch.setattr(toy, "EXPERIMENT", replace(toy.EXPERIMENT, show=show))
    done = reproduce(out=tmp_path)
    assert done.failures["toy"][0].startswith("the results could not be shown: KeyError: 'axes' (test_reproduce.py")
    text = done.report.read_text()
    assert "so far" in text
    assert text.count("The experiment failed.") == 3


def test_a_part_that_is_not_there_is_no_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_LACKS", "fair")
    monkeypatch.setattr(toy, "EXPERIMENT", _without_claims())
    done = reproduce(out=tmp_path)
    assert (done.ran, done.failures) == (4, {})
    assert done.left_out == {"toy": ["the coin is at the mint"]}
    assert "Left out: the coin is at the mint" in done.report.read_text()


def test_half_a_line_does_not_cost_the_report(tmp_path):
    reproduce(out=tmp_path)
    path = tmp_path / "raw" / "toy.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(whole[0] + whole[1][:30] + b"".join(whole[2:]))
    shown = reproduce(out=tmp_path, run=False)
    assert (shown.kept, shown.failures) == (6, {})
    assert "toy.jsonl: line 2 is damaged (" in shown.report.read_text()
    mended = reproduce(out=tmp_path)
    assert (mended.ran, mended.kept) == (2, 6)


@pytest.mark.parametrize("run", [True, False])
def test_raw_results_that_cannot_be_read_are_a_failure(tmp_path, run):
    (tmp_path / "raw" / "toy.jsonl").mkdir(parents=True)
    done = reproduce(out=tmp_path, run=run)
    assert (done.ran, done.kept) == (0, 0)
    assert all("IsADirectoryError" in message for message in done.failures["toy"])
    assert "IsADirectoryError" in done.report.read_text()


@pytest.mark.long
def test_a_killed_worker_is_reported_and_the_others_continue(tmp_path, monkeypatch):
    """Four tasks of two cells, two at a time."""
    from dataclasses import replace

    monkeypatch.setattr(toy, "EXPERIMENT", replace(_without_claims(), together=("repeat",)))
    monkeypatch.setenv("TOY_KILLED", "loaded 0")
    states = []
    done = reproduce(out=tmp_path, jobs=2, progress=states.append)
    assert len(states) == 4
    killed = [state.task.cells[0]["repeat"] for state in states if state.problem]
    assert 0 in killed
    assert len(killed) <= 2
    assert done.failures["toy"][0].startswith("a worker process was killed")
    assert "Failed: a worker process was killed" in done.report.read_text()
    assert done.ran >= 4
    monkeypatch.delenv("TOY_KILLED")
    again = reproduce(out=tmp_path)
    assert (again.ran + again.kept, again.kept, again.failures) == (8, done.ran, {})


def test_a_name_given_twice_is_one_section(tmp_path):
    done = reproduce(["toy", "toy"], out=tmp_path, quick=True)
    assert (done.ran, len(lines(tmp_path))) == (4, 4)
    assert done.report.read_text().count('<h2 id="toy">') == 1


def test_photographs_of_an_earlier_run_are_removed(tmp_path, monkeypatch):
    from dataclasses import replace

    def show(results, page):
        toy.show(results, page)
        page.plot(new_figure()[0], "gallery", "Coins.", svg=False, photographs=True)

    monkeypatch.setattr(toy, "EXPERIMENT", replace(toy.EXPERIMENT, show=show))
    plots = tmp_path / "plots"
    reproduce(out=tmp_path, quick=True)
    assert (plots / "toy_gallery.png").exists()
    for name in ("toybox.png", "other_toy.png", "toy_notes.txt", "toy_gallery.svg"):
        (plots / name).write_text("of somebody else, but the last")
    reproduce(out=tmp_path, quick=True, photographs=False)
    assert sorted(path.name for path in plots.iterdir()) == [
        "other_toy.png",
        "toy.png",
        "toy.svg",
        "toy_notes.txt",
        "toybox.png",
    ]


def _without_claims():
    from dataclasses import replace

    return replace(toy.EXPERIMENT, claims=())


def program(folder, *options, **environment):
    command = [sys.executable, "-c", PROGRAM, "reproduce", "--out", str(folder), *options]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        process_group=0,
    )


def wait_for_lines(folder, n):
    for _ in range(3000):
        if len(lines(folder)) >= n:
            return
        time.sleep(0.02)
    raise AssertionError("the run wrote nothing")


def test_killed_it_continues_where_it_stopped(tmp_path):
    with program(tmp_path, TOY_SECONDS="0.5") as process:
        wait_for_lines(tmp_path, 2)
        process.kill()
    before = lines(tmp_path)
    assert 2 <= len(before) < 8
    with (tmp_path / "raw" / "toy.jsonl").open("a") as file:
        file.write('{"settings": {"meth')  # as if the kill had come in the middle of a line
    again = reproduce(out=tmp_path)
    assert (again.ran, again.kept, again.failures) == (8 - len(before), len(before), {})
    after = lines(tmp_path)
    assert after[: len(before)] == before
    assert len({json.dumps(json.loads(line)["settings"], sort_keys=True) for line in after}) == len(after) == 8
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("jobs", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_interrupted_it_says_so(tmp_path, jobs):
    with program(tmp_path, "--jobs", jobs, TOY_SECONDS="0.5") as process:
        wait_for_lines(tmp_path, 1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers have it too
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("cbid: interrupted")
    assert len(lines(tmp_path)) < 8


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_what_continues_after_an_interrupt_is_no_result(tmp_path, jobs):
    """As learning does, which keeps the bits that it has."""
    with program(tmp_path, "--jobs", jobs, TOY_SECONDS="2", TOY_CONTINUES="1") as process:
        wait_for_lines(tmp_path, 1)
        time.sleep(0.3)
        before = lines(tmp_path)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("cbid: interrupted")
    assert lines(tmp_path) == before


@pytest.mark.long
def test_ended_by_a_signal_no_worker_continues(tmp_path):
    with program(tmp_path, "--jobs", "2", TOY_SECONDS="1") as process:
        wait_for_lines(tmp_path, 1)
        process.terminate()  # the program alone, as a service manager does
        process.wait(timeout=120)
        before = lines(tmp_path)
        process.communicate(timeout=120)  # ends when no worker is left to write to these pipes
    assert process.returncode == 128 + signal.SIGTERM
    assert lines(tmp_path) == before
    assert len(before) < 8
