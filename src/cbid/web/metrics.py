"""Counts and times, as the text that Prometheus reads."""

import bisect
import os
import threading
from collections import Counter
from collections.abc import Mapping

__all__ = ["Histogram", "Metrics", "resident_bytes"]

# What a client calls a method may be any text; each that is counted by name is kept for ever.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_EDGES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Histogram:
    """How many values lie at or below each edge, their number and their sum."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_EDGES) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect.bisect_left(_EDGES, value)] += 1
        self.total += value

    def lines(self, name: str, label: str) -> list[str]:
        so_far, lines = 0, []
        for edge, count in zip((*map(str, _EDGES), "+Inf"), self.counts, strict=True):
            so_far += count
            lines.append(f'{name}_bucket{{{label},le="{edge}"}} {so_far}')
        return [*lines, f"{name}_sum{{{label}}} {self.total:.6f}", f"{name}_count{{{label}}} {so_far}"]


class Metrics:
    """What the service has done since it started. Any thread may tell."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._searches: dict[str, Histogram] = {}
        self._refused: Counter[int] = Counter()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """One answer. ``route`` is the template of the path, so that there are few of them."""
        known = method if method in _METHODS else "other"
        with self._mutex:
            self._requests[known, route, status] += 1
            self._seconds.setdefault(route, Histogram()).observe(seconds)

    def search(self, how: str, seconds: float) -> None:
        with self._mutex:
            self._searches.setdefault(how, Histogram()).observe(seconds)

    def refused(self, status: int) -> None:
        with self._mutex:
            self._refused[status] += 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All of it; ``gauges``: name to meaning and value."""
        with self._mutex:
            lines = ["# HELP cbid_requests_total Answers.", "# TYPE cbid_requests_total counter"]
            lines += [
                f'cbid_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'
                for (method, route, status), count in sorted(self._requests.items())
            ]
            lines += ["# HELP cbid_refused_total Requests turned away.", "# TYPE cbid_refused_total counter"]
            lines += [f'cbid_refused_total{{status="{s}"}} {n}' for s, n in sorted(self._refused.items())]
            lines += ["# HELP cbid_request_seconds Time to the end.", "# TYPE cbid_request_seconds histogram"]
            for route, histogram in sorted(self._seconds.items()):
                lines += histogram.lines("cbid_request_seconds", f'route="{route}"')
            lines += ["# HELP cbid_search_seconds Time in the search itself.", "# TYPE cbid_search_seconds histogram"]
            for how, histogram in sorted(self._searches.items()):
                lines += histogram.lines("cbid_search_seconds", f'how="{how}"')
        for name, (meaning, value) in gauges.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Memory of this process that is in RAM, mapped files included; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
