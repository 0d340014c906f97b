"""Adding and removing: durable, seen by others after refresh, whole or not at all."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from cbid.data import ImageItems, VectorTable
from cbid.project import Project
from cbid.search import CodeIndex, UnknownIdError
from tests.data.pictures import encoded
from tests.project.made import TINY, fitted, picture, write_images


def test_adding_and_removing(copied, made):
    reader = Project.open(copied)
    with Project.open(copied, write=True) as writer:
        new = [picture("red", 901), encoded(picture("blue", 902), "PNG"), str(made[0] / "green" / "004.png")]
        ids = writer.add(new, labels=["red", None, "olive"], names=["first", "second", "third"])
        assert ids.tolist() == [36, 37, 38]
        assert [writer.record(i).name for i in ids] == ["first", "second", "third"]
        assert [writer.record(i).label for i in ids] == ["red", None, "olive"]
        assert {writer.record(i).part for i in ids} == {"added"}
        assert writer.classes == ["blue", "green", "olive", "red"]
        np.testing.assert_array_equal(writer.vector(36), TINY.describe(new[0]))
        np.testing.assert_array_equal(writer.thumbnail(38), writer.thumbnail(16))
        assert 36 in writer.search(new_vector := TINY.describe(new[0]), 39).ids[0]
        assert writer.search(new_vector, 1, how="raw").ids[0, 0] == 36

        assert len(reader) == 36
        with pytest.raises(UnknownIdError):
            reader.record(36)
        assert reader.refresh()
        assert not reader.refresh()
        assert len(reader) == 39
        assert reader.vector(38).shape == (75,)

        writer.remove([36, 0])
        assert len(writer) == 37
        assert 36 not in writer.search(new_vector, 40).ids[0]
        with pytest.raises(UnknownIdError):
            writer.thumbnail(36)
        with pytest.raises(UnknownIdError, match="36"):
            writer.remove([36])
        assert reader.refresh()
        assert reader.ids.tolist() == [*range(1, 36), 37, 38]
        (again,) = writer.add([new[0]])
        assert again == 39  # an id is never given twice
    reader.close()
    with Project.open(copied) as opened:
        assert opened.ids.tolist() == [*range(1, 36), 37, 38, 39]
        assert opened.record(39).name == "image 0"


def test_all_or_none(copied):
    with Project.open(copied, write=True) as writer:
        with pytest.raises(ValueError, match=r"torn: .*"):
            writer.add([picture("red", 1), b"\x89PNG\r\n\x1a\n"], names=["good", "torn"])
        assert len(writer) == 36
        assert len(list(writer._table.rows())) == 36
        (id,) = writer.add([picture("red", 1)])
        assert writer.record(int(id)).name == "image 0"


def test_the_same_image_twice(copied):
    with Project.open(copied, write=True) as writer:
        image = picture("red", 1)
        assert len(writer.add([image, image], names=["a", "a"])) == 2
        assert len(writer.add([image], names=["a"])) == 1
        assert len(writer) == 39


def test_a_failure_at_the_last_step_adds_nothing(copied, monkeypatch):
    with Project.open(copied, write=True) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(CodeIndex, "save", lambda index: (_ for _ in ()).throw(OSError(28, "No space left")))
            with pytest.raises(OSError, match="No space left"):
                writer.add([picture("red", 1)])
        assert len(writer) == 36
        assert (writer.search(writer.vector(0), 40).ids < 36).all()
        (id,) = writer.add([picture("red", 1)])
        assert id in writer.ids


def test_a_kill_between_the_two_stores_adds_nothing(copied):
    """The table has the image, the index has not: no search finds it, and the next writer removes it."""
    killed = (
        "import os, sys\n"
        "from cbid.project import Project\n"
        "from cbid.search import CodeIndex\n"
        "from tests.project.made import picture\n"
        "CodeIndex.save = lambda index: os._exit(9)\n"
        "Project.open(sys.argv[1], write=True).add([picture('red', 1)])\n"
    )
    assert subprocess.run([sys.executable, "-c", killed, str(copied)]).returncode == 9
    with Project.open(copied) as reader:
        assert len(reader) == 36
        assert len(list(reader._table.rows())) == 37
        with pytest.raises(UnknownIdError):
            reader.record(36)
    with Project.open(copied, write=True) as writer:
        assert len(list(writer._table.rows())) == 36
        assert writer.add([picture("red", 1)]).tolist() == [37]


def test_what_a_killed_writer_had_begun_is_undone_by_a_reader(copied):
    """Pages of an open transaction are in the file already, and so is the journal that takes them back."""
    killed = (
        "import os, sqlite3, sys\n"
        "table = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "table.execute('PRAGMA cache_size = 1')\n"
        "table.execute('BEGIN IMMEDIATE')\n"
        "table.execute(\"UPDATE images SET name = name || 'x'\")\n"
        "table.execute('DELETE FROM thumbnails')\n"
        "os._exit(9)\n"
    )
    table = copied / "images.sqlite"
    before = table.read_bytes()
    assert subprocess.run([sys.executable, "-c", killed, str(table)]).returncode == 9
    assert table.read_bytes() != before
    assert (copied / "images.sqlite-journal").exists()
    with Project.open(copied) as reader:
        assert reader.record(0).name == "blue/000.png"
        assert reader.thumbnail(35)


def test_what_of_a_source_is_new(copied, made, tmp_path):
    more = write_images(tmp_path / "more", n=2, first=50, colours=("red",))
    (more / "red" / "torn.png").write_bytes(b"no")
    with Project.open(copied, write=True) as writer:
        taken = writer.add_new(made[0])
        assert (taken.n_read, len(taken.ids), len(writer)) == (0, 36, 36)
        taken = writer.add_new(more)
        assert (taken.n_read, len(writer)) == (2, 38)
        assert [name for name, _ in taken.failures] == ["red/torn.png"]
        assert writer.add_new(more).n_read == 0


def vector_project(tmp_path):
    """A project of 40 vectors, and those vectors; the last 20 are not in there."""
    X = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    X[::2] += 3
    np.savez(tmp_path / "v.npz", X=X[:40], y=np.arange(40) % 2)
    fitted(tmp_path / "v.cbid", tmp_path / "v.npz", n_bits=8).close()
    return tmp_path / "v.cbid", X


def test_vectors_are_known_by_their_values(tmp_path):
    """Whatever their file and row: row 0 of one file is not that of another, and what is there is not added again."""
    path, X = vector_project(tmp_path)
    np.save(tmp_path / "new.npy", X[40:45])
    np.save(tmp_path / "old.npy", X[[7, 3, 39]])
    np.save(tmp_path / "mixed.npy", X[[44, 44, 2, 50, 51]])
    with Project.open(path, write=True) as writer:
        names = ("new", "old", "new", "old", "mixed", "new", "mixed")
        added = [writer.add_new(tmp_path / f"{name}.npy").n_read for name in names]
        assert added == [5, 0, 0, 0, 2, 0, 0]
        assert len(writer) == 47
        assert writer.add_new(tmp_path / "old.npy").ids.tolist() == [7, 3, 39]
    with fitted(path, tmp_path / "v.npz", n_bits=8) as same:
        assert same.was_up_to_date  # rows of other files are not taken for those of its own source
    with fitted(path, tmp_path / "v.npz", n_bits=4) as again:
        assert (len(again), again.last_fit["read"]) == (47, 0)
        np.testing.assert_array_equal(again.vector(42), X[42])
    with Project.open(path, write=True) as writer:
        assert writer.add_new(tmp_path / "new.npy").n_read == 0


def test_vectors_with_ids_are_known_by_id_and_values(tmp_path):
    path, X = vector_project(tmp_path)
    ids = np.array(["a", "b", "c"])
    with Project.open(path, write=True) as writer:
        for expected in (3, 0):  # of equal values, but three things of their own
            assert writer.add_new(VectorTable(X[[40, 40, 3]], ids)).n_read == expected
        assert writer.add_new(VectorTable(X[[41, 40, 3]], ids)).n_read == 1
        assert [record.name for record in writer.records(40, 9)] == ["a", "b", "c", "a"]


def test_images_without_files_are_known_by_their_content(copied):
    red, blue = picture("red", 901), picture("blue", 902)
    with Project.open(copied, write=True) as writer:
        for images, expected in (([red], 1), ([blue], 1), ([red], 0), ([blue, red], 0)):
            assert writer.add_new(images).n_read == expected
        assert len(writer) == 38


def test_vectors_that_were_added_again_before_are_no_trouble(tmp_path):
    """Projects hold such rows where each file's rows took the places of another's."""
    path, X = vector_project(tmp_path)
    with Project.open(path, write=True) as writer:
        for _ in range(2):
            writer.add(X[:3], names=["row 0", "row 1", "row 2"])
        assert writer.add_new(VectorTable(X[:3])).n_read == 0
        assert len(writer) == 46
    with fitted(path, tmp_path / "v.npz", n_bits=8) as same:
        assert same.was_up_to_date


def test_wrong_additions(copied):
    with Project.open(copied) as reader, pytest.raises(ValueError, match="add: the project is open for reading"):
        reader.add([picture("red", 1)])
    with Project.open(copied) as reader, pytest.raises(ValueError, match="remove: the project is open for reading"):
        reader.remove([1])
    with Project.open(copied, write=True) as writer:
        with pytest.raises(ValueError, match="labels has 2 entries for 1 images"):
            writer.add([picture("red", 1)], labels=["red", "red"])
        with pytest.raises(ValueError, match=r"images_or_paths='picture\.png'"):
            writer.add("picture.png")
        with pytest.raises(ValueError, match="labels and names"):
            writer.add(ImageItems([picture("red", 1)]), labels=["red"])
        with pytest.raises(OSError, match="locked by another writer"):
            Project.open(copied, write=True)


def test_readers_while_one_writes(copied):
    """Searches of all kinds from threads while images come and go: no error, and whole answers."""
    with Project.open(copied, write=True) as project:
        query, errors, stop = project.vector(4).copy(), [], threading.Event()

        def ask(how):
            try:
                while not stop.is_set():
                    found = project.search(query, 5, how=how)
                    assert found.ids[0, 0] >= 0
                    assert (found.labels != "").all()
                    assert project.classes[0] == "blue"
                    project.bit(3)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=ask, args=(how,)) for how in ("weighted", "plain", "raw")]
        for thread in threads:
            thread.start()
        for turn in range(6):
            ids = project.add([picture("red", turn), picture("blue", turn)], labels=["red", "blue"])
            project.remove(ids[:1])
        stop.set()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(project) == 42


def test_another_fit_is_seen_after_refresh(copied, made):
    with Project.open(copied) as reader:
        fitted(copied, made[0], n_bits=8).close()
        assert reader.n_bits == 24
        assert reader.search(reader.vector(0), 1).distances[0, 0] == 0  # what it has mapped stays
        assert reader.refresh()
        assert (reader.n_bits, reader.lengths) == (8, [8])
        assert reader.search(reader.vector(0), 1).distances[0, 0] == 0
