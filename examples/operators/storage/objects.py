"""The custom resources as the API server has them, and a client for programs in pods."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from bayplan.api.codec import from_tree
from bayplan.api.kinds import KindTable
from bayplan.api.types import apiextensions_v1
from bayplan.client import Client
from bayplan.client.http import HttpTransport
from bayplan.client.in_cluster import pod_credentials
from bayplan.informers.custom_kinds import row_of

from .rules import Disk, Replica, StorageNode, Volume

GROUP: Final = "storage.example.com"
DRIVER: Final = "replicated.storage.example.com"
NAMESPACE: Final = "replicated-storage"
CLUSTER_NAME: Final = "storage"
"""The name of the one StorageCluster."""
CLUSTERS, NODES, VOLUMES = "storageclusters", "storagenodes", "replicatedvolumes"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_MANIFESTS: Final = Path(__file__).with_name("operator.yaml")


def path(plural: str, name: str = "", subresource: str = "") -> str:
    """Where objects of a kind are."""
    return "/".join(one for one in (f"/apis/{GROUP}/v1/{plural}", name, subresource) if one)


def add_kinds(table: KindTable) -> dict[str, type[Any]]:
    """Let a client know the custom resources, for informers; plural -> class."""
    found = {}
    for tree in yaml.safe_load_all(_MANIFESTS.read_text()):
        if tree["kind"] == "CustomResourceDefinition":
            established = [{"type": "Established", "status": "True"}]
            status = {"acceptedNames": tree["spec"]["names"], "conditions": established, "storedVersions": ["v1"]}
            row = row_of(from_tree(apiextensions_v1.CustomResourceDefinition, {**tree, "status": status}))
            assert row is not None
            table.add(row)
            found[row.plural] = row.type
    return found


def volume_from(tree: Mapping[str, Any]) -> Volume:
    """A ReplicatedVolume."""
    spec, status = tree["spec"], tree.get("status") or {}
    return Volume(
        name=tree["metadata"]["name"],
        size=spec["size"],
        replicas=spec["replicas"],
        min_in_sync=spec.get("minInSync", 1),
        placement=tuple(Replica(one["node"], one["disk"]) for one in spec.get("placement", ())),
        epoch=status.get("epoch", 0),
        holder=status.get("holder", ""),
        in_sync=tuple(status["inSync"]) if "inSync" in status else None,
        rebuilding=tuple(status.get("rebuilding", ())),
    )


def node_from(tree: Mapping[str, Any]) -> StorageNode:
    """A StorageNode, with the disks that its agent has made ready."""
    status = tree.get("status") or {}
    return StorageNode(
        name=tree["metadata"]["name"],
        address=status.get("address", ""),
        heartbeat=seconds(status["heartbeatTime"]) if "heartbeatTime" in status else 0.0,
        disks=tuple(Disk(one["path"], one["size"]) for one in status.get("ready", ())),
    )


def seconds(time: str) -> float:
    """A time of the API in seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()


def time_text(now: float) -> str:
    """The reverse."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Api:
    """The requests that the programs make, with JSON trees. All raise ApiError and TransportError."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def get(self, where: str) -> Any:
        """An object, or a list."""
        return json.loads(await self.client.raw("GET", where))

    async def create(self, where: str, tree: Mapping[str, Any]) -> Any:
        """A new object."""
        return json.loads(await self.client.raw("POST", where, body=json.dumps(tree).encode()))

    async def merge(self, where: str, patch: Mapping[str, Any]) -> Any:
        """Change some fields. With the resourceVersion among them: only if nobody else has changed the object since (ApiError 409)."""
        return json.loads(await self.client.raw("PATCH", where, {}, json.dumps(patch).encode(), MERGE_PATCH))

    async def apply(self, where: str, tree: Mapping[str, Any]) -> Any:
        """Server-side apply."""
        query = {"fieldManager": "storage-operator", "force": "true"}
        return json.loads(await self.client.raw("PATCH", where, query, json.dumps(tree).encode(), APPLY_PATCH))

    async def delete(self, where: str) -> None:
        """Delete an object."""
        await self.client.raw("DELETE", where)

    async def volume(self, name: str) -> tuple[Volume, str]:
        """A volume and its resourceVersion."""
        tree = await self.get(path(VOLUMES, name))
        return volume_from(tree), tree["metadata"]["resourceVersion"]

    async def nodes(self) -> dict[str, StorageNode]:
        """All storage nodes by their names."""
        found = (await self.get(path(NODES)))["items"]
        return {one["metadata"]["name"]: node_from(one) for one in found}


def pod_client() -> Client:
    """A client for a program in a pod."""
    return Client(HttpTransport(pod_credentials(os.environ)))
