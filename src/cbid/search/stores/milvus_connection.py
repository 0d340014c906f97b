"""The address of a Milvus collection, and calls to Milvus: with a time limit, and retried while a server restarts."""

import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from cbid.extras import missing_extra

TOKEN_VARIABLE = "CBID_MILVUS_TOKEN"
_PORT = 19530
_SERVERS = {"milvus": "http", "milvus+https": "https"}
_EXPECTED = (
    "milvus://host:port/collection, milvus+https://host:port/collection, or a file of milvus-lite: "
    "milvus:///folder/name.db/collection, milvus:name.db/collection"
)


@dataclass(frozen=True)
class MilvusAddress:
    """A collection of a server (``uri``) or of an embedded milvus-lite (``file``); it never holds a token."""

    text: str
    collection: str
    uri: str | None = None
    file: Path | None = None

    @classmethod
    def parse(cls, text: "str | MilvusAddress") -> "MilvusAddress":
        """Parse an address such as ``milvus://host:port/collection``."""
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            raise TypeError(f"address={text!r}: expected {_EXPECTED}")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError(f"address={_shown(text)!r}: expected {_EXPECTED}") from None
        if parts.username is not None or parts.password is not None:
            raise ValueError(
                f"address={_shown(text)!r}: it holds a name or password, which messages would show; "
                f"set {TOKEN_VARIABLE}=name:password instead"
            )
        where, _, collection = unquote(parts.path).rpartition("/")
        if parts.scheme not in _SERVERS or parts.query or parts.fragment:
            raise ValueError(f"address={text!r}: expected {_EXPECTED}")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,254}", collection):
            raise ValueError(
                f"address={text!r}: invalid collection name {collection!r}; expected letters, digits and _, not "
                f"starting with a digit: {_EXPECTED}"
            )
        if host and not where:
            shown = f"[{host}]" if ":" in host else host
            return cls(text, collection, uri=f"{_SERVERS[parts.scheme]}://{shown}:{port or _PORT}")
        file = Path(where)
        # milvus-lite accepts these names; a longer one would make the path of its socket too long.
        if host or parts.scheme != "milvus" or not re.fullmatch(r"[A-Za-z0-9._-]{1,33}\.db", file.name):
            raise ValueError(f"address={text!r}: expected {_EXPECTED}")
        return cls(text, collection, file=file)

    def __str__(self) -> str:
        return self.text


def _shown(text: str) -> str:
    """Hide everything before an @, which may be a password."""
    return re.sub(r"//[^/]*@", "//...@", text)


T = TypeVar("T")
_OLDEST = (2, 3)  # the first version with upsert
_LONGEST_WAIT = 2.0  # seconds between two attempts
_NOT_FOUND = 100
# Milvus error codes that a retry does not change: no such collection, wrong parameters, errors of its search core.
_FINAL = (range(_NOT_FOUND, _NOT_FOUND + 1), range(1100, 1200), range(2000, 2100))


class MilvusError(ConnectionError):
    """Milvus cannot be reached, has stopped, has an unsupported version, or rejects a request."""


