"""The server: uvicorn, with a limit on how long a client may take to say what it wants."""

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
_MOST_CONNECTIONS = 1000
_HEADER_BYTES = 32 * 1024


class HeaderDeadline(H11Protocol):
    """Closes a connection whose next request has begun to arrive but has no end of headers in time.

    uvicorn itself waits for headers for ever, so that clients which send a byte now and then (slowloris) would use up
    all connections.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._timer is None and self.timeout_keep_alive_task is None:  # else it only waits for the next request
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _start(self) -> None:
        self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror or error}") from error


def make_server(app: FastAPI) -> uvicorn.Server:
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
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=_HEADER_BYTES,
        )
    )


def run(app: FastAPI, sock: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; then take nothing new, end what has begun, and return."""
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again after its shutdown; both shall end in a return.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        make_server(app).run(sockets=[sock])
