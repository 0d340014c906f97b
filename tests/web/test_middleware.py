"""Host names, origins, keys, rate limits, and the security headers of every response."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from cbid.web import ServiceSettings, create_app, middleware
from cbid.web.middleware import SESSION_COOKIE, RateLimit, session_cookie
from cbid.web.served import WorkerPool
from tests.web.conftest import client_of

KEY = "a key of many letters"


def test_every_response_has_security_headers(client):
    for path in ("/", "/api/project", "/nothing/here", "/api/images/999999"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
    assert client.get("/api/project").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "127.0.0.2", "[::1"])
def test_foreign_host_names_are_rejected(client, host):
    """A foreign name that points to this machine (DNS rebinding) gets a 400."""
    answer = client.get("/api/project", headers={"host": host})
    assert answer.status_code == 400
    assert repr(host) in answer.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "LOCALHOST:1", "[::1]:8000"])
def test_own_host_names_are_accepted(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1.evil.example"]
)
def test_pages_of_other_sites_cannot_change_anything(client, origin):
    answer = client.post("/api/images", headers={"origin": origin}, files={"images": b"x"})
    assert answer.status_code == 403
    assert answer.json()["error"]


def test_the_own_page_is_allowed(client):
    answer = client.post("/api/search", headers={"origin": "http://127.0.0.1"}, json={"query": {"id": 1}})
    assert answer.status_code == 200


@pytest.fixture(scope="module")
def locked(fitted):
    with client_of(fitted, api_key=KEY, rate=0, hosts=(), read_only=True) as client:
        yield client


@pytest.mark.parametrize("path", ["/api/project", "/api/images/1/thumbnail", "/metrics", "/openapi.json"])
def test_without_the_key(locked, path):
    answer = locked.get(path)
    assert answer.status_code == 401
    assert "key" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/", "/main.js", "/health"])
def test_paths_that_need_no_key(locked, path):
    assert locked.get(path).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-api-key": KEY}, 200),
        ({"authorization": f"Bearer {KEY}"}, 200),
        ({"authorization": f"bearer  {KEY}"}, 200),
        ({"cookie": f"{SESSION_COOKIE}={session_cookie(KEY)}"}, 200),
        ({"x-api-key": KEY + "x"}, 401),
        ({"authorization": f"Basic {KEY}"}, 401),
        ({"cookie": f"{SESSION_COOKIE}={KEY}"}, 401),  # the cookie is not the key
        ({"cookie": f"{SESSION_COOKIE}="}, 401),
        ({"x-api-key": "ü" * 20}, 401),
    ],
)
def test_keys(locked, headers, status):
    encoded = {name: value.encode() for name, value in headers.items()}
    assert locked.get("/api/project", headers=encoded).status_code == status


def test_the_page_exchanges_its_key_for_a_cookie(locked):
    assert locked.post("/api/session", json={"key": "wrong"}).status_code == 401
    answer = locked.post("/api/session", json={"key": KEY})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert KEY not in cookie
    assert locked.get("/api/project").status_code == 200  # the client sends the cookie
    locked.cookies.clear()


def test_rate(fitted):
    with client_of(fitted, rate=0.01, burst=3, read_only=True) as client:
        statuses = [client.get("/health").status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert int(client.get("/health").headers["retry-after"]) in range(90, 101)


# The rate limit


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@given(gaps=st.lists(st.floats(0, 2), max_size=60), per_second=st.floats(0.5, 20), burst=st.integers(1, 10))
def test_at_most_the_burst_and_the_refilled_tokens(gaps, per_second, burst):
    """In t seconds a client sends at most burst + rate t requests."""
    clock = Clock()
    limit = RateLimit(per_second, burst, clock)
    passed = 0
    for gap in gaps:
        clock.now += gap
        passed += limit.wait("client") == 0
    assert passed <= burst + per_second * clock.now + 1e-6
    assert passed >= min(len(gaps), burst)


def test_a_client_that_waits_passes():
    clock = Clock()
    limit = RateLimit(4, 1, clock)
    assert limit.wait("a") == 0
    wait = limit.wait("a")
    assert wait == 0.25
    clock.now += wait
    assert limit.wait("a") == 0


def test_each_client_has_a_bucket_and_old_ones_are_dropped(monkeypatch):
    monkeypatch.setattr(middleware, "_MAX_CLIENTS", 3)
    clock = Clock()
    limit = RateLimit(0.001, 1, clock)
    assert [limit.wait(str(i)) for i in range(4)] == [0] * 4
    assert limit.wait("3") > 0
    assert limit.wait("0") == 0  # dropped, so it has a full bucket again
    assert len(limit._buckets) == 3


def test_no_limit():
    limit = RateLimit(0, 1)
    assert not any(limit.wait("a") for _ in range(1000))


# Headers


@pytest.mark.parametrize("path", ["/api/project", "/health"])
def test_a_cookie_that_is_slow_to_parse_costs_nothing(locked, path):
    """The parser of the standard library takes seconds for these 31,000 backslashes."""
    begun = time.perf_counter()
    answer = locked.get(path, headers={"cookie": f'{SESSION_COOKIE}="' + "\\" * 31_000 + '"'})
    assert time.perf_counter() - begun < 0.5
    assert answer.status_code == (200 if path == "/health" else 401)


@pytest.mark.parametrize(
    "headers",
    [[("x-long", "x" * 33_000)], [("cookie", "a=b; " * 7_000)], [(f"x-{i}", "") for i in range(101)]],
)
def test_large_headers_are_rejected(locked, headers):
    answer = locked.get("/health", headers=headers)
    assert answer.status_code == 431
    assert "headers" in answer.json()["error"]


@pytest.mark.parametrize(
    ("cookie", "status"),
    [
        (f"a=1; {SESSION_COOKIE}={session_cookie(KEY)}; b=2", 200),
        (f'{SESSION_COOKIE}="{session_cookie(KEY)}"', 200),
        (f"{SESSION_COOKIE}={session_cookie(KEY, 1)}", 401),  # it has expired
        (f"{SESSION_COOKIE}=9{session_cookie(KEY)}", 401),  # the time is part of what is signed
        (f"x{SESSION_COOKIE}={session_cookie(KEY)}", 401),
        (f"{SESSION_COOKIE}={session_cookie(KEY[:-1])}", 401),
        (f"{SESSION_COOKIE}=" + "9" * 5000, 401),
    ],
    ids=["good", "quoted", "expired", "altered", "of another name", "of another key", "long"],
)
def test_cookies(locked, cookie, status):
    assert locked.get("/api/project", headers={"cookie": cookie}).status_code == status


def test_logout_removes_the_cookie(locked):
    assert locked.post("/api/session", json={"key": KEY}).status_code == 204
    answer = locked.delete("/api/session")
    assert answer.status_code == 204
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert locked.get("/api/project").status_code == 401


def test_two_lengths_of_one_request_are_rejected(locked):
    headers = {"content-length": "2", "transfer-encoding": "chunked"}
    answer = locked.post("/api/session", headers=headers, content=b"{}")
    assert answer.status_code == 400
    assert "Transfer-Encoding" in answer.json()["error"]


FORM = b'--x\r\nContent-Disposition: form-data; name="label"\r\n\r\n%s\r\n--x--\r\n'


@pytest.mark.parametrize(
    "given",
    [
        "charset=punycode",
        'charset="punycode"',
        "charset =punycode",
        "CharSet=idna",
        "charset=utf-8; charset=punycode",
    ],
)
def test_a_charset_that_is_slow_to_decode_is_rejected(locked, given):
    """Python takes half a minute for a megabyte of punycode, on the event loop."""
    headers = {"content-type": f"multipart/form-data; boundary=x; {given}", "x-api-key": KEY}
    begun = time.perf_counter()
    answer = locked.post("/api/images", headers=headers, content=FORM % (b"a" * 1_000_000))
    assert time.perf_counter() - begun < 2
    assert answer.status_code == 400
    assert "charset" in answer.json()["error"]


@pytest.mark.parametrize("given", ["", "; charset=utf-8", '; charset="UTF-8"', "; Charset=utf8; a=b"])
def test_utf_8_is_accepted(locked, given):
    headers = {"content-type": f"multipart/form-data; boundary=x{given}", "x-api-key": KEY}
    answer = locked.post("/api/images", headers=headers, content=FORM % b"a")
    assert answer.status_code == 422  # the images are missing


def test_a_second_content_type_does_not_raise_the_limit_of_json(locked):
    headers = [("content-type", "application/json"), ("content-type", "multipart/form-data; boundary=x")]
    content = b'{"query": {"id": 1}' + b" " * 5_000_000 + b"}"
    answer = locked.post("/api/search", headers=[*headers, ("x-api-key", KEY)], content=content)
    assert answer.status_code == 413


# Behind a proxy: the test client has the address "testclient", so the address is set here


def through_proxy(path, address, **settings):
    app = create_app(path, ServiceSettings(hosts=(), read_only=True, **settings))
    return TestClient(app, base_url="http://cbid.example", client=(address, 1), raise_server_exceptions=False)


def test_each_client_of_a_trusted_proxy_has_its_own_rate(fitted):
    with through_proxy(fitted, "10.0.0.7", rate=0.01, burst=1, trusted_proxies=("10.0.0.0/8",)) as client:
        statuses = [
            client.get("/health", headers={"x-forwarded-for": forwarded}).status_code
            for forwarded in ("1.1.1.1", "2.2.2.2", "1.1.1.1", "9.9.9.9, 1.1.1.1", "1.1.1.1, 3.3.3.3, 10.0.0.8")
        ]
    assert statuses == [200, 200, 429, 429, 200]  # the last address that is no proxy counts


def test_the_threads_know_the_client(fitted, monkeypatch):
    seen, run = [], WorkerPool.run

    async def watched(self, *arguments, **named):
        seen.append(middleware.current_client.get())
        return await run(self, *arguments, **named)

    monkeypatch.setattr(WorkerPool, "run", watched)
    with through_proxy(fitted, "10.0.0.7", trusted_proxies=("10.0.0.7",)) as client:
        for forwarded in ("1.1.1.1", "2001:db8:0:1::1"):
            assert client.get("/api/project", headers={"x-forwarded-for": forwarded}).status_code == 200
    assert seen == ["1.1.1.1", "2001:db8:0:1::/64"]


def test_an_ipv6_network_has_one_rate(fitted):
    with through_proxy(fitted, "10.0.0.7", rate=0.01, burst=1, trusted_proxies=("10.0.0.7",)) as client:
        statuses = [
            client.get("/health", headers={"x-forwarded-for": forwarded}).status_code
            for forwarded in ("2001:db8:0:1::1", "2001:db8:0:1:f::9", "2001:db8:0:2::1", "::ffff:1.2.3.4", "1.2.3.4")
        ]
    assert statuses == [200, 429, 200, 200, 429]


def test_forwarded_headers_of_others_are_ignored(fitted):
    with through_proxy(fitted, "4.4.4.4", rate=0.01, burst=1, trusted_proxies=("10.0.0.0/8",), api_key=KEY) as client:
        headers = {"x-forwarded-for": "1.1.1.1", "x-forwarded-proto": "https"}
        answer = client.post("/api/session", json={"key": KEY}, headers=headers)
        assert "Secure" not in answer.headers["set-cookie"]
        assert client.get("/health", headers={"x-forwarded-for": "2.2.2.2"}).status_code == 429


def test_cookies_behind_tls_are_secure_and_expire(fitted):
    with through_proxy(fitted, "10.0.0.7", trusted_proxies=("10.0.0.7",), api_key=KEY) as client:
        answer = client.post("/api/session", json={"key": KEY}, headers={"x-forwarded-proto": "https"})
    assert "Secure" in answer.headers["set-cookie"]
    assert "Max-Age=43200" in answer.headers["set-cookie"]


def test_every_response_has_a_request_id(fitted):
    with client_of(fitted) as client:
        first, second = (client.get("/health").headers["x-request-id"] for _ in range(2))
        assert first != second
        assert client.get("/health", headers={"x-request-id": "a-1"}).headers["x-request-id"] == "a-1"
        for wrong in ("a b", "x" * 65, '"'):
            assert client.get("/health", headers={"x-request-id": wrong}).headers["x-request-id"] != wrong
