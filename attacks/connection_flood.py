"""One address opens idle connections until no other client gets one. Expected: its oldest ones are closed."""

import socket

from attacks.target import request, served


def main() -> None:
    """Run the attack."""
    with served(max_connections=20, connections_per_address=10, rate=0) as address:
        flood = [socket.create_connection(address) for _ in range(100)]
        answer = request(address, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        for sock in flood:
            sock.close()
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:50]


if __name__ == "__main__":
    main()
