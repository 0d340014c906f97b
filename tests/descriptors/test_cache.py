"""The cache: found again by content, whatever happens to names, files and processes."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbid.data import ImageFolder
from cbid.descriptors import CacheWarning, DescriptorCache, describe
from cbid.descriptors import cache as module
from tests.data.pictures import pgm, write_tree
from tests.data.plain import Plain
from tests.data.toys import Means, Rows


def key(number):
    return number.to_bytes(16, "big")


@pytest.fixture
def root(tmp_path):
    return write_tree(tmp_path / "root", {f"x/{i:03d}.pgm": pgm(i) for i in range(40)})


@pytest.fixture
def described(tmp_path):
    """How many images were described since the last call."""
    log = tmp_path / "log"
    seen = 0

    def count():
        nonlocal seen
        before, seen = seen, log.stat().st_size if log.exists() else 0
        return seen - before

    return count


def means(tmp_path, **settings):
    return Means(log=str(tmp_path / "log"), **settings)


def chunks(store):
    return sorted(store.glob("*/*.safetensors"))


def test_nothing_is_described_twice(root, tmp_path, described):
    plain = describe(root, Means()).values
    for n_jobs, expected in ((1, 40), (1, 0), (2, 0)):
        again = describe(root, means(tmp_path), cache=tmp_path / "store", n_jobs=n_jobs)
        np.testing.assert_array_equal(again.values, plain)
        assert described() == expected
    assert len(chunks(tmp_path / "store")) == 1


def test_renamed_moved_and_copied_files_are_known(root, tmp_path, described):
    describe(root, means(tmp_path), cache=tmp_path / "store")
    assert described() == 40
    os.rename(root / "x", root / "y")
    os.rename(root / "y" / "003.pgm", root / "y" / "zzz.pgm")
    write_tree(root, {"copies/a.pgm": pgm(7), "copies/new.pgm": pgm(200)})
    again = describe(root, means(tmp_path), cache=tmp_path / "store")
    assert described() == 1
    values = dict(zip(again.names, again.values[:, 0] * 255))
    assert values["y/zzz.pgm"] == pytest.approx(3)
    assert values["copies/a.pgm"] == pytest.approx(7)
    assert values["copies/new.pgm"] == pytest.approx(200)


def test_other_content_or_settings_are_described_again(root, tmp_path, described):
    describe(root, means(tmp_path), cache=tmp_path / "store")
    described()
    (root / "x" / "005.pgm").write_bytes(pgm(250))
    assert describe(root, means(tmp_path), cache=tmp_path / "store").values[5, 0] == pytest.approx(250 / 255)
    assert described() == 1
    assert describe(root, means(tmp_path, repeat=2), cache=tmp_path / "store").values.shape == (40, 4)
    assert described() == 40
    settings_files = sorted((tmp_path / "store").glob("*/settings.json"))
    assert sorted(json.loads(path.read_text())["repeat"] for path in settings_files) == [1, 2]


def test_arrays_are_known_by_their_values(tmp_path, described):
    images = np.random.default_rng(0).integers(0, 256, (5, 6, 7), dtype=np.uint8)
    first = describe(images, means(tmp_path), cache=tmp_path / "store").values
    assert described() == 5
    np.testing.assert_array_equal(
        describe(list(images[::-1]), means(tmp_path), cache=tmp_path / "store").values, first[::-1]
    )
    assert described() == 0
    describe(images.transpose(0, 2, 1), means(tmp_path), cache=tmp_path / "store")
    assert described() == 5


def test_bags_come_back_as_they_were(root, tmp_path):
    write_tree(root, {"x/tall.pgm": pgm(9, height=11)})
    plain = describe(root, Rows()).values
    for _ in range(2):
        again = describe(root, Rows(), cache=tmp_path / "store").values
        for name in ("values", "offsets", "frames", "shapes"):
            np.testing.assert_array_equal(getattr(again, name), getattr(plain, name))


def test_failures_are_not_stored(root, tmp_path):
    write_tree(root, {"x/bad.jpg": b"text"})
    for _ in range(2):
        result = describe(root, Means(), on_error="skip", cache=tmp_path / "store")
        assert [name for name, _ in result.failures] == ["x/bad.jpg"]
    (root / "x" / "bad.jpg").write_bytes(pgm(77))
    assert describe(root, Means(), cache=tmp_path / "store").failures == []


def test_what_came_before_an_error_is_kept(root, tmp_path, described):
    write_tree(root, {"x/039z.jpg": b"text"})
    with pytest.raises(ValueError, match="039z"):
        describe(root, means(tmp_path), cache=tmp_path / "store")
    described()
    describe(root, means(tmp_path), on_error="skip", cache=tmp_path / "store")
    assert described() == 0


# Chunks


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3)), max_size=60), st.integers(1, 9))
def test_a_stored_is_a_dictionary(tmp_path_factory, puts, images):
    """Any puts, of any width, in chunks of any size, then the same from the disk."""
    store = DescriptorCache(tmp_path_factory.mktemp("stored"))
    held = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_IMAGES", images)
        stored = store.open(Means())
        for number, width in puts:
            value = np.full(width, number, np.float32)
            if number not in held:
                stored.put(key(number), value)
                held[number] = value
        stored.commit()
    again = store.open(Means())
    assert len(again) == len(held)
    for number in range(41):
        value = again.get(key(number))
        assert (value is None) == (number not in held)
        if value is not None:
            np.testing.assert_array_equal(value, held[number])


def test_chunks_end_by_count_bytes_and_time(tmp_path, monkeypatch):
    store = DescriptorCache(tmp_path)
    stored = store.open(Means())

    def files():
        return len(chunks(tmp_path))

    for i in range(256):
        assert files() == 0
        stored.put(key(i), np.zeros(2, np.float32))
    assert files() == 1
    for i in range(4):
        assert files() == 1
        stored.put(key(1000 + i), np.zeros(2**20, np.float32))  # 4 MB
    assert files() == 2
    stored.put(key(2000), np.zeros(2, np.float32))
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    stored.put(key(2001), np.zeros(2, np.float32))
    assert files() == 3
    stored.commit()
    assert files() == 3  # nothing was left to write


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:4],
        lambda data: b"",
        lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
        lambda data: data.replace(b'"shelf', b'"xhelf'),
        lambda data: data + b"x",
    ],
)
def test_a_damaged_chunk_is_reported_and_described_again(root, tmp_path, described, harm):
    plain = describe(root, means(tmp_path), cache=tmp_path / "store").values
    described()
    (chunk,) = chunks(tmp_path / "store")
    chunk.write_bytes(harm(chunk.read_bytes()))
    with pytest.warns(CacheWarning, match="computed again"):
        again = describe(root, means(tmp_path), cache=tmp_path / "store").values
    np.testing.assert_array_equal(again, plain)
    assert described() == 40
    np.testing.assert_array_equal(describe(root, means(tmp_path), cache=tmp_path / "store").values, plain)
    assert described() == 0


def test_damage_of_the_keys_is_found_before_values_are_taken(root, tmp_path, described):
    """A key that was changed on the disk must not lead to another image's values."""
    plain = describe(root, means(tmp_path), cache=tmp_path / "store").values
    (chunk,) = chunks(tmp_path / "store")
    data = bytearray(chunk.read_bytes())
    digests = [module._CHUNK.peek(chunk, "keys")[i].tobytes() for i in (0, 1)]
    places = [bytes(data).index(digest) for digest in digests]
    for place, digest in zip(places, digests[::-1]):
        data[place : place + 16] = digest  # two images change places
    chunk.write_bytes(data)
    with pytest.warns(CacheWarning, match="damaged"):
        np.testing.assert_array_equal(describe(root, means(tmp_path), cache=tmp_path / "store").values, plain)


