"""The application: the middleware outside, the routes inside, the page at the root."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

import cbid
from cbid.web.errors import add_handlers
from cbid.web.middleware import AccessGuard, BodyLimit, DrainedRejection, RequestMetrics
from cbid.web.routes import all_routes
from cbid.web.served import ServedProject
from cbid.web.settings import ServiceSettings

__all__ = ["create_app"]

PAGE = Path(__file__).parent / "page"


def create_app(path: str | os.PathLike[str], settings: ServiceSettings | None = None) -> FastAPI:
    """Create the service of one project as an ASGI application.

    The project is opened at once and closed at shutdown.
    """
    served = ServedProject(path, settings or ServiceSettings())

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(served.warm_up)
        following = asyncio.create_task(served.follow_commits())
        try:
            yield
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            await asyncio.to_thread(served.close)

    # FastAPI's documentation pages load scripts from other hosts, so they are off. Clients use openapi.json.
    app = FastAPI(
        title="cbid",
        description="Search images by compact binary codes: with an image, an id, a vector or a code.",
        version=cbid.__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.served = served
    app.include_router(all_routes())
    app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    add_handlers(app)
    # A request passes the middleware added last first.
    limits = served.settings
    app.add_middleware(BodyLimit, max_bytes=limits.max_upload, seconds=limits.upload_seconds)
    app.add_middleware(AccessGuard, settings=limits, metrics=served.metrics)
    app.add_middleware(DrainedRejection, max_bytes=4 * limits.max_upload, seconds=limits.upload_seconds)
    app.add_middleware(RequestMetrics, metrics=served.metrics)
    if limits.trusted_proxies:
        # Outermost: address and scheme of the client, as a trusted proxy reports them.
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(limits.trusted_proxies))
    return app
