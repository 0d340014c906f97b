"""What every request passes before its route: metrics, access rules, rate limit, and limits of headers and body."""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cbid.web.errors import error_response, http_error
from cbid.web.settings import ServiceSettings, client_of

# Of the request that is being answered.
request_id: ContextVar[str] = ContextVar("request_id", default="")
current_client: ContextVar[str] = ContextVar("current_client", default="")
SESSION_COOKIE = "cbid_session"
SESSION_SECONDS = 12 * 3600
_ACCESS = logging.getLogger("cbid.web.access")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_UTF_8 = re.compile(r'charset="?utf-?8"?(?=[;\s]|$)')
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_PROTECTED = ("/api/", "/metrics", "/openapi.json")  # prefixes that need the key
_UNPROTECTED = ("/api/session", "/health")
_SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_MAX_CLIENTS = 10_000  # addresses remembered by the rate limit; a forgotten one starts with a full bucket
_MAX_HEADERS, _MAX_HEADER_BYTES = 100, 32 * 2**10
_MAX_JSON_BYTES = 4 * 2**20  # JSON is parsed on the event loop; a vector of 2^17 numbers fits
_MAX_SESSION_BYTES = 4 * 2**10  # this route needs no key
_MAX_PARALLEL_UPLOADS = 16  # all requests together may hold this many uploads of the largest size
# The rest of a rejected request is still arriving, so the connection cannot be used again.
_CLOSE = {"Connection": "close"}


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


class RequestMetrics:
    """Count every response and its time by the template of its route; give every request an id and log it.

    The id is that of the header ``X-Request-ID`` if it is short and plain, else a new one; the response has it too.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        start = time.perf_counter()
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        request_id.set(id)

        async def record_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = id
            await send(message)

        try:
            await self._app(scope, receive, record_status)
        finally:
            route = getattr(scope.get("route"), "path", None) or "page"
            seconds = time.perf_counter() - start
            self._metrics.request(scope["method"], route, status, seconds)
            client = scope["client"][0] if scope.get("client") else ""
            line = {"client": client, "method": scope["method"], "path": scope["path"], "status": status}
            text = f"{client} {scope['method']} {scope['path']!r} {status} {seconds:.3f} s"
            _ACCESS.info("%s", text, extra={"fields": {**line, "seconds": round(seconds, 6)}})


def session_cookie(api_key: str, expires: int | None = None) -> str:
    """Return the value of the page's cookie. It proves that the page has sent the key, but does not reveal it.

    ``expires`` is the second since 1970 until which it is valid; by default, ``SESSION_SECONDS`` from now.
    """
    end = int(time.time()) + SESSION_SECONDS if expires is None else expires
    return f"{end}.{hmac.new(api_key.encode(), b'cbid page %d' % end, hashlib.sha256).hexdigest()}"


def _is_session(cookie: bytes, api_key: str) -> bool:
    """Return whether ``cookie`` is the value of a session that has not expired."""
    end = cookie.partition(b".")[0]
    if not end.isdigit() or len(end) > 12 or int(end) < time.time():
        return False
    return hmac.compare_digest(cookie, session_cookie(api_key, int(end)).encode())


def _cookie_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the value of the session cookie, or b"".

    The parser of the standard library takes quadratic time for some values, so only this cookie is parsed.
    """
    for name, line in headers:
        if name == b"cookie":
            for part in line.split(b";"):
                key, _, value = part.strip().partition(b"=")
                if key == SESSION_COOKIE.encode():
                    return value.strip(b'"')
    return b""


