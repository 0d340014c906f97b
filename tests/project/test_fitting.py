"""Fitting: what is read, what is kept, and what remains after a failure or a kill."""

import contextlib
import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from cbid.coders import CBID, ITQ
from cbid.data import VectorTable
from cbid.data.isolated import _Worker
from cbid.project import Project, ProjectError, ProjectWarning, intake, models
from cbid.project.models import descriptor_to_json
from cbid.project.table import ImageTable
from tests.data.pictures import encoded
from tests.data.toys import Means
from tests.project.made import TINY, fitted, picture, write_images


def everything(project):
    """What equal projects have in common."""
    records = [(r.name, r.label, r.part) for r in project.records(0, 1000)]
    codes = project.index.reconstruct(project.ids)
    return records, codes.tolist(), [project.vector(int(id)).tolist() for id in project.ids]


def files(path):
    return sorted(entry.name.split("-")[0] for entry in path.iterdir())


def counting(log):
    return Means(repeat=4, log=str(log))


def described(log):
    return log.stat().st_size if log.exists() else 0


def test_only_new_images_are_read(tmp_path):
    images, path, log = write_images(tmp_path / "images"), tmp_path / "p.cbid", tmp_path / "log"
    fitted(path, images, descriptor=counting(log), n_bits=4).close()
    assert described(log) == 24
    fitted(path, images, descriptor=counting(log), n_bits=4).close()
    assert described(log) == 24

    write_images(images, n=3, first=8)
    (images / "red" / "000.png").unlink()
    Image.fromarray(picture("red", 4242)).save(images / "red" / "001.png")
    os.utime(images / "red" / "001.png", ns=(1, 1))  # a file that was changed has another time
    with fitted(path, images, descriptor=counting(log), n_bits=4) as grown:
        assert described(log) == 24 + 9 + 1
        assert grown.last_fit["read"] == 10
        assert len(grown) == 24 + 9 - 1
        names = [record.name for record in grown.records(0, 100)]
        assert "red/000.png" not in names
        assert names.count("red/001.png") == 1
        assert grown.record(0).name == "blue/000.png"  # as before
    assert files(path) == ["coder", "evaluation", "images.sqlite", "index", "lock", "project.json", "vectors.f32"]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_each_image_is_decoded_once(tmp_path, monkeypatch, n_jobs):
    """One decode gives the vector and the thumbnail; a digest needs the bytes alone."""
    decoded, pixels = [], _Worker.pixels
    monkeypatch.setattr(_Worker, "pixels", lambda worker, reply: (decoded.append(reply), pixels(worker, reply))[1])
    images = write_images(tmp_path / "images")
    with fitted(tmp_path / "p.cbid", images, n_bits=4, n_jobs=n_jobs) as project:
        assert len(decoded) == len(project) == 24
        assert project.thumbnail(0)
    with Project.open(tmp_path / "p.cbid", write=True) as project:
        project.add([encoded(picture("red", 901), "PNG"), str(images / "green" / "004.png")])
        assert len(decoded) == 26
        project.add_new([encoded(picture("red", 902), "PNG")])
        assert len(decoded) == 27


def test_nothing_changes_when_nothing_has_changed(copied, made):
    before = {entry.name: entry.stat().st_mtime_ns for entry in copied.iterdir()}
    with fitted(copied, made[0]) as again:
        assert again.was_up_to_date
    after = {entry.name: entry.stat().st_mtime_ns for entry in copied.iterdir()}
    assert {name for name in after if after[name] != before.get(name)} <= {"lock", "images.sqlite"}


def test_other_settings_learn_again_without_reading(copied, made):
    with fitted(copied, made[0], n_bits=10, held_out=0.5) as again:
        assert (again.n_bits, again.last_fit["read"]) == (10, 0)
        assert again.last_fit["images"] == {"train": 18, "held-out": 18, "added": 0}
        assert again.settings["held_out"] == 0.5


