"""Counters and times of the service, in the text format of Prometheus."""

import bisect
import os
import threading
from collections import Counter
from collections.abc import Mapping

__all__ = ["Histogram", "Metrics", "resident_bytes"]

# Clients may send any text as a method. Only these are counted by name, because every name is kept forever.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_EDGES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Histogram:
    """Counts of values at or below each edge, with their number and sum."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_EDGES) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Add one value."""
        self.counts[bisect.bisect_left(_EDGES, value)] += 1
        self.total += value

    def lines(self, name: str, label: str) -> list[str]:
        """Return the lines of the text format."""
        cumulative, lines = 0, []
        for edge, count in zip((*map(str, _EDGES), "+Inf"), self.counts, strict=True):
            cumulative += count
            lines.append(f'{name}_bucket{{{label},le="{edge}"}} {cumulative}')
        return [*lines, f"{name}_sum{{{label}}} {self.total:.6f}", f"{name}_count{{{label}}} {cumulative}"]


class Metrics:
    """Counters since the start of the service; safe to use from any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._searches: dict[str, Histogram] = {}
        self._rejected: Counter[int] = Counter()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a response. ``route`` is the template of the path, which keeps the number of routes small."""
        known = method if method in _METHODS else "other"
        with self._mutex:
            self._requests[known, route, status] += 1
            self._seconds.setdefault(route, Histogram()).observe(seconds)

    def search(self, how: str, seconds: float) -> None:
        """Count a search and its time."""
        with self._mutex:
            self._searches.setdefault(how, Histogram()).observe(seconds)

    def rejected(self, status: int) -> None:
        """Count a request that the access rules rejected."""
        with self._mutex:
            self._rejected[status] += 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all metrics. ``gauges`` maps a name to its description and value."""
        with self._mutex:
            lines = ["# HELP cbid_requests_total Responses.", "# TYPE cbid_requests_total counter"]
            lines += [
                f'cbid_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'
                for (method, route, status), count in sorted(self._requests.items())
            ]
            lines += [
                "# HELP cbid_refused_total Requests rejected before their route.",
                "# TYPE cbid_refused_total counter",
            ]
            lines += [f'cbid_refused_total{{status="{s}"}} {n}' for s, n in sorted(self._rejected.items())]
            lines += [
                "# HELP cbid_request_seconds Time from request to response.",
                "# TYPE cbid_request_seconds histogram",
            ]
            for route, histogram in sorted(self._seconds.items()):
                lines += histogram.lines("cbid_request_seconds", f'route="{route}"')
            lines += ["# HELP cbid_search_seconds Time of the search alone.", "# TYPE cbid_search_seconds histogram"]
            for how, histogram in sorted(self._searches.items()):
                lines += histogram.lines("cbid_search_seconds", f'how="{how}"')
        for name, (description, value) in gauges.items():
            lines += [f"# HELP {name} {description}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Return the resident memory of this process, including mapped files; 0 if the system does not report it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
