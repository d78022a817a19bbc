"""From where requests over HTTP come, for the audit log.

Source: apimachinery's `util/net/http.go`, `SourceIPs`.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from bayplan.apiserver.requests import Origin
from bayplan.support.memory.memo import memoized

if TYPE_CHECKING:
    from bayplan.apiserver.http.exchange import Peer
    from bayplan.apiserver.http.headers import ParsedHeaders


def origin_of(connection: Peer, head: ParsedHeaders) -> Origin:
    """What is known before the first line of a request has been looked at."""
    transport = connection.transport
    peer = transport.get_extra_info("peername") if transport is not None else None
    return Origin(source_ips(head.forwarded_for, head.real_ip, peer[0] if peer else ""))


@memoized(1024)
def source_ips(forwarded_for: str, real_ip: str, remote: str) -> tuple[str, ...]:
    """The addresses that a request came through. forwarded_for, real_ip: headers that proxies set; remote: the other end of the connection."""
    found = [address for part in forwarded_for.split(",") if (address := _address(part.strip()))]
    if (address := _address(real_ip)) and address not in found:
        found.append(address)
    if (address := _address(remote.partition("%")[0])) and address not in found[-1:]:
        found.append(address)
    return tuple(found)


def _address(text: str) -> str:
    """An IP address as Go writes it; "" if it is none."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return ""
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
