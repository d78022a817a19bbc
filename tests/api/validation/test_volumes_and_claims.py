"""Persistent volumes and claims: what they are and how they may change."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.strategies.core.persistentvolumeclaims import STRATEGY as CLAIMS
from bayplan.api.strategies.core.persistentvolumes import STRATEGY as VOLUMES
from bayplan.api.types import core_v1
from tests.api.validation.pods import told


def volume(spec: dict[str, Any]) -> core_v1.PersistentVolume:
    tree = {"metadata": {"name": "v", "resourceVersion": "1"}}
    whole = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **spec}
    made: core_v1.PersistentVolume = codec.from_tree(core_v1.PersistentVolume, {**tree, "spec": whole})
    VOLUMES.default(made)
    return made


def csi(**more: Any) -> dict[str, Any]:
    return {"csi": {"driver": "d", "volumeHandle": "h", **more}}


def zone(label: str, value: str = "a") -> dict[str, Any]:
    expression = {"key": label, "operator": "In", "values": [value]}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (csi(), []),
        (csi(nodePublishSecretRef={"name": "A", "namespace": "n"}), ["spec.csi.nodePublishSecretRef.name INVALID"]),
        ({**csi(), "hostPath": {"path": "/a"}}, ["spec.csi FORBIDDEN"]),
        (
            {"iscsi": {"targetPortal": "p", "iqn": "other", "secretRef": {}}},
            ["spec.iscsi.iqn INVALID", "spec.iscsi.secretRef.name REQUIRED"],
        ),
        (
            {"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": "A"}},
            ["spec.glusterfs.endpointsNamespace INVALID"],
        ),
        ({**csi(), "capacity": {"storage": "0"}}, ["spec.capacity[storage] INVALID"]),
    ],
)
def test_new_volumes(spec: dict[str, Any], expected: list[str]) -> None:
    assert told(VOLUMES.validate(volume(spec))) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (csi(), csi(controllerExpandSecretRef={"name": "a", "namespace": "b"}), []),
        (csi(), csi(fsType="ext4"), ["spec.persistentvolumesource FORBIDDEN"]),
        (
            {**csi(), **zone("failure-domain.beta.kubernetes.io/zone")},
            {**csi(), **zone("topology.kubernetes.io/zone")},
            [],
        ),
        (
            {**csi(), **zone("topology.kubernetes.io/zone")},
            {**csi(), **zone("topology.kubernetes.io/zone", "b")},
            ["nodeAffinity INVALID"],
        ),
        (
            {**csi(), "volumeAttributesClassName": "gold"},
            csi(),
            ["spec.volumeAttributesClassName FORBIDDEN"],
        ),
    ],
)
def test_changes_of_volumes(old: dict[str, Any], new: dict[str, Any], expected: list[str]) -> None:
    assert told(VOLUMES.validate_update(volume(new), volume(old))) == expected


def claim(
    spec: dict[str, Any], status: dict[str, Any] | None = None, annotations: dict[str, str] | None = None
) -> core_v1.PersistentVolumeClaim:
    metadata = {"name": "c", "namespace": "n", "resourceVersion": "1", "annotations": annotations or {}}
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, **spec}
    tree = {"metadata": metadata, "spec": whole, "status": status or {}}
    made: core_v1.PersistentVolumeClaim = codec.from_tree(core_v1.PersistentVolumeClaim, tree)
    CLAIMS.default(made)
    return made


def size(amount: str) -> dict[str, Any]:
    return {"resources": {"requests": {"storage": amount}}}


BOUND = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
ANNOTATION = "volume.beta.kubernetes.io/storage-class"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (size("3Gi"), []),
        (size("1500Mi"), []),
        (size("1Gi"), ["spec.resources.requests.storage FORBIDDEN"]),
        ({"volumeAttributesClassName": "gold"}, []),
        ({"storageClassName": "slow"}, []),
        ({"accessModes": ["ReadWriteMany"]}, ["spec FORBIDDEN"]),
    ],
)
def test_changes_of_bound_claims(new: dict[str, Any], expected: list[str]) -> None:
    assert told(CLAIMS.validate_update(claim(new, BOUND), claim({}, BOUND))) == expected


def test_a_class_moves_from_the_annotation_to_the_field_but_nowhere_else() -> None:
    old = claim({}, BOUND, {ANNOTATION: "slow"})
    assert told(CLAIMS.validate_update(claim({"storageClassName": "slow"}, BOUND), old)) == []
    other = claim({"storageClassName": "fast"}, BOUND, {ANNOTATION: "slow"})
    assert told(CLAIMS.validate_update(other, old)) == ["spec FORBIDDEN"]
    without = claim({}, BOUND)
    assert told(CLAIMS.validate_update(without, old)) == [f"metadata.annotations.{ANNOTATION} INVALID"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"allocatedResourceStatuses": {"storage": "NodeResizePending"}}, []),
        ({"allocatedResourceStatuses": {"storage": "x"}}, ["status.allocatedResourceStatuses NOT_SUPPORTED"]),
        ({"allocatedResources": {"cpu": "1"}}, ["status.allocatedResources NOT_SUPPORTED"]),
        ({"allocatedResources": {"example.com/x": "1"}}, []),
        ({"capacity": {"storage": "-1"}}, ["status.capacity[storage] INVALID"]),
    ],
)
def test_status_of_claims(status: dict[str, Any], expected: list[str]) -> None:
    assert told(CLAIMS.validate_status_update(claim({}, status), claim({}))) == expected
