"""How to reach an etcd cluster, and how the store uses it."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bayplan.support.web.tls_files import TlsFiles

_PORT = 2379


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdSettings:
    """Everything adjustable about a client of etcd."""

    endpoints: tuple[str, ...]
    """Members, as `host:port`; the first that answers is used."""
    tls: TlsFiles | None = None
    """None for plain text."""
    user: str = ""
    password: str = field(default="", repr=False)
    request_timeout: float = 10.0
    """Seconds after which a request fails, all attempts included."""
    attempt_timeout: float = 3.0
    """Seconds after which another member is tried, if there is one."""

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise ValueError("etcd needs at least one endpoint, such as 127.0.0.1:2379")


def endpoints_of(servers: str) -> tuple[tuple[str, ...], bool]:
    """The endpoints in a list with commas, of `host:port` or URLs, and whether they speak TLS. Raises ValueError."""
    found: list[str] = []
    schemes: set[str] = set()
    for text in filter(None, (one.strip() for one in servers.split(","))):
        parts = urlsplit(text if "://" in text else f"//{text}")
        try:
            port = parts.port or _PORT
        except ValueError:
            raise ValueError(f"etcd server {text!r}: the port is not a number from 1 to 65535") from None
        if parts.scheme not in ("", "http", "https", "etcd"):
            raise ValueError(f"etcd server {text!r}: unknown scheme {parts.scheme}, known are http and https")
        if not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"etcd server {text!r}: not of the form host:port or https://host:port")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        found.append(f"{host}:{port}")
        if parts.scheme in ("http", "https"):
            schemes.add(parts.scheme)
    if not found:
        raise ValueError("etcd needs at least one server, such as 127.0.0.1:2379")
    if len(schemes) > 1:
        raise ValueError(f"etcd servers {servers!r}: either all with http or all with https")
    return tuple(found), schemes == {"https"}
