"""The REST interface, one file for each kind of question."""

from fastapi import APIRouter, Request

from cbid.web.library import Library

__all__ = ["library_of", "router"]


def library_of(request: Request) -> Library:
    library: Library = request.app.state.library
    return library


def router() -> APIRouter:
    """All routes."""
    from cbid.web.routes import images, inspect, search, system

    every = APIRouter()
    for part in (search, images, inspect, system):
        every.include_router(part.router)
    return every
