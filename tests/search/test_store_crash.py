"""A process may end at any moment: killed at random, and at each single step of a commit; others read on."""

import os
import sys
import time

import numpy as np
import pytest

from benchmarks import index_durability
from cbid.search import CodeIndex, IndexCorruptError
from tests.search.reference import random_codes


@pytest.mark.long
def test_kill_at_random_moments():
    counts = index_durability.run(n_kills=20, seed=7)
    assert counts["failures"] == 0, counts["messages"]
    assert counts["kills"] == 20
    assert counts["files_left_over"] == 0


def in_child(act):
    """Run ``act`` in a fork of this process; its exit status."""
    child = index_durability.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(event_number):
    """End this process right before its ``event_number``-th look at or change of the file system."""
    left = [event_number]

    def hook(event, _):
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir"):
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)

    sys.addaudithook(hook)


@pytest.mark.parametrize("first", [False, True])
def test_end_at_every_step_of_a_commit(tmp_path, first):
    """A commit that appends, merges, records removals and cleans up; and the first save of all."""
    path = tmp_path / "index"
    rng = np.random.default_rng(0)
    index = CodeIndex(16)
    index.add(random_codes(rng, 5000, 16), labels=np.zeros(5000, int))
    if not first:
        index.save(path)
        for n in (40, 30):
            index.add(random_codes(rng, n, 16), labels=np.zeros(n, int))
            index.remove(index.ids[-5:])
            index.save()
    before = index.ids.tolist()

    def commit(event_number):
        writer = index if first else CodeIndex.open(path, writable=True)
        writer.add(np.ones((60, 2), np.uint8), np.arange(90_000, 90_060), np.ones(60, int))
        writer.remove(before[:3])
        die_at(event_number)
        writer.save(path)

    after = [*before[3:], *range(90_000, 90_060)]
    seen = []
    for event_number in range(100):
        status = in_child(lambda number=event_number: commit(number))
        if first and not (path / "manifest.json").exists():
            with pytest.raises((FileNotFoundError, IndexCorruptError), match=r"does not exist|is not an index"):
                CodeIndex.open(path)
            seen.append(None)
        else:
            opened = CodeIndex.open(path)
            opened.verify()
            seen.append(opened.ids.tolist())
        if seen[-1] == after:
            break  # committed; what follows is cleaning up
    assert event_number > 8
    assert all(ids == (None if first else before) for ids in seen[:-1])
    # The moments after the commit, from the same beginning each time
    for later in range(event_number + 1, event_number + 60):
        restored = CodeIndex.open(path, writable=True)
        restored.remove(np.setdiff1d(restored.ids, before))
        restored.add(np.zeros((3, 2), np.uint8), before[:3], np.zeros(3, int))
        restored.save()
        restored.close()
        if first:
            break  # the rest is that of any commit
        status = in_child(lambda number=later: commit(number))
        assert CodeIndex.open(path).ids.tolist() in (before, after)
        CodeIndex.open(path).verify()
        if status == 0:
            break
    else:
        pytest.fail("the commit never came to its end")


def test_reading_while_another_process_writes(tmp_path):
    """Every state that a reader sees is one that was committed: as many codes of each batch as were added."""
    path = tmp_path / "index"
    index = CodeIndex(32)
    index.add(np.zeros((10, 4), np.uint8), labels=np.zeros(10, int))
    index.save(path)

    def write():
        writer = CodeIndex.open(path, writable=True)
        for batch in range(1, 60):
            writer.add(np.full((10, 4), batch, np.uint8), labels=np.full(10, batch))
            if batch % 4 == 0:
                writer.remove(np.arange(10 * (batch - 2), 10 * (batch - 1)))
            writer.save()

    child = index_durability.fork()
    if child == 0:
        try:
            write()
        finally:
            os._exit(0)
    reader, states, done = CodeIndex.open(path), 0, False
    until = time.monotonic() + 30
    while not done and time.monotonic() < until:
        done = os.waitpid(child, os.WNOHANG)[0] == child
        states += reader.refresh()
        fresh = CodeIndex.open(path)
        for one in (reader, fresh):
            batches, counts = np.unique(one.labels, return_counts=True)
            assert set(counts) == {10}
            last = batches[-1]
            assert batches.tolist() == [b for b in range(last + 1) if not (b % 4 == 2 and b + 2 <= last)]
            matches = one.search(np.full(4, last, np.uint8), 10)
            assert set(matches.labels[0]) == {last}
            assert matches.distances.max() == 0
    assert done
    assert states > 3
    reader.refresh()
    assert reader.labels.max() == 59
