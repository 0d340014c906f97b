"""An index that holds codes of two lengths: ranked on the common prefix until every code has its full length."""

import copy
import json
import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from cbid import CBID, VectorIndex
from cbid.codes import prefix
from cbid.search import CodeIndex, IndexCorruptError, UnknownIdError, collection
from cbid.storage.digests import digest_text
from tests.search.reference import distances, nearest, random_codes
from tests.search.test_store_crash import die_at, in_child


class LengtheningMachine(RuleBasedStateMachine):
    """The model: ``held`` maps an id to (full code, label); ``short`` are the ids whose stored code is a prefix."""

    def __init__(self):
        super().__init__()
        self.tail, collection.TAIL = collection.TAIL, 16  # so that short sequences seal, merge and rewrite
        self.directory = Path(tempfile.mkdtemp())
        self.saved = None

    def teardown(self):
        collection.TAIL = self.tail
        shutil.rmtree(self.directory)

    @initialize(
        seed=st.integers(0, 2**32 - 1),
        lengths=st.sampled_from([(3, 5, 40), (8, 16, 17), (19, 24, 64), (64, 72, 96)]),
        weighted=st.booleans(),
        labelled=st.booleans(),
        ivf=st.booleans(),
    )
    def start(self, seed, lengths, weighted, labelled, ivf):
        self.rng = np.random.default_rng(seed)
        self.lengths, self.labelled = lengths, labelled
        self.weights = {t: self.rng.integers(1, 9, t) / 4 if weighted else None for t in lengths}
        cells = {"cells": 2, "probes": 2} if ivf else {}
        self.index = CodeIndex(lengths[0], self.weights[lengths[0]], **cells)
        self.held, self.short, self.bits, self.target = {}, set(), lengths[0], lengths[0]

    def finish(self):
        if not self.short:
            self.bits = self.target

    @rule(n=st.integers(0, 40))
    def add(self, n):
        codes = random_codes(self.rng, n, self.lengths[-1])
        labels = self.rng.integers(0, 4, n) if self.labelled else None
        ids = self.index.add(prefix(codes, self.target), labels=labels)
        for i, id in enumerate(ids.tolist()):
            self.held[id] = (codes[i], None if labels is None else labels[i])

    @precondition(lambda self: self.held)
    @rule(share=st.floats(0, 1))
    def remove(self, share):
        gone = self.rng.choice(list(self.held), int(share * len(self.held)), replace=False)
        self.index.remove(gone)
        for id in gone.tolist():
            del self.held[id]
            self.short.discard(id)
        self.finish()

    @precondition(lambda self: self.bits < self.lengths[-1])
    @rule()
    def lengthen(self):
        if self.target > self.bits:
            with pytest.raises(ValueError, match="being lengthened to"):
                self.index.lengthen(self.lengths[-1])
            return
        self.target = self.lengths[self.lengths.index(self.bits) + 1]
        self.index.lengthen(self.target, self.weights[self.target])
        self.short = set(self.held)
        self.finish()

    @precondition(lambda self: self.target > self.bits)
    @rule(share=st.floats(0, 1))
    def recode(self, share):
        n = int(np.ceil(share * len(self.held)))
        ids = self.rng.choice(list(self.held), n, replace=False)
        codes = np.stack([self.held[id][0] for id in ids.tolist()]) if n else np.empty((0, 1), np.uint8)
        self.index.recode(prefix(codes, self.target) if n else [], ids)
        self.short -= set(ids.tolist())
        self.finish()

    @precondition(lambda self: self.target > self.bits)
    @rule()
    def give_up(self):
        self.index.lengthen(self.bits)
        self.short, self.target = set(), self.bits

    @rule()
    def save(self):
        self.index.save(self.directory / "index")
        self.saved = (dict(self.held), set(self.short), self.bits, self.target)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def reopen(self):
        self.index.close()
        self.index = CodeIndex.open(self.directory / "index", verify=True)
        held, short, self.bits, self.target = self.saved
        self.held, self.short = dict(held), set(short)

    @rule(k=st.integers(1, 30), long_queries=st.booleans(), label=st.sampled_from([None, 2]))
    def search(self, k, long_queries, label):
        index, ids = self.index, sorted(self.held)
        assert (index.n_bits, index.full_n_bits) == (self.bits, self.target)
        assert index.ids.tolist() == ids
        assert index.short_ids.tolist() == sorted(self.short)
        assert index.recoded == ((len(ids) - len(self.short)) / len(ids) if self.short else 1)
        stored = np.stack([random_codes(self.rng, 1, self.lengths[-1])[0], *(self.held[id][0] for id in ids)])[1:]
        codes = prefix(stored, self.bits)
        np.testing.assert_array_equal(index.reconstruct(ids), codes)
        queries = random_codes(self.rng, 3, self.lengths[-1])
        wanted = np.arange(len(ids))
        filters = {}
        if label is not None and self.labelled and ids:
            filters = {"labels": label}
            wanted = np.array([i for i, id in enumerate(ids) if self.held[id][1] == label], dtype=int)
        table = distances(codes[wanted], prefix(queries, self.bits), self.bits, self.weights[self.bits])
        expected = nearest(np.array(ids, np.int64)[wanted], table, k)
        found = index.search(prefix(queries, self.target if long_queries else self.bits), k, **filters)
        np.testing.assert_array_equal(found.ids, expected[0])
        np.testing.assert_array_equal(found.distances, expected[1])
        if self.labelled and ids:
            assert index.labels.tolist() == [self.held[id][1] for id in ids]


