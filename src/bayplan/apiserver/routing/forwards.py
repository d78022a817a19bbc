"""Services whose calls go to a program on an administrator's machine instead of to their endpoints.

A forward is written `service/NAMESPACE/NAME[:PORT]=[http://|https://]HOST:PORT`. Whoever sets one receives what is sent to webhooks, Secrets included:
only who may use the path `/bayplan/forwards` can (see `forwards_page`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from bayplan.apiserver.routing.dialing import authority_of

_SCHEMES: Final = ("http", "https")
_MOST_PORT: Final = (1 << 16) - 1
_SERVICE_FORM: Final = "service/NAMESPACE/NAME or service/NAMESPACE/NAME:PORT"
_TARGET_FORM: Final = "HOST:PORT, http://HOST:PORT or https://HOST:PORT"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_HOST: Final = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]{0,251}[A-Za-z0-9])?")


class ForwardError(ValueError):
    """A text that describes no forward."""


class ForwardedService(NamedTuple):
    """Whose calls are forwarded."""

    namespace: str
    name: str
    port: int = 0
    """Of the service; 0 for all ports that have no forward of their own."""

    def __str__(self) -> str:
        return f"service/{self.namespace}/{self.name}{f':{self.port}' if self.port else ''}"


@dataclass(frozen=True, slots=True)
class Forward:
    """Where the calls for a service go."""

    service: ForwardedService
    host: str
    """A name or an address."""
    port: int
    scheme: str = ""
    """`http` or `https`; "" for whatever the call is made with, which is HTTPS for webhooks and aggregated servers."""

    @property
    def is_local(self) -> bool:
        """Whether the program listens on a loopback address: then its certificate is not checked."""
        return is_loopback(self.host)

    @property
    def target(self) -> str:
        """As it was written."""
        return f"{self.scheme}://{self.authority}" if self.scheme else self.authority

    @property
    def authority(self) -> str:
        """Host and port as a URL has them."""
        return authority_of(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.service}={self.target}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nothing else; of names only `localhost`, which is not looked up."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_forward(text: str) -> Forward:
    """`SERVICE=TARGET`. Raises ForwardError."""
    service, equals, target = text.partition("=")
    if not equals:
        raise ForwardError(f"{text!r}: expected {_SERVICE_FORM}, then =, then {_TARGET_FORM}")
    return forward_to(parse_service(service), target)


def parse_service(text: str) -> ForwardedService:
    """`service/NAMESPACE/NAME[:PORT]`; as with kubectl, `services/` and `svc/` mean the same. Raises ForwardError."""
    kind, _, rest = text.partition("/")
    namespace, _, named = rest.partition("/")
    name, colon, port = named.partition(":")
    if kind not in ("service", "services", "svc") or not (_LABEL.fullmatch(namespace) and _LABEL.fullmatch(name)):
        raise ForwardError(f"{text!r}: expected {_SERVICE_FORM}")
    return ForwardedService(namespace, name, _port(text, port) if colon else 0)


def forward_to(service: ForwardedService, target: str) -> Forward:
    """A forward to a target. Raises ForwardError."""
    scheme, separator, rest = target.rpartition("://")
    if separator and scheme not in _SCHEMES:
        raise ForwardError(f"{target!r}: the scheme is none of {', '.join(_SCHEMES)}")
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname or "", str(parts.port or "")
    except ValueError as error:
        raise ForwardError(f"{target!r}: {error}") from error
    if not _is_host(host) or not port or parts.netloc != rest or "@" in rest:
        raise ForwardError(f"{target!r}: expected {_TARGET_FORM}, without a path")
    found = Forward(service, host, _port(target, port), scheme)
    if scheme == "http" and not found.is_local:
        raise ForwardError(
            f"{target!r}: without TLS only this machine may be named (localhost, 127.0.0.0/8, ::1); use https://"
        )
    return found


def _is_host(text: str) -> bool:
    """Whether a text is a name or an address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST.fullmatch(text) is not None
    return True


def _port(text: str, port: str) -> int:
    """Raises ForwardError."""
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= _MOST_PORT):
        raise ForwardError(f"{text!r}: {port!r} is no port")
    return int(port)


class Forwards:
    """The forwards of one API server. Those that are set while it runs end with it."""

    def __init__(self, forwards: Iterable[Forward] = ()) -> None:
        self._forwards = {one.service: one for one in forwards}
        self._listeners: list[Callable[[], None]] = []

    def all(self) -> Sequence[Forward]:
        """All of them, by service."""
        return [self._forwards[service] for service in sorted(self._forwards)]

    def find(self, namespace: str, name: str, port: int) -> Forward | None:
        """The forward for calls of a port of a service. port: 0 if it is not known."""
        if not self._forwards:
            return None
        own = self._forwards.get(ForwardedService(namespace, name, port))
        return own or self._forwards.get(ForwardedService(namespace, name))

    def set(self, forward: Forward) -> None:
        """Add a forward, or change where it leads."""
        self._forwards[forward.service] = forward
        self._changed()

    def remove(self, service: ForwardedService) -> bool:
        """End a forward. Returns whether there was one."""
        removed = self._forwards.pop(service, None) is not None
        if removed:
            self._changed()
        return removed

    def replace(self, forwards: Iterable[Forward]) -> None:
        """Have these, and no others."""
        self._forwards = {one.service: one for one in forwards}
        self._changed()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a function whenever forwards change."""
        self._listeners.append(listener)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()
