"""Settings of the service: one frozen object, checked when it is created."""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, ip_address, ip_network

from cbid.checks import check_integer, check_real
from cbid.data.isolated import DecodeLimits

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_DECODER_NICENESS = 5  # a decoder has a third of the processor beside a search
_MIN_KEY_LENGTH = 16


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Access rules and limits of the service.

    Parameters
    ----------
    api_key : str or None, default=None
        Required in every request except those for the files of the page and the health check. None means no key.
    hosts : tuple of str, default=LOOPBACK_NAMES
        Accepted values of the ``Host`` header, without port. An empty tuple accepts any. A service on loopback needs
        this check: a foreign page could reach it through a name that points to 127.0.0.1 (DNS rebinding).
    max_upload : int, default=20 MiB
        Largest request in bytes, counted while it arrives.
    max_files : int, default=64
        Most images in one request.
    max_pixels : int, default=25,000,000
        Largest image in pixels, read from its header before it is decoded.
    decode_seconds : float, default=1.25
        Processor time for decoding one image, in a process of its own. The limit of wall-clock time is four times
        as long.
    decode_memory : int, default=280 MiB
        Memory limit of that process and of two copies of the file, in bytes. Decoding needs 4 to 10 bytes per pixel,
        animated WebP up to 16.
    seconds : float, default=10
        Time limit for the work of one request, including the wait for a thread.
    upload_seconds : float, default=20
        Time limit for a request to arrive.
    rate, burst : float and int, default=100 and 500
        Requests per second that one client may send on average, and at once. A rate of 0 means no limit. A client is
        an address, or a network of 64 bits with IPv6.
    max_connections : int, default=1000
        Connections at the same time. The oldest idle one is closed to make room for a new one.
    connections_per_address : int, default=200
        The same for one client, except trusted proxies.
    trusted_proxies : tuple of str, default=()
        Addresses or networks of proxies. Their ``X-Forwarded-For`` and ``X-Forwarded-Proto`` headers give the address
        and the scheme of the client: each client has its own rate limit, and cookies are ``Secure`` behind TLS.
    max_waiting : int, default=256
        Requests that may wait for a thread; more get a 503.
    threads : int or None, default=None
        Search threads; half as many decode images. None means one per processor.
    read_only : bool, default=False
        Reject requests that add or remove images.
    store : str or None, default=None
        Address of a Milvus collection to search instead of the codes of the project. Implies ``read_only``.
    """

    api_key: str | None = None
    hosts: tuple[str, ...] = LOOPBACK_NAMES
    max_upload: int = 20 * 2**20
    max_files: int = 64
    max_pixels: int = 25_000_000
    decode_seconds: float = 1.25
    decode_memory: int = 280 * 2**20
    seconds: float = 10.0
    upload_seconds: float = 20.0
    rate: float = 100.0
    burst: int = 500
    max_connections: int = 1000
    connections_per_address: int = 200
    trusted_proxies: tuple[str, ...] = ()
    max_waiting: int = 256
    threads: int | None = None
    read_only: bool = False
    store: str | None = None

    def __post_init__(self) -> None:
        if self.api_key is not None and (len(self.api_key) < _MIN_KEY_LENGTH or not self.api_key.isascii()):
            # Do not repeat the key itself: the message may end up in a log.
            raise ValueError(
                f"api_key of {len(self.api_key)} characters: expected at least {_MIN_KEY_LENGTH} ASCII characters"
            )
        counts = "max_upload max_files max_pixels burst max_waiting max_connections connections_per_address"
        for name in counts.split():
            check_integer(name, getattr(self, name), 1)
        for name in ("seconds", "upload_seconds"):
            check_real(name, getattr(self, name), 0, open_below=True)
        _ = self.limits  # which checks its values
        check_real("rate", self.rate, 0, 1e9)
        for proxy in self.trusted_proxies:
            try:
                ip_network(proxy)
            except ValueError:
                raise ValueError(f"trusted_proxies={proxy!r}: expected an address or a network") from None
        if self.threads is not None:
            check_integer("threads", self.threads, 1)
        if self.store is not None:
            object.__setattr__(self, "read_only", True)  # a change would reach the project but not the store

    @property
    def limits(self) -> DecodeLimits:
        """Limits for decoding one image."""
        return DecodeLimits(self.decode_seconds, self.decode_memory, self.max_pixels, _DECODER_NICENESS)


Settings = ServiceSettings  # the name in 0.1.0


@lru_cache(maxsize=10_000)
def client_of(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or an IPv6 network of 64 bits, the least that one gets.

    >>> client_of("192.0.2.1"), client_of("2001:db8:0:7:1:2:3:4"), client_of("::ffff:192.0.2.1")
    ('192.0.2.1', '2001:db8:0:7::/64', '192.0.2.1')
    """
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return address
    return str(found.ipv4_mapped or ip_network((int(found), 64), strict=False))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server bound to this address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # a name may point anywhere
