"""The index on disk: round trips, commits, readers, locks, and directories that are not what they seem."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from tests.search.reference import random_codes

from cbid.search import CodeIndex, IndexConflictError, IndexCorruptError, IndexLockedError, files, levels
from cbid.search import manifest as manifest_module
from cbid.search.manifest import Manifest, is_ours


def content(index):
    labels = index.labels
    return (
        index.ids.tolist(),
        index.reconstruct(index.ids).tolist(),
        None if labels is None else labels.tolist(),
    )


def listing(directory):
    return {p.name: p.read_bytes() for p in sorted(Path(directory).iterdir())}


@pytest.fixture
def index():
    rng = np.random.default_rng(0)
    index = CodeIndex(20, np.arange(20) / 4)
    index.add(random_codes(rng, 100, 20), labels=rng.integers(0, 5, 100))
    index.remove([3, 50])
    return index


@pytest.fixture
def saved(index, tmp_path):
    index.save(tmp_path / "index")
    return tmp_path / "index"


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
    with pytest.raises(ValueError, match="labels holds 'd'; weights were given per class"):
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
    assert {name for name in after if name not in listing(saved)} == {
        name for name in after if ".removed-" in name
    }
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
    with pytest.raises(IndexConflictError, match="files of the state read then are gone; refresh"):
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
    with pytest.raises(ValueError, match="changes that are not saved"):
        reader.refresh()


def test_one_writer(saved):
    with CodeIndex.open(saved, writable=True) as writer:
        with pytest.raises(IndexLockedError, match="open for writing elsewhere; one writer at a time"):
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
    with pytest.raises(
        IndexConflictError, match=r"another writer \(generation 3\) since .* \(generation 1\)"
    ):
        other.save()
    assert 0 in CodeIndex.open(saved)
    CodeIndex.open(saved, writable=True).close()


def test_a_writer_forgotten_without_closing_lets_go(saved):
    CodeIndex.open(saved, writable=True)
    CodeIndex.open(saved, writable=True).close()


def test_a_forked_child_neither_ends_nor_keeps_the_lock(saved):
    writer = CodeIndex.open(saved, writable=True)
    reading, writing = os.pipe()
    child = os.fork()
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
        "file": (FileExistsError, "place is a file; an index is saved to a directory"),
        "foreign directory": (FileExistsError, "is not an index and holds other files .'photo.jpg'."),
        "foreign manifest": (IndexCorruptError, "is not the manifest of a cbid index"),
    }[what]
    before = place.read_text() if what == "file" else listing(place)
    with pytest.raises(expected[0], match=expected[1]):
        index.save(place)
    assert (place.read_text() if what == "file" else listing(place)) == before
    with pytest.raises(IndexCorruptError, match=r"is a file|holds no index|is not the manifest"):
        CodeIndex.open(place)
    assert (place.read_text() if what == "file" else listing(place)) == before


def test_an_empty_directory_is_taken(tmp_path, index):
    index.save(tmp_path)
    assert content(CodeIndex.open(tmp_path)) == content(index)


def test_missing_directories(tmp_path, index):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        CodeIndex.open(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="was not saved"):
        index.save(tmp_path / "no" / "where")
    assert not list(tmp_path.iterdir())


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip_a_bit(path):
    altered = bytearray(path.read_bytes())
    altered[-1] ^= 1
    path.write_bytes(altered)


def other_array(path):
    size = path.stat().st_size
    np.save(path, np.zeros(size - 128, np.int8))
    assert path.stat().st_size == size


DAMAGE = {
    "codes missing": ("codes", Path.unlink, "codes.npy is missing; it was committed"),
    "ids missing": ("ids", Path.unlink, "ids.npy is missing"),
    "weights missing": ("weights", Path.unlink, "npy is missing"),
    "codes truncated": ("codes", truncate, r"codes.npy has \d+ bytes; \d+ were committed"),
    "ids truncated": ("ids", truncate, r"ids.npy has \d+ bytes"),
    "labels truncated": ("labels", truncate, r"labels.npy has \d+ bytes"),
    "other array": ("ids", other_array, "holds int8 .*; int64 .* was committed"),
    "not an array": (
        "ids",
        lambda path: path.write_bytes(b"x" * path.stat().st_size),
        "is not the array that was",
    ),
    "runs altered": ("runs", flip_a_bit, "is not as it was committed .its checksum differs"),
    "weights altered": ("weights", flip_a_bit, "its checksum differs"),
    "removals altered": ("removed", flip_a_bit, "its checksum differs"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_files(saved, case):
    name, damage, message = DAMAGE[case]
    (path,) = [p for p in saved.iterdir() if name in p.name]
    damage(path)
    before = listing(saved)
    for writable in (False, True):
        with pytest.raises(IndexCorruptError, match=message):
            CodeIndex.open(saved, writable=writable)
    assert listing(saved) == before


@pytest.mark.parametrize("name", ["codes", "ids", "labels"])
def test_altered_bulk_data_is_found_by_verify(saved, name):
    opened = CodeIndex.open(saved)
    opened.verify()
    (path,) = [p for p in saved.iterdir() if name in p.name]
    flip_a_bit(path)
    with pytest.raises(IndexCorruptError, match=f"{name}.npy is not as it was committed"):
        CodeIndex.open(saved).verify()
    with pytest.raises(IndexCorruptError, match="its checksum differs"):
        CodeIndex.open(saved, writable=True, verify=True)
    CodeIndex.open(saved, writable=True).close()
    path.unlink()
    with pytest.raises(IndexCorruptError, match=f"{name}.npy is missing"):
        opened.verify()


def altered(change):
    def alter(path):
        outer = json.loads(path.read_text())
        change(outer)
        path.write_text(json.dumps(outer))

    return alter


MANIFESTS = {
    "a number changed": (altered(lambda o: o["manifest"].update(next_id=7)), "was altered or damaged"),
    "no checksum": (altered(lambda o: o.pop("blake2b")), "was altered or damaged"),
    "not ours": (altered(lambda o: o["manifest"].update(format="x")), "is not the manifest of a cbid"),
    "cut": (truncate, "is not JSON"),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:100]), "is not JSON"),
    "empty": (lambda path: path.write_bytes(b""), "is not JSON"),
    "list": (lambda path: path.write_text("[]"), "is not the manifest"),
    "binary": (lambda path: path.write_bytes(bytes(range(256))), "is not JSON"),
    "missing": (Path.unlink, "holds no index .there is no manifest.json in it"),
}  # fmt: skip


@pytest.mark.parametrize("case", MANIFESTS)
def test_damaged_manifest(saved, index, case):
    damage, message = MANIFESTS[case]
    damage(saved / "manifest.json")
    if case == "cut":  # only the newline at the end was cut, which does no harm
        assert content(CodeIndex.open(saved)) == content(index)
        damage(saved / "manifest.json")
    before = listing(saved)
    for writable in (False, True):
        with pytest.raises(IndexCorruptError, match=message):
            CodeIndex.open(saved, writable=writable)
    index.remove(0)
    with pytest.raises(IndexCorruptError, match=message):
        index.save()
    assert listing(saved) == before


def lead_out(manifest, directory):
    manifest.segments[0].ids["file"] = "../secret.npy"


def labels_as_objects(manifest, directory):
    manifest.segments[0].label_type = "|O"


def runs_past_the_end(manifest, directory):
    name = "segment-0123456789abcdef.runs.npy"
    runs = np.array([[0, -1, -1], [10**9, -1, -1]])
    manifest.segments[0].runs, manifest.segments[0].n_runs = files.write_array(directory / name, runs), 2


def pickled_ids(manifest, directory):
    path = directory / "segment-0123456789abcdef.ids.npy"
    np.save(path, np.array([print] * 100, dtype=object), allow_pickle=True)
    manifest.segments[0].ids = {**manifest.segments[0].ids, "file": path.name, "bytes": path.stat().st_size}


FORGED = {
    lead_out: r"names '\.\./secret.npy', which is no file of an index",
    labels_as_objects: r"has labels of type '\|O'",
    runs_past_the_end: "does not divide 100 codes into runs",
    pickled_ids: "is not the array that was committed",
}


@pytest.mark.parametrize("forge", FORGED)
def test_forged_directories(saved, forge):
    """With right checksums, so by intent: nothing outside is read, nothing unpickled, nothing past an end."""
    manifest, _ = Manifest.read(saved)
    forge(manifest, saved)
    manifest.write(saved)
    with pytest.raises(IndexCorruptError, match=FORGED[forge]):
        CodeIndex.open(saved)


def test_a_manifest_that_lacks_a_field(saved):
    outer = json.loads((saved / "manifest.json").read_text())
    del outer["manifest"]["segments"][0]["n"]
    outer["blake2b"] = manifest_module._stamp(outer["manifest"])
    (saved / "manifest.json").write_text(json.dumps(outer))
    with pytest.raises(IndexCorruptError, match="lacks what a manifest holds"):
        CodeIndex.open(saved)


def test_a_manifest_of_a_later_format(saved, monkeypatch):
    written, _ = Manifest.read(saved)
    with monkeypatch.context() as patched:
        patched.setattr(manifest_module, "VERSION", 2)
        written.write(saved)
    with pytest.raises(IndexCorruptError, match="is of format version 2; this release reads version 1"):
        CodeIndex.open(saved)


@pytest.mark.parametrize("moment", range(6))
@pytest.mark.parametrize("new", [False, True])
def test_full_disk(saved, index, tmp_path, monkeypatch, moment, new):
    """The disk fills up at the first, second, ... write: a clear error, and the directory as it was."""
    target = tmp_path / "new" if new else saved
    index.add(np.zeros((5000, 3), np.uint8), labels=np.zeros(5000, int))
    before = None if new else listing(saved)
    real, left = files._write_fully, [moment]

    def write(file, data):
        if left[0] == 0:
            real(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        real(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(files, "_write_fully", write)
        with pytest.raises(
            OSError, match="was not saved, its committed state is unchanged: No space left"
        ) as error:
            index.save(target)
    assert error.value.errno == errno.ENOSPC
    assert not target.exists() if new else listing(saved) == before
    index.save(target)
    assert content(CodeIndex.open(target)) == content(index)


def test_failed_first_save_into_an_empty_directory_leaves_it_empty(tmp_path, index, monkeypatch):
    def fail(path, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(manifest_module, "replace_text", fail)
    with pytest.raises(OSError, match="was not saved"):
        index.save(tmp_path)
    assert not list(tmp_path.iterdir())


LIMITED = """
import resource, signal, sys
import numpy as np
from cbid.search import CodeIndex
index = CodeIndex.open(sys.argv[1])
index.add(np.zeros((50_000, 3), np.uint8), labels=np.zeros(50_000, int))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    index.save()
except OSError as error:
    print(error)
