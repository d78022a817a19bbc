"""A node with a storage driver, in virtual time: the API is a whole cluster, the driver is the fake one, mounts are only remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.informers import InformerFactory
from bayplan.kubelet.csi.attach_limit import AttachLimits
from bayplan.kubelet.csi.drivers import Drivers
from bayplan.kubelet.csi.node_info import CsiNodeInfo
from bayplan.kubelet.csi.objects import CsiObjects
from bayplan.kubelet.csi.registration import CsiRegistration
from bayplan.kubelet.csi.volumes import CsiVolumes
from bayplan.kubelet.volumes.interface import VolumeHost
from bayplan.kubelet.volumes.kinds import VolumeKinds
from bayplan.kubelet.volumes.manager import VolumeManager
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support import virtual_time
from bayplan.support.blocking import at_once
from bayplan.support.randomness import SeededRandomness
from bayplan.testing.builders import container, pod
from bayplan.testing.csi_driver import NAME, FakeDriver
from bayplan.testing.mounts import RememberedMounts
from tests.kubelet.volumes.node import Objects

NODE = "n1"
CLASS = "kubernetes.io~csi"


class CsiNode:
    """See the module. `manager` is the volume manager; `restart` gives another one, which knows nothing."""

    def __init__(self, cluster: VirtualCluster, root: Path, driver: FakeDriver) -> None:
        self.root = root
        self.driver = driver
        self.client = cluster.client
        self.cluster = cluster
        self.clock = cluster.clock
        self.objects = Objects()
        self.mounts = RememberedMounts()
        self.events: list[str] = []
        self.node = core_v1.Node()
        self.reports = 0
        self._informers = InformerFactory(cluster.connect("kubelet"), cluster.clock, SeededRandomness("kubelet"))
        self._described = self._informers.informer(storage_v1.CSIDriver)
        self.host = VolumeHost(
            root=root,
            node_name=NODE,
            mounter=self.mounts,
            objects=self.objects,
            clock=cluster.clock,
            randomness=SeededRandomness(1),
            blocking=at_once,
            allocatable=dict,
            event=lambda pod, kind, reason, message: self.events.append(f"{kind} {reason} {message}"),
        )
        self.restart()

    def restart(self) -> None:
        """Forget all that is not on disk."""
        csi_objects = CsiObjects(self.client, NODE, self._described)
        self.drivers = Drivers(lambda _: self.driver.connection(), self.clock, lambda _: lambda *_: None)
        self.node_info = CsiNodeInfo(self.client, NODE, self.clock)
        self.registration = CsiRegistration(self.drivers, self.node_info, csi_objects, self.clock)
        limits = AttachLimits(csi_objects, self.registration.look_again)
        self.kind = CsiVolumes(self.drivers, csi_objects, limits)
        self.manager = VolumeManager(
            self.host, VolumeKinds((self.kind,)), node=lambda: self.node, in_use_changed=self._report
        )

    def _report(self) -> None:
        self.reports += 1

    async def start(self, **described: Any) -> None:
        """Put a node and the CSIDriver into the API, and register the driver."""
        self.node = await self.client.create(from_tree(core_v1.Node, {"metadata": {"name": NODE}}))
        await self.describe(**{"attachRequired": False, **described})
        self._informers.start()
        await self._informers.wait_for_sync()
        await self.register()

    async def register(self) -> None:
        await self.registration.register(NAME, Path("/driver"), ("1.0.0",))

    async def describe(self, **spec: Any) -> None:
        tree = {"metadata": {"name": NAME}, "spec": spec}
        await self.client.create(from_tree(storage_v1.CSIDriver, tree))

    async def stop(self) -> None:
        await self.manager.close()
        await self._informers.stop()

    async def volume(
        self, name: str = "pv", *, mode: str = "Filesystem", access: str = "ReadWriteOnce", **spec: Any
    ) -> core_v1.Volume:
        """A volume that the driver has, bound to a claim; what pods say of it."""
        handle = f"volume-{len(self.driver.volumes) + 1}"
        self.driver.volumes[handle] = csi.Volume(1 << 30, handle)
        claim = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": [access],
                "volumeMode": mode,
                "volumeName": name,
                "storageClassName": "",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        made = await self.client.create(from_tree(core_v1.PersistentVolumeClaim, claim))
        source = {"driver": NAME, "volumeHandle": handle, "fsType": "ext4", **spec.pop("csi", {})}
        tree = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": [access],
                "volumeMode": mode,
                "capacity": {"storage": "1Gi"},
                "claimRef": {"name": name, "namespace": "default", "uid": made.metadata.uid},
                "csi": source,
                **spec,
            },
        }
        self.objects.volumes[name] = await self.client.create(from_tree(core_v1.PersistentVolume, tree))

        async def is_bound() -> bool:
            found = await self.client.get(core_v1.PersistentVolumeClaim, name, "default")
            self.objects.claims[name] = found
            return found.status.phase == "Bound"

        await self.cluster.eventually(is_bound, 60.0)
        source_of_pod = core_v1.PersistentVolumeClaimVolumeSource(claim_name=name)
        return core_v1.Volume(name="v", persistent_volume_claim=source_of_pod)

    def target(self, name: str = "pv", uid: str = "u1") -> Path:
        return self.root / "pods" / uid / "volumes" / CLASS / name / "mount"

    def left(self) -> list[str]:
        """Files and links below the kubelet's directory."""
        return sorted(str(each.relative_to(self.root)) for each in self.root.rglob("*") if not each.is_dir())

    def calls(self, *names: str) -> list[str]:
        """The calls of the node service that change something, in their order."""
        wanted = names or ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume")
        return [name.removeprefix("Node").removesuffix("Volume") for name, _ in self.driver.calls if name in wanted]


def pod_of(volume: core_v1.Volume, uid: str = "u1", *, is_block: bool = False, **spec: Any) -> core_v1.Pod:
    """A pod that has one volume."""
    places: dict[str, Any] = (
        {"volume_devices": (core_v1.VolumeDevice(name=volume.name, device_path="/dev/v"),)}
        if is_block
        else {"volume_mounts": (core_v1.VolumeMount(name=volume.name, mount_path="/v"),)}
    )
    meta = {"uid": uid}
    return pod(
        f"p-{uid}", meta=meta, volumes=(volume,), service_account_name="sa", containers=(container(**places),), **spec
    )


def play(root: Path, test: Callable[[CsiNode], Awaitable[None]], **driver: Any) -> None:
    """Run a test in virtual time, and end what it started."""

    async def main() -> None:
        async with VirtualCluster(seed=1, nodes=0) as cluster:
            node = CsiNode(cluster, root, FakeDriver(cluster.clock, **driver))
            try:
                await test(node)
            finally:
                await node.stop()

    virtual_time.run(main())


async def give_up(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
