"""Health, metrics, and the page's session."""

import hmac

from fastapi import APIRouter, Request, Response

from cbid.web.guard import COOKIE, cookie_of
from cbid.web.metrics import resident_bytes
from cbid.web.models import Health, Key
from cbid.web.problems import documented, refuse
from cbid.web.routes import library_of

__all__ = ["router"]

router = APIRouter(tags=["system"])
_METRICS = "text/plain; version=0.0.4"


@router.get("/health", responses=documented())
async def health(request: Request) -> Health:
    """Whether the service answers; needs no key."""
    return Health(status="ok", images=len(library_of(request).project))


@router.get(
    "/metrics",
    response_class=Response,
    responses={**documented(), 200: {"content": {"text/plain": {}}, "description": "As Prometheus reads it"}},
)
async def metrics(request: Request) -> Response:
    """Counts and times since the start."""
    library = library_of(request)
    gauges = {
        "cbid_images": ("Images that are stored.", float(len(library.project))),
        "cbid_working": ("Calls that run or wait.", float(library.searching.n_open + library.imaging.n_open)),
        "process_resident_memory_bytes": ("Memory in use, mapped files included.", float(resident_bytes())),
    }
    return Response(library.metrics.text(gauges), media_type=_METRICS)


@router.post("/api/session", status_code=204, response_class=Response, responses=documented())
async def session(given: Key, request: Request) -> Response:
    """Exchange the API key for the page's cookie."""
    key = library_of(request).settings.api_key
    response = Response(status_code=204)
    if key is not None:
        if not hmac.compare_digest(given.key.encode(errors="replace"), key.encode()):
            raise refuse(401, "the API key is wrong")
        response.set_cookie(
            COOKIE, cookie_of(key), httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
        )
    return response
