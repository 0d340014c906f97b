"""The server: slow and greedy clients are cut off without harm to others, and shutdown is orderly."""

import contextlib
import json
import logging
import platform
import select
import socket
import subprocess
import sys
import threading
import time

import httpx2 as httpx
import pytest

from cbid.web import ServiceSettings, create_app, listen, make_server, server
from tests.web.conftest import running


def connect(address):
    host, port = address.removeprefix("http://").split(":")
    sock = socket.create_connection((host, int(port)), timeout=60)
    return sock


def answer(sock):
    """Read until the other side closes."""
    parts = []
    while part := sock.recv(65536):
        parts.append(part)
    return b"".join(parts)


@pytest.fixture(scope="module")
def impatient(fitted):
    """A server with limits of half a second."""
    before = server.HEADER_SECONDS, server.SEND_SECONDS
    server.HEADER_SECONDS = server.SEND_SECONDS = 0.5
    try:
        with running(fitted, rate=0, upload_seconds=0.5, read_only=True) as address:
            yield address
    finally:
        server.HEADER_SECONDS, server.SEND_SECONDS = before


def test_headers_that_never_end(impatient):
    with connect(impatient) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        assert httpx.get(f"{impatient}/health").status_code == 200  # other requests are served meanwhile
        assert answer(sock) == b""


def test_a_silent_connection(impatient):
    with connect(impatient) as sock:
        assert answer(sock) == b""


def test_a_body_that_arrives_slowly(impatient):
    with connect(impatient) as sock:
        sock.sendall(
            b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n{"
        )
        assert httpx.get(f"{impatient}/health").status_code == 200
        response = answer(sock)
    assert response.startswith(b"HTTP/1.1 408 ")
    assert b"0.5 seconds" in response


def test_a_huge_body_is_rejected_before_it_is_read(impatient):
    with connect(impatient) as sock:
        sock.sendall(
            b"POST /api/search/image HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 99999999999\r\n\r\n"
        )
        assert answer(sock).startswith(b"HTTP/1.1 413 ")


def test_a_body_without_end_is_cut_while_it_is_read(fitted):
    """It declares no length. The response comes at the limit, not at the end of the body."""
    with running(fitted, rate=0, max_upload=100_000, read_only=True) as address, connect(address) as sock:
        sock.sendall(
            b"POST /api/search/image HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
            b'47\r\n--x\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n\r\n'
        )
        sent = 0
        with contextlib.suppress(ConnectionError):  # the server closes it while we send
            while sent < 10_000_000 and not select.select([sock], [], [], 0)[0]:
                sock.sendall(b"1000\r\n" + bytes(4096) + b"\r\n")
                sent += 4096
        assert sent < 10_000_000
        response = sock.recv(65536)
        assert response.startswith(b"HTTP/1.1 413 ")
        assert httpx.get(f"{address}/health").status_code == 200


def test_a_body_that_nobody_reads_cannot_hold_a_connection(impatient):
    """The response is sent before the body has arrived; the rest of it comes byte by byte."""
    with connect(impatient) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                sock.sendall(b" ")
                time.sleep(0.1)
            pytest.fail("the connection stayed open for ten seconds")


def test_a_client_that_does_not_read_is_cut_off(impatient):
    path, n = b"/style.css", 300
    size = len(httpx.get(f"{impatient}{path.decode()}").content)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = impatient.removeprefix("http://").split(":")
        sock.connect((host, int(port)))
        sock.settimeout(20)
        sock.sendall(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path * n)
        time.sleep(2)
        n_read = 0
        with contextlib.suppress(ConnectionError):
            while part := sock.recv(65536):
                n_read += len(part)
    assert n_read < n * size
    assert httpx.get(f"{impatient}/health").status_code == 200


def test_a_client_that_reads_slowly_gets_all(impatient):
    path, n = b"/style.css", 200
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        host, port = impatient.removeprefix("http://").split(":")
        sock.connect((host, int(port)))
        sock.sendall(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path * n)
        sock.settimeout(0.4)  # below the time limit of an idle connection
        parts = []
        with contextlib.suppress(TimeoutError):
            while len(parts) < 100_000 and (part := sock.recv(16384)):
                parts.append(part)
                time.sleep(0.01)
    assert b"".join(parts).count(b"HTTP/1.1 200 ") == n


def test_chunks_of_one_byte_are_cut_off(impatient):
    """Each chunk costs the event loop as much as a large one."""
    head = b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(impatient) as sock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        sock.sendall(head + b"1\r\n \r\n" * 1_000_000)
        pytest.fail("6 MB in chunks of one byte were accepted")
    assert httpx.get(f"{impatient}/health").status_code == 200


@pytest.mark.parametrize(("size", "n"), [(1, 900), (256, 20_000), (1000, 3000)])
def test_chunks_that_may_be_sent(size, n):
    """The limit is for the mean chunk: small ones are allowed if they are few."""
    connection = server.CountedChunks(server.h11.SERVER)
    connection.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert isinstance(connection.next_event(), server.h11.Request)
    block = b"%x\r\n%s\r\n" % (size, bytes(size))
    for _ in range(n):
        connection.receive_data(block)
        assert len(connection.next_event().data) == size
    assert not connection.is_flooded


def test_headers_that_are_too_long(impatient):
    with connect(impatient) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * 60_000)
        assert answer(sock)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 431")


def test_a_connection_with_many_requests_outlives_the_header_deadline(impatient):
    with httpx.Client(base_url=impatient) as client:
        for _ in range(3):
            assert client.get("/health").status_code == 200
            time.sleep(0.3)