class MilvusConnection:
    """A client of one server or one file. Calls from several threads are safe."""

    def __init__(self, address: MilvusAddress, token: str | None = None, timeout: float = 30.0) -> None:
        self.address = address
        self.timeout = timeout
        self._pymilvus = _pymilvus()
        self._file = None if address.file is None else address.file.resolve()
        self._client: Any = None
        if self._file is not None:
            _check_lite(address)
            with _FILES:
                _check_free(address, self._file)
                self._client = self._connected(str(self._file), "")
                _OPEN[self._file] += 1
            return
        assert address.uri is not None
        self._client = self._connected(address.uri, os.environ.get(TOKEN_VARIABLE, "") if token is None else token)
        try:
            self._check_version()
        except BaseException:
            self.close()
            raise

    def _connected(self, target: str, token: str) -> Any:
        # A separate channel: closing it closes no other store.
        return self._retried(
            "answer", lambda left: self._pymilvus.MilvusClient(target, token=token, timeout=left, dedicated=True)
        )

    def call(self, doing: str, act: Callable[[Any, float], T]) -> T:
        """Return ``act(client, seconds left)``, retried until it succeeds or the time limit is reached."""
        client = self._client
        if client is None:
            raise ValueError(f"{self.address} is closed; open it again")
        return self._retried(doing, lambda left: act(client, left))

    def request(self, doing: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return the result of a method of the client on the collection, as in `call`."""
        collection = self.address.collection
        return self.call(doing, lambda c, left: getattr(c, method)(collection, *args, timeout=left, **kwargs))

    def describe(self) -> dict[str, Any] | None:
        """Return the description of the collection, or None if it is missing."""

        def act(client: Any, left: float) -> dict[str, Any] | None:
            try:
                return client.describe_collection(self.address.collection, timeout=left)
            except self._pymilvus.MilvusException as error:
                if error.code == _NOT_FOUND:
                    return None
                raise

        return self.call("look for the collection", act)

    def close(self) -> None:
        """Close the connection; the process of a file ends with the last one. A second call does nothing."""
        client, self._client = self._client, None
        if client is None:
            return
        client.close()
        if self._file is not None:
            with _FILES:
                _OPEN[self._file] -= 1
                if not _OPEN[self._file]:
                    from milvus_lite.server_manager import server_manager_instance

                    server_manager_instance.release_server(str(self._file))

    def _retried(self, doing: str, act: Callable[[float], T]) -> T:
        import grpc

        until, wait = time.monotonic() + self.timeout, 0.1
        while True:
            try:
                return act(max(until - time.monotonic(), 0.1))
            except (self._pymilvus.MilvusException, grpc.RpcError) as error:
                if self._is_final(error):
                    raise MilvusError(f"{self.address}: Milvus cannot {doing}: {_reason(error)}") from error
                if time.monotonic() + wait > until:
                    raise MilvusError(
                        f"{self.address}: Milvus did not {doing} within {self.timeout:g} s: {_reason(error)}"
                    ) from error
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _is_final(self, error: Any) -> bool:
        import grpc

        if isinstance(error, grpc.RpcError):
            code = error.code()
        else:
            code = error.code
            its_own = self._pymilvus.exceptions  # errors that the client finds itself, without the server
            if isinstance(
                error, (its_own.ParamError, its_own.ConnectionConfigException, its_own.DataNotMatchException)
            ):
                return True
        status = grpc.StatusCode
        if isinstance(code, status):
            return code in (
                status.UNAUTHENTICATED,
                status.PERMISSION_DENIED,
                status.INVALID_ARGUMENT,
                status.UNIMPLEMENTED,
            )
        return any(code in codes for codes in _FINAL)

    def _check_version(self) -> None:
        version = self.call("report its version", lambda client, left: client.get_server_version(timeout=left))
        found = re.search(r"(\d+)\.(\d+)", version)
        if found is None or (int(found[1]), int(found[2])) < _OLDEST:
            raise MilvusError(f"{self.address}: Milvus has version {version}; expected 2.3 or newer")


_FILES = threading.RLock()
_OPEN: Counter[Path] = Counter()  # connections of this process to each file


def _pymilvus() -> Any:
    try:
        import pymilvus
    except ImportError as error:
        raise missing_extra("Milvus", "milvus") from error
    # It logs every failed attempt with a traceback; here a failure is raised or retried.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return pymilvus


def _check_lite(address: MilvusAddress) -> None:
    try:
        found = metadata.version("milvus-lite")
    except metadata.PackageNotFoundError as error:
        raise missing_extra(f"{address}, a file of milvus-lite,", "milvus") from error
    if not found.startswith("2."):
        raise MilvusError(f"{address}: milvus-lite {found} has no binary vectors; install milvus-lite==2.5.1")
    assert address.file is not None
    if not address.file.parent.is_dir():
        raise FileNotFoundError(f"{address}: the folder {address.file.parent} does not exist")


def _check_free(address: MilvusAddress, file: Path) -> None:
    """Raise if another process has the file open. milvus-lite checks this too, but deletes the lock of the other."""
    import fcntl

    lock = file.with_name(f".{file.name}.lock")
    if _OPEN[file] or not lock.exists():
        return
    with open(lock, "a") as opened:
        try:
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MilvusError(f"{address}: another process has the file open; only one can at a time") from None


def _reason(error: Any) -> str:
    """The message of an error in one line."""
    text = error.details() if hasattr(error, "details") else getattr(error, "message", None) or str(error)
    return " ".join(str(text).split())[:300]
