"""What Node and CSINode say of a node's drivers (pkg/volume/csi/nodeinfomanager): ids and topology, by which volumes are scheduled, attached and provisioned."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1, storage_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.csi.messages import NodeGetInfoResponse
from bayplan.kubelet.errors import KubeletError
from bayplan.support.clock import Clock

NODE_IDS: Final = "csi.volume.kubernetes.io/nodeid"
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_MIGRATED_PLUGINS: Final = (
    "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,"
    "kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
)
"""In-tree plugins whose volumes this kubelet leaves to drivers, as Kubernetes' kubelet says of itself."""
_PAUSES: Final = (0.01, 0.05, 0.25)
_LARGEST_COUNT: Final = 2**31 - 1


class NodeInfoError(KubeletError):
    """Node or CSINode cannot say what they should."""


class CsiNodeInfo:
    """See the module. error: why the node is not ready yet."""

    def __init__(self, client: Client, node_name: str, clock: Clock) -> None:
        self._client = client
        self._node_name = node_name
        self._clock = clock
        self._lock = asyncio.Lock()
        self.error = "CSINode is not yet initialized"

    async def ensure(self) -> None:
        """See that there is a CSINode of this node. Raises NodeInfoError."""
        await self._with_retries("error updating CSINode annotation", self._try_ensure)
        self.error = ""

    async def install(self, driver: str, info: NodeGetInfoResponse) -> None:
        """Say what a driver calls this node, and where it is. Raises NodeInfoError."""
        if not info.node_id:
            raise NodeInfoError("error adding CSI driver node info: driverNodeID must not be empty")
        topology = dict(info.accessible_topology.segments) if info.accessible_topology is not None else {}
        prefix = "error updating Node object with CSI driver node info: error updating node"
        await self._with_retries(prefix, lambda: self._update_node(driver, info.node_id, topology))
        prefix = "error updating CSINode object with CSI driver node info: error updating CSINode"
        await self._with_retries(prefix, lambda: self._update_csi_node(driver, csi_node_driver(driver, info)))

    async def uninstall(self, driver: str) -> None:
        """Say nothing of a driver any more. Raises NodeInfoError."""
        prefix = "error uninstalling CSI driver from CSINode object"
        await self._with_retries(prefix, lambda: self._update_csi_node(driver, None))
        prefix = "error removing CSI driver node info from Node object"
        await self._with_retries(prefix, lambda: self._update_node(driver, "", {}))

    async def _with_retries(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        for pause in (*_PAUSES, None):
            try:
                async with self._lock:
                    await work()
                return
            except (ApiError, TransportError, NodeInfoError) as error:
                if pause is None:
                    raise NodeInfoError(f"{what}: timed out waiting for the condition; caused by: {error}") from error
                await self._clock.sleep(pause)

    async def _try_ensure(self) -> None:
        await self._csi_node()

    async def _csi_node(self) -> storage_v1.CSINode:
        """The CSINode of this node, made if it is missing; one of an earlier node of the same name goes first."""
        node = await self._client.get(core_v1.Node, self._node_name)
        uid = node.metadata.uid
        try:
            found = await self._client.get(storage_v1.CSINode, self._node_name)
        except ApiError as error:
            if error.code != 404:
                raise
            return await self._client.create(new_csi_node(self._node_name, uid))
        if not any(each.kind == "Node" and each.uid == uid for each in found.metadata.owner_references):
            await self._client.delete(storage_v1.CSINode, self._node_name, uid=found.metadata.uid)
            return await self._client.create(new_csi_node(self._node_name, uid))
        if found.metadata.annotations.get(MIGRATED) != _MIGRATED_PLUGINS:
            change = {"metadata": {"annotations": {MIGRATED: _MIGRATED_PLUGINS}}}
            found = await self._client.patch(storage_v1.CSINode, self._node_name, "", change)
        return found

    async def _update_csi_node(self, name: str, driver: storage_v1.CSINodeDriver | None) -> None:
        found = await self._csi_node()
        before = found.spec.drivers
        after = [each for each in before if each.name != name]
        if driver is not None:
            if driver in before:
                return
            after.append(driver)
        elif len(after) == len(before):
            return
        found.spec.drivers = tuple(after)
        await self._client.update(found)

    async def _update_node(self, driver: str, node_id: str, topology: Mapping[str, str]) -> None:
        node = await self._client.get(core_v1.Node, self._node_name)
        change = node_change(node, driver, node_id, topology)
        if change:
            change["resourceVersion"] = node.metadata.resource_version
            await self._client.patch(core_v1.Node, self._node_name, "", {"metadata": change})


def new_csi_node(node_name: str, uid: str) -> storage_v1.CSINode:
    """The CSINode of a node on which no driver is."""
    owner = meta_v1.OwnerReference(api_version="v1", kind="Node", name=node_name, uid=uid)
    metadata = meta_v1.ObjectMeta(name=node_name, owner_references=(owner,), annotations={MIGRATED: _MIGRATED_PLUGINS})
    return storage_v1.CSINode(metadata=metadata)


def csi_node_driver(name: str, info: NodeGetInfoResponse) -> storage_v1.CSINodeDriver:
    """What CSINode says of a driver."""
    topology = info.accessible_topology
    count = min(info.max_volumes_per_node, _LARGEST_COUNT)
    return storage_v1.CSINodeDriver(
        name=name,
        node_id=info.node_id,
        topology_keys=tuple(sorted(topology.segments)) if topology is not None else (),
        allocatable=storage_v1.VolumeNodeResources(count=count) if count > 0 else None,
    )


def node_change(node: core_v1.Node, driver: str, node_id: str, topology: Mapping[str, str]) -> dict[str, Any]:
    """What changes of a node's metadata; node_id is empty for a driver that has gone. Raises NodeInfoError."""
    text = node.metadata.annotations.get(NODE_IDS, "")
    try:
        known = json.loads(text) if text else {}
    except ValueError as error:
        raise NodeInfoError(f'failed to parse node\'s "{NODE_IDS}" annotation value ("{text}") err={error}') from error
    ids = {name: value for name, value in known.items() if name != driver}
    if node_id:
        ids[driver] = node_id
    change: dict[str, Any] = {}
    if ids != known:
        shown = json.dumps(ids, separators=(",", ":"), sort_keys=True) if ids else None
        change["annotations"] = {NODE_IDS: shown}
    labels = node.metadata.labels
    for key, value in topology.items():
        if labels.get(key, value) != value:
            raise NodeInfoError(
                f'detected topology value collision: driver reported "{key}":"{value}" but existing label is "{key}":"{labels[key]}"'
            )
    missing = {key: value for key, value in topology.items() if key not in labels}
    if missing:
        change["labels"] = missing
    return change
