"""The application, and its server: uvicorn with a time limit for request headers and a limit of connections."""

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from starlette.staticfiles import StaticFiles
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

import cbid
from cbid.text import escaped
from cbid.web.errors import add_handlers
from cbid.web.middleware import AccessGuard, BodyLimit, DrainedRejection, RequestMetrics, request_id
from cbid.web.routes import all_routes
from cbid.web.served import ServedProject
from cbid.web.settings import ServiceSettings, client_of

PAGE = Path(__file__).parent / "page"
HEADER_SECONDS = 10.0
SEND_SECONDS = 30.0
GRACE_SECONDS = 10
_KEEP_ALIVE_SECONDS = 30
_MAX_HEADER_BYTES = 32 * 1024
_MIN_SENT = 2**16  # bytes that a client must read in SEND_SECONDS
_MAX_CHUNKS, _MIN_CHUNK = 1000, 256  # chunks of any size in a request; bytes of the mean chunk in longer ones
_MIN_SECONDS = 5.0  # a worker process that ends sooner is not started again,
_NOT_STARTED = 70  # and one that ends with this status could not open the project
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of malloc.h
_MAPPED_BYTES = 2**20  # blocks of this size are mapped
_LOG = logging.getLogger("cbid.web")


def create_app(path: str | os.PathLike[str], settings: ServiceSettings | None = None) -> FastAPI:
    """Create the service of one project as an ASGI application.

    The project is opened at once and closed at shutdown.
    """
    served = ServedProject(path, settings or ServiceSettings())

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(served.warm_up)
        following = asyncio.create_task(served.follow_commits())
        try:
            yield
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            await asyncio.to_thread(served.close)

    # FastAPI's documentation pages load scripts from other hosts, so they are off. Clients use openapi.json.
    app = FastAPI(
        title="cbid",
        description="Search images by compact binary codes: with an image, an id, a vector or a code.",
        version=cbid.__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.served = served
    app.include_router(all_routes())
    app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    add_handlers(app)
    # A request passes the middleware added last first.
    limits = served.settings
    app.add_middleware(BodyLimit, max_bytes=limits.max_upload, seconds=limits.upload_seconds)
    app.add_middleware(AccessGuard, settings=limits, metrics=served.metrics)
    app.add_middleware(DrainedRejection, max_bytes=4 * limits.max_upload, seconds=limits.upload_seconds)
    app.add_middleware(RequestMetrics, metrics=served.metrics)
    if limits.trusted_proxies:
        # Outermost: address and scheme of the client, as a trusted proxy reports them.
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(limits.trusted_proxies))
    return app


class CountedChunks(h11.Connection):
    """The parser of one connection, which stops at a request of very many very small chunks.

    A chunk of any size takes the event loop the same time. One client that sends a megabyte a second in chunks of one
    byte would occupy it.
    """

    is_flooded = False
    _n_chunks = _n_bytes = 0

    def next_event(self) -> Any:
        """Return the next part of a request, or that there is none yet."""
        if self.is_flooded:
            return h11.NEED_DATA
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._n_chunks = self._n_bytes = 0
        elif isinstance(event, h11.Data):
            self._n_chunks += 1
            self._n_bytes += len(event.data)
            self.is_flooded = self._n_chunks > _MAX_CHUNKS + self._n_bytes // _MIN_CHUNK
        return event


