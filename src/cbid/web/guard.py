"""Who may ask: names, origins, keys and rates are looked at before anything of the body is read."""

import hashlib
import hmac
import math
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cbid.web.metrics import Metrics
from cbid.web.problems import problem
from cbid.web.rate import RateLimit
from cbid.web.settings import Settings

__all__ = ["COOKIE", "Guard", "cookie_of"]

COOKIE = "cbid_session"
_SAFE = ("GET", "HEAD", "OPTIONS")
_OPEN = ("/api/session", "/health")  # asked without a key; all else under these prefixes with one
_KEYED = ("/api/", "/metrics", "/openapi.json")
_HEADERS = {
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


def cookie_of(api_key: str) -> str:
    """What the page's cookie holds instead of the key itself."""
    return hmac.new(api_key.encode(), b"cbid page", hashlib.sha256).hexdigest()


class Guard:
    """Security headers on every answer; 400, 401, 403 or 429 for those who may not ask."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._rate = RateLimit(settings.rate, settings.burst)
        self._cookie = None if settings.api_key is None else cookie_of(settings.api_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api/"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            status, error, more = refusal
            self._metrics.refused(status)
            await problem(status, error, {"Connection": "close", **more})(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        headers, path = Headers(scope=scope), scope["path"]
        client = scope["client"][0] if scope.get("client") else ""
        wait = self._rate.wait(client)
        if wait:
            return 429, "too many requests from this address", {"Retry-After": str(math.ceil(wait))}
        host = headers.get("host", "")
        if self._settings.hosts and _without_port(host) not in self._settings.hosts:
            return 400, f"Host is {host!r}; this service answers to {', '.join(self._settings.hosts)}", {}
        origin = headers.get("origin")
        if scope["method"] not in _SAFE and origin is not None and origin.partition("://")[2] != host:
            return 403, "a page of another site may not change anything here", {}
        if self._cookie is not None and path.startswith(_KEYED) and path not in _OPEN and not self._knows(headers):
            return 401, "the API key is missing or wrong", {"WWW-Authenticate": "Bearer"}
        return None

    def _knows(self, headers: Headers) -> bool:
        """Whether the key came in a header, or the page's cookie."""
        assert self._cookie is not None
        assert self._settings.api_key is not None
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
        if given:
            return hmac.compare_digest(given.encode(), self._settings.api_key.encode())
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._cookie.encode())


def _without_port(host: str) -> str:
    """``127.0.0.1:8000`` and ``[::1]:8000`` without the port, in small letters."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
