"""Volumes for claims: the request that a claim makes, the volume that a response gives, and what follows from an error. Pure.

Source of the behaviour: external-provisioner `pkg/controller/controller.go` and sig-storage-lib-external-provisioner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bayplan.api.quantity import binary, value
from bayplan.api.types import core_v1, meta_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi.client import DriverInfo
from bayplan.csi.errors import CsiError
from bayplan.csi_controller import capabilities as uses
from bayplan.csi_controller.errors import ForeignSourceError, NodeGoneError, RequestError
from bayplan.csi_controller.topology import node_affinity

FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
OLD_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
DELETION_SECRET: Final = "volume.kubernetes.io/provisioner-deletion-secret-{}"
MODIFY_SECRET: Final = "volume.kubernetes.io/controller-modify-secret-{}"
IDENTITY: Final = "storage.kubernetes.io/csiProvisionerIdentity"
SNAPSHOT_GROUP: Final = "snapshot.storage.k8s.io"
DELAYED: Final = "WaitForFirstConsumer"
_C = csi.ControllerCapability


class State(Enum):
    """What is known of a volume after a try that failed."""

    FINISHED = "the volume does not exist, and nothing goes on"
    NO_CHANGE = "the try has changed nothing"
    IN_BACKGROUND = "the driver may be at it still: the same call has to be made until its end is known"
    RESCHEDULE = "the volume does not exist, and the scheduler is to choose another node"


def state_after(error: Exception, *, may_reschedule: bool) -> State:
    """What an error of CreateVolume says. Errors that are not a driver's mean that it was not called."""
    if isinstance(error, NodeGoneError):
        return State.RESCHEDULE if may_reschedule else State.NO_CHANGE
    if not isinstance(error, CsiError):
        return State.NO_CHANGE
    if error.code == "RESOURCE_EXHAUSTED" and may_reschedule:
        return State.RESCHEDULE
    return State.FINISHED if error.is_final else State.IN_BACKGROUND


def provisioner_of(claim: core_v1.PersistentVolumeClaim) -> str:
    """Whom the volume binder has asked for a volume; "" if nobody."""
    annotations = claim.metadata.annotations
    return annotations.get(PROVISIONER) or annotations.get(OLD_PROVISIONER, "")


def wants_volume(
    claim: core_v1.PersistentVolumeClaim, storage_class: storage_v1.StorageClass | None, driver: str
) -> bool:
    """Whether a driver has to make a volume for a claim now."""
    if claim.metadata.deletion_timestamp or claim.spec.volume_name or provisioner_of(claim) != driver:
        return False
    delayed = storage_class is not None and storage_class.volume_binding_mode == DELAYED
    return not delayed or bool(claim.metadata.annotations.get(SELECTED_NODE))


@dataclass(frozen=True, slots=True)
class Source:
    """What is to be in the volume: a snapshot or a claim of a namespace."""

    kind: str
    namespace: str
    name: str


def source_of(claim: core_v1.PersistentVolumeClaim) -> Source | None:
    """The data source of a claim. Raises RequestError, ForeignSourceError."""
    reference = claim.spec.data_source_ref or claim.spec.data_source
    if reference is None:
        return None
    namespace = getattr(reference, "namespace", None)
    if namespace and namespace != claim.metadata.namespace:
        raise RequestError("data sources in other namespaces are not supported")
    group = reference.api_group or ""
    if (group, reference.kind) in ((SNAPSHOT_GROUP, "VolumeSnapshot"), ("", "PersistentVolumeClaim")):
        return Source(reference.kind, claim.metadata.namespace, reference.name)
    raise ForeignSourceError(
        f"data source ({reference.kind}) is not handled by the provisioner, assuming an external populator will provision it"
    )


