"""The web service and its page: run ``cbid serve``, or give ``create_app`` to an ASGI server."""

from cbid.extras import missing_extra

try:
    import fastapi as _fastapi  # noqa: F401
    import prometheus_client as _prometheus  # noqa: F401
    import python_multipart as _multipart  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError as error:
    raise missing_extra("the service", "serve") from error

from cbid.web.server import create_app, listen, make_server, run
from cbid.web.settings import ServiceSettings, Settings, is_loopback

__all__ = ["ServiceSettings", "Settings", "create_app", "is_loopback", "listen", "make_server", "run"]