def test_a_kill_between_vectors_and_table(tmp_path, made, monkeypatch, project):
    """The vectors of a batch are in the file but not in the table: they are overwritten."""
    path, insert, calls = tmp_path / "p.cbid", ImageTable.insert, []

    def last_step(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        insert(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(intake, "_BATCH", 20)
        patch.setattr(ImageTable, "insert", last_step)
        with pytest.raises(KeyboardInterrupt):
            fitted(path, made[0])
    assert (path / "vectors.f32").stat().st_size == 36 * 75 * 4
    with fitted(path, made[0]) as whole:
        assert whole.last_fit["read"] == 16
        assert everything(whole) == everything(project)


def test_a_project_among_its_own_images(tmp_path):
    images = write_images(tmp_path / "images")
    for _ in range(2):  # no warning of a folder without images
        fitted(images / "own.cbid", images, n_bits=4).close()
    with Project.open(images / "own.cbid") as project:
        assert len(project) == 24


def test_the_same_seed_gives_the_same_project(made, tmp_path, project):
    with fitted(tmp_path / "again.cbid", made[0]) as again:
        assert everything(again) == everything(project)


def test_another_descriptor_takes_another_project(copied, made):
    with pytest.raises(ValueError, match=r"was made from RawPixels .* not from HOG "):
        fitted(copied, made[0], descriptor="hog")
    with pytest.raises(ValueError, match=r"was made from RawPixels .* not from vectors"):
        fitted(copied, VectorTable(np.eye(8, dtype=np.float32)), coder="LSH")


def test_added_images_survive_a_fit(copied, made):
    with Project.open(copied, write=True) as opened:
        (id,) = opened.add([picture("red", 9)], labels=["a longer name than red"], names=["by hand"]).tolist()
    with fitted(copied, made[0], n_bits=8) as again:
        assert again.record(id).name == "by hand"
        assert again.record(id).part == "added"
        assert again.classes == ["a longer name than red", "blue", "green", "red"]
        assert again.last_fit["images"]["added"] == 1
        assert again.search(again.vector(id), 1).distances[0, 0] == 0


def test_unreadable_images_are_skipped_with_a_warning(tmp_path):
    images = write_images(tmp_path / "images")
    (images / "red" / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (images / "beside.png").write_bytes(b"")
    with pytest.warns(ProjectWarning, match=r" 2 files of the source \(.*\.png\).* beside.png"):
        project = fitted(tmp_path / "p.cbid", images)
    assert [name for name, _ in project.last_fit["failures"]] == ["beside.png", "red/torn.png"]
    assert len(project) == 24
    with pytest.warns(ProjectWarning, match=" 2 files of the source"):  # each time
        assert fitted(tmp_path / "p.cbid", images).was_up_to_date


def test_cbid_learns_from_the_labels(project):
    """CBID accepts vectors without labels; a project with class folders gives it the labels."""
    assert isinstance(project.coder, CBID)
    assert project.coder.classes_.tolist() == project.classes


def test_without_labels_itq_is_used_with_a_warning(tmp_path):
    images = tmp_path / "flat"
    images.mkdir()
    for i in range(20):
        Image.fromarray(picture(("red", "blue")[i % 2], i)).save(images / f"{i}.png")
    with pytest.warns(ProjectWarning, match="ITQ"):
        project = fitted(tmp_path / "p.cbid", images, n_bits=8)
    assert isinstance(project.coder, ITQ)
    assert (project.classes, project.lengths, project.record(0).label) == ([], [8], None)
    assert project.evaluation["raw"]["accuracy"] is None
    assert 0 < project.evaluation["codes"][0]["plain"]["overlap"] <= 1
    assert project.confusion == {"classes": [], "matrix": []}
    with pytest.raises(ValueError, match=r"n_bits=4: expected 8"):
        project.search(project.vector(0), n_bits=4)
    with pytest.raises(ValueError, match="no labels"):
        project.classify(project.code(0))


@pytest.mark.parametrize("coder", ["LSH", "SDH", CBID(n_bits=6, kernel="rbf", n_anchors=10)])
def test_any_coder(tmp_path, made, coder):
    with fitted(tmp_path / "p.cbid", made[0], coder=coder, n_bits=6) as project:
        assert type(project.coder).__name__ == (coder if isinstance(coder, str) else "CBID")
        assert project.n_bits == 6
        assert project.search(project.vector(3), 3).distances[0, 0] == 0
    with Project.open(tmp_path / "p.cbid") as again:
        assert again.n_bits == 6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"descriptor": "sift"}, "descriptor='sift'.*'hog', 'gist'"),
        ({"descriptor": "onnx:"}, "descriptor='onnx:'"),
        ({"descriptor": "onnx:none.onnx"}, "none.onnx' cannot be read"),
        ({"coder": "Magic"}, "coder='Magic'.*CBID"),
        ({"coder": CBID(n_bits=8, margin="database")}, "margin='shared'"),
        ({"n_bits": 0}, "n_bits=0"),
        ({"held_out": 1.0}, "held_out=1.0"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_settings_that_are_not_accepted(tmp_path, made, settings, message):
    with pytest.raises(ValueError, match=message):
        fitted(tmp_path / "p.cbid", made[0], **settings)
    with pytest.raises((ProjectError, FileNotFoundError)):
        Project.open(tmp_path / "p.cbid")


def test_one_class_alone(tmp_path):
    images = write_images(tmp_path / "images", colours=("red",))
    with pytest.raises(ValueError, match=r"one label \('red'\).*CBID.* such as ITQ"):
        fitted(tmp_path / "p.cbid", images)
    assert not (tmp_path / "p.cbid").exists()  # raised before anything is made or read
    with fitted(tmp_path / "p.cbid", images, coder="ITQ", n_bits=4) as project:
        assert project.classes == ["red"]


def test_one_class_alone_because_files_are_missing(tmp_path):
    images = write_images(tmp_path / "images", colours=("red",))
    lines = [f"{path},red" for path in images.rglob("*.png")]
    (tmp_path / "list.txt").write_text("\n".join([*lines, "nope.png,blue", "gone.png,blue"]))
    with pytest.raises(ValueError, match=r"one label \('red'\).* 2 files of the source.* nope.png"):
        fitted(tmp_path / "p.cbid", tmp_path / "list.txt")
    fitted(images / "p.cbid", images, coder="ITQ", n_bits=4).close()
    with pytest.raises(ValueError, match=r"one label \('red'\).* such as ITQ$"):  # its own folder does not count
        fitted(images / "p.cbid", images)


def test_images_that_cannot_be_learned_from_are_indexed(tmp_path):
    images = write_images(tmp_path / "images", colours=("red", "green"))
    write_images(images, n=1, colours=("blue",))
    with pytest.warns(ProjectWarning, match="^1 image without"):
        project = fitted(tmp_path / "p.cbid", images, n_bits=8)
    assert [r.part for r in project.records(0, 100) if r.label == "blue"] == ["added"]
    assert project.classes == ["blue", "green", "red"]


def test_vectors_need_no_descriptor(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    X = rng.normal(size=(40, 6)) + 3 * y[:, None]
    np.savez(tmp_path / "v.npz", X=X, y=y)
    with fitted(tmp_path / "p.cbid", tmp_path / "v.npz", n_bits=8) as project:
        assert (project.descriptor, project.classes, project.n_features) == (None, ["0", "1"], 6)
        assert project.record(3) == project.records(3, 1)[0]
        assert (project.record(3).name, project.record(3).path) == ("row 3", "")
        np.testing.assert_array_equal(project.vector(3), X[3].astype(np.float32))
        assert project.search(X[3], 1).ids[0, 0] in range(20)
        with pytest.raises(ValueError, match="id=3"):
            project.thumbnail(3)
        with pytest.raises(ValueError, match="has no descriptor"):
            project.describe_image(np.zeros((8, 8), np.uint8))
    X[5] += 0.1
    np.savez(tmp_path / "v.npz", X=np.vstack([X, X[:2] + 1]), y=np.r_[y, 0, 0])
    with fitted(tmp_path / "p.cbid", tmp_path / "v.npz", n_bits=8) as grown:
        assert grown.last_fit["read"] == 3


def test_vectors_that_are_not_finite_are_left_out(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    X[7, 2] = np.nan
    np.save(tmp_path / "v.npy", X)
    with pytest.warns(ProjectWarning) as caught:
        project = fitted(tmp_path / "p.cbid", tmp_path / "v.npy", n_bits=2)
    assert "row 7: " in " ".join(str(w.message) for w in caught)
    assert len(project) == 19


def test_a_failure_leaves_the_project_as_it_was(copied, made, monkeypatch, project):
    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    before = sorted(entry.name for entry in copied.iterdir())
    for place in ("evaluate", "learn", "encode_rows"):
        with monkeypatch.context() as patch:
            patch.setattr(f"cbid.project.fitting.{place}", fail)
            with pytest.raises(OSError, match="No space left"):
                fitted(copied, made[0], n_bits=12)
        assert sorted(entry.name for entry in copied.iterdir()) == before
        with Project.open(copied) as opened:
            assert everything(opened) == everything(project)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize(
    ("last", "committed"),
    [
        ("cbid.coders.CBID.save", False),
        ("cbid.search.CodeIndex.save", False),
        ("cbid.project.fitting.evaluate", False),
        ("cbid.project.files.ProjectManifest.write", True),
        ("cbid.project.table.ImageTable.finish", True),
    ],
)
def test_a_kill_at_any_step_leaves_the_old_project_or_the_new_one(copied, made, monkeypatch, last, committed):
    """Nothing is cleaned up after a kill; the next fit removes the leftovers."""
    *module, owner, name = last.split(".")
    place = importlib.import_module(".".join(module))
    place = getattr(place, owner) if hasattr(place, owner) else importlib.import_module(".".join([*module, owner]))
    done = getattr(place, name)

    def last_step(*arguments, **options):
        done(*arguments, **options)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(place, name, last_step)
        patch.setattr("cbid.project.fitting.remove_unused", lambda directory: None)
        with pytest.raises(Killed):
            fitted(copied, made[0], n_bits=12)
    with Project.open(copied) as opened:
        assert opened.n_bits == (12 if committed else 24)
        assert opened.search(opened.vector(7), 1).distances[0, 0] == 0
        assert len(opened) == 36
    with fitted(copied, made[0], n_bits=10) as again:
        assert (again.n_bits, again.last_fit["read"]) == (10, 0)
    assert files(copied) == ["coder", "evaluation", "images.sqlite", "index", "lock", "project.json", "vectors.f32"]


@pytest.mark.parametrize(
    "failing", ["cbid.project.files.ProjectManifest.write", "cbid.project.table.ImageTable.finish"]
)
def test_labels_that_changed_are_not_lost_with_a_failure(tmp_path, monkeypatch, failing):
    """Index and table agree after the next fit, wherever the one before was stopped."""
    X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    X[:20] += 2

    def written(first):
        np.savez(tmp_path / "v.npz", X=X, y=np.array([first] * 20 + ["b"] * 20))
        return tmp_path / "v.npz"

    with fitted(tmp_path / "p.cbid", written("a"), n_bits=8) as project:
        assert project.classes == ["a", "b"]
    *module, owner, name = failing.split(".")
    with monkeypatch.context() as patch:
        patch.setattr(getattr(importlib.import_module(".".join(module)), owner), name, _no_space)
        with pytest.raises(OSError, match="No space left"):
            fitted(tmp_path / "p.cbid", written("new"), n_bits=8)
    with fitted(tmp_path / "p.cbid", tmp_path / "v.npz", n_bits=8) as project:
        assert project.classes == ["b", "new"]
        assert {r.label for r in project.records(0, 40)} == {"b", "new"}
        assert "pending" not in {r.part for r in project.records(0, 40)}
        assert project.search(X[:1], 1).labels[0, 0] == "new"
    with fitted(tmp_path / "p.cbid", tmp_path / "v.npz", n_bits=8) as project:
        assert project.was_up_to_date


def _no_space(*arguments, **options):
    raise OSError(28, "No space left on device")


def test_wrong_settings_are_rejected_before_anything_is_read(tmp_path, made):
    for wrong in ({"n_bits": 100_000}, {"coder": CBID(n_bits=8, nu=-1.0)}, {"coder": "ITQ", "n_bits": 70_000}):
        with pytest.raises(ValueError, match=r"n_bits=|nu="):
            fitted(tmp_path / "p.cbid", made[0], **wrong)
        assert not (tmp_path / "p.cbid").exists()


def test_few_images_without_classes_get_few_bits(tmp_path):
    images = write_images(tmp_path / "images", n=20, colours=("red",))
    flat = sorted(images.rglob("*.png"))
    with pytest.warns(ProjectWarning) as caught, fitted(tmp_path / "p.cbid", flat, n_bits=128) as project:
        assert project.n_bits == 15
    assert any("n_bits=128" in str(warning.message) for warning in caught)


def test_a_directory_with_other_files(tmp_path, made):
    (tmp_path / "p.cbid").mkdir()
    (tmp_path / "p.cbid" / "thesis.txt").write_text("precious")
    with pytest.raises(ProjectError, match=r"thesis.txt"):
        fitted(tmp_path / "p.cbid", made[0])
    (tmp_path / "file").write_text("precious")
    with pytest.raises(FileExistsError, match="is a file"):
        fitted(tmp_path / "file", made[0])
    assert (tmp_path / "file").read_text() == (tmp_path / "p.cbid" / "thesis.txt").read_text() == "precious"


def test_two_fits_at_once(copied, made):
    with Project.open(copied, write=True), pytest.raises(OSError, match="locked by another writer"):
        fitted(copied, made[0], n_bits=8)


# Interruptions


FIT = """
import sys
from tests.data.pictures import encoded
from tests.data.toys import Means
from tests.project.made import fitted
images, path, log, pause = sys.argv[1:]
fitted(path, images, descriptor=Means(repeat=4, log=log, pause=float(pause)), n_bits=4)
"""


def test_a_killed_fit_resumes(tmp_path):
    """A batch is 64 images: those of the batches that were committed are never described again."""
    images, path, log = write_images(tmp_path / "images", n=60), tmp_path / "p.cbid", tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", FIT, str(images), str(path), str(log), "0.02"])
    deadline = time.monotonic() + 120
    while described(log) < 80 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    with pytest.raises(ProjectError, match="cbid fit again"):
        Project.open(path)
    before = described(log)
    assert 80 <= before < 180
    with sqlite3.connect(path / "images.sqlite") as table:
        (kept,) = table.execute("SELECT count(*) FROM images").fetchone()
    table.close()
    assert kept in (64, 128)
    with fitted(path, images, descriptor=counting(log), n_bits=4) as project:
        assert described(log) == before + 180 - kept
        with fitted(tmp_path / "whole.cbid", images, descriptor=Means(repeat=4), n_bits=4) as whole:
            assert everything(project) == everything(whole)


def test_interrupted_learning_resumes_with_its_bits(tmp_path, made, monkeypatch, project):
    path = tmp_path / "p.cbid"
    monkeypatch.setattr(models, "_CHECKPOINT_SECONDS", 0.0)
    saved = CBID.save

    def stop(coder, where):
        saved(coder, where)
        if coder.n_bits_ == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CBID, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            fitted(path, made[0])
    begun = models.coders.load(path / "learning.safetensors")
    assert begun.n_bits_ >= 5

    lengths = []
    with monkeypatch.context() as patch:
        patch.setattr(CBID, "save", lambda coder, where: (lengths.append(coder.n_bits_), saved(coder, where)))
        with fitted(path, made[0]) as whole:
            assert lengths[0] == begun.n_bits_ + 1
            assert everything(whole) == everything(project)
    assert not (path / "learning.safetensors").exists()


def test_a_checkpoint_of_other_images_is_ignored(tmp_path, made, project):
    """A checkpoint of another problem does no harm."""
    path = tmp_path / "p.cbid"
    path.mkdir()
    (path / "started.json").write_text(json.dumps({"descriptor": descriptor_to_json(TINY)}))
    other = CBID(n_bits=24, random_state=0).fit(np.random.default_rng(0).normal(size=(30, 75)), np.arange(30) % 2)
    other.save(path / "learning.safetensors")
    with fitted(path, made[0]) as fresh:
        assert everything(fresh) == everything(project)


def test_an_unfinished_fit_with_another_descriptor_starts_again(tmp_path, made, monkeypatch):
    path = tmp_path / "p.cbid"
    with monkeypatch.context() as patch:
        patch.setattr("cbid.project.fitting.learn", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fitted(path, made[0])
    with fitted(path, made[0], descriptor=Means(repeat=2), n_bits=2) as project:
        assert (project.n_features, project.last_fit["read"]) == (4, 36)


def test_changed_labels_are_learned_again(tmp_path):
    images = write_images(tmp_path / "images", colours=("red", "blue"))
    lines = [f"{path},{path.parent.name}" for path in sorted(images.rglob("*.png"))]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    fitted(tmp_path / "p.cbid", tmp_path / "list.csv", n_bits=4).close()
    (tmp_path / "list.csv").write_text("\n".join(line.replace(",red", ",crimson") for line in lines))
    with fitted(tmp_path / "p.cbid", tmp_path / "list.csv", n_bits=4) as project:
        assert project.classes == ["blue", "crimson"]
        assert project.last_fit["read"] == 0
        assert {r.label for r in project.records()} == {"blue", "crimson"}


def test_an_image_that_is_listed_twice(tmp_path, made):
    some = made[0] / "red" / "000.png"
    lines = [f"{p},{p.parent.name}" for p in sorted(made[0].rglob("*.png"))]
    (tmp_path / "list.csv").write_text("\n".join([*lines, f"{some},blue"]))
    with pytest.warns(ProjectWarning, match="000.png: listed twice"):
        project = fitted(tmp_path / "p.cbid", tmp_path / "list.csv")
    assert len(project) == 36


def test_images_in_memory(tmp_path):
    colours = ["red", "blue"] * 8
    from cbid.data import ImageItems
    from cbid.labels import encode_labels

    source = ImageItems([picture(c, i) for i, c in enumerate(colours)], None, *reversed(encode_labels(colours)))
    with fitted(tmp_path / "p.cbid", source, n_bits=4) as project:
        assert (project.record(2).name, project.record(2).path, project.record(2).label) == ("image 2", "", "red")
        assert project.settings["source"] == ""
        np.testing.assert_array_equal(project.vector(1), TINY.describe(picture("blue", 1)))


# Files of others in the directory


@pytest.mark.parametrize(
    "name",
    [
        "coder-thesis.tex", "evaluation-notes.txt", "index-cards/card.txt", "images.sqlite", "vectors.f32",
        "images.sqlite-notes", ".notes.tmp", "coder-0123456789ab.safetensors", "learning.safetensors",
    ],
)  # fmt: skip
def test_files_of_others_are_never_removed_from_a_directory_that_is_no_project(tmp_path, made, name):
    file = tmp_path / "p.cbid" / name
    file.parent.mkdir(parents=True)
    file.write_text("precious")
    with pytest.raises(ProjectError, match=name.split("/")[0]):
        fitted(tmp_path / "p.cbid", made[0])
    assert file.read_text() == "precious"


@pytest.mark.parametrize(
    "name", ["coder-thesis.tex", "index-cards/card.txt", "evaluation-notes.txt", "coder-0123456789ab.safetensors"]
)
def test_files_of_others_are_never_removed_from_a_project(copied, made, name):
    """A project with other files may be refused or updated; the files stay either way."""
    file = copied / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("precious")
    with contextlib.suppress(ProjectError):
        fitted(copied, made[0], n_bits=8)
    assert file.read_text() == "precious"


def test_files_of_others_in_a_replaced_index_stay(copied, made):
    file = next(copied.glob("index-*")) / "notes.txt"
    file.write_text("precious")
    fitted(copied, made[0], n_bits=8).close()
    assert file.read_text() == "precious"
    assert len(list(file.parent.iterdir())) == 1
    fitted(copied, made[0], n_bits=9).close()


def test_a_manifest_that_names_a_foreign_file_does_not_get_it_removed(copied, made):
    (copied / "thesis.tex").write_text("precious")
    manifest = json.loads((copied / "project.json").read_bytes())
    (copied / "project.json").write_text(json.dumps({**manifest, "evaluation": "thesis.tex"}))
    with pytest.raises(ProjectError):
        fitted(copied, made[0], n_bits=8)
    assert (copied / "thesis.tex").read_text() == "precious"
