"""Where requests go on to that something else than the API server answers: the kubelet of a node, or what listens in a pod.

Source: kube-apiserver's locations of pods, nodes and services (`pkg/registry/core/*/strategy.go`, `service/storage/storage.go`).
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from bayplan.api.errors import ApiError, bad_request, failure, internal_error, quoted
from bayplan.api.types import core_v1
from bayplan.streaming.interface import Stream, Wanted

_SCHEMES = ("", "http", "https")


class Purpose(enum.Enum):
    """What kind of request goes on, which decides how its answer is passed on."""

    LOG = "log"
    """A text that may go on for long; an error is answered as a Status."""
    STREAM = "stream"
    """A connection that becomes another protocol's (SPDY, WebSocket) and belongs to both ends then."""
    PROXY = "proxy"
    """HTTP as it is."""
    AGGREGATED = "aggregated"
    """HTTP as it is, of a user whom the server vouches for as front proxy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """One request to somebody else."""

    purpose: Purpose
    scheme: str
    """`http` or `https`."""
    host: str
    """Name or address."""
    port: str
    """"" for that of the scheme."""
    path: str
    """Not escaped, beginning with a slash; "" for none."""
    query: str
    """Escaped, without the question mark."""
    is_kubelet: bool = False
    """Whether the server shows its certificate for kubelets."""
    subject: str = ""
    """The name of the object that the request is about."""
    tls_name: str = ""
    """Whom the certificate of an aggregated server must be for; "" to take any certificate."""
    tls_authority: bytes = b""
    """Who may vouch for that certificate (PEM); empty for the authorities of the system."""
    identity: tuple[tuple[str, str], ...] = ()
    """Headers that tell an aggregated server who asks."""
    translates: bool = False
    """Of a stream: whether the kubelet is spoken to in SPDY when the client uses the newest WebSocket protocols."""
    wanted: Wanted | None = None
    """Of `exec` and `attach`: the streams of the command; None of `portforward`."""
    log: AsyncIterator[bytes] | None = None
    """Instead of a kubelet: the log of a simulated pod, piece by piece; b"" where nothing comes for a while."""
    stream: Stream | None = None
    """Instead of a kubelet: what a simulated pod answers to exec, attach and port-forward."""

    @property
    def authority(self) -> str:
        """Host and port as a URL has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host


@dataclass(frozen=True, slots=True)
class Name:
    """What `[scheme:]name[:port]` says."""

    scheme: str
    name: str
    port: str


def split_name(text: str, what: str) -> Name:
    """Take `[scheme:]name[:port]` apart; `what` is a word for errors. Raises ApiError (400)."""
    parts = text.split(":")
    if len(parts) == 3 and parts[1] and parts[0] in _SCHEMES:
        return Name(parts[0], parts[1], parts[2])
    if len(parts) < 3 and parts[0]:
        return Name("", parts[0], parts[1] if len(parts) == 2 else "")
    raise bad_request(f'invalid {what} request "{text}"')


def kubelet_address(node: core_v1.Node, preferred: Sequence[str]) -> tuple[str, str]:
    """Host and port of a node's kubelet; the port is "" if the node names none. Raises ApiError (500) without an address."""
    port = node.status.daemon_endpoints.kubelet_endpoint.port if node.status.daemon_endpoints is not None else 0
    if not port:
        return "", ""
    addresses = node.status.addresses
    for kind in preferred:
        found = next((one.address for one in addresses if one.type == kind), None)
        if found is not None:
            return found, str(port)
    known = " ".join(f"{{{one.type} {one.address}}}" for one in addresses)
    raise failure(500, "", f"no preferred addresses found; known addresses: [{known}]", details=False)


def check_port(port: str) -> None:
    """Refuse what is no port. Raises ApiError (503)."""
    if port and not (port.isdecimal() and int(port) < 1 << 16):
        raise unavailable(f"error trying to reach service: invalid port {quoted(':' + port)} after host")


def pod_address(pod: core_v1.Pod, port: str) -> tuple[str, str]:
    """Address and port of a pod, by default that of its first container with ports. Raises ApiError (400)."""
    if not port:
        ports = (str(container.ports[0].container_port) for container in pod.spec.containers if container.ports)
        port = next(ports, "")
    address = pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip
    check_address(address)
    return address, port


def check_address(address: str) -> None:
    """Refuse what is no address of a machine elsewhere, so that nobody reaches through the API server what only it should reach.
    Raises ApiError (400)."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise bad_request("address not allowed") from None
    is_broadcast = parsed == ipaddress.IPv4Address("255.255.255.255")
    if parsed.is_loopback or parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified or is_broadcast:
        raise bad_request("address not allowed")


def service_port_name(service: core_v1.Service, port: str) -> str:
    """The name of a service's port that is given by name or number. Raises ApiError (503)."""
    if not port.lstrip("+-").isdigit():
        return port
    found = next((one for one in service.spec.ports if one.port == int(port)), None)
    if found is None:
        name = service.metadata.name
        raise unavailable(f'no service port {int(port)} found for service "{name}"')
    return found.name


def endpoints_with(endpoints: core_v1.Endpoints | None, port_name: str) -> list[tuple[core_v1.EndpointAddress, int]]:
    """Addresses that serve a port, with its number."""
    subsets = endpoints.subsets if endpoints is not None else ()
    return [
        (address, port.port)
        for subset in subsets
        for port in subset.ports
        if port.name == port_name
        for address in subset.addresses
    ]


def unavailable(message: str) -> ApiError:
    """503: what the request is about cannot be reached."""
    return failure(503, "ServiceUnavailable", message, details=False)


def not_over_http(relay: Relay) -> ApiError:
    """503: the client is in this process and has no connection to hand on."""
    return unavailable(f"{relay.purpose.value} of {relay.subject} is answered over HTTP only")


def log_refusal(code: int, text: str, pod_name: str) -> ApiError:
    """The error for a log that a kubelet refused with a status and a text."""
    if code == 500:
        return internal_error(text)
    if code == 400:
        return bad_request(text)
    reason, message = _REFUSALS.get(code, ("", ""))
    if not message:
        message = f"the server responded with the status code {code} but did not return more information"
    if code == 403:
        message = text
    elif code > 500 and not reason:
        reason = "InternalError"
        message = f"an error on the server ({quoted(text)}) has prevented the request from succeeding"
    return failure(code, reason, f"{message} ( pods/log {pod_name})", name=pod_name, kind="pods/log")


_REFUSALS = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", "forbidden"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    409: ("Conflict", "the server reported a conflict"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}
"""Reason and words for what another server answers, by status."""