class RateLimit:
    """A token bucket per client: ``burst`` tokens that refill at ``rate`` per second. A rate of 0 means no limit.

    >>> limit = RateLimit(rate=1, burst=2, clock=iter([0.0, 0.0, 0.0, 1.0]).__next__)
    >>> [limit.wait("a") for _ in range(4)]
    [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client: (tokens, time of the update)

    def wait(self, client: str) -> float:
        """Take one token and return 0, or return the seconds until there is one."""
        if not self._rate:
            return 0.0
        now = self._clock()
        tokens, updated = self._buckets.pop(client, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - updated) * self._rate)
        empty = tokens < 1
        self._buckets[client] = (tokens if empty else tokens - 1, now)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return (1 - tokens) / self._rate if empty else 0.0


class AccessGuard:
    """Check headers, rate, host, origin and key before the body is read; add security headers to every response.

    Rejected requests get a 431, 429, 400, 403 or 401. The routes get no cookies: nothing there needs them, and
    their parser takes quadratic time for some values.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._rate = RateLimit(settings.rate, settings.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api/"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        rejection = self._rejection(scope)
        if rejection is not None:
            status, error, more = rejection
            self._metrics.rejected(status)
            await error_response(status, error, {**_CLOSE, **more})(scope, receive, with_headers)
            return
        # In place: the metrics read the route that the application adds to this scope.
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"cookie"]
        await self._app(scope, receive, with_headers)

    def _rejection(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        """Return status, message and headers for a request that is not allowed."""
        raw = scope["headers"]
        if len(raw) > _MAX_HEADERS or sum(len(name) + len(value) for name, value in raw) > _MAX_HEADER_BYTES:
            return 431, f"expected at most {_MAX_HEADERS} headers of {_MAX_HEADER_BYTES} bytes together", {}
        headers, path = Headers(scope=scope), scope["path"]
        client = client_of(scope["client"][0] if scope.get("client") else "")
        current_client.set(client)
        wait = self._rate.wait(client)
        if wait:
            return 429, "too many requests from this address", {"Retry-After": str(math.ceil(wait))}
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may read the other one, and take the rest of this request for the next (request smuggling).
            return 400, "Content-Length and Transfer-Encoding: expected only one of them", {}
        if _has_other_charset(headers.get("content-type", "")):
            return 400, "charset in Content-Type: expected utf-8 or none", {}
        host = headers.get("host", "")
        if self._settings.hosts and _without_port(host) not in self._settings.hosts:
            return 400, f"Host={host!r}: expected one of {', '.join(self._settings.hosts)}", {}
        origin = headers.get("origin")
        if scope["method"] not in _SAFE_METHODS and origin is not None and origin.partition("://")[2] != host:
            return 403, "requests from pages of another site are not allowed", {}
        protected = path.startswith(_PROTECTED) and path not in _UNPROTECTED
        if self._settings.api_key is not None and protected and not self._has_key(headers):
            return 401, "the API key is missing or wrong", {"WWW-Authenticate": "Bearer"}
        return None

    def _has_key(self, headers: Headers) -> bool:
        """Return whether a header holds the key, or the page's cookie is right."""
        assert self._settings.api_key is not None
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
        if key:
            return hmac.compare_digest(key.encode(), self._settings.api_key.encode())
        return _is_session(_cookie_of(headers.raw), self._settings.api_key)


def _has_other_charset(content_type: str) -> bool:
    """Return whether the content type of a form names another charset than UTF-8.

    The form parser decodes all fields by this charset on the event loop, and some of Python's take quadratic time:
    a megabyte of punycode takes half a minute.
    """
    text = content_type.lower()
    return text.lstrip().startswith("multipart/") and text.count("charset") != len(_UTF_8.findall(text))


def _without_port(host: str) -> str:
    """Remove the port from ``127.0.0.1:8000`` or ``[::1]:8000``, and lower the case."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


class BodyLimit:
    """Limit the size of request bodies and the time they take to arrive.

    A body that is too large gets a 413, a slow one a 408. A 503 means that all requests together hold too much. The
    connection is then closed. A request that declares too large a size is rejected before its body is read. Nothing
    is buffered here.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float) -> None:
        self._app, self._max_bytes, self._seconds = app, max_bytes, seconds
        self._held_bytes = 0  # by all requests that have no response yet

    def _limit(self, scope: Scope, headers: Headers) -> int:
        if scope["path"] == "/api/session":
            return _MAX_SESSION_BYTES
        has_files = headers.get("content-type", "").lower().startswith("multipart/form-data")
        return self._max_bytes if has_files else min(self._max_bytes, _MAX_JSON_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)  # of a repeated header it returns the first value, like the routes
        limit = self._limit(scope, headers)
        too_large = f"the request is larger than {limit} bytes"
        declared = headers.get("content-length", "0")
        if declared.isdigit() and int(declared[:20]) > limit:
            await error_response(413, too_large, _CLOSE)(scope, receive, send)
            return
        n_read, complete = 0, False
        deadline = asyncio.get_running_loop().time() + self._seconds

        async def limited_receive() -> Message:
            nonlocal n_read, complete
            if complete:  # only the disconnect of the client can follow
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise http_error(
                    408, f"the request did not arrive within {self._seconds:g} seconds", **_CLOSE
                ) from None
            size = len(message.get("body", b""))
            n_read += size
            self._held_bytes += size
            complete = not message.get("more_body", False)
            if n_read > limit:
                raise http_error(413, too_large, **_CLOSE)
            if self._held_bytes > _MAX_PARALLEL_UPLOADS * self._max_bytes:
                raise http_error(
                    503, "too many large requests at once; retry in a second", **_CLOSE, **{"Retry-After": "1"}
                )
            return message

        try:
            await self._app(scope, limited_receive, send)
        finally:
            self._held_bytes -= n_read


class DrainedRejection:
    """Read the rest of a rejected request before its connection is closed, within limits of bytes and time.

    Most clients send the whole request before they read the response. If the server closed the connection at once,
    they would see a broken connection instead of the response.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float) -> None:
        self._app, self._max_bytes, self._seconds = app, max_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        if b"transfer-encoding" not in headers and headers.get(b"content-length", b"0") == b"0":
            await self._app(scope, receive, send)
            return
        complete = closing = False

        async def watched_receive() -> Message:
            nonlocal complete
            message = await receive()
            complete = complete or not message.get("more_body", False)
            return message

        async def drain() -> None:
            n_read = 0
            while not complete and n_read < self._max_bytes:
                n_read += len((await watched_receive()).get("body", b""))

        async def draining_send(message: Message) -> None:
            nonlocal closing
            if message["type"] == "http.response.start":
                closing = Headers(raw=list(message["headers"])).get("connection") == "close"
            elif closing and not complete and not message.get("more_body", False):
                await send({**message, "more_body": True})  # the client can read the response from here on
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._seconds):
                        await drain()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self._app(scope, watched_receive, draining_send)
