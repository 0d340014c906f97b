"""A form in punycode takes Python quadratic time on the event loop. Expected: 400 at once."""

import time

from attacks.target import request, served

BODY = b'--x\r\nContent-Disposition: form-data; name="label"\r\n\r\n' + b"a" * 1_000_000 + b"\r\n--x--\r\n"
HEAD = (
    b"POST /api/images HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    b"Content-Type: multipart/form-data; boundary=x; charset=punycode\r\nContent-Length: %d\r\n\r\n"
)


def main() -> None:
    """Run the attack."""
    with served(images=True) as address:
        begun = time.perf_counter()
        answer = request(address, HEAD % len(BODY) + BODY)
        assert time.perf_counter() - begun < 1
    assert answer.startswith(b"HTTP/1.1 400 "), answer[:50]


if __name__ == "__main__":
    main()
