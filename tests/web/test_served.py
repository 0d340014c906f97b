"""Calls in threads: results, limits on their number and time, and the end."""

import asyncio
import contextlib
import subprocess
import threading
import time

import pytest
from fastapi import HTTPException

from cbid.data.isolated import _idle
from cbid.web import served
from cbid.web.middleware import current_client
from cbid.web.served import ServedProject, WorkerPool
from cbid.web.settings import ServiceSettings
from tests.data.test_isolated import COMMENTS
from tests.web.conftest import client_of
from tests.web.shapes import png


@pytest.fixture
def pool():
    made = WorkerPool("test", 1, 1, 0.3)
    yield made
    made.close()


def test_results_and_errors_are_passed_on(pool):
    def fail():
        raise KeyError("x")

    assert asyncio.run(pool.run(divmod, 7, 2)) == (3, 1)
    with pytest.raises(KeyError):
        asyncio.run(pool.run(fail))
    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(pool.run(_raise_timeout))


def _raise_timeout():
    raise TimeoutError("its own")


def test_a_busy_pool_rejects_at_once(pool):
    async def crowd():
        release = threading.Event()
        held = [asyncio.create_task(pool.run(release.wait, 5)) for _ in range(2)]
        await asyncio.sleep(0.05)
        begun = time.perf_counter()
        with pytest.raises(HTTPException) as refused:
            await pool.run(int)
        assert time.perf_counter() - begun < 0.2
        release.set()
        await asyncio.gather(*held, return_exceptions=True)
        while pool.n_open:
            await asyncio.sleep(0.01)
        return refused.value

    refused = asyncio.run(crowd())
    assert refused.status_code == 503
    assert refused.headers == {"Retry-After": "1"}


def test_a_call_that_hangs_gets_a_503_and_counts_until_it_ends(pool):
    async def hang():
        release = threading.Event()
        with pytest.raises(HTTPException, match=r"0\.3 seconds"):
            await pool.run(release.wait, 30)
        still = pool.n_open
        release.set()
        while pool.n_open:
            await asyncio.sleep(0.01)
        return still, await pool.run(int)

    assert asyncio.run(hang()) == (1, 0)


def test_the_loop_stays_free(pool):
    """A timer of the event loop fires while a thread sleeps."""

    async def both():
        work = asyncio.create_task(pool.run(time.sleep, 0.2))
        begun = time.perf_counter()
        await asyncio.sleep(0.01)
        late = time.perf_counter() - begun
        assert not work.done()
        await work
        return late

    assert asyncio.run(both()) < 0.19


def test_a_running_change_is_waited_for():
    """A waiting change is cancelled; a running one is waited for, however late."""
    pool = WorkerPool("test", 1, 5, 0.1, wait_for_running=True)
    made = []

    async def both():
        first = asyncio.create_task(pool.run(lambda: (time.sleep(0.4), made.append(1), "done")[-1]))
        await asyncio.sleep(0.02)
        with pytest.raises(HTTPException, match=r"0\.1 seconds"):
            await pool.run(made.append, 2)
        return await first

    assert asyncio.run(both()) == "done"
    pool.close()
    assert made == [1]


def in_turns(max_waiting, clients, cancelled=()):
    """Let calls of these clients wait for one thread; return the order in which they run, and the outcomes."""
    pool, order = WorkerPool("test", 1, max_waiting, 30), []

    async def ask(i, client):
        current_client.set(client)
        return await pool.run(order.append, f"{client}{i}")

    async def all_of_them():
        release = threading.Event()
        held = asyncio.create_task(pool.run(release.wait, 30))
        await asyncio.sleep(0)
        tasks = []
        for i, client in enumerate(clients):
            tasks.append(asyncio.create_task(ask(i, client)))
            await asyncio.sleep(0)
        for i in cancelled:
            tasks[i].cancel()
        release.set()
        outcomes = await asyncio.gather(held, *tasks, return_exceptions=True)
        while pool.n_open:
            await asyncio.sleep(0.01)
        assert await pool.run(int) == 0
        return outcomes[1:]

    outcomes = asyncio.run(all_of_them())
    pool.close()
    return order, outcomes


