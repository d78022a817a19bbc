"""Volumes that are bound when their first pod is scheduled: assumed at once, written before the pod is bound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from bayplan.scheduler import Planner
from bayplan.scheduler.framework.state import CycleState
from bayplan.scheduler.plugins.volume_binding import VolumeBinding
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.running import World, play
from tests.scheduler.test_core import Setup


def storage_class(name: str = "late", provisioner: str = "kubernetes.io/no-provisioner") -> Tree:
    return {
        "kind": "StorageClass",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str, *, size: str = "1Gi", class_name: str = "late") -> Tree:
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
        },
        "status": {"phase": "Pending"},
    }


def volume(name: str, on: str, *, size: str = "1Gi", class_name: str = "late") -> Tree:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
    return {
        "kind": "PersistentVolume",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "local": {"path": f"/disks/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
        "status": {"phase": "Available"},
    }


def user(name: str, claim_name: str) -> Tree:
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}])


async def finish_binding(world: World, name: str, volume_name: str) -> None:
    """What the volume controller does once volume or node is chosen."""
    seen = await world.client.get(PersistentVolumeClaim, name, "default")
    await world.client.patch(
        PersistentVolumeClaim,
        name,
        "default",
        {
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": volume_name},
        },
    )
    assert seen.metadata.name == name


def outcomes(setup: Setup, count: int) -> list[Any]:
    return [setup.core.schedule_one() for _ in range(count)]


def two_nodes_one_volume() -> Setup:
    setup = Setup()
    for kind, tree in (
        ("StorageClass", storage_class()),
        ("PersistentVolume", volume("disk", "a")),
        ("PersistentVolumeClaim", claim("one")),
        ("PersistentVolumeClaim", claim("two")),
        ("Node", node("a")),
        ("Node", node("b")),
    ):
        setup.see(kind, tree)
    return setup


def test_an_assumed_volume_is_given_to_no_other_pod() -> None:
    setup = two_nodes_one_volume()
    setup.see("Pod", user("p", "one"))
    setup.see("Pod", user("q", "two"))
    first, second = outcomes(setup, 2)
    assert first.decision.node == "a"
    assert second.decision.message.startswith(
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    )
    reference = setup.core.snapshot.catalog.volumes["disk"].spec.claim_ref
    assert reference is not None
    assert reference.name == "one"


def test_a_pod_whose_claims_are_bound_has_nothing_to_do_before_it_is_bound() -> None:
    setup = two_nodes_one_volume()
    done, disk = claim("one"), volume("disk", "a")
    done["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    done["spec"]["volumeName"], done["status"]["phase"] = "disk", "Bound"
    disk["spec"]["claimRef"] = {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "one",
        "uid": "uid-one",
    }
    setup.see("PersistentVolume", disk)
    setup.see("PersistentVolumeClaim", done)
    setup.see("Pod", user("p", "one"))
    setup.see("Pod", user("q", "two"))
    first, second = outcomes(setup, 2)
    assert first.decision.node == "a"
    assert not first.binding_cycle.has_work
    assert not second.decision.scheduled


def test_a_volume_is_free_again_when_its_pod_does_not_get_there() -> None:
    setup = two_nodes_one_volume()
    setup.see("Pod", user("p", "one"))
    (first,) = outcomes(setup, 1)
    first.binding_cycle.undo()
    assert setup.core.snapshot.catalog.volumes["disk"].spec.claim_ref is None
    setup.see("Pod", user("q", "two"))
    (second,) = outcomes(setup, 1)
    assert second.decision.node == "a"


def test_what_the_server_says_replaces_an_assumption_only_if_it_is_newer() -> None:
    setup = two_nodes_one_volume()
    old = volume("disk", "a")
    old["metadata"]["resourceVersion"] = "5"
    setup.see("PersistentVolume", old)
    setup.see("Pod", user("p", "one"))
    outcomes(setup, 1)
    setup.see("PersistentVolume", old)
    assert setup.core.snapshot.catalog.volumes["disk"].spec.claim_ref is not None
    old["metadata"]["resourceVersion"] = "6"
    setup.see("PersistentVolume", old)
    assert setup.core.snapshot.catalog.volumes["disk"].spec.claim_ref is None


def test_a_pod_is_bound_once_its_volume_is() -> None:
    async def story(world: World) -> None:
        await world.create(storage_class(), volume("disk", "a"), node("a"), node("b"), claim("one"), user("p", "one"))

        async def reserved() -> bool:
            reference = (await world.client.get(PersistentVolume, "disk")).spec.claim_ref
            return reference is not None and reference.name == "one"

        await world.until(reserved)
        waiting = await world.pod("p")
        assert (waiting.spec.node_name, waiting.status.nominated_node_name) == ("", "a")
        made = await world.client.get(PersistentVolume, "disk")
        assert made.metadata.annotations["pv.kubernetes.io/bound-by-controller"] == "yes"
        await finish_binding(world, "one", "disk")
        assert await world.bound("p") == "a"

    play(story)


def test_a_claim_to_be_provisioned_is_told_its_node() -> None:
    async def story(world: World) -> None:
        await world.create(storage_class(provisioner="csi.example.com"), node("a"), claim("one"), user("p", "one"))

        async def selected() -> str:
            seen = await world.client.get(PersistentVolumeClaim, "one", "default")
            return seen.metadata.annotations.get("volume.kubernetes.io/selected-node", "")

        assert await world.until(selected) == "a"
        await world.create(volume("made", "a"))
        await finish_binding(world, "one", "made")
        assert await world.bound("p") == "a"

    play(story)


def test_a_provisioner_that_gives_up_sends_the_pod_back() -> None:
    async def story(world: World) -> None:
        await world.create(storage_class(provisioner="csi.example.com"), node("a"), claim("one"), user("p", "one"))

        async def selected() -> str:
            seen = await world.client.get(PersistentVolumeClaim, "one", "default")
            return seen.metadata.annotations.get("volume.kubernetes.io/selected-node", "")

        await world.until(selected)
        annotations = {"volume.kubernetes.io/selected-node": None, "other": "yes"}
        await world.client.patch(PersistentVolumeClaim, "one", "default", {"metadata": {"annotations": annotations}})
        message = await world.refused("p", "provisioning failed")
        expected = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "one"'
        assert message == expected
        assert expected in await world.events("FailedScheduling")
        assert await world.until(selected) == "a"

    play(story)


@st.composite
def volume_cases(draw: st.DrawFn) -> tuple[list[tuple[str, Tree]], list[str]]:
    """Objects of a small cluster, and the claims of a pod in it."""
    names = ["a", "b", "c"]
    objects: list[tuple[str, Tree]] = [("Node", node(name)) for name in names]
    claims: list[str] = []
    for index in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(("free", "pinned", "missing", "late", "selected")))
        provisioner = draw(st.sampled_from(("csi.example.com", "kubernetes.io/no-provisioner")))
        late = storage_class(f"class-{index}", provisioner)
        if draw(st.booleans()):
            expression = {"key": "kubernetes.io/hostname", "values": [draw(st.sampled_from(names))]}
            late["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
        wanted = claim(f"claim-{index}", class_name=f"class-{index}")
        if kind in ("free", "pinned", "missing"):
            wanted["spec"]["volumeName"] = f"disk-{index}"
            wanted["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        if kind == "selected":
            wanted["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": draw(st.sampled_from(names))}
        if kind != "missing":
            disk = volume(f"disk-{index}", draw(st.sampled_from(names)), class_name=f"class-{index}")
            if kind == "free":
                del disk["spec"]["nodeAffinity"]
            if kind != "late" or draw(st.booleans()):
                objects.append(("PersistentVolume", disk))
        objects += [("StorageClass", late), ("PersistentVolumeClaim", wanted)]
        claims.append(f"claim-{index}")
    return objects, claims


@settings(max_examples=150, deadline=None)
@given(volume_cases())
def test_all_nodes_at_once_give_the_answers_of_one_after_the_other(
    case: tuple[list[tuple[str, Tree]], list[str]],
) -> None:
    objects, claims = case
    planner = Planner()
    for kind, tree in objects:
        planner.add(kind, tree)
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    info = planner.pod(pod("p", volumes=volumes))
    plugin = planner.cycle_for(info).profile.plugins["VolumeBinding"]
    assert isinstance(plugin, VolumeBinding)
    state = CycleState(planner.snapshot)
    assert plugin.pre_filter(state, info.shape) is None
    rows = planner.snapshot.all_rows
    one_by_one = [plugin.filter_row(state, info.shape, row) for row in range(planner.snapshot.size)]
    assert plugin.filter(state, info.shape, rows).tolist() == one_by_one


def capacity(on: str, class_name: str, **amounts: str) -> Tree:
    return {
        "kind": "CSIStorageCapacity",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": f"{class_name}-{on}", "namespace": "default"},
        "storageClassName": class_name,
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": on}},
        **amounts,
    }


@pytest.mark.parametrize(
    ("capacities", "fits"),
    [
        ((), False),
        ((capacity("a", "fast", capacity="1Gi"),), True),
        ((capacity("a", "fast", capacity="1023Mi"),), False),
        ((capacity("a", "slow", capacity="9Gi"),), False),
        ((capacity("b", "fast", capacity="9Gi"),), False),
        ((capacity("a", "fast", capacity="9Gi", maximumVolumeSize="1Gi"),), True),
        ((capacity("a", "fast", capacity="9Gi", maximumVolumeSize="512Mi"),), False),
        ((capacity("a", "fast"),), False),
    ],
)
def test_a_claim_is_made_where_the_driver_reports_room_for_its_class(capacities: tuple[Tree, ...], fits: bool) -> None:
    driver = {
        "kind": "CSIDriver",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": "csi.example.com"},
        "spec": {"storageCapacity": True},
    }
    classes = [storage_class(name, "csi.example.com") for name in ("fast", "slow")]
    cluster = [node("a"), *classes, driver, claim("c", class_name="fast"), *capacities]
    found = Planner(cluster).decide(user("p", "c"))
    assert found.scheduled is fits
    assert fits or "did not have enough free storage" in found.message


def claim_of(name: str, **fields: Tree) -> Tree:
    """A claim that is to be bound at once, or was."""
    tree = claim(name, class_name="")
    for key, value in fields.items():
        tree[key] = {**tree[key], **value}
    return tree


MADE = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}
DONE = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}


@pytest.mark.parametrize(
    ("source", "found", "reason"),
    [
        ({"persistentVolumeClaim": {"claimName": "c"}}, None, 'persistentvolumeclaim "c" not found'),
        (
            {"ephemeral": MADE},
            None,
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"',
        ),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            claim_of("c", metadata=DONE, spec={"volumeName": "gone"}, status={"phase": "Lost"}),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "gone"',
        ),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            claim_of("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            'persistentvolumeclaim "c" is being deleted',
        ),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            claim_of("c"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            claim_of("c", spec={"volumeName": "disk"}),  # not bound completely
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        ({"ephemeral": MADE}, claim_of("p-v"), "PVC default/p-v was not created for pod default/p (pod is not owner)"),
    ],
)
def test_a_pod_is_refused_everywhere_for_a_claim_that_no_node_can_help(
    source: Tree, found: Tree | None, reason: str
) -> None:
    off = {"disabled": [{"name": name} for name in ("VolumeRestrictions", "VolumeZone", "NodeVolumeLimits")]}
    config = {"profiles": [{"plugins": {"preFilter": off, "filter": off}}]}
    asked = pod("p", volumes=[{"name": "v", **source}])
    decision = Planner([node("a"), *([found] if found else [])], config).decide(asked)
    assert decision.message.startswith(f"0/1 nodes are available: {reason}.")
