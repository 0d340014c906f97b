"""Clients that hold connections: they send a body that nobody reads, or read nothing. Expected: cut off in time."""

import contextlib
import socket
import time

from attacks.target import KEY, request, served


def main() -> None:
    """Run the attack."""
    from cbid.web import server

    server.HEADER_SECONDS = server.SEND_SECONDS = 1.0
    with served(api_key=KEY, max_connections=20, connections_per_address=10, rate=0) as address:
        senders = [_connected(address, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999\r\n\r\n", 1)]
        readers = [_connected(address, b"GET /style.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 300) for _ in range(9)]
        end = time.monotonic() + 4
        while time.monotonic() < end:
            for sock in senders:
                with contextlib.suppress(ConnectionError):
                    sock.sendall(b" ")
            time.sleep(0.1)
        answer = request(address, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 "), answer[:50]
        for sock in (*senders, *readers):
            assert _ends(sock), "a connection is still open"
            sock.close()


def _connected(address: tuple[str, int], content: bytes, n: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(address)
    sock.settimeout(0.5)  # less than the service waits for the next request
    sock.sendall(content * n)
    return sock


def _ends(sock: socket.socket) -> bool:
    """Read what has arrived; return whether the other side has closed the connection."""
    try:
        while sock.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


if __name__ == "__main__":
    main()
