"""How often one address may ask: a token bucket each."""

import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["RateLimit"]

_MOST_CLIENTS = 10_000  # remembered; a forgotten one starts with a full bucket


class RateLimit:
    """Each client has ``burst`` tokens that come back at ``rate`` a second; a request takes one. Rate 0: no limit.

    >>> limit = RateLimit(rate=1, burst=2, clock=iter([0.0, 0.0, 0.0, 1.0]).__next__)
    >>> [limit.wait("a") for _ in range(4)]
    [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client: (tokens, when)

    def wait(self, client: str) -> float:
        """0 if the client may go on now, otherwise the seconds until it may."""
        if not self._rate:
            return 0.0
        now = self._clock()
        tokens, when = self._buckets.pop(client, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - when) * self._rate)
        refused = tokens < 1
        self._buckets[client] = (tokens if refused else tokens - 1, now)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return (1 - tokens) / self._rate if refused else 0.0
