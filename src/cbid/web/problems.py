"""What goes wrong, as one line of JSON with the status that fits."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import HTTPException, RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response

from cbid.data import ImageError
from cbid.project import ProjectError
from cbid.search import IndexConflictError, IndexCorruptError, IndexLockedError, UnknownIdError

__all__ = ["Problem", "add_handlers", "documented", "problem", "refuse"]

_LOG = logging.getLogger("cbid.web")
_TEXTS = {
    400: "The body cannot be read",
    401: "The API key is missing or wrong",
    403: "Refused: another site asks, or the service is read-only",
    404: "There is nothing of that name",
    408: "The request arrived too slowly",
    409: "Another program is writing to the project",
    413: "The request is too large",
    415: "What was sent is no image that can be read",
    422: "A value is not accepted",
    429: "Too many requests; Retry-After tells when to come again",
    503: "Too much to do; Retry-After tells when to come again",
}


class Problem(BaseModel):
    """What went wrong."""

    error: str = Field(description="One line for people.")


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI document: what each of these statuses means, besides those that any request may meet."""
    every = {400, 401, 403, 404, 408, 413, 422, 429, 503}
    return {s: {"model": Problem, "description": _TEXTS[s]} for s in sorted(every | set(statuses))}


def problem(status: int, error: str, headers: Mapping[str, str] | None = None) -> Response:
    # A name that came with the request may hold what UTF-8 cannot.
    line = " ".join(error.split()).encode(errors="backslashreplace").decode()
    body = json.dumps({"error": line}, ensure_ascii=False).encode()
    return Response(body, status, dict(headers or {}), media_type="application/json")


def add_handlers(app: FastAPI) -> None:
    """Errors of the library become answers: what the caller can mend has a 4xx status."""

    @app.exception_handler(StarletteHTTPException)
    async def refused(request: Request, error: StarletteHTTPException) -> Response:
        return problem(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        # Of what could have been meant (an id, a vector, a code), the one that came nearest tells what is wrong.
        errors = error.errors()
        first = next((e for e in errors if e["type"] not in ("missing", "extra_forbidden")), errors[0])
        names = [part for part in first["loc"][1:] if isinstance(part, str) and not part.startswith("By")]
        where = ".".join(names)
        return problem(422, f"{where}: {first['msg']}" if where else str(first["msg"]))

    @app.exception_handler(UnknownIdError)
    async def unknown(request: Request, error: UnknownIdError) -> Response:
        return problem(404, str(error))

    @app.exception_handler(ImageError)
    async def no_image(request: Request, error: ImageError) -> Response:
        return problem(415, str(error))

    @app.exception_handler(IndexLockedError)
    @app.exception_handler(IndexConflictError)
    async def locked(request: Request, error: OSError) -> Response:
        return problem(409, str(error))

    @app.exception_handler(ConnectionError)
    async def unreachable(request: Request, error: ConnectionError) -> Response:
        _LOG.error("%s %s: %s", request.method, request.url.path, error)
        return problem(503, "the store that is searched does not answer", {"Retry-After": "5"})

    @app.exception_handler(ProjectError)
    @app.exception_handler(IndexCorruptError)
    async def damaged(request: Request, error: Exception) -> Response:
        _LOG.error("%s %s: %s", request.method, request.url.path, error)
        return problem(503, "the project cannot be read as it is; the service's log tells why", {"Retry-After": "5"})

    @app.exception_handler(ValueError)
    async def not_accepted(request: Request, error: ValueError) -> Response:
        return problem(422, str(error))

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem(500, "the service met an error of its own; its log tells which")


def refuse(status: int, error: str, **headers: str) -> HTTPException:
    """To raise where the body is read, or in a route."""
    return HTTPException(status, error, headers or None)
