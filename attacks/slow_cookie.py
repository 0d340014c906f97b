"""A cookie of 31,000 backslashes takes the parser of the standard library seconds. Expected: 401 at once."""

import time

from attacks.target import KEY, request, served


def main() -> None:
    """Run the attack."""
    cookie = b'cbid_session="' + b"\\" * 31_000 + b'"'
    with served(api_key=KEY) as address:
        begun = time.perf_counter()
        answer = request(
            address,
            b"GET /api/project HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nCookie: " + cookie + b"\r\n\r\n",
        )
        assert time.perf_counter() - begun < 0.5
    assert answer.startswith(b"HTTP/1.1 401 "), answer[:50]


if __name__ == "__main__":
    main()
