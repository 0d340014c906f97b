"""Work in order, and never much of it waiting."""

import os
import threading
import time

import numpy as np
import pytest
from joblib import Parallel, delayed

from cbid.threads import blocks_of, each, ordered_map


def squared(value):
    return value * value


def slow_first(value):
    time.sleep(0.1 if value == 0 else 0)
    return value


def failing(value):
    if value == 5:
        raise KeyError(value)
    return value


@pytest.mark.parametrize(("n_jobs", "threads"), [(1, True), (3, True), (2, False)])
def test_results_come_in_order_with_their_tags(n_jobs, threads):
    tasks = ((f"tag {i}", None if i % 3 == 2 else (i,)) for i in range(20))
    expected = [(f"tag {i}", None if i % 3 == 2 else i * i) for i in range(20)]
    assert list(ordered_map(squared, tasks, n_jobs, threads=threads)) == expected
    slow = ordered_map(slow_first, ((i, (i,)) for i in range(8)), n_jobs, threads=threads)
    assert [tag for tag, _ in slow] == list(range(8))


def test_no_more_is_begun_than_will_soon_be_taken():
    """However slow the taker, at most 2 n_jobs tasks are begun beyond those taken."""
    begun = []
    results = ordered_map(begun.append, ((i, (i,)) for i in range(100)), 2, threads=True)
    for taken in range(1, 6):
        next(results)
        time.sleep(0.02)
        assert len(begun) <= taken - 1 + 4
    results.close()
    assert len(begun) < 12


@pytest.mark.parametrize(("n_jobs", "threads"), [(1, True), (2, True), (2, False)])
def test_an_error_comes_where_its_result_would(n_jobs, threads):
    results = ordered_map(failing, ((i, (i,)) for i in range(20)), n_jobs, threads=threads)
    assert [next(results)[1] for _ in range(5)] == list(range(5))
    with pytest.raises(KeyError):
        next(results)


def test_threads_are_threads_and_processes_are_processes():
    def who():
        return os.getpid(), threading.get_ident()

    here = who()
    by_thread = {r for _, r in ordered_map(who, ((i, ()) for i in range(8)), 2, threads=True)}
    by_process = {r for _, r in ordered_map(who, ((i, ()) for i in range(8)), 2, threads=False)}
    assert {pid for pid, _ in by_thread} == {here[0]}
    assert here not in by_thread
    assert here[0] not in {pid for pid, _ in by_process}


def test_processes_leave_threads_to_us():
    (_, threads), *_ = ordered_map(os.getenv, [(0, ("OMP_NUM_THREADS",)), (1, ("HOME",))], 2, threads=False)
    assert threads == "1"


def test_joblib_can_use_its_own_workers_afterwards():
    assert [r for _, r in ordered_map(abs, ((i, (-i,)) for i in range(4)), 2, threads=False)] == [0, 1, 2, 3]
    assert Parallel(2)(delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_each_keeps_the_order_of_the_items(n_threads):
    assert each(slow_first, range(20), n_threads) == list(range(20))
    assert each(squared, [], n_threads) == []


def test_each_shares_the_work_with_kept_threads():
    """Two items that wait for each other: the calling thread does one, and the same helper the other every time."""
    seen = []
    for _ in range(3):
        both = threading.Barrier(2, timeout=10)
        seen.append(set(each(lambda _, both=both: (both.wait(), threading.get_ident())[1], [0, 1], 2)))
    assert threading.get_ident() in seen[0]
    assert seen[0] == seen[1] == seen[2]


def test_tasks_of_tasks_use_no_further_threads():
    """Each of two tasks runs its own items itself; with more threads than cores all would wait."""

    def outer(both):
        both.wait()
        return {threading.get_ident()} == set(each(lambda _: threading.get_ident(), range(8), 2))

    both = threading.Barrier(2, timeout=10)
    assert each(outer, [both, both], 2) == [True, True]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_of_a_task_is_raised_and_the_next_call_works(n_threads):
    with pytest.raises(KeyError):
        each(failing, range(20), n_threads)
    assert each(squared, [2, 3], n_threads) == [4, 9]


def test_numpy_settings_of_the_caller_hold_in_the_helpers():
    both = threading.Barrier(2, timeout=10)
    with np.errstate(divide="ignore"):
        each(lambda _: (both.wait(), np.ones(1) / np.zeros(1)), [0, 1], 2)  # a warning would be an error


def test_blocks_cover_everything_once():
    assert blocks_of(5, 2) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert blocks_of(4, 4) == [slice(0, 4)]
    assert blocks_of(0, 4) == [slice(0, 0)]
