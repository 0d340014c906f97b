"""Random sequences of everything an index does, against a dict: in memory, on disk, seen by a reader."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cbid.search import CodeIndex, collection
from tests.search.reference import distances, nearest, random_codes


class IndexMachine(RuleBasedStateMachine):
    """The model: ``held`` maps an id to (code, label); ``saved`` is what it was at the last commit."""

    def __init__(self):
        super().__init__()
        self.tail, collection.TAIL = collection.TAIL, 32  # so that short sequences seal, merge and rewrite
        self.directory = Path(tempfile.mkdtemp())
        self.saved = None
        self.reader = self.reader_held = None

    def teardown(self):
        collection.TAIL = self.tail
        shutil.rmtree(self.directory)

    @initialize(
        seed=st.integers(0, 2**32 - 1),
        n_bits=st.sampled_from([3, 8, 19, 64]),
        kind=st.sampled_from(["plain", "weighted", "per class"]),
        labelled=st.booleans(),
        ivf=st.booleans(),
    )
    def start(self, seed, n_bits, kind, labelled, ivf):
        self.rng = np.random.default_rng(seed)
        self.n_bits, self.labelled = n_bits, labelled or kind == "per class"
        weights = {"plain": None, "weighted": (n_bits,), "per class": (n_bits, 4)}[kind]
        self.weights = None if weights is None else self.rng.integers(0, 9, weights) / 4
        # All cells are probed: the answers are then exact, and the order by cells is exercised.
        cells = {"cells": 2, "probes": 2} if ivf else {}
        self.index = CodeIndex(n_bits, self.weights, **cells)
        self.held, self.next_id = {}, 0

    def _add(self, ids, n):
        codes = random_codes(self.rng, n, self.n_bits)
        labels = self.rng.integers(0, 4, n) if self.labelled else None
        given = self.index.add(codes, ids, labels)
        if ids is None:
            assert given.tolist() == list(range(self.next_id, self.next_id + n))
        for i, id in enumerate(given.tolist()):
            self.held[id] = (codes[i], None if labels is None else labels[i])
            self.next_id = max(self.next_id, id + 1)

    @rule(n=st.integers(0, 70))
    def add(self, n):
        self._add(None, n)

    @rule(n=st.integers(1, 40))
    def add_with_ids(self, n):
        free = np.setdiff1d(np.arange(self.next_id + 100), np.fromiter(self.held, np.int64))
        self._add(self.rng.choice(free, n, replace=False), n)

    @precondition(lambda self: self.held)
    @rule()
    def add_a_duplicate(self):
        taken = self.rng.choice(np.fromiter(self.held, np.int64))
        labels = [0, 0] if self.labelled else None
        with pytest.raises(ValueError, match="already stored"):
            self.index.add(random_codes(self.rng, 2, self.n_bits), [self.next_id + 5, taken], labels)

    @precondition(lambda self: self.held)
    @rule(share=st.floats(0, 1))
    def remove(self, share):
        ids = np.fromiter(self.held, np.int64)
        gone = self.rng.choice(ids, int(share * len(ids)), replace=False)
        self.index.remove(gone)
        for id in gone.tolist():
            del self.held[id]

    @rule()
    def remove_an_unknown(self):
        with pytest.raises(KeyError):
            self.index.remove([*list(self.held)[:3], self.next_id])

    @rule()
    def save(self):
        self.index.save(self.directory / "index")
        self.saved = (dict(self.held), self.next_id)

    @precondition(lambda self: self.saved is not None)
    @rule(writable=st.booleans())
    def reopen(self, writable):
        """What was not saved is lost, as when the process ends here."""
        self.index.close()
        self.index = CodeIndex.open(self.directory / "index", writable=writable)
        self.held, self.next_id = dict(self.saved[0]), self.saved[1]

    @precondition(lambda self: self.saved is not None)
    @rule(refresh=st.booleans())
    def read_elsewhere(self, refresh):
        if self.reader is None:
            self.reader, self.reader_held = CodeIndex.open(self.directory / "index"), self.saved[0]
        elif refresh:
            self.reader.refresh()
            self.reader_held = self.saved[0]
        assert self.reader.ids.tolist() == sorted(self.reader_held)
        codes = self.reader.reconstruct(self.reader.ids)
        assert all(np.array_equal(code, self.reader_held[id][0]) for id, code in zip(self.reader, codes))

    @rule(k=st.integers(1, 50), weighted=st.booleans(), label=st.sampled_from([None, 0, 3]))
    def search(self, k, weighted, label):
        queries = random_codes(self.rng, 3, self.n_bits)
        wanted = {"labels": label} if label is not None and self.labelled and self.held else {}
        ids = [id for id in sorted(self.held) if not wanted or self.held[id][1] == label]
        codes = np.stack([random_codes(self.rng, 1, self.n_bits)[0], *(self.held[id][0] for id in ids)])[1:]
        classes = None
        if self.weights is not None and self.weights.ndim == 2 and weighted:
            classes = np.array([self.held[id][1] for id in ids], int)
        table = distances(codes, queries, self.n_bits, self.weights if weighted else None, classes)
        expected_ids, expected = nearest(np.array(ids, np.int64), table, k)
        matches = self.index.search(queries, k, weighted=weighted, **wanted)
        np.testing.assert_array_equal(matches.ids, expected_ids)
        np.testing.assert_array_equal(matches.distances, expected)
        if self.labelled and self.held:
            found = [[self.held[id][1] if id >= 0 else -1 for id in row] for row in matches.ids.tolist()]
            assert matches.labels.tolist() == found

    @invariant()
    def holds_the_same(self):
        if not hasattr(self, "index"):
            return
        assert len(self.index) == len(self.held)

    @rule()
    def look_up(self):
        ids = sorted(self.held)
        assert self.index.ids.tolist() == ids
        codes = self.index.reconstruct(ids)
        assert all(np.array_equal(code, self.held[id][0]) for id, code in zip(ids, codes))
        if self.labelled and ids:
            assert self.index.labels.tolist() == [self.held[id][1] for id in ids]


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
