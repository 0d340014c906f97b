"""Injected faults: every call of the system that a change makes fails once, or is interrupted.

Afterwards the project is in the old state or in the new one, and what the caller was told is true.
"""

import contextlib
import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from cbid.cli import run
from cbid.project import Project, ProjectError, ProjectWarning
from cbid.project.files import _sealed_text
from cbid.project.table import ADDED, ImageRow, ImageTable
from cbid.search import CodeIndex
from cbid.storage.atomic import WriterLock

CALLS = ("fsync", "replace", "pwrite", "unlink", "write")
X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    root = tmp_path_factory.mktemp("faults")
    np.savez(root / "v.npz", X=X + 3 * (np.arange(40) % 2)[:, None], y=np.arange(40) % 2)
    Project.fit(root / "v.cbid", root / "v.npz", n_bits=8).close()
    return root / "v.cbid"


class Faults:
    """Let the n-th of the counted calls fail, before or after it does its work."""

    def __init__(self, monkeypatch, n, when, error):
        self.left, self.when, self.error, self.injected = n, when, error, False
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, real):
        def call(*arguments, **named):
            self.left -= 1
            if self.left != -1:
                return real(*arguments, **named)
            self.injected = True
            if self.when == "after":
                real(*arguments, **named)
            raise self.error

        return call


def check_whole(path):
    """Return the ids of a project whose parts all agree."""
    with Project.open(path, write=True) as project:
        ids = project.ids.tolist()
        assert [record.id for record in project.records(0, 1000)] == ids
        assert {row.id for row in project._table.rows()} == set(ids)
        for id in ids:
            assert np.array_equal(project.encode(project.vector(id))[0], project.code(id))
        assert set(project.search(X[0], len(ids)).ids[0].tolist()) == set(ids)
        project.index.verify()
    return ids


def change(project, kind):
    if kind == "add":
        project.add(X[:3] + 1, labels=["0", "1", "0"])
    else:
        project.remove([3, 4])


@pytest.mark.parametrize("kind", ["add", "remove"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, os.strerror(errno.EIO)), KeyboardInterrupt()], ids=repr)
def test_every_call_fails_once(vectors, tmp_path, monkeypatch, kind, when, error):
    before = check_whole(vectors)
    outcomes = set()
    for n in range(200):
        path = shutil.copytree(vectors, tmp_path / f"{n}.cbid")
        with Project.open(path, write=True) as project:
            told, notes = "done", ""
            with monkeypatch.context() as patch:
                faults = Faults(patch, n, when, error)
                try:
                    change(project, kind)
                except (OSError, KeyboardInterrupt) as raised:
                    told = "failed"
                    notes = f"{raised} {' '.join(getattr(raised, '__notes__', []))}"
                    raised.__dict__.pop("__notes__", None)
            here = project.ids.tolist()  # what this object shows, without opening it again
            assert project.search(X[0], len(here)).ids.shape == (1, len(here))
            project.records(0, 1000)
        after = check_whole(path)
        assert here == after
        changed = after != before
        if told == "done" or "took place" in notes:
            assert changed
        else:
            assert not changed, notes
        if "was not saved" in notes:
            assert not changed
        outcomes.add((told, changed))
        shutil.rmtree(path)
        if not faults.injected:
            break
    else:
        pytest.fail("the change never came to its end")
    assert n >= 5
    assert ("done", True) in outcomes
    assert ("failed", False) in outcomes


def test_a_signal_during_the_commit_waits_for_its_end(vectors, tmp_path, monkeypatch):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    real = os.replace

    def replace(*arguments):
        real(*arguments)
        signal.raise_signal(signal.SIGINT)

    with Project.open(path, write=True) as project, monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt) as raised:
            project.add(X[:1])
        assert raised.value.__notes__ == ["the commit took place before this error: 1 images were added"]
        assert len(project) == 41
        with pytest.raises(KeyboardInterrupt) as raised:
            project.remove([3])
        assert raised.value.__notes__ == ["the commit took place before this error: 1 images were removed"]
    assert len(check_whole(path)) == 40