def check_driver(driver: DriverInfo, source: Source | None, attributes_class: str) -> None:
    """Raises RequestError if the driver cannot do what is asked of it."""
    needed = [(_C.CREATE_DELETE_VOLUME, "dynamic provisioning")]
    if source is not None and source.kind == "VolumeSnapshot":
        needed.append((_C.CREATE_DELETE_SNAPSHOT, "snapshot restore"))
    elif source is not None:
        needed.append((_C.CLONE_VOLUME, "clone operations"))
    if attributes_class:
        needed.append((_C.MODIFY_VOLUME, "VolumeAttributesClass"))
    for capability, what in needed:
        if capability not in driver.controller:
            raise RequestError(
                f"CSI driver does not support {what}: controller {capability.name} capability is not reported"
            )


@dataclass(frozen=True, slots=True)
class Provisioning:
    """What is decided about the volume of a claim before the driver is asked; `request` lacks secrets, source and topology."""

    name: str
    fs_type: str
    request: csi.CreateVolumeRequest
    secrets: Mapping[str, core_v1.SecretReference | None]
    """The secret for each kind of call, such as `node-stage`."""


_KINDS: Final = (
    "provisioner",
    "controller-publish",
    "node-stage",
    "node-publish",
    "controller-expand",
    "node-expand",
    "controller-modify",
)


def plan(
    claim: core_v1.PersistentVolumeClaim,
    storage_class: storage_v1.StorageClass,
    driver: DriverInfo,
    *,
    prefix: str = "pvc",
    default_fs_type: str = "",
    extra_metadata: bool = False,
    mutable_parameters: Mapping[str, str] | None = None,
) -> Provisioning:
    """The request that a claim makes. Raises RequestError."""
    if claim.spec.selector is not None:
        raise RequestError("claim Selector is not supported")
    name = f"{prefix}-{claim.metadata.uid}"
    parameters = storage_class.parameters
    fs_type = uses.fs_type_of(parameters, default_fs_type)
    several = _C.SINGLE_NODE_MULTI_WRITER in driver.controller
    modes = [uses.access_mode((one,), single_node_multi_writer=several) for one in claim.spec.access_modes]
    options, volume_mode = storage_class.mount_options, claim.spec.volume_mode
    tokens = uses.SecretTokens(name, claim.metadata.namespace, claim.metadata.name, claim.metadata.annotations)
    secrets = {one: uses.secret_reference(one, parameters, tokens) for one in _KINDS}
    given = uses.driver_parameters(parameters)
    if extra_metadata:
        given |= {
            uses.PVC_NAME: claim.metadata.name,
            uses.PVC_NAMESPACE: claim.metadata.namespace,
            uses.PV_NAME: name,
        }
    request = csi.CreateVolumeRequest(
        name,
        csi.CapacityRange(value(claim.spec.resources.requests.get("storage", "0"))),
        tuple(uses.capability(one, volume_mode, fs_type, options) for one in modes),
        given,
        mutable_parameters=dict(mutable_parameters or {}),
    )
    return Provisioning(name, fs_type, request, secrets)


def problem_with(volume: csi.Volume, request: csi.CreateVolumeRequest) -> str:
    """Why a volume that a driver has made must not be used, and goes again; "" if it may."""
    wanted = request.capacity_range.required_bytes if request.capacity_range is not None else 0
    if volume.capacity_bytes and volume.capacity_bytes < wanted:
        return f"created volume capacity {volume.capacity_bytes} less than requested capacity {wanted}"
    if request.volume_content_source is not None and volume.content_source is None:
        return "volume content source missing"
    return ""


