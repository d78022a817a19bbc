"""How long a pod waits for the volumes that were chosen for it, and what makes it give up before it is bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from bayplan.scheduler.framework.verdicts import PluginError
from bayplan.scheduler.library import typed
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.test_volume_binding import claim, storage_class, user, volume
from tests.scheduler.test_core import Setup

SELECTED = {"volume.kubernetes.io/selected-node": "a"}


class Waiting:
    """The API while a pod waits: writes succeed, and get a version; then something happens."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self.happens = happens

    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        return replace(obj, metadata=replace(obj.metadata, resource_version="6"))

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        assert seconds == 600
        self.happens()
        return condition()


def outcome_of(objects: list[tuple[str, Tree]], *, provisioned: bool) -> str:
    """What comes of a pod on node a with one claim when this happens to objects; a Tree without spec is gone. Empty if it is bound."""
    setup = Setup()
    setup.see(
        "StorageClass", storage_class(provisioner="csi.example.com" if provisioned else "kubernetes.io/no-provisioner")
    )
    before = {"Node": node("a"), "PersistentVolumeClaim": at_version(claim("c"), "5"), "Pod": user("p", "c")}
    if not provisioned:
        before["PersistentVolume"] = at_version(volume("disk", "a"), "5")
    for kind, tree in before.items():
        setup.see(kind, tree)
    outcome = setup.core.schedule_one()
    assert outcome is not None
    cycle = outcome.binding_cycle
    assert cycle is not None

    def happens() -> None:
        for kind, tree in objects:
            setup.core.handle(kind, typed(kind, before.get(kind, tree)), typed(kind, tree) if "spec" in tree else None)

    actions: Any = Waiting(happens)
    plugin: Any = setup.core.cycles["default-scheduler"].profile.plugins["VolumeBinding"]
    try:
        assert asyncio.run(plugin.pre_bind(cycle.state, cycle.pod, "a", actions)) is None
    except PluginError as error:
        return str(error)
    return ""


def at_version(tree: Tree, version: str, **annotations: str) -> Tree:
    tree["metadata"] |= {"resourceVersion": version, "annotations": annotations}
    return tree


def bound(version: str = "7", *, completed: bool = True, selected: str = "") -> tuple[str, Tree]:
    """The claim with its volume."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if completed else {}
    if selected:
        annotations["volume.kubernetes.io/selected-node"] = selected
    tree = at_version(claim("c"), version, **annotations)
    tree["spec"]["volumeName"] = "disk"
    return "PersistentVolumeClaim", tree


def disk(version: str = "7", *, uid: str | None = "uid-c", on: str = "a") -> tuple[str, Tree]:
    tree = at_version(volume("disk", on), version)
    if uid is not None:
        tree["spec"]["claimRef"] = {"name": "c", "namespace": "default", "uid": uid}
    return "PersistentVolume", tree


GONE: Tree = {"metadata": {"name": "a"}}
LATE = "context deadline exceeded"
WRONG_NODE = 'pv "disk" node affinity doesn\'t match node "a": no matching NodeSelectorTerms'


def another(uid: str) -> Tree:
    tree = pod("p", on="a")
    tree["metadata"]["uid"] = uid
    return tree


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([disk(), bound()], ""),
        ([disk("6"), bound()], ""),
        ([disk()], LATE),
        ([disk(), bound(completed=False)], LATE),
        ([bound()], LATE),
        ([disk("5"), bound()], LATE),
        ([disk(uid=None), bound()], 'ClaimRef got reset for pv "disk"'),
        ([disk(uid=""), bound()], 'ClaimRef got reset for pv "disk"'),
        ([disk(on="b"), bound()], WRONG_NODE),
        ([("PersistentVolume", GONE)], 'failed to check binding: could not find v1.PersistentVolume "disk"'),
        (
            [("PersistentVolumeClaim", GONE)],
            'failed to check binding: could not find v1.PersistentVolumeClaim "default/c"',
        ),
        ([("Node", GONE)], 'failed to get node "a": node "a" not found'),
        ([("Pod", GONE)], 'pod does not exist any more: pod "p" not found'),
        ([("Pod", GONE), ("Pod", another("uid-other"))], 'pod does not exist any more: pod "p" not found'),
    ],
)
def test_a_pod_waits_until_its_volume_and_claim_are_bound(objects: list[tuple[str, Tree]], expected: str) -> None:
    found = outcome_of(objects, provisioned=False)
    assert found.removeprefix("binding volumes: ") == expected


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([disk(), bound(selected="a")], ""),
        ([disk(), bound("6", selected="a")], ""),
        ([disk(), bound(completed=False, selected="a")], LATE),
        ([], LATE),
        ([disk(), bound("5", selected="a")], LATE),
        ([bound(selected="a")], LATE),  # whose volume has not been seen
        ([disk(on="b"), bound(selected="a")], WRONG_NODE),
        ([("PersistentVolumeClaim", at_version(claim("c"), "7", **SELECTED))], LATE),
        ([("PersistentVolumeClaim", at_version(claim("c"), "7"))], 'selectedNode annotation reset for PVC "c"'),
        ([disk(), bound()], 'provisioning failed for PVC "c"'),
        (
            [disk(), bound(selected="b")],
            'provisioning failed for PVC "c"',
        ),
        (
            [("PersistentVolumeClaim", GONE)],
            'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "default/c"',
        ),
    ],
)
def test_a_pod_waits_until_its_new_volume_is_there(objects: list[tuple[str, Tree]], expected: str) -> None:
    found = outcome_of(objects, provisioned=True)
    assert found.removeprefix("binding volumes: ") == expected