def test_save_tells_the_truth_when_the_last_flush_fails(tmp_path, monkeypatch):
    """The manifest is replaced, but its directory cannot be flushed."""
    index = CodeIndex(8)
    index.add(np.zeros((2, 1), np.uint8))
    index.save(tmp_path / "index")
    index.add(np.ones((1, 1), np.uint8))
    real, replaced = os.fsync, []
    real_replace = os.replace

    def replace(*arguments):
        replaced.append(1)
        real_replace(*arguments)

    def fsync(handle):
        if replaced:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "replace", replace)
        with pytest.raises(OSError, match="was saved, but"):
            index.save()
    assert index.is_saved
    assert len(CodeIndex.open(tmp_path / "index")) == 3
    index.add(np.full((1, 1), 7, np.uint8))
    index.save()
    assert len(CodeIndex.open(tmp_path / "index")) == 4


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda project: project.add(X[:2] + 1), "2 images were added"),
        (lambda project: project.remove([3, 4]), "2 images were removed"),
        (lambda project: project.relabel([4], "1"), "1 labels were changed"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_every_change_tells_whether_it_was_committed(vectors, tmp_path, monkeypatch, change, what, known):
    """Flushes fail once a file is replaced; then the manifest can, or cannot, be looked at."""
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    real_fsync, real_replace, real_stat, replaced = os.fsync, os.replace, os.stat, []

    def replace(*arguments):
        real_replace(*arguments)
        replaced.append(1)

    def fsync(handle):
        if replaced:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real_fsync(handle)

    def stat(where, **options):
        if replaced and not known and str(where).endswith("manifest.json"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real_stat(where, **options)

    with Project.open(path, write=True) as project, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "replace", replace)
        patch.setattr(os, "stat", stat)
        with pytest.raises(OSError, match="was saved" if known else "may have been saved") as raised:
            change(project)
    told = "the commit took place before this error" if known else "it is not known whether"
    assert raised.value.__notes__ == [f"{told}: {what}" if known else f"{told} {what}; open the project again to see"]
    assert Project.check(path)[0] == []


def test_a_label_whose_table_cannot_follow_was_committed(vectors, tmp_path, monkeypatch):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    with Project.open(path, write=True) as project, monkeypatch.context() as patch:

        def settle(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(type(project._table), "settle_labels", settle)
        with pytest.raises(OSError, match="No space left") as raised:
            project.relabel([4], "1")
        assert raised.value.__notes__ == ["the commit took place before this error: 1 labels were changed"]
    Project.open(path, write=True).close()  # the next writer completes it
    with Project.open(path) as project:
        assert project.record(4).label == "1"
    assert Project.check(path) == ([], [])


def test_ghosts_of_older_versions_are_reported_when_the_project_is_opened_for_writing(vectors, tmp_path):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    with contextlib.closing(sqlite3.connect(path / "images.sqlite")) as table, table:
        table.execute("DELETE FROM images WHERE id = 5")
    with pytest.warns(ProjectWarning, match="id=5"):
        Project.open(path, write=True).close()


# A full disk


def test_a_full_disk_is_not_reported_as_damage(tmp_path):
    """SQLite rolls back by itself when the disk is full; the second ROLLBACK must not hide the reason."""
    table = ImageTable(tmp_path / "images.sqlite", write=True)
    table._connection.execute("PRAGMA max_page_count = 12")
    rows = [ImageRow(i, "x" * 500, b"", None, ADDED, "add", "s") for i in range(500)]
    with pytest.raises(OSError, match=r"full") as error:
        table.insert(rows, [None] * 500, 3)
    assert error.value.errno == errno.ENOSPC
    assert table.next_id() == 0
    table.insert(rows[:1], [None], 3)
    assert table.next_id() == 1


# cbid check


def damaged(path, name, place):
    file = next(path.glob(name))
    content = bytearray(file.read_bytes())
    content[place] ^= 0x40
    file.write_bytes(content)


def test_a_good_project_has_no_problems(vectors):
    assert Project.check(vectors) == ([], [])


@pytest.mark.parametrize(
    "name", ["vectors.f32", "index-*/segment-*.codes.npy", "coder-*", "project.json", "evaluation-*"]
)
@pytest.mark.parametrize("place", [-2, -9])
def test_a_changed_byte_is_found(vectors, tmp_path, name, place):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    damaged(path, name, place)
    assert Project.check(path)[0]


@pytest.mark.parametrize("column", ["name = 'x'", "label = 'x'", "stamp = 'x'", "origin = 'add'", "part = 'added'"])
def test_a_changed_row_is_found(vectors, tmp_path, column):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    with contextlib.closing(sqlite3.connect(path / "images.sqlite")) as table, table:
        table.execute(f"UPDATE images SET {column} WHERE id = 5")
    (problem,) = Project.check(path)[0]
    assert "id=5" in problem


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE checksums", "DELETE FROM checksums WHERE id = 5", "UPDATE checksums SET row = x'00' WHERE id = 5",
        "DROP TABLE seal", "DELETE FROM seal", "UPDATE seal SET content = '[]'", "INSERT INTO seal VALUES ('', x'')",
        "UPDATE sqlite_sequence SET seq = 7", "UPDATE vectors SET n_features = 7", "DELETE FROM images WHERE id = 5",
        "INSERT INTO given_labels VALUES (5, 'a', 'b', 'given')", "CREATE TABLE more (x)", "PRAGMA user_version = 1",
        "UPDATE images SET id = 99 WHERE id = 5", "UPDATE images SET path = 3 WHERE id = 5",
        "INSERT INTO thumbnails VALUES (5, x'00')", "DROP INDEX by_path",
        "INSERT INTO images SELECT id + 90, name, path, label, part, origin, stamp FROM images WHERE id = 5",
    ],
)  # fmt: skip
def test_a_changed_table_is_found(vectors, tmp_path, change):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    with contextlib.closing(sqlite3.connect(path / "images.sqlite")) as table, table:
        table.execute(change)
    assert Project.check(path)[0]


