"""Reads the objects from which the steps of a pod follow: the pod, its owners, and events about them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bayplan.api.codec import to_tree
from bayplan.api.types import core_v1
from bayplan.ui.cluster_source import ClusterSource
from bayplan.ui.errors import RequestError
from bayplan.ui.objects import object_tree
from bayplan.ui.pod_steps import Chain

_MOST_OWNERS: Final = 4


async def read_chain(cluster: ClusterSource, namespace: str, name: str) -> Chain:
    """The pod and what it comes from. Owners that may not be read, or are gone, are left out. Raises RequestError if there is no such pod."""
    pod = {"kind": "Pod", **await object_tree(cluster, "Pod", namespace, name)}
    owners: list[dict[str, Any]] = []
    below = pod
    while len(owners) < _MOST_OWNERS:
        reference = next((one for one in below["metadata"].get("ownerReferences") or () if one.get("controller")), None)
        if reference is None:
            break
        try:
            below = await object_tree(cluster, reference["kind"], namespace, reference["name"])
        except RequestError:
            break
        below = {"kind": reference["kind"], **below}
        owners.append(below)
    names = {pod["metadata"]["name"], *(one["metadata"]["name"] for one in owners)}
    events = [
        to_tree(event)
        for event in cluster.caches[core_v1.Event]
        if event.metadata.namespace == namespace and event.involved_object.name in names
    ]
    return Chain(pod, owners, msgspec.to_builtins(events))
