"""Settings of the DNS server, and what the command line's texts mean."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from bayplan.dns.errors import SettingsError
from bayplan.dns.records import is_name

PORT: Final = 53
WILDCARDS: Final = ("0.0.0.0", "::")
"""Addresses that stand for all of the machine's."""
_LONGEST_DOMAIN: Final = 57
"""So that names of endpoints, whose three labels may have 63 bytes each, still fit into 253."""
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MOST_SERVERS: Final = 15
"""As in CoreDNS' `forward`."""


class Server(NamedTuple):
    """Where another DNS server is reached."""

    address: str
    """An IP address in its canonical form."""
    port: int
    """From 1 to 65535."""

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsSettings:
    """How a DNS server listens, answers and asks others."""

    listen: tuple[str, ...] = ("127.0.0.1",)
    """Addresses to listen on, of either family, over UDP and TCP."""
    port: int = PORT
    """Port of all of them; 0 picks one that is free."""
    domain: str = "cluster.local"
    """Domain of the cluster, in lower case without a final dot."""
    ttl: int = 5
    """Seconds that clients may keep answers about the cluster."""
    forward: tuple[Server, ...] = ()
    """Servers that know all other names; without any, questions for those are refused."""
    cache_seconds: int = 30
    """How long answers of other servers are kept at most; 0: not at all."""
    cache_entries: int = 10_000
    """Answers that each listener keeps as bytes."""
    attempt_seconds: float = 2.0
    """How long another server may take to answer, before the next one is asked."""
    total_seconds: float = 5.0
    """How long all of them may take together; clients wait no longer."""
    max_concurrent: int = 1000
    """Different questions that wait for other servers at once; more are answered with SERVFAIL."""
    max_waiting: int = 10_000
    """Clients that wait for their answers at once; more are answered with SERVFAIL."""
    max_connections: int = 1000
    """TCP connections of clients to each address."""
    idle_seconds: float = 10.0
    """How long a TCP connection may be idle, and how long a client may take to send or read a message."""
    bind_address: str = "127.0.0.1"
    """Address for health, readiness and metrics over HTTP."""
    health_port: int | None = 8080
    """Port of `/health`; None: no such server, 0: a free one."""
    ready_port: int | None = 8181
    """Port of `/ready`, likewise."""
    metrics_port: int | None = 9153
    """Port of `/metrics`, likewise."""


def parse_domain(text: str) -> str:
    """A cluster's domain in its canonical form. Raises SettingsError."""
    domain = text.lower().removesuffix(".")
    if not is_name(domain) or not all(_LABEL.fullmatch(label) for label in domain.split(".")):
        raise SettingsError(
            f"--domain: {text!r} is no domain: labels of letters, digits and inner hyphens with dots between, such as cluster.local"
        )
    if len(domain) > _LONGEST_DOMAIN:
        raise SettingsError(
            f"--domain: {text!r} has {len(domain)} characters, at most {_LONGEST_DOMAIN} leave room for names"
        )
    return domain


def parse_listen(texts: Iterable[str]) -> tuple[str, ...]:
    """Addresses to listen on, each once. Raises SettingsError."""
    found: dict[str, None] = {}
    for text in texts:
        address = _address(text)
        if address is None:
            raise SettingsError(f"--listen: {text!r} is no IP address; give one of this machine, 0.0.0.0 or ::")
        found[address] = None
    return tuple(found)


def parse_forward(texts: Iterable[str]) -> tuple[Server, ...]:
    """Servers from addresses (with ports) and files in the form of resolv.conf(5); `none` stands for no server. Raises SettingsError."""
    found: dict[Server, None] = {}
    for text in texts:
        if text == "none":
            continue
        server = _server(text)
        for one in (server,) if server is not None else _servers_in(text):
            found[one] = None
    if len(found) > _MOST_SERVERS:
        raise SettingsError(f"--forward: {len(found)} servers, at most {_MOST_SERVERS} are asked")
    return tuple(found)


def name_servers(text: str) -> tuple[Server, ...]:
    """The servers that a resolv.conf(5) names; what is no address is left out, as by the C library."""
    words = (line.split() for line in text.splitlines())
    addresses = (_address(one[1]) for one in words if len(one) > 1 and one[0] == "nameserver")
    return tuple(Server(one, PORT) for one in addresses if one is not None)


def _servers_in(path: str) -> tuple[Server, ...]:
    """The servers of a file. Raises SettingsError."""
    if "/" not in path:
        raise SettingsError(
            f"--forward: {path!r} is neither ADDRESS, ADDRESS:PORT, [ADDRESS]:PORT nor the path of a resolv.conf"
        )
    try:
        found = name_servers(Path(path).read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise SettingsError(
            f"--forward: {path} cannot be read: {error.strerror or error}; name servers, or none with --forward none"
        ) from error
    if not found:
        raise SettingsError(f"--forward: {path} names no server; name servers, or none with --forward none")
    return found


def _server(text: str) -> Server | None:
    """A server from `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`; None if it is none of them. Raises SettingsError for wrong ports."""
    address = _address(text)
    if address is not None:
        return Server(address, PORT)
    host, colon, port = text.rpartition(":")
    address = _address(host.removeprefix("[").removesuffix("]"))
    if not colon or address is None or (":" in address) != host.startswith("["):
        return None
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65_536:
        raise SettingsError(f"--forward: {text!r}: a port is a number from 1 to 65535")
    return Server(address, int(port))


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