def test_a_chunk_of_another_descriptor_is_not_used(root, tmp_path):
    describe(root, Means(), cache=tmp_path / "store")
    (one,) = chunks(tmp_path / "store")
    twice = Means(repeat=2)
    foreign = tmp_path / "store" / twice.fingerprint()
    foreign.mkdir()
    (foreign / one.name).write_bytes(one.read_bytes())
    with pytest.warns(CacheWarning, match="belongs to another"):
        assert describe(root, twice, cache=tmp_path / "store").values.shape == (40, 4)


def test_a_chunk_that_vanishes_is_described_again_quietly(root, tmp_path):
    describe(root, Means(), cache=tmp_path / "store")
    stored = DescriptorCache(tmp_path / "store").open(Means())
    chunks(tmp_path / "store")[0].unlink()
    assert len(stored) == 40
    assert stored.get(ImageFolder(root).digest(0)) is None


def test_half_written_files_are_cleared_away_when_they_are_old(root, tmp_path):
    describe(root, Means(), cache=tmp_path / "store")
    folder = chunks(tmp_path / "store")[0].parent
    chunk = chunks(tmp_path / "store")[0].name
    for name, age in (("aaaaaaaa", 0), ("bbbbbbbb", 7200)):
        (folder / f".{chunk}.{name}.tmp").write_bytes(b"half")
        os.utime(folder / f".{chunk}.{name}.tmp", (time.time() - age,) * 2)
    describe(root, Means(), cache=tmp_path / "store")
    assert sorted(p.name for p in folder.glob(".*.tmp")) == [f".{chunk}.aaaaaaaa.tmp"]


