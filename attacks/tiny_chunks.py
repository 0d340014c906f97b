"""A body in chunks of one byte, without a key. Expected: the connection is cut off, and others are served meanwhile.

The parser takes the event loop about 5 microseconds for a chunk of any size. Without a limit, one connection that
sends a megabyte a second would occupy it.
"""

import socket
import threading
import time

from attacks.target import KEY, request, served

MEGABYTES = 20


def main() -> None:
    """Run the attack."""
    slowest, end = 0.0, threading.Event()
    with served(api_key=KEY) as address:

        def honest() -> None:
            nonlocal slowest
            while not end.wait(0.05):
                begun = time.perf_counter()
                answer = request(address, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                slowest = max(slowest, time.perf_counter() - begun)
                assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]

        thread = threading.Thread(target=honest)
        thread.start()
        sent = 0
        try:
            with socket.create_connection(address, timeout=30) as sock:
                sock.sendall(b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
                while sent < MEGABYTES * 10**6:
                    sock.sendall(b"1\r\nx\r\n" * 10_000)
                    sent += 60_000
            raise AssertionError(f"{sent} bytes are accepted")
        except (ConnectionResetError, BrokenPipeError):
            print(f"cut off after {sent} bytes at most; slowest answer to others {1000 * slowest:.0f} ms")
        finally:
            end.set()
            thread.join()
    assert slowest < 2, slowest


if __name__ == "__main__":
    main()
