"""Work in threads: answers, limits of number and time, and an end."""

import asyncio
import threading
import time

import pytest
from fastapi import HTTPException

from cbid.web.work import Workers


@pytest.fixture
def workers():
    made = Workers("test", 1, 1, 0.3)
    yield made
    made.close()


def test_answers_and_errors_come_back(workers):
    def fail():
        raise KeyError("x")

    assert asyncio.run(workers.run(divmod, 7, 2)) == (3, 1)
    with pytest.raises(KeyError):
        asyncio.run(workers.run(fail))
    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(workers.run(_raise_timeout))


def _raise_timeout():
    raise TimeoutError("its own")


def test_too_much_to_do_is_told_at_once(workers):
    async def crowd():
        release = threading.Event()
        held = [asyncio.create_task(workers.run(release.wait, 5)) for _ in range(2)]
        await asyncio.sleep(0.05)
        begun = time.perf_counter()
        with pytest.raises(HTTPException) as refused:
            await workers.run(int)
        assert time.perf_counter() - begun < 0.2
        release.set()
        await asyncio.gather(*held, return_exceptions=True)
        while workers.n_open:
            await asyncio.sleep(0.01)
        return refused.value

    refused = asyncio.run(crowd())
    assert refused.status_code == 503
    assert refused.headers == {"Retry-After": "1"}


def test_work_that_hangs_is_given_up_and_counts_until_it_ends(workers):
    async def hang():
        release = threading.Event()
        with pytest.raises(HTTPException, match=r"longer than 0\.3 seconds"):
            await workers.run(release.wait, 30)
        still = workers.n_open
        release.set()
        while workers.n_open:
            await asyncio.sleep(0.01)
        return still, await workers.run(int)

    assert asyncio.run(hang()) == (1, 0)


def test_the_loop_stays_free(workers):
    """A timer of the loop fires while a thread sleeps."""

    async def both():
        work = asyncio.create_task(workers.run(time.sleep, 0.2))
        begun = time.perf_counter()
        await asyncio.sleep(0.01)
        late = time.perf_counter() - begun
        assert not work.done()
        await work
        return late

    assert asyncio.run(both()) < 0.19


def test_a_change_that_has_begun_is_waited_for():
    """One that waits still is dropped; one that runs is answered, however late."""
    workers = Workers("test", 1, 5, 0.1, to_the_end=True)
    made = []

    async def both():
        first = asyncio.create_task(workers.run(lambda: (time.sleep(0.4), made.append(1), "done")[-1]))
        await asyncio.sleep(0.02)
        with pytest.raises(HTTPException, match="given up"):
            await workers.run(made.append, 2)
        return await first

    assert asyncio.run(both()) == "done"
    workers.close()
    assert made == [1]
