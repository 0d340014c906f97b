"""Two lengths in one request: a proxy and the service may disagree where it ends. Expected: 400."""

from attacks.target import request, served


def main() -> None:
    """Run the attack."""
    with served() as address:
        answer = request(
            address,
            b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"0\r\n\r\nGET /api/images HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        )
    assert answer.startswith(b"HTTP/1.1 400 "), answer[:50]
    assert answer.count(b"HTTP/1.1") == 1


if __name__ == "__main__":
    main()
