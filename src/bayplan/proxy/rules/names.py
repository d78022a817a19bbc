"""Names of tables, chains and sets, which are kube-proxy's own. Pure.

Names of a service's chains have a hash in front: those of two endpoints differ at once, and stay different where they are cut off.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from bayplan.proxy.objects import Endpoint, PortName

TABLE: Final = "kube-proxy"
_LONGEST: Final = 240
"""Of a name without its prefix: nftables takes 256 characters, the longest prefix may have 16."""
AFFINITY: Final = "affinity-"
"""Prefix of the sets that remember clients."""


def port_base(name: PortName) -> str:
    """The part that names of a service port's chains share, such as `ULMVA6XW-ns1/svc1/tcp/p80`."""
    return _hashed(_port_path(name))


def endpoint_base(name: PortName, endpoint: Endpoint) -> str:
    """Likewise of one of its endpoints, such as `5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80`."""
    return _hashed(f"{_port_path(name)}__{endpoint.address.replace(':', '.')}/{endpoint.port}")


def is_service_chain(chain: str) -> bool:
    """Whether a chain belongs to a service: only names of those have slashes."""
    return "/" in chain


def _port_path(name: PortName) -> str:
    return f"{name.namespace}/{name.service}/{name.protocol}/{name.port}"


def _hashed(text: str) -> str:
    digest = base64.b32encode(hashlib.sha256(text.encode()).digest()[:5]).decode()
    whole = f"{digest}-{text}"
    return whole if len(whole) <= _LONGEST else whole[: _LONGEST - 3] + "..."
