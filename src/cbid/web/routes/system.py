"""Routes for health, metrics, and the session of the page."""

import hmac

from fastapi import APIRouter, Request, Response

from cbid.web.errors import error_docs, http_error
from cbid.web.metrics import resident_bytes
from cbid.web.middleware import SESSION_COOKIE, SESSION_SECONDS, session_cookie
from cbid.web.models import Health, SessionRequest
from cbid.web.served import served_by

__all__ = ["router"]

router = APIRouter(tags=["system"])
_PROMETHEUS = "text/plain; version=0.0.4"


@router.get("/health", responses=error_docs())
async def health(request: Request) -> Health:
    """Return the state of the service. Needs no key."""
    served = served_by(request)
    return Health(status="ok" if served.following_error is None else "stale", images=len(served.project))


@router.get(
    "/metrics",
    response_class=Response,
    responses={**error_docs(), 200: {"content": {"text/plain": {}}, "description": "The text format of Prometheus"}},
)
async def metrics(request: Request) -> Response:
    """Return counters and times since the start, for Prometheus."""
    served = served_by(request)
    gauges = {
        "cbid_images": ("Stored images.", float(len(served.project))),
        "cbid_working": ("Calls that run or wait.", float(served.search_pool.n_open + served.image_pool.n_open)),
        "process_resident_memory_bytes": ("Resident memory, including mapped files.", float(resident_bytes())),
    }
    return Response(served.metrics.text(gauges), media_type=_PROMETHEUS)


@router.post("/api/session", status_code=204, response_class=Response, responses=error_docs())
async def session(body: SessionRequest, request: Request) -> Response:
    """Exchange the API key for the session cookie of the page."""
    key = served_by(request).settings.api_key
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


@router.delete("/api/session", status_code=204, response_class=Response, responses=error_docs())
async def end_session(request: Request) -> Response:
    """Remove the session cookie of the page."""
    response = Response(status_code=204)
    response.delete_cookie(
        SESSION_COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
    )
    return response
