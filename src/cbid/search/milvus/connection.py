"""Calls to Milvus: every one within a time limit, tried again while a server restarts, one error if it fails."""

import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from cbid.search.milvus.address import TOKEN_VARIABLE, Address

__all__ = ["Connection", "MilvusError"]

T = TypeVar("T")
_OLDEST = (2, 3)  # the first that has upsert
_LONGEST_WAIT = 2.0  # seconds between two tries
_NOT_FOUND = 100
# Answers that stay the same however often one asks, by the code of Milvus: no such collection, wrong parameters,
# and what its search core refuses.
_FINAL = (range(_NOT_FOUND, _NOT_FOUND + 1), range(1100, 1200), range(2000, 2100))


class MilvusError(ConnectionError):
    """Milvus cannot be reached, has died, is of another version, or refuses what it was asked."""


class Connection:
    """A client of one server or of one file. Calls from several threads are safe."""

    def __init__(self, address: Address, token: str | None = None, timeout: float = 30.0) -> None:
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
        # A channel of its own, so that closing it closes no other store's.
        return self._retried(
            "answer", lambda left: self._pymilvus.MilvusClient(target, token=token, timeout=left, dedicated=True)
        )

    def call(self, doing: str, act: Callable[[Any, float], T]) -> T:
        """``act(client, seconds left)``, again and again until it succeeds or the time limit is over."""
        client = self._client
        if client is None:
            raise ValueError(f"{self.address} was closed; open it again")
        return self._retried(doing, lambda left: act(client, left))

    def describe(self) -> dict[str, Any] | None:
        """What Milvus knows of the collection, or None if there is none of this name."""

        def act(client: Any, left: float) -> dict[str, Any] | None:
            try:
                return client.describe_collection(self.address.collection, timeout=left)
            except self._pymilvus.MilvusException as error:
                if error.code == _NOT_FOUND:
                    return None
                raise

        return self.call("look for the collection", act)

    def close(self) -> None:
        """Twice does no harm. The process of a file ends with the last connection to it."""
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
            its_own = self._pymilvus.exceptions  # what the client finds wrong itself, without asking
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
        said = self.call("tell its version", lambda client, left: client.get_server_version(timeout=left))
        found = re.search(r"(\d+)\.(\d+)", said)
        if found is None or (int(found[1]), int(found[2])) < _OLDEST:
            raise MilvusError(f"{self.address}: Milvus there has version {said}; 2.3 or newer is needed")


_FILES = threading.RLock()
_OPEN: Counter[Path] = Counter()  # connections of this process to each file


def _pymilvus() -> Any:
    try:
        import pymilvus
    except ImportError as error:
        raise ImportError("Milvus needs the extra 'milvus': pip install 'cbid[milvus]'") from error
    # It prints every failed try with its traceback; here each failure is an error or is tried again.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return pymilvus


def _check_lite(address: Address) -> None:
    try:
        found = metadata.version("milvus-lite")
    except metadata.PackageNotFoundError as error:
        raise ImportError(
            f"{address} is a file, which needs milvus-lite, in the extra 'milvus': pip install 'cbid[milvus]'"
        ) from error
    if not found.startswith("2."):
        raise MilvusError(f"{address}: milvus-lite {found} takes no binary vectors; install milvus-lite==2.5.1")
    assert address.file is not None
    if not address.file.parent.is_dir():
        raise FileNotFoundError(f"{address}: there is no folder {address.file.parent}")


def _check_free(address: Address, file: Path) -> None:
    """No other process has the file open. milvus-lite looks too, but as it fails removes the other's lock."""
    import fcntl

    lock = file.with_name(f".{file.name}.lock")
    if _OPEN[file] or not lock.exists():
        return
    with open(lock, "a") as opened:
        try:
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MilvusError(f"{address}: another process has the file open; only one at a time can") from None


def _reason(error: Any) -> str:
    """One line of what went wrong."""
    text = error.details() if hasattr(error, "details") else getattr(error, "message", None) or str(error)
    return " ".join(str(text).split())[:300]
