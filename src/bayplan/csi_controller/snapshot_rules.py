"""Snapshots: which content a VolumeSnapshot has, what each says of the other, and when they go. Pure; objects are JSON trees with typed metadata.

Source of the behaviour: external-snapshotter, `common-controller` (VolumeSnapshot) and `sidecar-controller` (VolumeSnapshotContent).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.quantity import binary
from bayplan.api.types import core_v1
from bayplan.csi import messages as csi
from bayplan.csi_controller.errors import RequestError
from bayplan.support.timestamps import rfc3339

BOUND_SNAPSHOT: Final = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
AS_SOURCE: Final = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
BOUND_CONTENT: Final = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
CLAIM_AS_SOURCE: Final = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
BEING_DELETED: Final = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
BEING_CREATED: Final = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
DEFAULT_CLASS: Final = "snapshot.storage.kubernetes.io/is-default-class"
DELETION_SECRET: Final = "snapshot.storage.kubernetes.io/deletion-secret-{}"
MANAGED_BY: Final = "snapshot.storage.kubernetes.io/managed-by"
_SECRET: Final = "csi.storage.k8s.io/snapshotter{}-secret-{}"
_PREFIX: Final = "csi.storage.k8s.io/"


def spec_of(obj: CustomObject) -> Mapping[str, Any]:
    """`spec`, of objects that have one."""
    found: Mapping[str, Any] = obj.content.get("spec") or {}
    return found


def status_of(obj: CustomObject) -> Mapping[str, Any]:
    """`status`; empty if there is none yet."""
    found: Mapping[str, Any] = obj.content.get("status") or {}
    return found


def source_of(obj: CustomObject) -> Mapping[str, Any]:
    """`spec.source` of a snapshot or a content."""
    found: Mapping[str, Any] = spec_of(obj).get("source") or {}
    return found


def content_name(snapshot: CustomObject) -> str:
    """The name of the content that is, or will be, a snapshot's."""
    bound: str = status_of(snapshot).get("boundVolumeSnapshotContentName") or ""
    return bound or source_of(snapshot).get("volumeSnapshotContentName") or f"snapcontent-{snapshot.metadata.uid}"


def refers_to(content: CustomObject, snapshot: CustomObject) -> bool:
    """Whether a content is meant for a snapshot: by name, and by uid if it has one."""
    reference, metadata = spec_of(content).get("volumeSnapshotRef") or {}, snapshot.metadata
    same = (reference.get("namespace"), reference.get("name")) == (metadata.namespace, metadata.name)
    return same and reference.get("uid", "") in ("", metadata.uid)


def default_class(classes: Iterable[CustomObject], driver: str) -> CustomObject:
    """The class for snapshots that name none. Raises RequestError unless there is one."""
    found = [
        one
        for one in classes
        if one.content.get("driver") == driver and one.metadata.annotations.get(DEFAULT_CLASS) == "true"
    ]
    if len(found) != 1:
        raise RequestError(
            "cannot find default snapshot class" if not found else f"{len(found)} default snapshot classes were found"
        )
    return found[0]


def driver_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters that are meant for the driver."""
    return {key: value for key, value in parameters.items() if not key.startswith(_PREFIX)}


def new_content(
    snapshot: CustomObject, snapshot_class: CustomObject, volume: core_v1.PersistentVolume, node_name: str
) -> dict[str, Any]:
    """The content for a snapshot of a volume, as a tree. node_name: the node that has the volume; "" for all."""
    assert volume.spec.csi is not None
    name, parameters = f"snapcontent-{snapshot.metadata.uid}", snapshot_class.content.get("parameters") or {}
    secret = {part: parameters.get(_SECRET.format("", part), "") for part in ("name", "namespace")}
    tokens = {
        "${volumesnapshotcontent.name}": name,
        "${volumesnapshot.name}": snapshot.metadata.name,
        "${volumesnapshot.namespace}": snapshot.metadata.namespace,
    }
    annotations = {}
    if all(secret.values()):
        for part, text in secret.items():
            for token, value in tokens.items():
                text = text.replace(token, value)
            annotations[DELETION_SECRET.format(part)] = text
    metadata: dict[str, Any] = {"name": name, "annotations": annotations, "finalizers": [BOUND_CONTENT]}
    if node_name:
        metadata["labels"] = {MANAGED_BY: node_name}
    return {
        "metadata": metadata,
        "spec": {
            "volumeSnapshotRef": {
                "apiVersion": "snapshot.storage.k8s.io/v1",
                "kind": "VolumeSnapshot",
                "namespace": snapshot.metadata.namespace,
                "name": snapshot.metadata.name,
                "uid": snapshot.metadata.uid,
                "resourceVersion": snapshot.metadata.resource_version,
            },
            "source": {"volumeHandle": volume.spec.csi.volume_handle},
            "volumeSnapshotClassName": snapshot_class.metadata.name,
            "deletionPolicy": snapshot_class.content["deletionPolicy"],
            "driver": snapshot_class.content["driver"],
            "sourceVolumeMode": volume.spec.volume_mode or "Filesystem",
        },
    }


def snapshot_status(content: CustomObject) -> dict[str, Any]:
    """What a snapshot says once it has a content."""
    status = status_of(content)
    found: dict[str, Any] = {
        "boundVolumeSnapshotContentName": content.metadata.name,
        "readyToUse": bool(status.get("readyToUse")),
        "error": status.get("error"),
    }
    if status.get("creationTime"):
        found["creationTime"] = rfc3339(status["creationTime"] / 1e9)
    if status.get("restoreSize") is not None:
        found["restoreSize"] = binary(status["restoreSize"])
    return found


def content_status(snapshot: csi.Snapshot, now: float) -> dict[str, Any]:
    """What a content says of a snapshot in the driver."""
    return {
        "snapshotHandle": snapshot.snapshot_id,
        "creationTime": snapshot.creation_time or int(now) * 1_000_000_000,
        "restoreSize": snapshot.size_bytes,
        "readyToUse": snapshot.ready_to_use,
        "error": None,
    }


def differs(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a status has to be written. None stands for a field that is not there."""
    return any(known.get(key) != value for key, value in wanted.items())


def may_go(content: CustomObject) -> bool:
    """Whether a content that is being deleted may be: nothing is being made of it, and its snapshot goes or never was."""
    annotations = content.metadata.annotations
    if not content.metadata.deletion_timestamp:
        return False
    reference = spec_of(content).get("volumeSnapshotRef") or {}
    if source_of(content).get("snapshotHandle") and not reference.get("uid"):
        return True
    return BEING_CREATED not in annotations and BEING_DELETED in annotations


def is_source_of(snapshot: CustomObject, claim: core_v1.PersistentVolumeClaim) -> bool:
    """Whether a claim is waiting for a volume from a snapshot."""
    source = claim.spec.data_source_ref or claim.spec.data_source
    return (
        source is not None
        and (source.kind, source.name) == ("VolumeSnapshot", snapshot.metadata.name)
        and claim.metadata.namespace == snapshot.metadata.namespace
        and claim.status.phase == "Pending"
    )


def still_needs(snapshot: CustomObject, claim_name: str) -> bool:
    """Whether a snapshot of a claim is still to be taken."""
    named = source_of(snapshot).get("persistentVolumeClaimName") == claim_name
    return named and not snapshot.metadata.deletion_timestamp and "creationTime" not in status_of(snapshot)
