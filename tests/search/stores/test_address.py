"""What people may write as the address of a collection."""

from pathlib import Path

import pytest

from cbid.search.stores import MilvusAddress


@pytest.mark.parametrize(
    ("text", "uri", "file", "collection"),
    [
        ("milvus://host/photos", "http://host:19530", None, "photos"),
        ("milvus://host:1234/photos", "http://host:1234", None, "photos"),
        ("milvus://[::1]:1234/photos", "http://[::1]:1234", None, "photos"),
        ("milvus+https://host:443/p_2", "https://host:443", None, "p_2"),
        ("milvus:///folder/codes.db/photos", None, Path("/folder/codes.db"), "photos"),
        ("milvus:///a%20folder/codes.db/photos", None, Path("/a folder/codes.db"), "photos"),
        ("milvus:codes.db/photos", None, Path("codes.db"), "photos"),
    ],
)
def test_addresses(text, uri, file, collection):
    address = MilvusAddress.parse(text)
    assert (address.uri, address.file, address.collection) == (uri, file, collection)
    assert str(address) == text
    assert MilvusAddress.parse(address) is address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "photos",
        "http://host/photos",
        "milvus://host",
        "milvus://host/",
        "milvus://host/two/parts",
        "milvus://host/1st",
        "milvus://host/ph-otos",
        "milvus://host:port/photos",
        "milvus://host/photos?a=b",
        "milvus:///folder/codes.txt/photos",
        "milvus:///codes.db",
        f"milvus:///{'c' * 40}.db/photos",
        "milvus+https:///codes.db/photos",
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(ValueError, match="milvus://host:port/collection"):
        MilvusAddress.parse(text)


def test_a_password_is_refused_and_not_repeated():
    with pytest.raises(ValueError, match="CBID_MILVUS_TOKEN") as caught:
        MilvusAddress.parse("milvus://me:secret@host/photos")
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="address=") as caught:
        MilvusAddress.parse("milvus://me:secret@host:port/photos")
    assert "secret" not in str(caught.value)


def test_another_type():
    with pytest.raises(TypeError, match="address=3"):
        MilvusAddress.parse(3)