"""


def test_a_limit_on_the_size_of_files(saved):
    before = listing(saved)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(saved)], capture_output=True, text=True, check=True
    )
    assert "was not saved, its committed state is unchanged: File too large" in done.stdout
    assert listing(saved) == before


READ_ONLY = """
import os, sys
import numpy as np
from cbid.search import CodeIndex
CodeIndex.open(sys.argv[1]).search(np.zeros(3, np.uint8), 1)  # imports all that others may not read
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
index = CodeIndex.open(sys.argv[1])
print(index.search(np.zeros(3, np.uint8), 1).ids.tolist())
index.remove(index.ids[:1])
path, new = sys.argv[1:]
for act in (index.save, lambda: CodeIndex.open(path, writable=True), lambda: CodeIndex(8).save(new)):
    try:
        act()
    except PermissionError as error:
        print(error)
"""


def test_read_only_directory(index):
    # Not under tmp_path, which other users cannot enter: the check has to run as a user without privileges.
    with tempfile.TemporaryDirectory() as outer:
        saved = Path(outer) / "index"
        index.save(saved)
        before = listing(saved)
        for directory in (saved, Path(outer)):
            directory.chmod(0o555)
        try:
            done = subprocess.run(
                [sys.executable, "-c", READ_ONLY, str(saved), str(Path(outer) / "new")],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        finally:
            for directory in (saved, Path(outer)):
                directory.chmod(0o755)
        lines = done.stdout.splitlines()
        assert len(lines) == 4, done.stdout + done.stderr
        assert "index was not saved, its committed state is unchanged: Permission denied" in lines[1]
        assert "index cannot be opened for writing" in lines[2]
        assert "new was not saved" in lines[3]
        assert listing(saved) == before


def test_litter_of_a_killed_writer_is_removed_by_the_next(saved, index):
    litter = ["segment-0123456789abcdef.codes.npy", "manifest.json.tmp", "weights-0123456789abcdef.npy"]
    for name in [*litter, "notes.txt"]:
        (saved / name).write_text("begun")
    assert all(is_ours(name) for name in litter)
    index.remove(0)
    index.save()
    names = set(listing(saved))
    assert not names & set(litter)
    assert "notes.txt" in names
    shutil.copytree(saved, saved.parent / "first save killed")
    (saved.parent / "first save killed" / "manifest.json").unlink()
    (saved.parent / "first save killed" / "notes.txt").unlink()
    index.save(saved.parent / "first save killed")
    assert content(CodeIndex.open(saved.parent / "first save killed")) == content(index)


def test_a_reader_that_meets_a_commit_halfway_starts_again(saved, index, monkeypatch):
    from cbid.search import store

    real, times = store.map_array, [0]

    def map_array(*given):
        times[0] += 1
        if times[0] == 2:  # the manifest is read, its files are not yet mapped
            index.add(
                np.ones((98, 3), np.uint8) * 16, labels=np.ones(98, int)
            )  # as many as there are: a merge
            monkeypatch.setattr(store, "map_array", real)
            index.save()
        return real(*given)

    monkeypatch.setattr(store, "map_array", map_array)
    assert content(CodeIndex.open(saved)) == content(index)


def test_segments_of_a_merge_are_on_disk_once(tmp_path, monkeypatch):
    monkeypatch.setattr(levels, "TAIL", 4)
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