TestLengtheningMachine = LengtheningMachine.TestCase
TestLengtheningMachine.settings = settings(max_examples=8, stateful_step_count=20, deadline=None)


@pytest.mark.long
def test_longer_sequences():
    run_state_machine_as_test(
        LengtheningMachine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )


def half_done(n=100, bits=20, full=40):
    """An index of ``n`` codes of which the first half have their full length, and all full codes."""
    rng = np.random.default_rng(0)
    codes = random_codes(rng, n, full)
    index = CodeIndex(bits, np.arange(1.0, bits + 1))
    index.add(prefix(codes, bits), labels=np.arange(n) % 3)
    index.lengthen(full, np.arange(1.0, full + 1))
    index.recode(codes[: n // 2], np.arange(n // 2))
    return index, codes


def manifest_stamp(content):
    return digest_text(json.dumps(content, sort_keys=True, separators=(",", ":")))


def same_answers(index, other):
    queries = random_codes(np.random.default_rng(5), 7, index.n_bits)
    a, b = index.search(queries, 9), other.search(queries, 9)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(a.distances, b.distances)
    assert (index.n_bits, index.full_n_bits, index.recoded) == (other.n_bits, other.full_n_bits, other.recoded)


def test_it_says_what_share_is_recoded():
    index, codes = half_done()
    assert (index.n_bits, index.full_n_bits, index.recoded) == (20, 40, 0.5)
    assert "50% recoded to 40 bits" in repr(index)
    np.testing.assert_array_equal(index.weights, np.arange(1, 21))
    index.recode(codes[50:], np.arange(50, 100))
    assert (index.n_bits, index.full_n_bits, index.recoded) == (40, 40, 1.0)
    np.testing.assert_array_equal(index.weights, np.arange(1, 41))
    np.testing.assert_array_equal(index.reconstruct(np.arange(100)), codes)
    assert index.labels.tolist() == [i % 3 for i in range(100)]
    fresh = CodeIndex(40, np.arange(1.0, 41))
    fresh.add(codes)
    same_answers(index, fresh)


def test_stored_bits_stay_when_rounding_flips_one():
    """One flipped bit of 20 is accepted and not stored; two are those of another item."""
    index, codes = half_done()
    flipped = codes[50:].copy()
    flipped[:, 0] ^= 128
    index.recode(flipped, np.arange(50, 100))
    np.testing.assert_array_equal(index.reconstruct(np.arange(100)), codes)
    index, codes = half_done()
    flipped[3, 1] ^= 1
    with pytest.raises(ValueError, match=r"first 20 bits of id 53 differ from the stored code in 2"):
        index.recode(flipped, np.arange(50, 100))
    assert index.recoded == 0.5


def test_copies_and_other_directories_hold_both_lengths(tmp_path):
    index, codes = half_done()
    index.save(tmp_path / "a")
    index.save(tmp_path / "b")
    for other in (copy.copy(index), CodeIndex.open(tmp_path / "b", verify=True)):
        same_answers(index, other)
        other.recode(codes[50:], np.arange(50, 100))
        assert other.n_bits == 40
    assert index.n_bits == 20


def test_segments_and_weights_that_are_on_disk_are_not_written_again(tmp_path):
    index, codes = half_done(20_000)
    index.save(tmp_path / "a")
    index.recode(codes[10_000:], np.arange(10_000, 20_000))
    index.save()
    names = {p.name for p in (tmp_path / "a").iterdir()}
    opened = CodeIndex.open(tmp_path / "a", verify=True)
    assert opened.n_bits == 40
    assert opened.full_n_bits == 40
    assert "longer" not in json.loads((tmp_path / "a" / "manifest.json").read_text())["manifest"]
    opened.remove([0])
    opened.save()
    assert sum(name.startswith("weights") for name in names) == 1
    assert len({p.name for p in (tmp_path / "a").iterdir()} - names) == 1  # the list of removals


def test_an_older_release_rejects_an_index_that_is_being_lengthened(tmp_path):
    """0.1.0 rejects unknown fields of the manifest, so it does not misread the longer codes."""
    index, _ = half_done()
    index.save(tmp_path / "a")
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())["manifest"]
    assert manifest["version"] == 1
    assert manifest["longer"]["n_bits"] == 40


def test_damage_to_the_longer_codes_is_found(tmp_path):
    index, _ = half_done()
    index.save(tmp_path / "a")
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())["manifest"]
    path = tmp_path / "a" / manifest["longer"]["segments"][0]["codes"]["file"]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(IndexCorruptError, match="checksum"):
        CodeIndex.open(tmp_path / "a", verify=True)
    path.unlink()
    with pytest.raises(IndexCorruptError, match="missing"):
        CodeIndex.open(tmp_path / "a")