def test_shutdown_finishes_running_requests_and_accepts_no_new_ones(fitted):
    app = create_app(fitted, ServiceSettings(rate=0, read_only=True))
    with listen("127.0.0.1", 0) as sock:
        serving = make_server(app)
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{sock.getsockname()[1]}"
        assert httpx.get(f"{address}/health", timeout=60).status_code == 200
        body = json.dumps({"query": {"id": 1}}).encode()
        with connect(address) as client:
            client.sendall(
                b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body) + body[:5]
            )
            time.sleep(0.3)
            serving.should_exit = True
            time.sleep(0.3)
            with pytest.raises(OSError):
                connect(address)
            client.sendall(body[5:])
            assert answer(client).startswith(b"HTTP/1.1 200 ")
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps the memory")
def test_memory_of_uploads_returns_to_the_system():
    """A smaller object above each of 100 large ones that are freed: without the setting, the process keeps all."""
    program = """
import os, sys
from cbid.web import server
if sys.argv[1] == "set":
    server._return_large_blocks()
large = b"x" * 2**24
del large  # glibc now takes blocks of up to 16 MiB from its heap
kept = []
for i in range(100):
    kept += [b"%d" % i * 2**20, b"y" * 200_000]
kept[::2] = [None] * 100
with open("/proc/self/statm") as file:
    print(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20)
"""
    sizes = {
        how: int(subprocess.run([sys.executable, "-c", program, how], capture_output=True, check=True).stdout)
        for how in ("set", "not")
    }
    assert sizes["set"] < sizes["not"] - 100, sizes


def test_a_line_of_the_log_has_no_control_characters():
    values = "it failed\x1b[2J\n", (), None
    line = server.TextLines("%(message)s").format(logging.LogRecord("cbid.web", logging.ERROR, "", 0, *values))
    assert line == "it failed\\x1b[2J\\n"


def test_a_port_that_is_taken():
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {port}: "):
            listen("127.0.0.1", port)


# Rejections reach clients that send the whole request first


@pytest.mark.parametrize(
    ("settings", "status"), [({"max_upload": 1_000_000}, 413), ({"api_key": "a key of many letters"}, 401)]
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_sends_everything_gets_the_rejection(fitted, settings, status, chunked):
    content = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n' + bytes(3_000_000)
    body = (content[i : i + 65536] for i in range(0, len(content), 65536)) if chunked else content
    headers = {"content-type": "multipart/form-data; boundary=x"}
    with running(fitted, rate=0, read_only=True, **settings) as address:
        for _ in range(3):
            answer = httpx.post(f"{address}/api/search/image", content=body, headers=headers)
            assert answer.status_code == status
            assert answer.json()["error"]
            if chunked:
                break


def test_a_rejected_upload_without_end_is_cut(fitted):
    with running(fitted, rate=0, max_upload=100_000, read_only=True) as address, connect(address) as sock:
        sock.sendall(
            b"POST /api/search/image HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
        )
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 99_999_999:
                sock.sendall(bytes(65536))
                sent += 65536
        assert sent < 50_000_000


# Connections


def test_one_address_cannot_take_all_connections(fitted):
    """Idle connections of an address make room for its new ones; a busy address leaves room for others."""
    with running(fitted, rate=0, read_only=True, connections_per_address=5, max_connections=8) as address:
        idle = [connect(address) for _ in range(40)]
        try:
            for _ in range(3):
                assert httpx.get(f"{address}/health", timeout=20).status_code == 200
            closed = [sock for sock in idle if select.select([sock], [], [], 0)[0]]
            assert len(closed) >= 35
        finally:
            for sock in idle:
                sock.close()


class FakeConnection:
    def __init__(self, *, is_idle):
        self.is_idle, self.transport, self.closed = is_idle, self, False

    def close(self):
        self.closed = True


def test_one_ipv6_network_is_one_client():
    """A host has 2^64 addresses of its own; the network of a proxy is not limited by the proxy's connections."""
    open_ones = server.OpenConnections(most=9, per_address=2, unlimited=["2001:db8::1"])
    idle = [FakeConnection(is_idle=True) for _ in range(4)]
    assert all(open_ones.admit(each, f"2001:db8:0:7::{i}") for i, each in enumerate(idle))
    assert [each.closed for each in idle] == [True, True, False, False]
    open_ones.discard(idle[3], "2001:db8:0:7::3")
    assert open_ones.admit(FakeConnection(is_idle=False), "2001:db8:0:7::9")
    assert not idle[2].closed
    through = [FakeConnection(is_idle=False) for _ in range(5)]
    assert all(open_ones.admit(each, "2001:db8::1") for each in through)
    assert open_ones.admit(FakeConnection(is_idle=False), "2001:db8::2")
    for each in through:
        open_ones.discard(each, "2001:db8::1")
    assert open_ones._n == 3


def test_limits_of_connections():
    open_ones = server.OpenConnections(most=4, per_address=3, unlimited=["10.0.0.0/8"])
    busy = [FakeConnection(is_idle=False) for _ in range(4)]
    assert [open_ones.admit(each, "1.1.1.1") for each in busy] == [True, True, True, False]
    open_ones.discard(busy[3], "1.1.1.1")
    first = FakeConnection(is_idle=True)
    assert open_ones.admit(first, "10.0.0.1")
    assert not open_ones.admit(FakeConnection(is_idle=True), "2.2.2.2")  # all are busy, and none of 1.1.1.1 is idle
    open_ones.discard(busy[0], "1.1.1.1")
    open_ones.discard(busy[1], "1.1.1.1")
    proxied = [FakeConnection(is_idle=True) for _ in range(2)]
    assert all(open_ones.admit(each, "10.0.0.1") for each in proxied)
    assert first.closed  # the oldest idle one of the address with the most
