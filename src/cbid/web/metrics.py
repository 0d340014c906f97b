"""Counters and times of the service, for Prometheus."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

__all__ = ["Metrics"]

# Clients may send any text as a method. Only these are counted by name, because every name is kept forever.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_EDGES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """Counters since the start of the service, and memory and descriptors of the process; safe in any thread."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "cbid_requests", "Responses.", ("method", "route", "status"), registry=self._registry
        )
        self._rejected = Counter(
            "cbid_refused", "Requests rejected before their route.", ("status",), registry=self._registry
        )
        self._seconds = Histogram(
            "cbid_request_seconds",
            "Time from request to response.",
            ("route",),
            registry=self._registry,
            buckets=_EDGES,
        )
        self._searches = Histogram(
            "cbid_search_seconds", "Time of the search alone.", ("how",), registry=self._registry, buckets=_EDGES
        )
        self._gauges: dict[str, Gauge] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a response. ``route`` is the template of the path, which keeps the number of routes small."""
        self._requests.labels(method if method in _METHODS else "other", route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def search(self, how: str, seconds: float) -> None:
        """Count a search and its time."""
        self._searches.labels(how).observe(seconds)

    def rejected(self, status: int) -> None:
        """Count a request that the access rules rejected."""
        self._rejected.labels(status).inc()

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all metrics. ``gauges`` maps a name to its description and value."""
        for name, (description, value) in gauges.items():
            if name not in self._gauges:
                self._gauges[name] = Gauge(name, description, registry=self._registry)
            self._gauges[name].set(value)
        return generate_latest(self._registry).decode()
