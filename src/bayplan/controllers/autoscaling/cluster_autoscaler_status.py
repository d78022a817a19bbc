"""What the cluster autoscaler tells about itself: the ConfigMap `kube-system/cluster-autoscaler-status`, in the form of upstream's ClusterAutoscalerStatus."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.nodes import is_ready_node
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.controllers.autoscaling.cluster_autoscaler_plan import View
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import NodeGroup
from bayplan.support.timestamps import rfc3339

NAMESPACE, NAME = "kube-system", "cluster-autoscaler-status"
_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"


def status_of(
    view: View,
    group_of: Callable[[core_v1.Node], NodeGroup | None],
    unneeded: Collection[str],
    growing: Collection[str],
) -> dict[str, Any]:
    """The status as plain data. `growing`: groups that make nodes at the moment."""
    nodes: dict[str, list[core_v1.Node]] = {one.name: [] for one in view.groups}
    for node in view.nodes.values():
        group = group_of(node)
        if group is not None:
            nodes[group.name].append(node)
    every = list(view.nodes.values())
    groups = []
    for one in view.groups:
        part = _part(nodes[one.name], unneeded, one.name in growing)
        part["health"] |= {
            "cloudProviderTarget": view.sizes.get(one.name, 0),
            "minSize": one.minimum,
            "maxSize": one.maximum,
        }
        groups.append({"name": one.name, **part})
    return {"autoscalerStatus": "Running", "clusterWide": _part(every, unneeded, bool(growing)), "nodeGroups": groups}


def _part(nodes: Collection[core_v1.Node], unneeded: Collection[str], growing: bool) -> dict[str, Any]:
    ready = sum(is_ready_node(one) for one in nodes)
    candidates = sum(one.metadata.name in unneeded for one in nodes)
    counts = {"registered": {"total": len(nodes), "ready": ready, "notStarted": len(nodes) - ready}}
    return {
        "health": {"status": "Healthy", "nodeCounts": counts},
        "scaleUp": {"status": "InProgress" if growing else "NoActivity"},
        "scaleDown": {"status": "CandidatesPresent", "candidates": candidates}
        if candidates
        else {"status": "NoCandidates"},
    }


class StatusWriter:
    """Writes the status when it has changed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._written: dict[str, Any] | None = None

    async def write(self, status: dict[str, Any], now: float) -> None:
        """Create or replace the ConfigMap. Raises ApiError, TransportError."""
        if status == self._written:
            return
        import yaml

        text = yaml.safe_dump({"time": rfc3339(now), **status}, sort_keys=False)
        metadata = meta_v1.ObjectMeta(name=NAME, namespace=NAMESPACE, annotations={_UPDATED: rfc3339(now)})
        config = core_v1.ConfigMap(metadata=metadata, data={"status": text})
        try:
            await self._client.update(config)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._client.create(config)
        self._written = status