class HeaderDeadline(H11Protocol):
    """Close a connection whose client is too slow, or whose chunks are too small.

    There are limits of time for request headers, for the rest of a body whose response has been sent, and for reading
    a response. uvicorn has none of them: clients that send or read a byte from time to time could use up all
    connections. ``BodyLimit`` has the limit for other bodies.
    """

    conn: CountedChunks
    _timer: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None
    _unsent = 0  # bytes that the client had not received when the timer was started
    _open: "OpenConnections | None" = None  # of the server; see ``make_server``

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = CountedChunks(h11.SERVER, _MAX_HEADER_BYTES)

    def connection_made(self, transport: Any) -> None:
        """Make room for a new connection, or close it, and start its timer."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # pause as soon as the client reads more slowly than we write
        self._start()
        if self._open is not None and not self._open.admit(self, self.client[0] if self.client else ""):
            transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered: the next one has not arrived completely."""
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Stop the timer when the headers are complete, and restart it with the next request.

        It also runs while a body arrives whose response has been sent: nobody reads it.
        """
        super().data_received(data)
        if self.conn.is_flooded:
            self.transport.abort()
        if not self.is_idle:
            self._stop()
        elif self._timer is None and self.timeout_keep_alive_task is None:  # else nothing has arrived
            self._start()

    def pause_writing(self) -> None:
        """Start a timer: the client does not read what is sent."""
        super().pause_writing()
        if self._send_timer is None:
            self._watch()

    def resume_writing(self) -> None:
        """Stop the timer: everything is sent."""
        super().resume_writing()
        self._unwatch()

    def _watch(self) -> None:
        self._unsent = self._unread()
        self._send_timer = self.loop.call_later(SEND_SECONDS, self._check_sent)

    def _check_sent(self) -> None:
        self._send_timer = None
        if self._unread() > self._unsent - _MIN_SENT:
            self.transport.abort()  # to close it would wait for the client
        else:
            self._watch()

    def _unread(self) -> int:
        """Return the bytes that the client has not received, also those in the buffer of the system.

        The system takes more bytes only when a large part of its buffer is free.
        """
        held = array("i", [0])
        with contextlib.suppress(ImportError, OSError):  # only Linux has this count
            import fcntl
            import termios

            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, held)
        return self.transport.get_write_buffer_size() + held[0]

    def _unwatch(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop()
        self._unwatch()
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
    """The connections of a server by client (see ``client_of``), with limits for one client and for all.

    Over a limit, the oldest idle connection is closed: of the same client, or of the client with the most. If none
    is idle, the new connection is not admitted. Trusted proxies carry many clients and have no limit of their own.
    """

    def __init__(self, most: int, per_address: int, unlimited: Sequence[str] = ()) -> None:
        self._most, self._per_client = most, per_address
        self._unlimited = [ip_network(network) for network in unlimited]
        self._of: dict[str, dict[HeaderDeadline, None]] = {}
        self._n = 0

    def admit(self, connection: HeaderDeadline, address: str) -> bool:
        """Count a connection; return whether it may stay."""
        is_proxy = self._is_proxy(address)
        client = address if is_proxy else client_of(address)
        own = self._of.setdefault(client, {})
        own[connection] = None
        self._n += 1
        admitted = True
        if len(own) > self._per_client and not is_proxy:
            admitted = self._close_idle(client, but=connection)
        if admitted and self._n > self._most:
            largest = max(self._of, key=lambda other: len(self._of[other]))
            admitted = self._close_idle(largest, but=connection)
        return admitted

    def discard(self, connection: HeaderDeadline, address: str) -> None:
        """Stop counting a connection; a second call does nothing."""
        for client in {address, client_of(address)}:
            self._discard(connection, client)

    def _discard(self, connection: HeaderDeadline, client: str) -> None:
        own = self._of.get(client, {})
        if connection in own:
            del own[connection]
            self._n -= 1
            if not own:
                del self._of[client]

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ip_address(address) in network for network in self._unlimited)
        except ValueError:
            return False

    def _close_idle(self, client: str, but: HeaderDeadline) -> bool:
        for connection in self._of[client]:
            if connection is not but and connection.is_idle:
                connection.transport.close()
                self._discard(connection, client)
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
    _return_large_blocks()
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again after its shutdown. Both signals must end in a normal return.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        make_server(app).run(sockets=[sock])


def _return_large_blocks() -> None:
    """Let the C library return the memory of freed uploads and images to the system at once.

    glibc maps large blocks one by one, but it raises the size from which it does so to that of the largest block that
    was freed, up to 32 MiB. Uploads then share their memory with small objects, which keep it, and the process grows
    for hours. Setting the size fixes it. Fewer arenas leave fewer gaps.
    """
    with contextlib.suppress(OSError, AttributeError):  # other C libraries have no such function
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 8 * _MAPPED_BYTES)
        mallopt(_M_ARENA_MAX, 2)


# The log


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, message, id of the request, and the fields of the access log."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {"time": round(record.created, 3), "level": record.levelname.lower(), "logger": record.name}
        line |= {"message": record.getMessage(), "request": request_id.get()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextLines(logging.Formatter):
    """Time, level, logger and message in one line without control characters: paths and names come from clients."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return escaped(super().formatMessage(record))


def log_to_stderr(kind: str) -> None:
    """Write the log to standard error: "errors" only, also every request as "text", or all as "json" lines."""
    handler = logging.StreamHandler()
    plain = TextLines("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if kind == "json" else plain)
    _LOG.handlers = [handler]
    _LOG.propagate = False
    _LOG.setLevel(logging.WARNING if kind == "errors" else logging.INFO)


# Several processes


def run_workers(
    path: str | os.PathLike[str], settings: ServiceSettings, sock: socket.socket, n: int, log: str = "errors"
) -> None:
    """Serve with n processes that share the socket, until SIGINT or SIGTERM.

    A process that dies is replaced. One that dies at its start ends the service with an ``OSError``.
    """
    content = json.dumps({"path": os.fspath(path), "settings": asdict(settings), "fd": sock.fileno(), "log": log})
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    processes: dict[subprocess.Popen[bytes], float] = {}

    def start() -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", "from cbid.web.server import worker; worker()"],
            stdin=subprocess.PIPE,
            pass_fds=[sock.fileno()],
            start_new_session=True,  # Ctrl-C reaches them through this process
        )
        processes[process] = time.monotonic()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(content.encode())  # not an argument: it holds the key

    try:
        for _ in range(n):
            start()
        while not stop.wait(0.2):
            for process in [process for process in processes if process.poll() is not None]:
                seconds = time.monotonic() - processes.pop(process)
                if seconds < _MIN_SECONDS or process.returncode == _NOT_STARTED:
                    raise OSError(f"a worker process ended at its start, with status {process.returncode}")
                _LOG.error("a worker process ended with status %s; another is started", process.returncode)
                start()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(2 * GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


def worker() -> None:
    """Serve as one of several processes; settings and socket come from standard input."""
    given = json.load(sys.stdin)
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given["settings"].items()
    }
    log_to_stderr(given["log"])
    try:
        app = create_app(given["path"], ServiceSettings(**settings))
    except Exception:
        _LOG.exception("the service cannot start")
        sys.exit(_NOT_STARTED)
    run(app, socket.socket(fileno=given["fd"]))
