"""Errors as responses: one line of JSON with the right status."""

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

_LOG = logging.getLogger("cbid.web")
_DESCRIPTIONS = {
    400: "The body cannot be parsed, or the Host header is not accepted",
    401: "The API key is missing or wrong",
    403: "The request comes from another site, or the service is read-only",
    404: "Not found",
    408: "The request arrived too slowly",
    409: "Another program is writing to the project",
    413: "The request is too large",
    415: "The file is not an image that can be read",
    422: "A value is not accepted",
    429: "Too many requests; retry after the time in Retry-After",
    431: "The headers are too large or too many",
    503: "The service is busy or cannot read its data; retry after the time in Retry-After",
}
_STATUS: dict[type, int] = {  # of errors that the caller can fix
    UnknownIdError: 404,
    IndexLockedError: 409,
    IndexConflictError: 409,
    ImageError: 415,
    ValueError: 422,
}
_COMMON = {400, 401, 403, 404, 408, 413, 422, 429, 431, 503}


class ErrorMessage(BaseModel):
    """An error."""

    error: str = Field(description="The reason, in one line.")


def error_docs(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe these statuses, and those that any request may get, for the OpenAPI document."""
    return {s: {"model": ErrorMessage, "description": _DESCRIPTIONS[s]} for s in sorted(_COMMON | set(statuses))}


def error_response(status: int, error: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as a response of one line."""
    # Names sent by the client may hold characters that UTF-8 cannot encode.
    line = " ".join(error.split()).encode(errors="backslashreplace").decode()
    body = json.dumps({"error": line}, ensure_ascii=False).encode()
    return Response(body, status, dict(headers or {}), media_type="application/json")


def http_error(status: int, error: str, **headers: str) -> HTTPException:
    """Return an exception to raise in a route or while the body is read."""
    return HTTPException(status, error, headers or None)


def add_handlers(app: FastAPI) -> None:
    """Turn exceptions of the library into responses. Errors that the caller can fix get a 4xx status."""

    @app.exception_handler(StarletteHTTPException)
    async def http(request: Request, error: StarletteHTTPException) -> Response:
        return error_response(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        # A query may be an id, a vector or a code, and fails as each of them. A wrong value explains more than a
        # missing or unknown field.
        errors = error.errors()
        first = next((e for e in errors if e["type"] not in ("missing", "extra_forbidden")), errors[0])
        names = [part for part in first["loc"][1:] if isinstance(part, str) and not part.startswith("By")]
        field = ".".join(names)
        return error_response(422, f"{field}: {first['msg']}" if field else str(first["msg"]))

    async def explain(request: Request, error: Exception) -> Response:
        status = next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)
        return error_response(status, _with_notes(str(error), error))

    for kind in _STATUS:
        app.add_exception_handler(kind, explain)

    @app.exception_handler(ConnectionError)
    async def unreachable(request: Request, error: ConnectionError) -> Response:
        _LOG.error("%s %s: %s", request.method, request.url.path, error)
        return error_response(503, "the Milvus store does not respond", {"Retry-After": "5"})

    @app.exception_handler(ProjectError)
    @app.exception_handler(IndexCorruptError)
    async def damaged(request: Request, error: Exception) -> Response:
        _LOG.error("%s %s: %s", request.method, request.url.path, error)
        words = _with_notes("the project cannot be read; see the log of the service", error)
        return error_response(503, words, {"Retry-After": "5"})

    @app.exception_handler(Exception)
    async def internal(request: Request, error: Exception) -> Response:
        _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return error_response(500, _with_notes("internal error; see the log of the service", error))


def _with_notes(words: str, error: Exception) -> str:
    """Add the notes of an error: they tell whether a change took place."""
    return "; ".join([words, *getattr(error, "__notes__", [])])
