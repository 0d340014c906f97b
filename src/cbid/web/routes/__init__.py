"""The REST interface."""

from fastapi import APIRouter

from cbid.web.routes import images, inspect, search, system

__all__ = ["all_routes"]


def all_routes() -> APIRouter:
    """Return a router with all routes."""
    router = APIRouter()
    for module in (search, images, inspect, system):
        router.include_router(module.router)
    return router