ENDLESS = "AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


@pytest.mark.parametrize(
    "change",
    [
        f"DROP TABLE seal; CREATE VIEW seal (content, checksum) {ENDLESS} SELECT x, x FROM n",
        f"DROP TABLE vectors; CREATE VIEW vectors (n_features) {ENDLESS} SELECT x FROM n",
        "CREATE TRIGGER t AFTER DELETE ON images BEGIN DELETE FROM images; END",
        "CREATE TABLE seals (x, content TEXT GENERATED ALWAYS AS (zeroblob(999999999)))",
    ],
)
def test_a_view_or_trigger_is_never_run(vectors, tmp_path, change):
    """Whoever makes a project could let its table run without end."""
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    with contextlib.closing(sqlite3.connect(path / "images.sqlite")) as table:
        table.executescript(change)
    for write in (False, True):
        with pytest.raises(ProjectError, match="not a table of images"):
            Project.open(path, write=write)


def test_a_damaged_row_is_not_returned(vectors, tmp_path):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    with contextlib.closing(sqlite3.connect(path / "images.sqlite")) as table, table:
        table.execute("UPDATE images SET name = 'x' WHERE id = 5")
    damaged(path, "vectors.f32", 4 * 6 * 7)
    with Project.open(path) as project:
        assert project.record(4).id == 4
        assert project.vector(6).shape == (6,)
        with pytest.raises(ProjectError, match="id=5: its row differs"):
            project.record(5)
        with pytest.raises(ProjectError, match="id=7: its vector differs"):
            project.vector(7)


def test_the_seal_follows_every_change(vectors, tmp_path):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    with Project.open(path, write=True) as project:
        ids = project.add(X[:3] + 1, labels=["0", None, "1"])
        project.relabel(ids[:2], "0")
        project.remove([ids[0], 3])
        project.relabel([4], ["0", "1"])
        assert Project.check(path) == ([], [])
        project.relabel([4], "1")
    assert Project.check(path) == ([], [])
    np.savez(tmp_path / "w.npz", X=X[:30] + 3 * (np.arange(30) % 2)[:, None], y=np.arange(30) % 2)
    Project.fit(path, tmp_path / "w.npz", n_bits=8).close()
    assert Project.check(path) == ([], [])


def test_repair_removes_ghosts(vectors, tmp_path):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    with contextlib.closing(sqlite3.connect(path / "images.sqlite")) as table, table:
        table.execute("DELETE FROM images WHERE id = 5")
    assert "id=5" in Project.check(path)[0][0]
    assert Project.check(path, repair=True)[0] == []
    assert Project.check(path) == ([], [])
    assert 5 not in check_whole(path)


def test_the_program_checks(vectors, tmp_path, capsys):
    assert run(["check", str(vectors)]) == 0
    assert capsys.readouterr().out == "ok\n"
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    damaged(path, "vectors.f32", 30)
    for options in ([], ["--repair"]):  # damage is not repaired
        assert run(["check", str(path), *options]) == 1
        assert "id=1: its vector differs" in capsys.readouterr().out
    damaged(path, "vectors.f32", 30)  # the same bit again
    with contextlib.closing(sqlite3.connect(path / "images.sqlite")) as table, table:
        table.execute("DELETE FROM images WHERE id = 5")
    assert run(["check", str(path)]) == 1
    assert "id=5: its code has no image" in capsys.readouterr().out
    assert run(["check", str(path), "--repair"]) == 0
    assert capsys.readouterr().out == "1 codes without an image were removed\nok\n"
    assert run(["check", str(path)]) == 0
    (tmp_path / "photos").mkdir()
    capsys.readouterr()
    assert run(["check", str(tmp_path / "photos")]) == 1  # no project at all
    out, error = capsys.readouterr()
    assert "not a project" in error
    assert "damaged" not in out
    (path / "project.json").unlink()
    assert run(["check", str(path)]) == 1  # what is left is a damaged project
    assert "damaged" in capsys.readouterr().out
    (path / "started.json").write_text("{}")
    assert run(["check", str(path)]) == 1
    out, error = capsys.readouterr()
    assert "not finished; run cbid fit again" in error
    assert "damaged" not in out


# Other files