def persistent_volume(
    claim: core_v1.PersistentVolumeClaim,
    storage_class: storage_v1.StorageClass,
    planned: Provisioning,
    volume: csi.Volume,
    driver: DriverInfo,
    identity: str,
) -> core_v1.PersistentVolume:
    """The PersistentVolume for what a driver has made; it belongs to the claim."""
    wanted = planned.request.capacity_range.required_bytes if planned.request.capacity_range is not None else 0
    is_block = claim.spec.volume_mode == uses.BLOCK
    policy = storage_class.reclaim_policy or "Delete"
    source = core_v1.CSIPersistentVolumeSource(
        driver=driver.name,
        volume_handle=volume.volume_id,
        read_only=_is_read_only(planned.request) and _C.PUBLISH_READONLY in driver.controller,
        fs_type="" if is_block else planned.fs_type,
        volume_attributes={IDENTITY: identity, **volume.volume_context},
        controller_publish_secret_ref=planned.secrets["controller-publish"],
        node_stage_secret_ref=planned.secrets["node-stage"],
        node_publish_secret_ref=planned.secrets["node-publish"],
        controller_expand_secret_ref=planned.secrets["controller-expand"],
        node_expand_secret_ref=planned.secrets["node-expand"],
    )
    return core_v1.PersistentVolume(
        metadata=meta_v1.ObjectMeta(
            name=planned.name,
            annotations=_annotations(planned, driver.name),
            finalizers=(FINALIZER,) if policy == "Delete" else (),
        ),
        spec=core_v1.PersistentVolumeSpec(
            capacity={"storage": binary(volume.capacity_bytes or wanted)},
            access_modes=claim.spec.access_modes,
            mount_options=storage_class.mount_options,
            csi=source,
            claim_ref=_reference(claim),
            persistent_volume_reclaim_policy=policy,
            storage_class_name=storage_class.metadata.name,
            volume_mode=claim.spec.volume_mode,
            node_affinity=node_affinity(volume.accessible_topology) if driver.has_topology else None,
            volume_attributes_class_name=claim.spec.volume_attributes_class_name or None,
        ),
    )


def _is_read_only(request: csi.CreateVolumeRequest) -> bool:
    modes = [one.access_mode.mode for one in request.volume_capabilities if one.access_mode is not None]
    return modes == [csi.Access.MULTI_NODE_READER_ONLY]


def _annotations(planned: Provisioning, driver: str) -> dict[str, str]:
    deletion, modify = planned.secrets["provisioner"], planned.secrets["controller-modify"]
    found = {
        PROVISIONED_BY: driver,
        DELETION_SECRET.format("name"): deletion.name if deletion is not None else "",
        DELETION_SECRET.format("namespace"): deletion.namespace if deletion is not None else "",
    }
    if modify is not None:
        found |= {MODIFY_SECRET.format("name"): modify.name, MODIFY_SECRET.format("namespace"): modify.namespace}
    return found


def _reference(claim: core_v1.PersistentVolumeClaim) -> core_v1.ObjectReference:
    return core_v1.ObjectReference(
        kind="PersistentVolumeClaim",
        api_version="v1",
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        resource_version=claim.metadata.resource_version,
    )


def is_to_be_deleted(volume: core_v1.PersistentVolume, driver: str) -> bool:
    """Whether the driver has to delete the volume behind a PersistentVolume, which goes with it."""
    spec = volume.spec
    if spec.csi is None or spec.csi.driver != driver or volume.metadata.annotations.get(PROVISIONED_BY) != driver:
        return False
    if volume.metadata.deletion_timestamp and FINALIZER not in volume.metadata.finalizers:
        return False
    return spec.persistent_volume_reclaim_policy == "Delete" and volume.status.phase in ("Released", "Failed")


def wanted_finalizers(volume: core_v1.PersistentVolume, driver: str) -> tuple[str, ...]:
    """The finalizers that a volume has to have: the provisioner's own one exactly while the policy is to delete."""
    finalizers = volume.metadata.finalizers
    if volume.metadata.annotations.get(PROVISIONED_BY) != driver:
        return finalizers
    if volume.spec.persistent_volume_reclaim_policy != "Delete":
        return tuple(one for one in finalizers if one != FINALIZER)
    if volume.metadata.deletion_timestamp or FINALIZER in finalizers or volume.status.phase not in ("Bound", ""):
        return finalizers
    return (*finalizers, FINALIZER)


def deletion_secret(volume: core_v1.PersistentVolume) -> core_v1.SecretReference | None:
    """The secret for deleting a volume."""
    name, namespace = (
        volume.metadata.annotations.get(DELETION_SECRET.format(one), "") for one in ("name", "namespace")
    )
    return core_v1.SecretReference(name=name, namespace=namespace) if name and namespace else None
