"""The program from a folder of images to a search result, and the errors on the way."""

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
from cbid.codes import weighted_hamming
from cbid.project import Project
from tests.project.made import picture, write_images

SETTINGS = ["--descriptor", "pixels", "--n-bits", "16"]


def program(*arguments, **options):
    """Run the program as a process."""
    command = [sys.executable, "-m", "cbid", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, **options)


def call(capsys, *arguments):
    """Run the program in this process; return its status, stdout and stderr."""
    status = run([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.long  # the same with `python -m cbid` below
def test_the_installed_program(tmp_path):
    """From a folder of images to a search result, with the script that pip installs."""
    script = Path(sysconfig.get_path("scripts")) / "cbid"
    if not script.exists():
        pytest.skip(f"cbid is not installed: {script} is missing")

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
    """Run a call that must fail; return its one line on stderr."""
    found, out, err = call(capsys, *arguments)
    assert (found, out) == (status, "")
    assert err.startswith("cbid: ")
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder with images/, images.cbid and a query image."""
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
    """Each command runs in its own process, in an empty folder."""
    write_images(tmp_path / "photos", n=10)
    Image.fromarray(picture("blue", 778)).save(tmp_path / "query.png")
    done = program("fit", "photos", *SETTINGS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^photos\.cbid: 30 images, 3 classes \(24 .*, 6 held out\)$", done.stdout, re.M)
    assert "raw vectors  12288" in done.stdout
    assert "16 bits" in done.stdout
    assert "reading images" in done.stderr  # progress goes to stderr
    done = program("search", "query.png", "-k", "3", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (answer,) = json.loads(done.stdout)
    assert [match["label"] for match in answer["matches"]] == ["blue"] * 3
    assert os.path.exists(answer["matches"][0]["path"])


def test_fit_again_reads_nothing(here, capsys):
    status, out, err = call(capsys, "fit", "images", *SETTINGS, "--out", "images.cbid", "--json")
    assert (status, err) == (0, "")
    answer = json.loads(out)
    assert (answer["up_to_date"], answer["images"]) == (True, 30)
    assert answer["classes"] == ["blue", "green", "red"]
    assert answer["settings"]["coder"]["kernel"] == "auto"
    assert answer["evaluation"]["codes"][-1]["n_bits"] == 16
    assert call(capsys, "fit", "images", *SETTINGS, "--quiet") == (0, "", "")
    assert "up to date" in call(capsys, "fit", "images", *SETTINGS)[1]


def test_search(here, capsys):
    status, out, err = call(capsys, "search", "query.png", "-k", "2")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["bits", "that", "agree", "distance", "label", "id", "image"]
    assert len(lines) == 4  # the last says what decides the order: both images have the code of the query
    assert lines[1].split()[1:3] == ["of", "16"]
    assert lines[1].split()[4] == "red"
    status, out, _ = call(capsys, "search", "query.png", "-k", "2", "--how", "raw", "--label", "blue", "--json")
    (answer,) = json.loads(out)
    assert (status, answer["how"], answer["bytes"], answer["n_bits"]) == (0, "raw", 4 * 3072, None)
    assert {match["agree"] for match in answer["matches"]} == {None}
    assert all(0 < match["similarity"] < 1 for match in answer["matches"])
    assert {match["label"] for match in answer["matches"]} == {"blue"}
    status, out, _ = call(capsys, "search", "images/green", "query.png", "-k", "1", "--n-bits", "8")
    assert status == 0
    assert out.count("distance") == 11


def test_images_that_all_tie_are_explained(here, capsys):
    """A column of equal distances does not show what decides the order, so a line says it."""
    _, out, _ = call(capsys, "search", "images/green", "-k", "2", "--n-bits", "8")
    blocks = out.split("\n\n")
    tied = [block.splitlines()[2].split()[3] == block.splitlines()[3].split()[3] for block in blocks]
    assert any(tied)
    assert ["raw vectors decide" in block for block in blocks] == tied
    _, out, _ = call(capsys, "search", "query.png", "-k", "2", "--how", "raw")
    assert "decide" not in out


def test_search_by_likeness(here, capsys):
    """The distances are those of the weights at that point between "same class" and "looks alike"."""
    status, out, _ = call(capsys, "search", "query.png", "-k", "30", "--likeness", "0.8", "--json")
    (answer,) = json.loads(out)
    assert (status, answer["likeness"]) == (0, 0.8)
    with Project.open("images.cbid") as project:
        code = project.encode(project.describe_image(Path("query.png").read_bytes()))[0]
        stored = np.stack([project.code(match["id"]) for match in answer["matches"]])
        wanted = weighted_hamming(code, stored, project.coder.weights_at(0.8))
    np.testing.assert_allclose([match["distance"] for match in answer["matches"]], wanted, rtol=1e-5)
    assert "likeness" in fails(capsys, "search", "query.png", "--likeness", "0.8", "--how", "plain")
    assert "likeness" in fails(capsys, "search", "query.png", "--likeness", "1.2", status=2)


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
    _, out, _ = call(capsys, "encode", "query.png", "--n-bits", "8", "--json")
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
    assert status == 1
    assert "--max-memory" in err
    assert "--out" in err
    status, _, err = call(capsys, "encode", "images", "-o", tmp_path / "b.npy", "--max-memory", "1kB", "-q")
    assert status == 1
    assert "max_memory" in err
    assert not (tmp_path / "b.npy").exists()


def test_index_adds_what_is_new(here, capsys, tmp_path):
    write_images(tmp_path / "more", n=2, first=90)
    (tmp_path / "more" / "red" / "torn.png").write_bytes(b"no")
    assert call(capsys, "fit", "images", *SETTINGS, "-o", tmp_path / "p.cbid", "-q")[0] == 0
    arguments = ("index", tmp_path / "more", "--project", tmp_path / "p.cbid")
    status, out, err = call(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    answer = json.loads(out)
    assert (answer["added"], answer["known"], answer["images"]) == (6, 0, 36)
    assert [failure["name"] for failure in answer["failures"]] == ["red/torn.png"]
    status, out, err = call(capsys, *arguments)
    assert re.search(r": 0 .*, 6 .*, 36 ", out)
    assert "red/torn.png" in err
    query = tmp_path / "more" / "red" / "090.png"
    _, out, _ = call(capsys, "search", query, "-k", "36", "--how", "raw", "-p", tmp_path / "p.cbid", "--json")
    assert json.loads(out)[0]["matches"][0]["path"] == str(query)


def test_ctrl_c_while_images_are_added(here, capsys, monkeypatch):
    """They are added in one step."""

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Project, "add_new", interrupted)
    assert call(capsys, "index", "images") == (130, "", "cbid: interrupted; 0 images added\n")


def test_evaluate(here, capsys, tmp_path):
    status, out, _ = call(capsys, "evaluate", "--json")
    answer = json.loads(out)
    assert (status, answer["n_queries"], len(answer["confusion"]["classes"])) == (0, 6, 3)
    write_images(tmp_path / "test", n=3, first=70)
    status, out, _ = call(capsys, "evaluate", tmp_path / "test", "--json")
    answer = json.loads(out)
    assert (status, answer["n_queries"], answer["n_stored"]) == (0, 9, 30)
    status, out, _ = call(capsys, "evaluate")
    assert re.search(r"^6 queries, 24 stored images: accuracy", out)
    assert "images" in fails(capsys, "evaluate", "images")
    lines = [*map(str, (here / "images").rglob("*.png")), "nope.png"]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    status, _, err = call(capsys, "evaluate", tmp_path / "list.txt")
    assert status == 1
    assert "nope.png" in err.splitlines()[0]
    assert "list.txt" in err.splitlines()[1]


EXPORTS = ["faiss", "usearch", "pgvector", "sqlite-vec", "qdrant", "elasticsearch", "opensearch", "ubinary", "hex"]


@pytest.mark.parametrize("to", ["npy", "parquet", "binary", "lance", *EXPORTS])
def test_export(here, capsys, tmp_path, to):
    if to == "lance":
        pytest.importorskip("lance")
    out = tmp_path / "codes"
    status, shown, _ = call(capsys, "export", out, "--to", to, "--names", tmp_path / "names.csv", "--json")
    assert (status, json.loads(shown)["codes"]) == (0, 30)
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
    if to not in ("npy", "parquet"):
        from cbid.storage.code_files import load_export

        read, ids = load_export(out, 8 * codes.shape[1], to)
        np.testing.assert_array_equal(read, codes)
        assert ids is None or ids.tolist() == list(range(30))


def test_a_project_of_vectors(capsys, tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = (rng.normal(size=(40, 8)) + 4 * y[:, None]).astype(np.float32)
    columns = {"clip": list(X), "kind": [f"class {c}" for c in y], "key": [f"item {i}" for i in range(40)]}
    write_table(pyarrow.table(columns), "items.parquet")
    status, out, err = call(capsys, "fit", "items.parquet", "--n-bits", "8", "--labels", "kind", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["classes"] == ["class 0", "class 1"]
    np.save("queries.npy", X[:3])
    status, out, _ = call(capsys, "search", "queries.npy", "-k", "1", "--how", "raw", "--json")
    assert [a["matches"][0]["name"] for a in json.loads(out)] == ["item 0", "item 1", "item 2"]
    assert call(capsys, "report", "-q") == (0, "", "")
    assert re.search(r'<span class="name">item \d+</span>', (tmp_path / "items.html").read_text())
    Image.fromarray(picture("red", 1)).save("query.png")
    assert "query.png" in fails(capsys, "search", "query.png")


def test_vectors_that_are_in_the_project(capsys, tmp_path, monkeypatch):
    """Vectors of the project are neither added again nor used to measure."""
    monkeypatch.chdir(tmp_path)
    y = np.arange(40) % 2
    X = np.random.default_rng(0).normal(size=(40, 8)) + 4 * y[:, None]
    np.savez("some.npz", X=X[:30], y=y[:30])
    np.savez("all.npz", X=X[::-1], y=y[::-1])
    np.save("q.npy", X[:3])
    np.save("other.npy", X[30:35])
    assert call(capsys, "fit", "some.npz", "--n-bits", "8", "--quiet") == (0, "", "")
    assert "some.npz" in fails(capsys, "evaluate", "some.npz")
    status, out, _ = call(capsys, "evaluate", "all.npz", "--json")
    assert (status, json.loads(out)["n_queries"], json.loads(out)["n_stored"]) == (0, 10, 30)
    for file, added in (("other", 5), ("q", 0), ("other", 0), ("q", 0)):
        status, out, _ = call(capsys, "index", f"{file}.npy", "--json")
        assert (status, json.loads(out)["added"]) == (0, added)


def test_a_flat_folder_warns_which_coder_it_uses(capsys, tmp_path):
    (tmp_path / "flat").mkdir()
    for i in range(30):
        Image.fromarray(picture(("red", "blue")[i % 2], i)).save(tmp_path / "flat" / f"{i}.png")
    arguments = ("fit", tmp_path / "flat", "-d", "pixels", "-b", "8", "-o", tmp_path / "p.cbid", "-q")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        status, out, err = call(capsys, *arguments)
    assert (status, out) == (0, "")
    assert err.startswith("cbid: warning: ")
    assert "ITQ" in err
    assert call(capsys, *arguments, "--coder", "LSH") == (0, "", "")
    status, out, _ = call(capsys, "evaluate", "-p", tmp_path / "p.cbid")
    assert "same ten nearest" in out
    assert "--label='red'" in fails(
        capsys, "search", tmp_path / "flat" / "0.png", "--label", "red", "-p", tmp_path / "p.cbid"
    )


# Errors


def test_sources_that_cannot_be_fitted(capsys, tmp_path):
    out = ("--out", tmp_path / "p.cbid")
    assert "nowhere" in fails(capsys, "fit", tmp_path / "nowhere", *out)
    (tmp_path / "empty").mkdir()
    assert "empty" in fails(capsys, "fit", tmp_path / "empty", *out)
    write_images(tmp_path / "one", n=4, colours=("red",))
    assert "'red'" in fails(capsys, "fit", tmp_path / "one", *SETTINGS, *out, "-q")
    (tmp_path / "notes.doc").write_text("text")
    assert "notes.doc" in fails(capsys, "fit", tmp_path / "notes.doc", *out)
    for name in ("a", "b"):
        (tmp_path / "torn" / name).mkdir(parents=True)
        (tmp_path / "torn" / name / "1.png").write_bytes(b"text")
    assert "a/1.png" in fails(capsys, "fit", tmp_path / "torn", *SETTINGS, "--out", tmp_path / "q.cbid", "-q")
    np.save(tmp_path / "v.npy", np.zeros((3, 2, 2, 2, 2)))
    assert "v.npy" in fails(capsys, "fit", tmp_path / "v.npy", *out)


def test_folders_with_a_dot_in_their_names_have_separate_projects(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("v1.2", "v1.3"):
        write_images(tmp_path / name, n=4)
        assert call(capsys, "fit", name, *SETTINGS, "-q")[0] == 0
    assert sorted(path.name for path in tmp_path.glob("*.cbid")) == ["v1.2.cbid", "v1.3.cbid"]
    assert "v1.2.cbid, v1.3.cbid" in fails(capsys, "search", "v1.2/red/000.png")
    (tmp_path / "v1.3.cbid" / "project.json").unlink()  # an unfinished fit does not count
    assert call(capsys, "search", "v1.2/red/000.png", "-k", "1")[0] == 0


def test_an_unknown_class(here, capsys):
    assert "'blue', 'green', 'red'" in fails(capsys, "search", "query.png", "--label", "mauve")


def test_settings_that_are_rejected(here, capsys, tmp_path):
    out = ("--out", tmp_path / "p.cbid")
    assert "none.onnx" in fails(capsys, "fit", "images", "-d", "onnx:none.onnx", *out)
    assert "--n-bits" in fails(capsys, "fit", "images", "--n-bits", "0", *out, status=2)
    assert "--n-bits" in fails(capsys, "fit", "images", "--n-bits", "many", *out, status=2)
    assert "SRC" in fails(capsys, "fit", status=2)
    assert "--nonsense" in fails(capsys, "fit", "images", "--nonsense", status=2)
    assert "QUERY" in fails(capsys, "search", status=2)
    assert "n_bits=17" in fails(capsys, "search", "query.png", "--n-bits", "17")
    assert "codes.doc" in fails(capsys, "export", tmp_path / "codes.doc")
    assert "codes.txt" in fails(capsys, "encode", "query.png", "-o", tmp_path / "codes.txt")


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        (["search", "query.png", "--how", "fuzzy"], "weighted, plain, raw"),
        (["fit", "images", "--kernel", "cubic"], "auto, linear, rbf, none"),
        (["fit", "images", "--coder", "Magic"], "CBID, CCAITQ"),
        (["fit", "images", "--descriptor", "sift"], "efficientnet, hog, gist, phog, centrist, pixels, onnx:FILE"),
        (["fit", "images", "--descriptor", "onnx:"], "hog, gist"),
        (["export", "codes", "--to", "word"], "npy, parquet, faiss"),
    ],
)
def test_values_that_an_option_rejects(here, capsys, arguments, accepted):
    """The error names the option, the value and the accepted values."""
    shown = fails(capsys, *arguments, status=2)
    assert f"'{arguments[2]}'" in shown
    assert repr(arguments[3]) in shown
    assert accepted in shown


def test_a_kernel_for_another_coder(here, capsys):
    shown = fails(capsys, "fit", "images", "--coder", "ITQ", "--kernel", "rbf", status=2)
    assert "'--kernel'" in shown
    assert "ITQ" in shown


@pytest.mark.parametrize(
    ("former", "name"), [("--bits", "--n-bits"), ("--jobs", "--n-jobs"), ("--seed", "--random-state")]
)
def test_former_names_of_options(here, capsys, former, name):
    """They still work, but the help does not show them."""
    assert name in fails(capsys, "fit", "images", former, "many", status=2)
    assert name in fails(capsys, "fit", "images", f"{former}=many", status=2)
    out = call(capsys, "fit", "--help")[1]
    assert name in out
    assert former not in out.replace(name, "")
    assert call(capsys, "search", "query.png", "--bits", "8", "--jobs", "1")[0] == 0


def test_missing_and_foreign_projects(here, capsys, tmp_path, monkeypatch):
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
        assert "nowhere" in fails(capsys, *command, "-p", tmp_path / "nowhere")
        assert "foreign" in fails(capsys, *command, "-p", tmp_path / "foreign")
    assert [entry.name for entry in (tmp_path / "foreign").iterdir()] == ["thesis.txt"]
    assert "thesis.txt" in fails(capsys, "fit", here / "images", "--out", tmp_path / "foreign")
    monkeypatch.chdir(tmp_path)
    assert "*.cbid" in fails(capsys, *every[0])
    (tmp_path / "a.cbid").mkdir()
    (tmp_path / "b.cbid").mkdir()
    assert "a.cbid, b.cbid" in fails(capsys, *every[0])


def test_queries_that_cannot_be_read(here, capsys, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    assert "text.png" in fails(capsys, "search", tmp_path / "text.png")
    assert "nowhere.png" in fails(capsys, "classify", "nowhere.png")
    status, out, err = call(capsys, "classify", tmp_path / "text.png", "query.png")
    assert status == 0
    assert "red" in out
    assert "text.png" in err
    assert err.count("\n") == 1


def test_a_full_disk(here, capsys, tmp_path):
    """A limit of 60 kB per file stands for a full disk: the vectors of 24 images take 290 kB."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    done = program("fit", "images", *SETTINGS, "-o", tmp_path / "p.cbid", "-q", preexec_fn=small_files)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert "File too large" in done.stderr
    assert call(capsys, "fit", "images", *SETTINGS, "-o", tmp_path / "p.cbid", "-q") == (0, "", "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_read_only_folder(here, capsys, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "Permission denied" in fails(capsys, "fit", "images", *SETTINGS, "-o", tmp_path / "locked" / "p.cbid")
    assert "Permission denied" in fails(capsys, "report", "-o", tmp_path / "locked" / "r.html")
    assert "Permission denied" in fails(capsys, "export", tmp_path / "locked" / "c.npy")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc, where nobody can create files")
def test_a_folder_where_nobody_can_write(here, capsys):
    """Like a read-only disk, also for root."""
    for command in (
        ("fit", "images", *SETTINGS, "--out", "/proc/p.cbid"),
        ("report", "--out", "/proc/report.html"),
        ("export", "/proc/codes.npy"),
        ("encode", "query.png", "--out", "/proc/codes.npy"),
        ("demo", "--out", "/proc/demo"),
    ):
        assert "/proc/" in fails(capsys, *command)


def test_resume_after_ctrl_c(tmp_path):
    """Interrupt when the first batch is stored; the same command then reads only the other images."""
    images = write_images(tmp_path / "images", n=70)
    command = [sys.executable, "-m", "cbid", "fit", "images", "-d", "hog", "-b", "8", "-o", "p.cbid", "--json"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while _stored(tmp_path / "p.cbid") < 64 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert err.startswith("cbid: interrupted")
    assert err.count("\n") == 1
    stored = _stored(tmp_path / "p.cbid")
    assert 64 <= stored < 210
    assert len(list(images.rglob("*.png"))) == 210
    with Project.fit(tmp_path / "p.cbid", images, descriptor="hog", n_bits=8) as project:
        assert project.last_fit["read"] == 210 - stored
        assert len(project) == 210


def _stored(path):
    """Count the rows of the table."""
    if not (path / "images.sqlite").exists():
        return 0
    table = sqlite3.connect(f"file:{path / 'images.sqlite'}?mode=ro", uri=True)
    try:
        return table.execute("SELECT count(*) FROM images").fetchone()[0]
    except sqlite3.OperationalError:  # missing, or being written
        return 0
    finally:
        table.close()


# Help


COMMANDS = [
    *("fit", "encode", "index", "search", "classify", "evaluate", "report", "reproduce", "serve", "export"),
    *("check", "demo", "data", "duplicates", "detect"),
]


def test_the_help_lists_the_commands_in_order(capsys):
    _, out, _ = call(capsys, "--help")
    assert re.findall(r"^│ ([a-z]+)  ", out, re.M) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_valid_example(capsys, command):
    """The help of the command shows each option of its example."""
    status, out, err = call(capsys, command, "--help")
    assert (status, err) == (0, "")
    text = " ".join(out.replace("│", " ").split())
    assert f"Example: cbid {command}" in text
    example = text[text.index("Example: cbid") :].split("╭")[0]
    for option in (word for word in example.split() if word.startswith("--")):
        assert out.count(option) >= 2
