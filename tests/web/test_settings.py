"""What may be set, and which addresses only this machine reaches."""

import pytest

from cbid.web import Settings, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_addresses_of_this_machine(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.4", "example.org", ""])
def test_addresses_that_others_reach(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_upload", 0),
        ("max_pixels", 1.5),
        ("seconds", 0),
        ("upload_seconds", float("nan")),
        ("rate", -1),
        ("threads", 0),
        ("burst", True),
    ],
)
def test_what_is_not_accepted(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        Settings(**{name: value})


@pytest.mark.parametrize("key", ["", "short", "ünïcödé but long enough"])
def test_keys_that_are_not_accepted(key):
    with pytest.raises(ValueError, match=r"api_key has .* give at least 16"):
        Settings(api_key=key)
