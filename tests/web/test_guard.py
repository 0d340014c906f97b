"""Who may ask: host names, origins, keys, rates; and the headers of every answer."""

import pytest

from cbid.web.guard import COOKIE, cookie_of
from tests.web.conftest import client_of

KEY = "a key of many letters"


def test_every_answer_has_security_headers(client):
    for path in ("/", "/api/project", "/nothing/here", "/api/images/999999"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
    assert client.get("/api/project").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "127.0.0.2", "[::1"])
def test_foreign_names_are_refused(client, host):
    """A name of somebody else's that points here (DNS rebinding) is not answered to."""
    answer = client.get("/api/project", headers={"host": host})
    assert answer.status_code == 400
    assert "this service answers to localhost" in answer.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "LOCALHOST:1", "[::1]:8000"])
def test_own_names_are_answered(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1.evil.example"]
)
def test_pages_of_other_sites_cannot_change_anything(client, origin):
    answer = client.post("/api/images", headers={"origin": origin}, files={"images": b"x"})
    assert answer.status_code == 403
    assert "another site" in answer.json()["error"]


def test_the_own_page_may_ask(client):
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
    assert answer.json() == {"error": "the API key is missing or wrong"}


@pytest.mark.parametrize("path", ["/", "/main.js", "/health"])
def test_what_needs_no_key(locked, path):
    assert locked.get(path).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-api-key": KEY}, 200),
        ({"authorization": f"Bearer {KEY}"}, 200),
        ({"authorization": f"bearer  {KEY}"}, 200),
        ({"cookie": f"{COOKIE}={cookie_of(KEY)}"}, 200),
        ({"x-api-key": KEY + "x"}, 401),
        ({"authorization": f"Basic {KEY}"}, 401),
        ({"cookie": f"{COOKIE}={KEY}"}, 401),  # the cookie is not the key
        ({"cookie": f"{COOKIE}="}, 401),
        ({"x-api-key": "ü" * 20}, 401),
    ],
)
def test_keys(locked, headers, status):
    encoded = {name: value.encode() for name, value in headers.items()}
    assert locked.get("/api/project", headers=encoded).status_code == status


def test_the_page_changes_its_key_for_a_cookie(locked):
    assert locked.post("/api/session", json={"key": "wrong"}).status_code == 401
    answer = locked.post("/api/session", json={"key": KEY})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert KEY not in cookie
    assert locked.get("/api/project").status_code == 200  # the client keeps cookies
    locked.cookies.clear()


def test_rate(fitted):
    with client_of(fitted, rate=0.01, burst=3, read_only=True) as client:
        statuses = [client.get("/health").status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert int(client.get("/health").headers["retry-after"]) in range(90, 101)
