"""The index on disk: round trips, commits, readers and locks."""

import os
import shutil
import signal

import numpy as np
import pytest

from benchmarks.index_durability import fork
from cbid.search import CodeIndex, IndexConflictError, IndexCorruptError, IndexLockedError, collection, store
from tests.search.reference import random_codes
from tests.search.stored import content, listing


@pytest.mark.parametrize("labels", [None, np.arange(300) % 7, np.array(["cat", "dog", "¿?"] * 100)])
@pytest.mark.parametrize("weights", [None, np.linspace(0, 2, 20)])
def test_round_trip(tmp_path, labels, weights):
    rng = np.random.default_rng(1)
    codes = random_codes(rng, 300, 20)
    index = CodeIndex(20, weights)
    index.add(codes, rng.permutation(2000)[:300], labels)
    index.remove(index.ids[::9])
    index.save(str(tmp_path / "index"))
    opened = CodeIndex.open(tmp_path / "index", n_threads=1)
    assert content(opened) == content(index)
    assert opened.path == tmp_path / "index"
    assert opened.n_threads == 1
    for k, weighted in ((5, True), (300, False)):
        was, now = (one.search(codes[:20], k, weighted=weighted) for one in (index, opened))
        np.testing.assert_array_equal(was.ids, now.ids)
        np.testing.assert_array_equal(was.distances, now.distances)
    opened.verify()
    # Ids go on from the largest that was ever stored, whether or not it was removed since.
    (new,) = opened.add(codes[:1], labels=None if labels is None else labels[:1])
    assert new == index.add(codes[:1], labels=None if labels is None else labels[:1])


def test_weights_per_class_come_back(tmp_path):
    rng = np.random.default_rng(2)
    weights = rng.integers(0, 9, (16, 3)) / 4
    index = CodeIndex(16, weights, classes=["a", "b", "c"])
    index.add(random_codes(rng, 50, 16), labels=np.array(["b", "a"] * 25))
    index.save(tmp_path / "index")
    opened = CodeIndex.open(tmp_path / "index")
    np.testing.assert_array_equal(opened.weights, weights)
    queries = random_codes(rng, 5, 16)
    np.testing.assert_array_equal(opened.search(queries).ids, index.search(queries).ids)
    with pytest.raises(ValueError, match="labels holds 'd'"):
        opened.add(queries[:1], labels=["d"])


def test_an_empty_index_comes_back(tmp_path):
    CodeIndex(9).save(tmp_path / "index")
    opened = CodeIndex.open(tmp_path / "index")
    assert len(opened) == 0
    assert opened.add(np.zeros((1, 2), np.uint8)).tolist() == [0]
    opened.save()
    opened.remove(0)
    opened.save()
    assert CodeIndex.open(tmp_path / "index").add(np.zeros((1, 2), np.uint8)).tolist() == [1]


def test_a_commit_leaves_the_old_segments_as_they_are(saved):
    index = CodeIndex.open(saved)
    before = listing(saved)
    index.add(np.zeros((10, 3), np.uint8), labels=np.zeros(10, int))
    index.save()
    after = listing(saved)
    assert {name for name in before if after.get(name) != before[name]} == {"manifest.json"}
    index.remove([0, 105])
    index.save()
    assert {name for name in after if name not in listing(saved)} == {name for name in after if ".removed-" in name}
    assert content(CodeIndex.open(saved)) == content(index)
    before = listing(saved)
    index.save()
    assert listing(saved) == before, "nothing had changed, nothing is written"


def test_many_commits_leave_few_segments(tmp_path):
    rng = np.random.default_rng(3)
    index = CodeIndex(8)
    index.save(tmp_path / "index")
    for _ in range(40):
        index.add(random_codes(rng, 25, 8))
        index.save()
    assert len(listing(tmp_path / "index")) < 25
    assert len(CodeIndex.open(tmp_path / "index")) == 1000


def test_readers_keep_their_state_until_they_refresh(saved, index):
    reader = CodeIndex.open(saved)
    before = content(reader)
    assert not reader.refresh()
    for _ in range(5):  # merged and removed files among them
        index.add(np.ones((200, 3), np.uint8) * 16, labels=np.ones(200, int))
        index.remove(index.ids[::3])
        index.save()
    assert content(reader) == before
    with pytest.raises(IndexConflictError, match="refresh"):
        reader.verify()
    assert reader.refresh()
    reader.verify()
    assert content(reader) == content(index)
    assert not reader.refresh()


def test_refresh_maps_only_what_is_new(saved, index, monkeypatch):
    reader = CodeIndex.open(saved)
    blocks = reader._segments()[0].blocks
    index.remove(7)
    index.save()
    reader.refresh()
    assert reader._segments()[0].blocks is blocks
    assert 7 not in reader
    reader.add(np.zeros((1, 3), np.uint8), labels=[0])
    index.remove(8)
    index.save()
    with pytest.raises(ValueError, match="unsaved changes"):
        reader.refresh()


