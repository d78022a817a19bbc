"""What older releases make of objects: the fields that their API servers drop."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import to_tree
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.library import typed
from bayplan.simulation.rehearsal.gates import HISTORIES
from bayplan.simulation.rehearsal.older_rules import settings_under, uses_of_gates, workload_under
from bayplan.simulation.replay.run import Arrival, Workload

Tree = dict[str, Any]


def pod(**spec: Any) -> Tree:
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}


def claim(*requests: Tree) -> Tree:
    return {"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {"devices": {"requests": list(requests)}}}


def one_slice(**device: Any) -> Tree:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "pool": pool, "nodeName": "a", "devices": [{"name": "gpu", **device}]},
    }


EXACTLY: Tree = {"deviceClassName": "gpu"}

CASES = [
    ("pod-level requests", "PodLevelResources", pod(resources={"requests": {"cpu": "5"}}), "1.33", "1.34"),
    (
        "claims of pods",
        "DynamicResourceAllocation",
        pod(
            resourceClaims=[{"name": "g", "resourceClaimName": "c"}],
            containers=[{"name": "c", "resources": {"claims": [{"name": "g"}]}}],
        ),
        "1.33",
        "1.34",
    ),
    (
        "attributes of volumes",
        "VolumeAttributesClass",
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c"},
            "spec": {"volumeAttributesClassName": "fast", "accessModes": ["ReadWriteOnce"]},
        },
        "1.33",
        "1.34",
    ),
    (
        "tolerations of requests",
        "DRADeviceTaints",
        claim({"name": "r", "exactly": {**EXACTLY, "tolerations": [{"operator": "Exists"}]}}),
        "1.35",
        "1.36",
    ),
    (
        "capacity of requests",
        "DRAConsumableCapacity",
        claim({"name": "r", "exactly": {**EXACTLY, "capacity": {"requests": {"memory": "1Gi"}}}}),
        "1.35",
        "1.36",
    ),
    ("devices for several", "DRAConsumableCapacity", one_slice(allowMultipleAllocations=True), "1.35", "1.36"),
    ("taints of devices", "DRADeviceTaints", one_slice(taints=[{"key": "k", "effect": "NoSchedule"}]), "1.35", "1.36"),
    ("binding conditions", "DRADeviceBindingConditions", one_slice(bindingConditions=["ready"]), "1.35", "1.36"),
    (
        "partitions",
        "DRAPartitionableDevices",
        one_slice(consumesCounters=[{"counterSet": "s", "counters": {"memory": {"value": "1Gi"}}}]),
        "1.35",
        "1.36",
    ),
    (
        "extended resources of classes",
        "DRAExtendedResource",
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}},
        "1.35",
        "1.36",
    ),
]


def workload(tree: Tree) -> Workload:
    obj = typed(tree["kind"], tree)
    if tree["kind"] == "Pod":
        return Workload((), (Arrival(0.0, obj),))
    return Workload((), (), (obj,))


def objects(found: Workload) -> list[Any]:
    return [*(to_tree(one.pod) for one in found.arrivals), *(to_tree(one) for one in found.others)]


@pytest.mark.parametrize(("gate", "tree", "before", "since"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_fields_are_dropped_before_their_gate_is_on(gate: str, tree: Tree, before: str, since: str) -> None:
    given = workload(tree)
    assert objects(workload_under(given, since)) == objects(given)
    assert objects(workload_under(given, before)) != objects(given)
    assert uses_of_gates(given, [gate]) == {gate: 1}


@pytest.mark.parametrize("tree", [pod(), claim({"name": "r", "exactly": EXACTLY}), one_slice()])
def test_objects_without_such_fields_are_the_same_since_claims_exist(tree: Tree) -> None:
    given = workload(tree)
    assert objects(workload_under(given, "1.34")) == objects(given)
    assert uses_of_gates(given, [one.name for one in HISTORIES if one.on_since != "1.34"]) == {}


def test_a_claim_with_alternatives_is_refused_without_the_gate() -> None:
    alternatives = [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "other"}]
    given = workload(claim({"name": "r", "firstAvailable": alternatives}))
    assert objects(workload_under(given, "1.34")) == objects(given)
    assert workload_under(given, "1.33").others == ()


def test_administrative_access_is_asked_for_since_1_34() -> None:
    given = workload(claim({"name": "r", "exactly": {**EXACTLY, "adminAccess": True}}))
    assert uses_of_gates(given, ["DRAAdminAccess"]) == {"DRAAdminAccess": 1}
    assert workload_under(given, "1.34").others[0].spec.devices.requests[0].exactly.admin_access is True


def test_devices_and_classes_are_not_served_in_1_33() -> None:
    for tree in (one_slice(), claim({"name": "r", "exactly": EXACTLY}), CASES[-1][2]):
        assert workload_under(workload(tree), "1.33").others == ()


@pytest.mark.parametrize(
    ("version", "has_claims", "has_features"), [("1.33", False, False), ("1.35", True, False), ("1.36", True, True)]
)
def test_the_default_profile_has_the_plugins_of_the_release(version: str, has_claims: bool, has_features: bool) -> None:
    names = {choice.name for choice in settings_under(load(None), version).profiles[0].multi_point}
    assert ("DynamicResources" in names) == has_claims
    assert ("NodeDeclaredFeatures" in names) == has_features
    assert "NodeResourcesFit" in names


def test_pods_that_need_features_of_a_kubelet_use_their_gate() -> None:
    assert uses_of_gates(workload(pod(hostNetwork=True, hostUsers=False)), ["NodeDeclaredFeatures"])
    assert not uses_of_gates(workload(pod(hostNetwork=True)), ["NodeDeclaredFeatures"])