@pytest.mark.parametrize("change", [{"n_bits": 20}, {"segments": "all"}, {"n_bits": 48}, {"other": 1}])
def test_a_manifest_that_cannot_be_is_rejected(tmp_path, change):
    """Fewer bits, as many longer codes as codes, codes of another width, and an unknown field."""
    index, _ = half_done()
    index.save(tmp_path / "a")
    content = json.loads((tmp_path / "a" / "manifest.json").read_text())["manifest"]
    longer = content["longer"]
    longer |= {"segments": longer["segments"] * 2} if "segments" in change else change
    outer = {"blake2b": manifest_stamp(content), "manifest": content}
    (tmp_path / "a" / "manifest.json").write_text(json.dumps(outer))
    with pytest.raises(IndexCorruptError, match=r"expected more bits and fewer codes|damaged|unknown fields"):
        CodeIndex.open(tmp_path / "a")


def test_a_kill_at_every_step_leaves_the_prefixes_or_the_full_codes(tmp_path):
    """The commit that completes the longer codes: before it both lengths are there, after it one."""
    index, codes = half_done()
    path = tmp_path / "index"
    index.save(path)

    def commit(event_number):
        writer = CodeIndex.open(path, writable=True)
        writer.recode(codes[50:], np.arange(50, 100))
        die_at(event_number)
        writer.save()

    for event_number in range(100):
        status = in_child(lambda number=event_number: commit(number))
        opened = CodeIndex.open(path, verify=True)
        assert (opened.n_bits, opened.recoded) in ((20, 0.5), (40, 1.0))
        np.testing.assert_array_equal(opened.reconstruct(np.arange(100)), prefix(codes, opened.n_bits))
        if opened.n_bits == 40:
            break
    assert event_number > 5
    assert status == 9


def test_a_search_during_the_change_of_length_sees_one_of_both():
    index, codes = half_done(4000)
    expected = {}
    for bits in (20, 40):
        whole = CodeIndex(bits, np.arange(1.0, bits + 1))
        whole.add(prefix(codes, bits))
        expected[bits] = whole.search(prefix(codes[:5], bits), 10).distances
    problems = []

    def recode():
        for first in range(2000, 4000, 100):
            index.recode(codes[first : first + 100], np.arange(first, first + 100))

    thread = threading.Thread(target=recode)
    thread.start()
    while thread.is_alive() or not problems:
        found = index.search(codes[:5], 10).distances
        problems.append(not any(np.array_equal(found, e) for e in expected.values()))
    thread.join()
    assert not any(problems)
    np.testing.assert_array_equal(index.search(codes[:5], 10).distances, expected[40])


