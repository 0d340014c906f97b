"""A request must be small enough, and arrive fast enough; both are watched while it is read."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cbid.web.problems import problem, refuse

__all__ = ["BodyLimit"]

# What was not read of the request is still on its way: the connection cannot serve another one.
_CLOSE = {"Connection": "close"}


class BodyLimit:
    """At most ``max_bytes``, all within ``seconds``: otherwise 413 or 408, and the connection is closed.

    A request that tells its size is refused before any of it is read. Nothing is buffered here.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float) -> None:
        self._app, self._max_bytes, self._seconds = app, max_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        too_large = f"the request is larger than {self._max_bytes} bytes"
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told[:20]) > self._max_bytes:
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
            read += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if read > self._max_bytes:
                raise refuse(413, too_large, **_CLOSE)
            return message

        await self._app(scope, watched, send)
