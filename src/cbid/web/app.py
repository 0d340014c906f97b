"""The application: guards outside, routes inside, the page at the root."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import cbid
from cbid.web.body import BodyLimit
from cbid.web.guard import Guard
from cbid.web.library import Library
from cbid.web.metrics import Metrics
from cbid.web.problems import add_handlers
from cbid.web.routes import router
from cbid.web.settings import Settings

__all__ = ["create_app"]

PAGE = Path(__file__).parent / "page"
_ABOUT = "Search images by compact binary codes: by image, id, vector or code."


def create_app(path: str | os.PathLike[str], settings: Settings | None = None) -> FastAPI:
    """The service of one project, as an ASGI application. The project is opened here, and closed at shutdown."""
    library = Library(path, settings or Settings())

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(library.warm_up)
        following = asyncio.create_task(library.follow())
        try:
            yield
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            await asyncio.to_thread(library.close)

    # The usual pages of documentation load scripts from elsewhere; openapi.json is enough for any client.
    app = FastAPI(
        title="cbid",
        description=_ABOUT,
        version=cbid.__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.library = library
    app.include_router(router())
    app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    add_handlers(app)
    # The last that is added is the first that a request meets.
    app.add_middleware(BodyLimit, max_bytes=library.settings.max_upload, seconds=library.settings.upload_seconds)
    app.add_middleware(Guard, settings=library.settings, metrics=library.metrics)
    app.add_middleware(Measured, metrics=library.metrics)
    return app


class Measured:
    """Counts every answer and its time, by the template of its route."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        begun = time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            route = getattr(scope.get("route"), "path", None) or "page"
            self._metrics.request(scope["method"], route, status, time.perf_counter() - begun)
