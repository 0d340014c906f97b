"""The server: uvicorn with a time limit for request headers, and a limit of connections per address."""

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from cbid.web.settings import ServiceSettings

__all__ = ["listen", "make_server", "run"]

HEADER_SECONDS = 10.0
GRACE_SECONDS = 10
_KEEP_ALIVE_SECONDS = 30
_MAX_HEADER_BYTES = 32 * 1024


class HeaderDeadline(H11Protocol):
    """Close a connection whose request headers are not complete in time.

    uvicorn has no such limit: clients that send a byte now and then (slowloris) could use up all connections.
    """

    _timer: asyncio.TimerHandle | None = None
    _open: "OpenConnections | None" = None  # of the server; see ``make_server``

    def connection_made(self, transport: Any) -> None:
        """Make room for a new connection, or close it, and start its timer."""
        super().connection_made(transport)
        self._start()
        if self._open is not None and not self._open.admit(self, self.client[0] if self.client else ""):
            transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered, and none has arrived completely."""
        return self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete)

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
        if self._open is not None:
            self._open.discard(self, self.client[0] if self.client else "")
        super().connection_lost(exc)

    def _start(self) -> None:
        self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class OpenConnections:
    """The connections of a server by address, with limits for one address and for all.

    Over a limit, the oldest idle connection is closed: of the same address, or of the address with the most. If none
    is idle, the new connection is not admitted. Trusted proxies carry many clients and have no limit of their own.
    """

    def __init__(self, most: int, per_address: int, unlimited: Sequence[str] = ()) -> None:
        self._most, self._per_address = most, per_address
        self._unlimited = [ip_network(network) for network in unlimited]
        self._by_address: dict[str, dict[HeaderDeadline, None]] = {}
        self._n = 0

    def admit(self, connection: HeaderDeadline, address: str) -> bool:
        """Count a connection; return whether it may stay."""
        own = self._by_address.setdefault(address, {})
        own[connection] = None
        self._n += 1
        admitted = True
        if len(own) > self._per_address and not self._is_proxy(address):
            admitted = self._close_idle(address, but=connection)
        if admitted and self._n > self._most:
            largest = max(self._by_address, key=lambda other: len(self._by_address[other]))
            admitted = self._close_idle(largest, but=connection)
        return admitted

    def discard(self, connection: HeaderDeadline, address: str) -> None:
        """Stop counting a connection; a second call does nothing."""
        own = self._by_address.get(address, {})
        if connection in own:
            del own[connection]
            self._n -= 1
            if not own:
                del self._by_address[address]

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ip_address(address) in network for network in self._unlimited)
        except ValueError:
            return False

    def _close_idle(self, address: str, but: HeaderDeadline) -> bool:
        for connection in self._by_address[address]:
            if connection is not but and connection.is_idle:
                connection.transport.close()
                self.discard(connection, address)
                return True
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 means any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror or error}") from error


def make_server(app: FastAPI) -> uvicorn.Server:
    """Return a uvicorn server for the application, with the limits of the service."""
    settings: ServiceSettings = app.state.served.settings
    limits = OpenConnections(settings.max_connections, settings.connections_per_address, settings.trusted_proxies)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=type("LimitedProtocol", (HeaderDeadline,), {"_open": limits}),
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=settings.max_connections + 1,  # uvicorn counts the new connection too
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
