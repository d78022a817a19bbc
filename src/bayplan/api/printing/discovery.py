"""How endpoint slices look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import UNSET, at_most, object_age, printers
from bayplan.api.types import discovery_v1


def _port(port: discovery_v1.EndpointPort) -> str:
    return str(port.port) if port.port is not None else port.name or "*"


def _slice(obj: discovery_v1.EndpointSlice, now: float) -> list[Any]:
    addresses = [address for endpoint in obj.endpoints for address in endpoint.addresses]
    ports = at_most(map(_port, obj.ports), 3, UNSET)
    return [obj.metadata.name, obj.address_type, ports, at_most(addresses, 3, UNSET), object_age(obj, now)]


PRINTERS = printers("discovery", {"EndpointSlice": _slice})
