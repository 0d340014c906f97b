"""The program from a folder of images to a search result, and whatever can go wrong on the way."""

import csv
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import sysconfig
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cbid.cli import run
from cbid.project import Project
from tests.project.made import picture, write_images

SETTINGS = ["--descriptor", "pixels", "--bits", "16"]


def program(*arguments, **options):
    """The program as a process of its own."""
    command = [sys.executable, "-m", "cbid", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, **options)


def call(capsys, *arguments):
    """Status, output and errors of the program, in this process."""
    status = run([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_installed_program(tmp_path):
    """From a folder of images to a search result in an empty directory, by the script that pip puts in place."""
    script = Path(sysconfig.get_path("scripts")) / "cbid"
    if not script.exists():
        pytest.skip(f"cbid is not installed: there is no {script}")

    def installed(*arguments):
        return subprocess.run([script, *arguments], capture_output=True, text=True, timeout=600, cwd=tmp_path)

    write_images(tmp_path / "photos", n=6)
    done = installed("fit", "photos", *SETTINGS, "-q")
    assert (done.returncode, done.stderr) == (0, "")
    found = installed("search", "photos/red/000.png", "-k", "1", "--json")
    assert json.loads(found.stdout)[0]["matches"][0]["label"] == "red"
    wrong = installed("search", "no.png")
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (1, "", 1)
    assert "no.png" in wrong.stderr
    assert installed("nonsense").returncode == 2


def fails(capsys, *arguments, status=1):
    """The one line that a call which fails must tell."""
    found, out, err = call(capsys, *arguments)
    assert (found, out) == (status, "")
    assert err.startswith("cbid: ")
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with images/, images.cbid and a query image."""
    folder = tmp_path_factory.mktemp("home")
    write_images(folder / "images", n=10)
    Image.fromarray(picture("red", 777)).save(folder / "query.png")
    assert run(["fit", str(folder / "images"), *SETTINGS, "--out", str(folder / "images.cbid"), "--quiet"]) == 0
    return folder


@pytest.fixture
def here(home, monkeypatch):
    monkeypatch.chdir(home)
    return home


def test_from_a_folder_to_a_search_result(tmp_path):
    """As a person would, in an empty directory, through processes of their own."""
    write_images(tmp_path / "photos", n=10)
    Image.fromarray(picture("blue", 778)).save(tmp_path / "query.png")
    done = program("fit", "photos", *SETTINGS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "photos.cbid: 30 images, 3 classes (24 learned from, 6 held out)" in done.stdout
    assert "raw vectors  12288" in done.stdout
    assert "16 bits" in done.stdout
    assert "reading images" in done.stderr  # the bars stay out of the output
    done = program("search", "query.png", "-k", "3", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (answer,) = json.loads(done.stdout)
    assert [match["label"] for match in answer["matches"]] == ["blue"] * 3
    assert os.path.exists(answer["matches"][0]["path"])


def test_fit_again_reads_nothing(here, capsys):
    status, out, err = call(capsys, "fit", "images", *SETTINGS, "--out", "images.cbid", "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert (told["up_to_date"], told["images"]) == (True, 30)
    assert told["classes"] == ["blue", "green", "red"]
    assert told["settings"]["coder"]["kernel"] == "rbf"
    assert told["evaluation"]["codes"][-1]["n_bits"] == 16
    assert call(capsys, "fit", "images", *SETTINGS, "--quiet") == (0, "", "")
    assert "nothing has changed since" in call(capsys, "fit", "images", *SETTINGS)[1]


def test_search(here, capsys):
    status, out, err = call(capsys, "search", "query.png", "-k", "2")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["distance", "label", "id", "image"]
    assert len(lines) == 3
    assert lines[1].split()[1] == "red"
    status, out, _ = call(capsys, "search", "query.png", "-k", "2", "--how", "raw", "--label", "blue", "--json")
    (answer,) = json.loads(out)
    assert (status, answer["how"], answer["bytes"]) == (0, "raw", 4 * 3072)
    assert {match["label"] for match in answer["matches"]} == {"blue"}
    status, out, _ = call(capsys, "search", "images/green", "query.png", "-k", "1", "--bits", "8")
    assert status == 0
    assert out.count("distance") == 11


def test_classify(here, capsys):
    status, out, _ = call(capsys, "classify", "query.png", "images/blue", "--json")
    assert status == 0
    answers = json.loads(out)
    assert [a["label"] for a in answers] == ["red"] + ["blue"] * 10
    assert answers[0]["votes"] == {"red": 5}
    status, out, _ = call(capsys, "classify", "query.png", "-k", "3")
    assert out.splitlines()[1].split() == ["red", "red", "3", "query.png"]


def test_encode(here, capsys, tmp_path):
    with Project.open("images.cbid") as project:
        expected = project.encode(project.describe_image((here / "query.png").read_bytes()))
    assert call(capsys, "encode", "query.png") == (0, f"query.png\t{expected.tobytes().hex()}\n", "")
    _, out, _ = call(capsys, "encode", "query.png", "--bits", "8", "--json")
    assert json.loads(out) == {"n_bits": 8, "codes": [{"name": "query.png", "code": expected.tobytes().hex()[:2]}]}
    assert call(capsys, "encode", "query.png", "images/red", "-o", tmp_path / "c.npy", "-q") == (0, "", "")
    codes = np.load(tmp_path / "c.npy")
    assert codes.shape == (11, 2)
    np.testing.assert_array_equal(codes[0], expected[0])


def test_encode_in_parts(here, capsys, tmp_path):
    whole, parts = tmp_path / "whole.npy", tmp_path / "parts.npy"
    assert call(capsys, "encode", "images", "-o", whole, "-q") == (0, "", "")
    status, out, _ = call(capsys, "encode", "images", "-o", parts, "--max-memory", "4GB", "--json")
    assert status == 0
    assert json.loads(out)["n"] == len(np.load(whole))
    np.testing.assert_array_equal(np.load(parts), np.load(whole))
    status, _, err = call(capsys, "encode", "images", "--max-memory", "1GB")
    assert (status, err) == (
        1,
        "cbid: --scheduler and --max-memory take one SRC, and --out with a name that ends in .npy\n",
    )
    status, _, err = call(capsys, "encode", "images", "-o", tmp_path / "b.npy", "--max-memory", "1kB", "-q")
    assert status == 1
    assert "leaves nothing to encode with" in err
    assert not (tmp_path / "b.npy").exists()


def test_index_adds_what_is_new(here, capsys, tmp_path):
    write_images(tmp_path / "more", n=2, first=90)
    (tmp_path / "more" / "red" / "torn.png").write_bytes(b"no")
    assert call(capsys, "fit", "images", *SETTINGS, "-o", tmp_path / "p.cbid", "-q")[0] == 0
    arguments = ("index", tmp_path / "more", "--project", tmp_path / "p.cbid")
    status, out, err = call(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert (told["added"], told["known"], told["images"]) == (6, 0, 36)
    assert [failure["name"] for failure in told["failures"]] == ["red/torn.png"]
    status, out, err = call(capsys, *arguments)
    assert "0 images added, 6 were in already; now 36" in out
    assert "left out red/torn.png" in err
    query = tmp_path / "more" / "red" / "090.png"
    _, out, _ = call(capsys, "search", query, "-k", "36", "--how", "raw", "-p", tmp_path / "p.cbid", "--json")
    assert json.loads(out)[0]["matches"][0]["path"] == str(query)


def test_evaluate(here, capsys, tmp_path):
    status, out, _ = call(capsys, "evaluate", "--json")
    told = json.loads(out)
    assert (status, told["n_queries"], len(told["confusion"]["classes"])) == (0, 6, 3)
    write_images(tmp_path / "test", n=3, first=70)
    status, out, _ = call(capsys, "evaluate", tmp_path / "test", "--json")
    told = json.loads(out)
    assert (status, told["n_queries"], told["n_stored"]) == (0, 9, 30)
    status, out, _ = call(capsys, "evaluate")
    assert "6 images against 24: accuracy of the vote of the 5 nearest" in out
    assert "all images of images are in the project" in fails(capsys, "evaluate", "images")
    lines = [*map(str, (here / "images").rglob("*.png")), "nope.png"]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    status, _, err = call(capsys, "evaluate", tmp_path / "list.txt")
    assert (status, err.splitlines()[0]) == (1, "cbid: left out nope.png: no such file")
    assert "there is nothing to measure on" in err


@pytest.mark.parametrize("to", ["npy", "parquet", "faiss", "usearch", "pgvector", "hex"])
def test_export(here, capsys, tmp_path, to):
    out = tmp_path / "codes"
    status, told, _ = call(capsys, "export", out, "--to", to, "--names", tmp_path / "names.csv", "--json")
    assert (status, json.loads(told)["codes"]) == (0, 30)
    with open(tmp_path / "names.csv") as file:
        rows = list(csv.DictReader(file))
    assert (rows[29]["id"], rows[29]["label"], rows[29]["name"]) == ("29", "red", "red/009.png")
    with Project.open("images.cbid") as project:
        codes = project.index.reconstruct(project.ids)
    if to == "npy":
        np.testing.assert_array_equal(np.load(out), codes)
    elif to == "hex":
        assert out.read_text().splitlines()[3] == f"3\t{codes[3].tobytes().hex()}"
    elif to == "pgvector":
        assert out.read_text().splitlines()[3] == "3\t" + "".join(map(str, np.unpackbits(codes[3])))
    elif to == "parquet":
        from cbid.storage.code_files import load_parquet

        np.testing.assert_array_equal(load_parquet(out)[0], codes)
    elif to == "faiss":
        import faiss

        assert faiss.read_index_binary(str(out)).ntotal == 30


def test_a_project_of_vectors(capsys, tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = (rng.normal(size=(40, 8)) + 4 * y[:, None]).astype(np.float32)
    columns = {"clip": list(X), "kind": [f"class {c}" for c in y], "key": [f"item {i}" for i in range(40)]}
    write_table(pyarrow.table(columns), "items.parquet")
    status, out, err = call(capsys, "fit", "items.parquet", "--bits", "8", "--labels", "kind", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["classes"] == ["class 0", "class 1"]
    np.save("queries.npy", X[:3])
    status, out, _ = call(capsys, "search", "queries.npy", "-k", "1", "--how", "raw", "--json")
    assert [a["matches"][0]["name"] for a in json.loads(out)] == ["item 0", "item 1", "item 2"]
    assert call(capsys, "report", "-q") == (0, "", "")
    assert re.search(r'<span class="name">item \d+</span>', (tmp_path / "items.html").read_text())
    Image.fromarray(picture("red", 1)).save("query.png")
    assert "query.png does not hold vectors" in fails(capsys, "search", "query.png")


def test_vectors_that_are_in_the_project(capsys, tmp_path, monkeypatch):
    """They are not added again, and nothing is measured on them."""
    monkeypatch.chdir(tmp_path)
    y = np.arange(40) % 2
    X = np.random.default_rng(0).normal(size=(40, 8)) + 4 * y[:, None]
    np.savez("some.npz", X=X[:30], y=y[:30])
    np.savez("all.npz", X=X[::-1], y=y[::-1])
    np.save("q.npy", X[:3])
    np.save("other.npy", X[30:35])
    assert call(capsys, "fit", "some.npz", "--bits", "8", "--quiet") == (0, "", "")
    assert "all images of some.npz are in the project" in fails(capsys, "evaluate", "some.npz")
    status, out, _ = call(capsys, "evaluate", "all.npz", "--json")
    assert (status, json.loads(out)["n_queries"], json.loads(out)["n_stored"]) == (0, 10, 30)
    for file, added in (("other", 5), ("q", 0), ("other", 0), ("q", 0)):
        status, out, _ = call(capsys, "index", f"{file}.npy", "--json")
        assert (status, json.loads(out)["added"]) == (0, added)


def test_a_flat_folder_says_which_coder_it_takes(capsys, tmp_path):
    (tmp_path / "flat").mkdir()
    for i in range(30):
        Image.fromarray(picture(("red", "blue")[i % 2], i)).save(tmp_path / "flat" / f"{i}.png")
    arguments = ("fit", tmp_path / "flat", "-d", "pixels", "-b", "8", "-o", tmp_path / "p.cbid", "-q")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        status, out, err = call(capsys, *arguments)
    assert (status, out) == (0, "")
    assert err.startswith("cbid: warning: the images have no labels: ITQ learns codes without them")
    assert call(capsys, *arguments, "--coder", "LSH") == (0, "", "")
    status, out, _ = call(capsys, "evaluate", "-p", tmp_path / "p.cbid")
    assert "share of the ten nearest that codes find" in out
    told = fails(capsys, "search", tmp_path / "flat" / "0.png", "--label", "red", "-p", tmp_path / "p.cbid")
    assert told == "cbid: the images have no labels; there is nothing to choose by --label\n"


# What can go wrong


def test_sources_that_cannot_be_fitted(capsys, tmp_path):
    out = ("--out", tmp_path / "p.cbid")
    assert "nowhere is not there" in fails(capsys, "fit", tmp_path / "nowhere", *out)
    (tmp_path / "empty").mkdir()
    assert "empty holds no images" in fails(capsys, "fit", tmp_path / "empty", *out)
    write_images(tmp_path / "one", n=4, colours=("red",))
    told = fails(capsys, "fit", tmp_path / "one", *SETTINGS, *out, "-q")
    assert "one label ('red'); CBID learns from two classes or more" in told
    (tmp_path / "notes.doc").write_text("text")
    assert "notes.doc is nothing that is read here" in fails(capsys, "fit", tmp_path / "notes.doc", *out)
    for name in ("a", "b"):
        (tmp_path / "torn" / name).mkdir(parents=True)
        (tmp_path / "torn" / name / "1.png").write_bytes(b"text")
    told = fails(capsys, "fit", tmp_path / "torn", *SETTINGS, "--out", tmp_path / "q.cbid", "-q")
    assert "none of 2 images could be read; a/1.png: it is none of JPEG" in told
    np.save(tmp_path / "v.npy", np.zeros((3, 2, 2, 2, 2)))
    assert "give vectors (n, d), or images" in fails(capsys, "fit", tmp_path / "v.npy", *out)


def test_folders_with_a_dot_in_their_names_have_projects_of_their_own(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("v1.2", "v1.3"):
        write_images(tmp_path / name, n=4)
        assert call(capsys, "fit", name, *SETTINGS, "-q")[0] == 0
    assert sorted(path.name for path in tmp_path.glob("*.cbid")) == ["v1.2.cbid", "v1.3.cbid"]
    assert "there are 2 projects" in fails(capsys, "search", "v1.2/red/000.png")
    (tmp_path / "v1.3.cbid" / "project.json").unlink()  # a fit that has not ended is no project yet
    assert call(capsys, "search", "v1.2/red/000.png", "-k", "1")[0] == 0


def test_a_class_that_is_not_there(here, capsys):
    assert "'blue', 'green', 'red'" in fails(capsys, "search", "query.png", "--label", "mauve")


def test_settings_that_are_not_accepted(here, capsys, tmp_path):
    out = ("--out", tmp_path / "p.cbid")
    assert "none.onnx' cannot be read" in fails(capsys, "fit", "images", "-d", "onnx:none.onnx", *out)
    assert "--bits" in fails(capsys, "fit", "images", "--bits", "0", *out, status=2)
    assert "--bits" in fails(capsys, "fit", "images", "--bits", "many", *out, status=2)
    assert "SRC" in fails(capsys, "fit", status=2)
    assert "--nonsense" in fails(capsys, "fit", "images", "--nonsense", status=2)
    assert "QUERY" in fails(capsys, "search", status=2)
    assert "n_bits=17 is not accepted" in fails(capsys, "search", "query.png", "--bits", "17")
    assert "does not tell its format" in fails(capsys, "export", tmp_path / "codes.doc")
    assert "ends in .npy or .parquet" in fails(capsys, "encode", "query.png", "-o", tmp_path / "codes.txt")


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        (["search", "query.png", "--how", "fuzzy"], "weighted, plain, raw"),
        (["fit", "images", "--kernel", "cubic"], "rbf, none"),
        (["fit", "images", "--coder", "Magic"], "CBID, CCAITQ"),
        (["fit", "images", "--descriptor", "sift"], "hog, gist, phog, centrist, pixels, onnx:FILE"),
        (["fit", "images", "--descriptor", "onnx:"], "hog, gist"),
        (["export", "codes", "--to", "word"], "npy, parquet, faiss"),
    ],
)
def test_words_that_an_option_does_not_take(here, capsys, arguments, accepted):
    """A wrong call: the option is named, and what it takes."""
    told = fails(capsys, *arguments, status=2)
    assert f"'{arguments[2]}'" in told
    assert f"{arguments[3]!r} is not accepted; choose one of {accepted}" in told


def test_a_kernel_for_another_coder(here, capsys):
    told = fails(capsys, "fit", "images", "--coder", "ITQ", "--kernel", "rbf", status=2)
    assert "'--kernel': it belongs to CBID, not to ITQ" in told


def test_what_quiet_leaves_is_told(capsys):
    for command in ("fit", "index", "encode", "export"):
        _, out, _ = call(capsys, command, "--help")
        assert "no words but warnings and errors" in " ".join(re.sub("[^a-z ]", " ", out).split())


def test_projects_that_are_none(here, capsys, tmp_path, monkeypatch):
    every = [
        ("search", here / "query.png"),
        ("classify", here / "query.png"),
        ("encode", here / "query.png"),
        ("index", here / "images"),
        ("evaluate",),
        ("report",),
        ("export", tmp_path / "codes.npy"),
    ]
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("precious")
    for command in every:
        assert "is not there" in fails(capsys, *command, "-p", tmp_path / "nowhere")
        assert "is no project" in fails(capsys, *command, "-p", tmp_path / "foreign")
    assert [entry.name for entry in (tmp_path / "foreign").iterdir()] == ["thesis.txt"]
    told = fails(capsys, "fit", here / "images", "--out", tmp_path / "foreign")
    assert "holds other files (thesis.txt)" in told
    monkeypatch.chdir(tmp_path)
    assert "there is no project (*.cbid) in this folder" in fails(capsys, *every[0])
    (tmp_path / "a.cbid").mkdir()
    (tmp_path / "b.cbid").mkdir()
    assert "there are 2 projects in this folder (a.cbid, b.cbid)" in fails(capsys, *every[0])


def test_queries_that_cannot_be_read(here, capsys, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    assert "text.png: it is none of JPEG" in fails(capsys, "search", tmp_path / "text.png")
    assert "nowhere.png is not there" in fails(capsys, "classify", "nowhere.png")
    status, out, err = call(capsys, "classify", tmp_path / "text.png", "query.png")
    assert status == 0
    assert "red" in out
    assert err == "cbid: left out text.png: it is none of JPEG, PNG, WEBP, GIF, BMP, TIFF, PPM\n"


def test_a_full_disk(here, capsys, tmp_path):
    """No file may pass 60 kB, as if there were no room: vectors of 24 images alone take 290 kB."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    done = program("fit", "images", *SETTINGS, "-o", tmp_path / "p.cbid", "-q", preexec_fn=small_files)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert "File too large" in done.stderr
    assert call(capsys, "fit", "images", *SETTINGS, "-o", tmp_path / "p.cbid", "-q") == (0, "", "")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_place(here, capsys, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "Permission denied" in fails(capsys, "fit", "images", *SETTINGS, "-o", tmp_path / "locked" / "p.cbid")
    assert "Permission denied" in fails(capsys, "report", "-o", tmp_path / "locked" / "r.html")
    assert "Permission denied" in fails(capsys, "export", tmp_path / "locked" / "c.npy")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc, where nobody can make files")
def test_a_place_where_nobody_can_write(here, capsys):
    """As on a read-only disk, also for root."""
    for command in (
        ("fit", "images", *SETTINGS, "--out", "/proc/p.cbid"),
        ("report", "--out", "/proc/report.html"),
        ("export", "/proc/codes.npy"),
        ("encode", "query.png", "--out", "/proc/codes.npy"),
        ("demo", "--out", "/proc/demo"),
    ):
        assert "/proc/" in fails(capsys, *command)


def test_ctrl_c_and_then_on(tmp_path):
    """Interrupted when the first batch is stored; the same command then reads only the others."""
    images = write_images(tmp_path / "images", n=70)
    command = [sys.executable, "-m", "cbid", "fit", "images", "-d", "hog", "-b", "8", "-o", "p.cbid", "--json"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while _stored(tmp_path / "p.cbid") < 64 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, "")
    assert err == "cbid: interrupted; the same command goes on where it stopped\n"
    stored = _stored(tmp_path / "p.cbid")
    assert 64 <= stored < 210
    assert len(list(images.rglob("*.png"))) == 210
    with Project.fit(tmp_path / "p.cbid", images, descriptor="hog", n_bits=8) as project:
        assert project.last_fit["read"] == 210 - stored
        assert len(project) == 210


def _stored(path):
    """Rows of the table so far."""
    if not (path / "images.sqlite").exists():
        return 0
    table = sqlite3.connect(f"file:{path / 'images.sqlite'}?mode=ro", uri=True)
    try:
        return table.execute("SELECT count(*) FROM images").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet, or just being written
        return 0
    finally:
        table.close()


# Help


COMMANDS = ["fit", "encode", "index", "search", "classify", "evaluate", "report", "export", "demo"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_that_is_right(capsys, command):
    """The options of the example are options of the command."""
    status, out, err = call(capsys, command, "--help")
    assert (status, err) == (0, "")
    text = " ".join(out.replace("│", " ").split())
    assert f"Example: cbid {command}" in text
    example = text[text.index("Example: cbid") :].split("╭")[0]
    for option in (word for word in example.split() if word.startswith("--")):
        assert out.count(option) >= 2


def test_shell_completion():
    environment = {**os.environ, "_CBID_COMPLETE": "complete_bash", "COMP_WORDS": "cbid e", "COMP_CWORD": "1"}
    done = program(env=environment)
    assert done.stdout.split() == ["encode", "evaluate", "export"]
    assert "_CBID_COMPLETE" in program("--show-completion", "bash").stdout
