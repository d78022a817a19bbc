"""Pods that want a volume under another label than others are warned, as soon as its driver mounts with labels. In virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, storage_v1
from bayplan.controllers.manager import ControllerManager, controller_filter
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run

DRIVER = "driver.example.com"
METRIC = b"selinux_warning_controller_selinux_volume_conflict{"


def make(cls: type[Any], name: str, namespace: str = "default", **fields: Any) -> Any:
    return from_tree(cls, {"metadata": {"name": name, "namespace": namespace}, **fields})


def pod(name: str, *levels: str) -> Any:
    """A pod with a container for each level, all of which mount the claim `data`."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    containers = [
        {
            "name": f"c{index}",
            "image": "app",
            "volumeMounts": mounts,
            "securityContext": {"seLinuxOptions": {"level": level}},
        }
        for index, level in enumerate(levels)
    ]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    gates = [{"name": "never"}]
    return make(core_v1.Pod, name, spec={"containers": containers, "volumes": volumes, "schedulingGates": gates})


async def warnings(cluster: VirtualCluster) -> set[tuple[str, str]]:
    await cluster.advance(seconds=10)
    events = (await cluster.client.list(core_v1.Event, "default")).items
    return {(one.involved_object.name, one.reason) for one in events if one.source.component == "selinux_warning"}


def test_pods_are_warned_of_others_that_want_the_volume_under_another_label() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=1) as cluster:
            client, metrics = cluster.client, Registry()
            manager = ControllerManager(
                cluster.connect("system:kube-controller-manager"),
                clock=cluster.clock,
                randomness=SeededRandomness("warnings"),
                root_ca="",
                enabled=controller_filter(["selinux-warning-controller"]),
                metrics=metrics,
            )
            running = asyncio.create_task(manager.run())
            driver = await client.create(make(storage_v1.CSIDriver, DRIVER, "", spec={"attachRequired": False}))
            modes: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
            claim = {**modes, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv"}
            volume = {"capacity": {"storage": "1Gi"}, "csi": {"driver": DRIVER, "volumeHandle": "h"}, **modes}
            for one in (pod("a", "s0:c1"), pod("b", "s0:c2"), pod("c", "s0:c1", "s0:c2")):
                await client.create(one)
            await client.create(make(core_v1.PersistentVolumeClaim, "data", spec=claim))
            await client.create(make(core_v1.PersistentVolume, "pv", "", spec=volume))
            assert await warnings(cluster) == {("c", "MultipleSELinuxLabels")}, "the driver mounts without labels"
            driver.spec.se_linux_mount = True
            await client.update(driver)
            label = "SELinuxLabelConflict"
            assert await warnings(cluster) >= {("a", label), ("b", label)}
            assert metrics.render().count(METRIC) >= 2
            await client.delete(core_v1.Pod, "b", "default")
            await warnings(cluster)
            assert METRIC not in metrics.render()
            running.cancel()
            await asyncio.wait([running])

    run(main())
