"""Writing what has been decided about EndpointSlices."""

from __future__ import annotations

from bayplan.api.types import discovery_v1
from bayplan.client import Client
from bayplan.controllers.networking.endpointslice_rules import Changes
from bayplan.controllers.networking.service_pods import lost_race


async def write_slices(client: Client, changes: Changes) -> bool:
    """Carry changes of slices out; returns whether somebody else was faster."""
    raced = False
    for one in changes.create:
        raced |= await lost_race(client.create(one))
    for one in changes.update:
        raced |= await lost_race(client.update(one))
    for one in changes.delete:
        metadata = one.metadata
        await lost_race(client.delete(discovery_v1.EndpointSlice, metadata.name, metadata.namespace, uid=metadata.uid))
    return raced
