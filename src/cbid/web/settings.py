"""What the service allows: one frozen object, checked once at the start."""

from dataclasses import dataclass

from cbid.checks import check_integer, check_real

__all__ = ["LOOPBACK_NAMES", "Settings", "is_loopback"]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_SHORTEST_KEY = 16


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Limits and access.

    api_key: asked of every request but the page's own files and the health check; None asks for nothing.
    hosts: names that the ``Host`` of a request may have, without port; empty accepts any. A service on loopback that
        accepted any could be reached by a foreign page whose name was pointed at 127.0.0.1 (DNS rebinding).
    max_upload: bytes of one request, counted while it is read. max_files: images in one request.
    max_pixels: of one image; told by its header, before anything is decoded.
    seconds: that the work of one request may take, waiting included. upload_seconds: in which a request must arrive.
    rate: requests a second that one address may send in the long run, ``burst`` at once; rate 0 sets no limit.
    max_waiting: requests that may wait for a thread; more are told to come again.
    threads: that search, and half as many that read images; None takes one for each processor.
    read_only: images can neither be added nor removed.
    store: the address of a Milvus collection that is searched in the place of the project's codes; then read-only.
    """

    api_key: str | None = None
    hosts: tuple[str, ...] = LOOPBACK_NAMES
    max_upload: int = 20 * 2**20
    max_files: int = 64
    max_pixels: int = 25_000_000
    seconds: float = 10.0
    upload_seconds: float = 20.0
    rate: float = 100.0
    burst: int = 500
    max_waiting: int = 256
    threads: int | None = None
    read_only: bool = False
    store: str | None = None

    def __post_init__(self) -> None:
        if self.api_key is not None and (len(self.api_key) < _SHORTEST_KEY or not self.api_key.isascii()):
            raise ValueError(
                f"api_key has {len(self.api_key)} characters; give at least {_SHORTEST_KEY}, all of them ASCII"
            )
        for name in ("max_upload", "max_files", "max_pixels", "burst", "max_waiting"):
            check_integer(name, getattr(self, name), 1)
        for name in ("seconds", "upload_seconds"):
            check_real(name, getattr(self, name), 0, open_below=True)
        check_real("rate", self.rate, 0, 1e9)
        if self.threads is not None:
            check_integer("threads", self.threads, 1)
        if self.store is not None:
            object.__setattr__(self, "read_only", True)  # a change would reach the project and not the store


def is_loopback(host: str) -> bool:
    """Whether a server bound to this address is reached from this machine alone."""
    from ipaddress import ip_address

    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # a name, which may point anywhere
