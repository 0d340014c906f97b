"""Token buckets, with a clock of the test's own."""

from hypothesis import given
from hypothesis import strategies as st

from cbid.web import rate
from cbid.web.rate import RateLimit


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@given(gaps=st.lists(st.floats(0, 2), max_size=60), per_second=st.floats(0.5, 20), burst=st.integers(1, 10))
def test_never_more_than_the_burst_and_what_came_back(gaps, per_second, burst):
    """In t seconds a client gets at most burst + rate t requests through."""
    clock = Clock()
    limit = RateLimit(per_second, burst, clock)
    passed = 0
    for gap in gaps:
        clock.now += gap
        passed += limit.wait("client") == 0
    assert passed <= burst + per_second * clock.now + 1e-6
    assert passed >= min(len(gaps), burst)


def test_whoever_waits_as_told_passes():
    clock = Clock()
    limit = RateLimit(4, 1, clock)
    assert limit.wait("a") == 0
    told = limit.wait("a")
    assert told == 0.25
    clock.now += told
    assert limit.wait("a") == 0


def test_clients_do_not_share_and_old_ones_are_forgotten(monkeypatch):
    monkeypatch.setattr(rate, "_MOST_CLIENTS", 3)
    clock = Clock()
    limit = RateLimit(0.001, 1, clock)
    assert [limit.wait(str(i)) for i in range(4)] == [0] * 4
    assert limit.wait("3") > 0
    assert limit.wait("0") == 0  # forgotten, so it starts anew
    assert len(limit._buckets) == 3


def test_no_limit():
    limit = RateLimit(0, 1)
    assert not any(limit.wait("a") for _ in range(1000))
