"""Directories that are not as they were committed: damaged, altered, forged."""

import json
from pathlib import Path

import numpy as np
import pytest

from cbid.search import CodeIndex, IndexCorruptError
from cbid.search import manifest as manifest_module
from cbid.search.manifest import IndexManifest
from tests.search.stored import listing


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip_a_bit(path):
    altered = bytearray(path.read_bytes())
    altered[-1] ^= 1
    path.write_bytes(altered)


def alter_the_header(path):
    altered = bytearray(path.read_bytes())
    altered[60] ^= 0x55
    path.write_bytes(altered)


def other_array(path):
    size = path.stat().st_size
    np.save(path, np.zeros(size - 128, np.int8))
    assert path.stat().st_size == size


DAMAGE = {
    "codes missing": ("codes", Path.unlink, "codes.npy is missing"),
    "ids missing": ("ids", Path.unlink, "ids.npy is missing"),
    "weights missing": ("weights", Path.unlink, "npy is missing"),
    "codes truncated": ("codes", truncate, r"codes.npy .* bytes"),
    "ids truncated": ("ids", truncate, r"ids.npy .* bytes"),
    "labels truncated": ("labels", truncate, r"labels.npy .* bytes"),
    "other array": ("ids", other_array, "int8 .*int64"),
    "not an array": (
        "ids",
        lambda path: path.write_bytes(b"x" * path.stat().st_size),
        "not a .npy file",
    ),
    "header altered": ("codes", alter_the_header, "not a .npy file"),
    "runs altered": ("runs", flip_a_bit, "checksum"),
    "weights altered": ("weights", flip_a_bit, "checksum"),
    "removals altered": ("removed", flip_a_bit, "checksum"),
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
    with pytest.raises(IndexCorruptError, match=f"{name}.npy is damaged"):
        CodeIndex.open(saved).verify()
    with pytest.raises(IndexCorruptError, match="checksum"):
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
    "a number changed": (altered(lambda o: o["manifest"].update(next_id=7)), "checksum"),
    "no checksum": (altered(lambda o: o.pop("blake2b")), "checksum"),
    "not ours": (altered(lambda o: o["manifest"].update(format="x")), "is not the manifest of a cbid"),
    "without its last newline": (truncate, "checksum"),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:100]), "JSON"),
    "empty": (lambda path: path.write_bytes(b""), "JSON"),
    "list": (lambda path: path.write_text("[]"), "is not the manifest"),
    "binary": (lambda path: path.write_bytes(bytes(range(256))), "JSON"),
    "missing": (Path.unlink, "manifest.json"),
}  # fmt: skip


@pytest.mark.parametrize("case", MANIFESTS)
def test_damaged_manifest(saved, index, case):
    damage, message = MANIFESTS[case]
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


def write_elsewhere(manifest, directory):
    manifest.segments[0].name = "../secret"  # a removal would write ../secret.removed-....npy


def labels_as_objects(manifest, directory):
    manifest.segments[0].label_type = "|O"


def runs_past_the_end(manifest, directory):
    name = "segment-0123456789abcdef.runs.npy"
    runs = np.array([[0, -1, -1], [10**9, -1, -1]])
    manifest.segments[0].runs, manifest.segments[0].n_runs = manifest_module.write_array(directory / name, runs), 2


def pickled_ids(manifest, directory):
    path = directory / "segment-0123456789abcdef.ids.npy"
    np.save(path, np.array([print] * 100, dtype=object), allow_pickle=True)
    manifest.segments[0].ids = {**manifest.segments[0].ids, "file": path.name, "bytes": path.stat().st_size}


FORGED = {
    lead_out: r"'\.\./secret.npy'",
    write_elsewhere: r"'\.\./secret'",
    labels_as_objects: r"'\|O'",
    runs_past_the_end: "does not divide 100 codes into runs",
    pickled_ids: "not a .npy file",
}


@pytest.mark.parametrize("forge", FORGED)
def test_forged_directories(saved, forge):
    """With right checksums, so by intent: nothing outside is read, nothing unpickled, nothing past an end."""
    manifest, _ = IndexManifest.read(saved)
    forge(manifest, saved)
    manifest.write(saved)
    with pytest.raises(IndexCorruptError, match=FORGED[forge]):
        CodeIndex.open(saved)


def test_a_manifest_that_lacks_a_field(saved):
    outer = json.loads((saved / "manifest.json").read_text())
    del outer["manifest"]["segments"][0]["n"]
    outer["blake2b"] = manifest_module._stamp(outer["manifest"])
    (saved / "manifest.json").write_bytes(manifest_module._text(outer))
    with pytest.raises(IndexCorruptError, match="missing or unknown fields"):
        CodeIndex.open(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["segments"][0]["codes"].pop("bytes"), lambda m: m["segments"][0].update(n_live=3),
        lambda m: m["segments"][0].update(n="7"), lambda m: m["segments"][0].update(name=None),
        lambda m: m["segments"][0]["ids"].update(file=3), lambda m: m.update(n_bits=-8),
        lambda m: m.update(next_id=2**70), lambda m: m.update(label_values=[[]]),
        lambda m: m.update(label_values=7), lambda m: m.update(label_kind="no kind"), lambda m: m.update(segments={}),
        lambda m: m.update(attached={"values": [], "files": {}}), lambda m: m.update(attached={"files": {}}),
        lambda m: m.update(weights={"file": "weights-0123456789abcdef.npy"}), lambda m: m.update(n_cells=True),
        lambda m: m["segments"][0].update(n=1e308, n_live=10**400), lambda m: m.update(n_cells=""),
    ],
)  # fmt: skip
def test_a_manifest_with_the_right_checksum_and_wrong_values(saved, change):
    outer = json.loads((saved / "manifest.json").read_text())
    change(outer["manifest"])
    outer["blake2b"] = manifest_module._stamp(outer["manifest"])
    (saved / "manifest.json").write_bytes(manifest_module._text(outer))
    with pytest.raises(IndexCorruptError):
        CodeIndex.open(saved)


def test_a_manifest_of_a_later_format(saved, monkeypatch):
    written, _ = IndexManifest.read(saved)
    with monkeypatch.context() as patched:
        patched.setattr(manifest_module, "VERSION", 2)
        written.write(saved)
    with pytest.raises(IndexCorruptError, match="version 2"):
        CodeIndex.open(saved)


@pytest.mark.parametrize("code", [3, 200, 255])
def test_altered_labels_are_reported_when_they_are_read(tmp_path, code):
    """Labels are not read before they are needed; code 3 comes just after the last label."""
    index = CodeIndex(8)
    index.add(np.arange(6, dtype=np.uint8)[:, None], labels=list("abcabc"))
    index.save(tmp_path / "index")
    (path,) = (tmp_path / "index").glob("*.labels.npy")
    content = bytearray(path.read_bytes())
    content[-6] = code
    path.write_bytes(content)
    index = CodeIndex.open(tmp_path / "index")
    with pytest.raises(IndexCorruptError, match=rf"label codes range from 0 to {code}"):
        index.search(np.zeros((1, 1), np.uint8), 6)
    with pytest.raises(IndexCorruptError, match="label codes"):
        index.range_search(np.zeros((1, 1), np.uint8), 8)
    with pytest.raises(IndexCorruptError, match="label codes"):
        _ = index.labels
