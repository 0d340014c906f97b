"""The server: uvicorn with a time limit for request headers."""

import asyncio
import contextlib
import signal
import socket
import threading
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["listen", "make_server", "run"]

HEADER_SECONDS = 10.0
GRACE_SECONDS = 10
_KEEP_ALIVE_SECONDS = 30
_MAX_CONNECTIONS = 1000
_MAX_HEADER_BYTES = 32 * 1024


class HeaderDeadline(H11Protocol):
    """Close a connection whose request headers are not complete in time.

    uvicorn has no such limit: clients that send a byte now and then (slowloris) could use up all connections.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the timer of a new connection."""
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        """Stop the timer when the headers are complete, and restart it with the next request."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._timer is None and self.timeout_keep_alive_task is None:  # else the connection is idle
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop()
        super().connection_lost(exc)

    def _start(self) -> None:
        self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 means any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror or error}") from error


def make_server(app: FastAPI) -> uvicorn.Server:
    """Return a uvicorn server for the application, with the limits of the service."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=HeaderDeadline,
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        )
    )


def run(app: FastAPI, sock: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; then finish the running requests, accept no new ones, and return."""
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again after its shutdown. Both signals must end in a normal return.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        make_server(app).run(sockets=[sock])
