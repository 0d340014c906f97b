"""Where a collection is: a server and a name, or a file and a name."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["TOKEN_VARIABLE", "Address"]

TOKEN_VARIABLE = "CBID_MILVUS_TOKEN"
_PORT = 19530
_SERVERS = {"milvus": "http", "milvus+https": "https"}
_ACCEPTED = (
    "milvus://host:port/collection, milvus+https://host:port/collection, or a file of milvus-lite: "
    "milvus:///folder/name.db/collection, milvus:name.db/collection"
)


@dataclass(frozen=True)
class Address:
    """One collection of a server (``uri``) or of an embedded milvus-lite (``file``). It never holds a token."""

    text: str
    collection: str
    uri: str | None = None
    file: Path | None = None

    @classmethod
    def parse(cls, text: "str | Address") -> "Address":
        """An address as people write it; see docs/scale.md."""
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            raise TypeError(f"address is {text!r}; accepted: {_ACCEPTED}")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError(f"address={_shown(text)!r}: expected {_ACCEPTED}") from None
        if parts.username is not None or parts.password is not None:
            raise ValueError(
                f"address={_shown(text)!r} holds a name or a password, which would be shown in messages; "
                f"set {TOKEN_VARIABLE}=name:password instead"
            )
        where, _, collection = unquote(parts.path).rpartition("/")
        if parts.scheme not in _SERVERS or parts.query or parts.fragment:
            raise ValueError(f"address={text!r}: expected {_ACCEPTED}")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,254}", collection):
            raise ValueError(
                f"address={text!r} names the collection {collection!r}; its name takes letters, digits and _, and "
                f"does not begin with a digit: {_ACCEPTED}"
            )
        if host and not where:
            shown = f"[{host}]" if ":" in host else host
            return cls(text, collection, uri=f"{_SERVERS[parts.scheme]}://{shown}:{port or _PORT}")
        file = Path(where)
        # What milvus-lite takes for the name of a file; more characters would make its socket's path too long.
        if host or parts.scheme != "milvus" or not re.fullmatch(r"[A-Za-z0-9._-]{1,33}\.db", file.name):
            raise ValueError(f"address={text!r}: expected {_ACCEPTED}")
        return cls(text, collection, file=file)

    def __str__(self) -> str:
        return self.text


def _shown(text: str) -> str:
    """Without what stands before an @, which may be a password."""
    return re.sub(r"//[^/]*@", "//...@", text)