@pytest.mark.parametrize(
    "change",
    [
        {"n_features": True}, {"n_features": 10**30}, {"n_features": None}, {"source": 3}, {"descriptor": {}},
        {"descriptor": {"kind": 1}}, {"settings": []}, {"fit": None}, {"coder": "../coder-0123456789ab.safetensors"},
        {"index": ""}, {"evaluation": "coder"}, {"version": True}, {"checksums": []}, {"checksums": {}},
        {"checksums": {"coder": ""}}, {"fit": {}},
        {"fit": {"images": {}, "seconds": -1, "failures": [], "n_failures": 0}},
        {"fit": {"images": {"train": ""}, "seconds": {}, "failures": [], "n_failures": 0}},
    ],
)  # fmt: skip
@pytest.mark.parametrize("sealed", [False, True])
def test_an_altered_manifest_is_a_damaged_project(vectors, tmp_path, change, sealed):
    """Also with the right checksum: the content itself is checked."""
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    content = {**json.loads((path / "project.json").read_bytes()), **change}
    text = _sealed_text(content) if sealed else json.dumps(content).encode()
    (path / "project.json").write_bytes(text)
    with pytest.raises(ProjectError):
        Project.open(path)


def test_a_manifest_in_another_form_is_damaged(vectors, tmp_path):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    (path / "project.json").write_text((path / "project.json").read_text() + " ")
    with pytest.raises(ProjectError, match="checksum"):
        Project.open(path)


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_a_pipe_beside_the_table_does_not_block(vectors, tmp_path, suffix):
    """SQLite would open it, and wait for its other end."""
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    os.mkfifo(path / f"images.sqlite{suffix}")
    for write in (False, True):
        with pytest.raises(OSError, match="images"):
            Project.open(path, write=write)


def test_masked_values_are_rejected(vectors):
    hidden = np.ma.masked_array(X[:2], mask=np.eye(2, 6, dtype=bool))
    with Project.open(vectors) as project:
        for call in (project.search, project.encode, project.classify, lambda X: project.evaluate(X, ["a", "b"])):
            with pytest.raises(ValueError, match="2 masked"):
                call(hidden)
        assert project.search(np.ma.masked_array(X[:2]), 1).ids.shape == (2, 1)
    with pytest.raises(ValueError, match="1 masked"):
        CodeIndex(8).add(np.ma.masked_array([[1]], mask=True, dtype=np.uint8))


def test_values_are_not_made_to_fit(vectors):
    """Neither is an imaginary part dropped nor a fraction of an id cut off, and what does not fit is named."""
    with Project.open(vectors, write=True) as project:
        before = project.ids.tolist()
        label = project.record(before[1]).label
        for call in (project.search, project.encode, project.classify, project.add):
            with pytest.raises(ValueError, match="complex64; expected real numbers"):
                call(X[:2] + 1j)
        for call in (project.remove, lambda ids: project.relabel(ids, "other")):
            for ids in ([1.5], [True], ["1"]):
                with pytest.raises(TypeError, match=r"ids has dtype .*; expected integers"):
                    call(ids)
            for ids in (-1, 2**70):
                with pytest.raises((TypeError, ValueError), match="expected integers from 0"):
                    call([ids])
        assert project.ids.tolist() == before
        assert project.record(before[1]).label == label
        with pytest.raises(TypeError, match="exclude has dtype float64"):
            project.search(X[:1], exclude=0.5)


def test_the_lock_ends_with_its_owner_even_if_a_forked_child_lives_on(tmp_path):
    owner = (
        "import os, sys, time\nfrom pathlib import Path\nfrom cbid.storage.atomic import WriterLock\n"
        "lock = WriterLock(Path(sys.argv[1]))\nchild = os.fork()\n"
        "if child == 0:\n    print(os.getpid(), flush=True)\n    time.sleep(60)\nos._exit(0)\n"
    )
    done = subprocess.Popen([sys.executable, "-c", owner, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    child = int(done.stdout.readline())
    done.wait(30)
    try:
        WriterLock(tmp_path).release()
    finally:
        os.kill(child, signal.SIGKILL)
        done.stdout.close()


def test_an_error_after_the_commit_of_a_fit_says_so(vectors, tmp_path, monkeypatch):
    path = shutil.copytree(vectors, tmp_path / "p.cbid")
    np.savez(tmp_path / "w.npz", X=X[:30] + 3 * (np.arange(30) % 2)[:, None], y=np.arange(30) % 2)

    def fail(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(ImageTable, "finish", fail)
        with pytest.raises(OSError, match="Input") as raised:
            Project.fit(path, tmp_path / "w.npz", n_bits=8)
    assert any("the fit was committed" in note for note in raised.value.__notes__)
    with Project.open(path) as project:
        assert len(project) == 30