def test_wrong_arguments():
    index, codes = half_done()
    with pytest.raises(ValueError, match="n_bits=19"):
        index.lengthen(19)
    with pytest.raises(ValueError, match="being lengthened to 40 bits"):
        index.lengthen(64)
    with pytest.raises(ValueError, match="ids has 2 entries"):
        index.recode(codes[:3], [0, 1])
    with pytest.raises(ValueError, match="distinct"):
        index.recode(codes[:2], [0, 0])
    with pytest.raises(UnknownIdError, match="100"):
        index.recode(codes[:1], [100])
    with pytest.raises(ValueError, match="codes"):
        index.recode(prefix(codes[:1], 20), [0])
    with pytest.raises(ValueError, match="codes"):
        index.add(prefix(codes[:1], 20), labels=[0])
    with pytest.raises(ValueError, match="weights"):
        index.search(codes[:1], weights=np.ones(40))
    assert (len(index), index.recoded) == (100, 0.5)
    plain = CodeIndex(8)
    plain.add(codes[:, :1])
    with pytest.raises(ValueError, match="not being lengthened"):
        plain.recode(codes[:1], [0])
    with pytest.raises(ValueError, match="weights has shape"):
        plain.lengthen(16, np.ones(15))
    with pytest.raises(ValueError, match="weights has shape"):
        plain.lengthen(16, np.ones((16, 2)))
    with pytest.raises(ValueError, match="weights per class"):
        CodeIndex(8, np.ones((8, 2))).lengthen(16)
    with pytest.raises(ValueError, match="buckets"):
        CodeIndex(8, method="buckets").lengthen(1024)


# With a coder


def classes(n=240, d=12, k=6, seed=0):
    rng = np.random.default_rng(seed)
    centres = 3 * np.random.default_rng(9).normal(size=(k, d))
    y = np.arange(n) % k
    return (centres[y] + rng.normal(size=(n, d))).astype(np.float32), y


@pytest.fixture(scope="module")
def coders():
    X, y = classes()
    short = CBID(n_bits=24, kernel="linear").fit(X[y < 4], y[y < 4])
    return short, copy.deepcopy(short).extend(X, y, n_bits=40)


def test_an_extended_coder_gives_codes_that_start_with_the_old_bytes(coders):
    short, long = coders
    X, _ = classes(500, seed=3)
    np.testing.assert_array_equal(long.encode(X)[:, :3], short.encode(X))
    np.testing.assert_array_equal(long.truncate(24).weights_, short.weights_)


@pytest.mark.parametrize("keep", [None, "float16"])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_vector_index_lives_on_with_the_extended_coder(coders, tmp_path, keep, asymmetric):
    short, long = coders
    (X, _), (Q, _) = classes(300, seed=1), classes(20, seed=2)
    index = VectorIndex(short, keep, asymmetric=asymmetric)
    index.add(X[:200])
    before = index.search(Q, 5, rerank=False)
    index.lengthen(long)
    during = index.search(Q, 5, rerank=False)
    np.testing.assert_array_equal(during.ids, before.ids)
    # A product with more hyperplanes may round the projections of a real-valued query in another way.
    np.testing.assert_allclose(during.distances, before.distances, rtol=1e-6 if asymmetric else 0)
    index.recode(X[:150], np.arange(150))
    index.add(X[200:])
    index.save(tmp_path / "index")
    opened = VectorIndex.open(tmp_path / "index")
    assert opened.coder.n_bits_ == 40
    assert (opened.codes.n_bits, opened.codes.recoded) == (24, 250 / 300)
    opened.recode(X[opened.codes.short_ids], opened.codes.short_ids)
    opened.save()
    opened = VectorIndex.open(tmp_path / "index")
    fresh = VectorIndex(long, keep, asymmetric=asymmetric)
    fresh.add(X)
    found, expected = opened.search(Q, 5, rerank=False), fresh.search(Q, 5, rerank=False)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.distances, expected.distances)


def test_the_change_of_length_voids_promises_of_recall(coders):
    short, long = coders
    X, _ = classes(300, seed=1)
    index = VectorIndex(short, "float16")
    index.add(X)
    index.calibrate(0.5, 3)
    index.lengthen(long)
    index.recode(X[:100], np.arange(100))
    assert index.promises[0].valid
    index.recode(X[100:], np.arange(100, 300))
    assert not index.promises[0].valid


def test_a_vector_index_rejects_another_coder(coders):
    short, long = coders
    index = VectorIndex(long)
    with pytest.raises(ValueError, match="coder has 24 bits"):
        index.lengthen(short)
    X, y = classes(d=7)
    with pytest.raises(ValueError, match="12 features"):
        index.lengthen(CBID(n_bits=48, kernel="linear").fit(X, y))
