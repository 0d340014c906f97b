"""A request must be small enough, and arrive fast enough; both are watched while it is read."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cbid.web.problems import problem, refuse

__all__ = ["BodyLimit"]

# What was not read of the request is still on its way: the connection cannot serve another one.
_CLOSE = {"Connection": "close"}


# JSON is read and checked where all requests wait for it; a vector of 2^17 numbers fits in.
_MOST_JSON = 4 * 2**20
_MOST_OF_A_SESSION = 4 * 2**10  # asked by anybody, without a key
_UPLOADS_AT_A_TIME = 16  # as many of the largest are held at once, by all requests together


class BodyLimit:
    """At most ``max_bytes`` of files, or some of JSON, all within ``seconds``: otherwise 413 or 408, and the
    connection is closed; 503 where all requests together hold too much.

    A request that tells its size is refused before any of it is read. Nothing is buffered here.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float) -> None:
        self._app, self._max_bytes, self._seconds = app, max_bytes, seconds
        self._held = 0  # bytes of requests that are not answered yet

    def _most(self, scope: Scope, headers: dict[bytes, bytes]) -> int:
        if scope["path"] == "/api/session":
            return _MOST_OF_A_SESSION
        files = headers.get(b"content-type", b"").lower().startswith(b"multipart/form-data")
        return self._max_bytes if files else min(self._max_bytes, _MOST_JSON)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        most = self._most(scope, headers)
        too_large = f"the request is larger than {most} bytes"
        told = headers.get(b"content-length", b"0")
        if told.isdigit() and int(told[:20]) > most:
            await problem(413, too_large, _CLOSE)(scope, receive, send)
            return
        read, whole = 0, False
        deadline = asyncio.get_running_loop().time() + self._seconds

        async def watched() -> Message:
            nonlocal read, whole
            if whole:  # what follows is only the client's leaving
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise refuse(408, f"the request did not arrive within {self._seconds:g} seconds", **_CLOSE) from None
            size = len(message.get("body", b""))
            read += size
            self._held += size
            whole = not message.get("more_body", False)
            if read > most:
                raise refuse(413, too_large, **_CLOSE)
            if self._held > _UPLOADS_AT_A_TIME * self._max_bytes:
                raise refuse(
                    503, "too much was sent at once; come again in a second", **_CLOSE, **{"Retry-After": "1"}
                )
            return message

        try:
            await self._app(scope, watched, send)
        finally:
            self._held -= read