def test_one_writer(saved):
    with CodeIndex.open(saved, writable=True) as writer:
        with pytest.raises(IndexLockedError, match="locked by another writer"):
            CodeIndex.open(saved, writable=True)
        other = CodeIndex.open(saved)
        other.remove(0)
        with pytest.raises(IndexLockedError):
            other.save()
        with pytest.raises(IndexLockedError):
            CodeIndex(20).save(saved)
        writer.remove(1)
        writer.save()
        writer.remove(2)
        writer.save()
    with pytest.raises(IndexConflictError, match=r"generation 3 .* generation 1"):
        other.save()
    assert 0 in CodeIndex.open(saved)
    CodeIndex.open(saved, writable=True).close()


def test_a_writer_that_is_never_closed_releases_its_lock(saved):
    CodeIndex.open(saved, writable=True)
    CodeIndex.open(saved, writable=True).close()


def test_a_forked_child_neither_ends_nor_keeps_the_lock(saved):
    writer = CodeIndex.open(saved, writable=True)
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        writer.close()
        del writer
        os.write(writing, b"x")
        signal.pause()
    os.read(reading, 1)
    with pytest.raises(IndexLockedError):
        CodeIndex.open(saved, writable=True)
    writer.close()
    CodeIndex.open(saved, writable=True).close()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)


def test_save_elsewhere_is_a_copy(saved, index, tmp_path):
    opened = CodeIndex.open(saved)
    opened.remove(0)
    opened.save(tmp_path / "copy")
    assert opened.path == saved
    assert 0 in CodeIndex.open(saved)
    assert content(CodeIndex.open(tmp_path / "copy")) == content(opened)
    before = set(listing(saved))
    opened.save(os.path.relpath(saved))
    assert {name for name in before if name.endswith("codes.npy")} <= set(listing(saved))
    assert 0 not in CodeIndex.open(saved)


def test_saving_over_another_index_replaces_it_for_new_readers_only(saved):
    reader = CodeIndex.open(saved)
    before = content(reader)
    other = CodeIndex(7)
    other.add(np.array([[2]], np.uint8), [9])
    other.save(saved)
    assert CodeIndex.open(saved).n_bits == 7
    assert content(reader) == before
    assert len([name for name in listing(saved) if name.endswith(".codes.npy")]) == 1


@pytest.mark.parametrize("what", ["file", "foreign directory", "foreign manifest"])
def test_saving_over_something_else_is_refused(tmp_path, index, what):
    place = tmp_path / "place"
    if what == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        name = "photo.jpg" if what == "foreign directory" else "manifest.json"
        (place / name).write_text('{"name": "my web app"}')
    expected = {
        "file": (FileExistsError, "place is a file"),
        "foreign directory": (FileExistsError, "is not an index and holds other files .'photo.jpg'."),
        "foreign manifest": (IndexCorruptError, "is not the manifest of a cbid index"),
    }[what]
    before = place.read_text() if what == "file" else listing(place)
    with pytest.raises(expected[0], match=expected[1]):
        index.save(place)
    assert (place.read_text() if what == "file" else listing(place)) == before
    with pytest.raises(IndexCorruptError, match=r"is not an index|is not the manifest"):
        CodeIndex.open(place)
    assert (place.read_text() if what == "file" else listing(place)) == before


@pytest.mark.parametrize("writable", [False, True])
def test_a_directory_that_was_removed_is_written_again(saved, writable):
    opened = CodeIndex.open(saved, writable=writable)
    before = content(opened)
    shutil.rmtree(saved)
    opened.save()
    assert content(CodeIndex.open(saved, verify=True)) == before
    if writable:
        with pytest.raises(IndexLockedError):
            CodeIndex.open(saved, writable=True)
        opened.close()


def test_an_empty_directory_is_taken(tmp_path, index):
    index.save(tmp_path)
    assert content(CodeIndex.open(tmp_path)) == content(index)


def test_missing_directories(tmp_path, index):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        CodeIndex.open(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="was not saved"):
        index.save(tmp_path / "no" / "where")
    assert not list(tmp_path.iterdir())


def test_a_reader_that_meets_a_commit_halfway_starts_again(saved, index, monkeypatch):
    real, times = store.map_array, [0]

    def map_array(*given):
        times[0] += 1
        if times[0] == 2:  # the manifest is read, its files are not yet mapped
            index.add(np.ones((98, 3), np.uint8) * 16, labels=np.ones(98, int))  # as many as there are: a merge
            monkeypatch.setattr(store, "map_array", real)
            index.save()
        return real(*given)

    monkeypatch.setattr(store, "map_array", map_array)
    assert content(CodeIndex.open(saved)) == content(index)


def test_segments_of_a_merge_are_on_disk_once(tmp_path, monkeypatch):
    monkeypatch.setattr(collection, "TAIL", 4)
    index = CodeIndex(8)
    index.save(tmp_path / "index")
    for step in range(30):
        index.add(np.full((3, 1), step, np.uint8))
        if step % 3 == 0:
            index.remove(index.ids[step])
        index.save()
        opened = CodeIndex.open(tmp_path / "index")
        assert content(opened) == content(index)
        assert sum(len(segment) for segment in opened._segments()) <= 2 * len(index)