def test_clients_take_turns():
    assert in_turns(9, "aaaabcb")[0] == ["a0", "b4", "c5", "a1", "b6", "a2", "a3"]


def test_the_client_with_the_most_calls_makes_room():
    order, outcomes = in_turns(4, "aaaabbb")
    assert order == ["a0", "b4", "a1", "b5"]
    assert [getattr(outcome, "status_code", 200) for outcome in outcomes] == [200, 200, 503, 503, 200, 200, 503]


def test_calls_that_are_cancelled_while_they_wait_leave_no_trace():
    assert in_turns(9, "aabbc", cancelled=(0, 3, 4))[0] == ["a1", "b2"]


def test_searches_share_the_processors(copied, monkeypatch):
    """One search is split among 4 processors, each of two among 2; of six each has one thread."""
    monkeypatch.setattr(served, "thread_count", lambda n: 4 if n is None else n)

    async def threads_of(project, together):
        inside = threading.Barrier(together)

        def look():
            inside.wait(30)  # until all searches run
            return project.project.index.n_threads

        def search():
            inside.wait(30)
            return project.read_consistently(look)

        return await asyncio.gather(*(project.search_pool.run(search) for _ in range(together)))

    project = ServedProject(copied, ServiceSettings(threads=6))
    try:
        for together, threads in ((1, 4), (2, 2), (6, 1)):
            assert asyncio.run(threads_of(project, together))[0] == threads
    finally:
        project.close()


# What no request waits for


def test_decoders_start_with_the_service_and_after_a_kill(copied, monkeypatch):
    def ask(content):
        return client.post("/api/search/image", files={"image": ("q", content)}).status_code

    limits = {"decode_seconds": 0.5, "decode_memory": 97 * 2**20}  # of no other service here
    with client_of(copied, rate=0, threads=4, **limits) as client:
        started = [worker for worker in _idle if worker.memory == limits["decode_memory"]]
        assert len(started) == 2  # half as many as search threads
        for status in (415, 200):
            with monkeypatch.context() as without:
                without.setattr(subprocess, "Popen", None)
                assert [ask(png("rings", 1)) for _ in range(3)] == [200] * 3
            assert ask(COMMENTS if status == 415 else png("rings", 2)) == status
        assert all(worker._process.poll() is None for worker in started)


def test_kernels_are_compiled_before_the_first_request(copied, monkeypatch):
    prepared = []

    @contextlib.contextmanager
    def prepare_meanwhile():
        yield lambda: prepared.append(True)

    monkeypatch.setattr(served, "prepare_meanwhile", prepare_meanwhile)
    with client_of(copied):
        assert prepared == [True]


# Following other programs


@pytest.mark.parametrize("damage", ["project.json", "manifest.json"])
def test_a_bad_manifest_is_shown_and_retried(copied, damage, monkeypatch, caplog):
    """Deep JSON raises a RecursionError; the service keeps its old state until the file is valid again."""
    monkeypatch.setattr(served, "_REFRESH_SECONDS", 0.02)
    file = next(copied.rglob(damage))
    good = file.read_bytes()

    def until(client, status):
        for _ in range(500):
            if client.get("/health").json()["status"] == status:
                return True
            time.sleep(0.02)
        return False

    with client_of(copied, rate=0) as client:
        assert client.get("/health").json()["status"] == "ok"
        file.write_text("[" * 200_000)
        assert until(client, "stale")
        assert client.get("/api/images/1").status_code == 200
        file.write_bytes(good)
        assert until(client, "ok")
    assert len([record for record in caplog.records if "cannot be read again" in record.message]) <= 2


def test_any_failure_of_a_refresh_is_retried(copied, monkeypatch):
    monkeypatch.setattr(served, "_REFRESH_SECONDS", 0.02)
    with client_of(copied, rate=0) as client:
        project = client.app.state.served.project
        left = [MemoryError(), RuntimeError("x"), KeyError("y")]

        def fail():
            if left:
                raise left.pop()

        monkeypatch.setattr(project, "refresh", fail)
        for _ in range(500):
            if not left and client.get("/health").json()["status"] == "ok":
                return
            time.sleep(0.02)
        raise AssertionError("the service stopped following the project")
