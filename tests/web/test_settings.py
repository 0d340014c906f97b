"""Accepted settings, and addresses that only this machine can reach."""

import pytest

from cbid.web import ServiceSettings, Settings, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_addresses(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.4", "example.org", ""])
def test_addresses_that_other_machines_reach(host):
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
        ("connections_per_address", 0),
    ],
)
def test_values_that_are_rejected(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        ServiceSettings(**{name: value})


@pytest.mark.parametrize("key", ["", "short", "ünïcödé but long enough"])
def test_keys_that_are_rejected(key):
    with pytest.raises(ValueError, match=r"api_key .* 16"):
        ServiceSettings(api_key=key)


def test_a_store_makes_the_service_read_only():
    assert ServiceSettings(store="milvus:x.db/y").read_only
    assert not ServiceSettings().read_only


def test_the_former_name():
    assert Settings is ServiceSettings


def test_proxies_are_addresses_or_networks():
    assert ServiceSettings(trusted_proxies=("10.0.0.1", "fd00::/8")).trusted_proxies
    with pytest.raises(ValueError, match=r"trusted_proxies='proxy\.example'"):
        ServiceSettings(trusted_proxies=("proxy.example",))
