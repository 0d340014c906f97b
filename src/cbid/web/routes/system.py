"""Routes for health, metrics, and the session of the page."""

import asyncio
import hmac

from fastapi import APIRouter, Request, Response

from cbid.web.errors import error_docs, http_error
from cbid.web.middleware import SESSION_COOKIE, SESSION_SECONDS, session_cookie
from cbid.web.models import Health, RefitState, SessionRequest
from cbid.web.served import Served

router = APIRouter(tags=["system"], responses=error_docs())
_PROMETHEUS = "text/plain; version=0.0.4"


@router.get("/health")
async def health(served: Served) -> Health:
    """Return the state of the service. Needs no key."""
    return Health(status="ok" if served.following_error is None else "stale", images=len(served.project))


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "The text format of Prometheus"}},
)
async def metrics(served: Served) -> Response:
    """Return counters and times since the start, for Prometheus."""
    gauges = {
        "cbid_images": ("Stored images.", float(len(served.project))),
        "cbid_working": ("Calls that run or wait.", float(served.search_pool.n_open + served.image_pool.n_open)),
    }
    return Response(served.metrics.text(gauges), media_type=_PROMETHEUS)


@router.get("/api/refit")
async def refit_state(served: Served) -> RefitState:
    """Return the progress of learning again."""
    state = served.refit.state
    if state["phase"] == "done":  # show the new codes at once, not at the next check for commits
        await asyncio.to_thread(served.project.refresh)
    return RefitState(**state)


@router.post("/api/refit", status_code=202, responses=error_docs(409))
async def refit(served: Served) -> RefitState:
    """Learn the codes again from all stored images, with the current labels. Searches continue with the old codes."""
    await asyncio.to_thread(served.start_refit)
    return RefitState(**served.refit.state)


@router.delete("/api/refit")
async def cancel_refit(served: Served) -> RefitState:
    """Stop learning again. The project stays as it was."""
    served.check_writable()
    await asyncio.to_thread(served.refit.cancel)
    return RefitState(**served.refit.state)


@router.post("/api/session", status_code=204, response_class=Response)
async def session(body: SessionRequest, request: Request, served: Served) -> Response:
    """Exchange the API key for the session cookie of the page."""
    key = served.settings.api_key
    response = Response(status_code=204)
    if key is not None:
        if not hmac.compare_digest(body.key.encode(errors="replace"), key.encode()):
            raise http_error(401, "the API key is wrong")
        response.set_cookie(
            SESSION_COOKIE,
            session_cookie(key),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
            path="/",
        )
    return response


@router.delete("/api/session", status_code=204, response_class=Response)
async def end_session(request: Request) -> Response:
    """Remove the session cookie of the page."""
    response = Response(status_code=204)
    response.delete_cookie(
        SESSION_COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
    )
    return response