def test_files_of_others_stay(root, tmp_path):
    describe(root, Means(), cache=tmp_path / "store")
    folder = chunks(tmp_path / "store")[0].parent
    for name in ("thesis.safetensors", "thesis.tmp", ".thesis.tmp"):
        (folder / name).write_text("precious")
        os.utime(folder / name, (0, 0))
    describe(root, Means(), cache=tmp_path / "store")
    assert {"thesis.safetensors", "thesis.tmp", ".thesis.tmp"} <= set(os.listdir(folder))


# Processes

RUN = """
import sys
from cbid.descriptors import cache
from cbid.descriptors import describe
from tests.data.plain import Plain
cache._IMAGES = 16
print("ready", flush=True)
describe(sys.argv[1], Plain(pause=float(sys.argv[4]), log=sys.argv[3]), cache=sys.argv[2])
print("done", flush=True)
"""


def started(root, store, log, pause=0.0):
    command = [sys.executable, "-c", RUN, root, store, log, str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_killed_run_continues_where_its_last_chunk_ended(tmp_path, described):
    """kill -9, twice: each time at most one chunk (of 16) is lost, and the images being described (10 take 20 ms)."""
    root = write_tree(tmp_path / "root", {f"x/{i:03d}.pgm": pgm(i) for i in range(150)})
    store, log = tmp_path / "store", tmp_path / "log"
    stored = 0
    for _ in range(2):
        begun = log.stat().st_size if log.exists() else 0
        with started(root, store, log, pause=0.002) as process:
            while not log.exists() or log.stat().st_size < begun + 40:
                assert process.poll() is None
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
        before, stored = stored, len(DescriptorCache(store).open(Plain()))
        assert stored % 16 == 0
        assert 0 <= described() - (stored - before) <= 26
    assert 0 < stored < 150
    np.testing.assert_array_equal(
        describe(root, Plain(log=log), cache=store).values[:, 0], np.arange(150, dtype=np.float32)
    )
    assert described() == 150 - stored


def test_processes_at_once_do_no_harm(root, tmp_path):
    store, log = tmp_path / "store", tmp_path / "log"
    processes = [started(root, store, log) for _ in range(2)]
    assert [process.communicate()[0] for process in processes] == ["ready\ndone\n"] * 2
    np.testing.assert_array_equal(describe(root, Plain(), cache=store).values[:, 0], np.arange(40))
    for chunk in chunks(store):
        module._CHUNK.read(chunk)  # whole, and its checksum right
