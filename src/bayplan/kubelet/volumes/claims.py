"""From the volumes that a pod names to what is to be mounted: claims are followed to the persistent volumes that they are bound to
(pkg/kubelet/volumemanager/populator)."""

from __future__ import annotations

from bayplan.api.selectors.nodes import selects
from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.field_values import every_container
from bayplan.kubelet.objects import ClaimSource, ObjectError
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import VolumeSpec

GID_ANNOTATION = "pv.beta.kubernetes.io/gid"
_PROTECTION = "kubernetes.io/pvc-protection"


def used_volumes(pod: core_v1.Pod) -> tuple[set[str], set[str]]:
    """(names that containers mount, names that they use as devices)."""
    containers = every_container(pod.spec)
    mounts = {each.name for container in containers for each in container.volume_mounts}
    devices = {each.name for container in containers for each in container.volume_devices}
    return mounts, devices


async def volume_spec(
    objects: ClaimSource, pod: core_v1.Pod, volume: core_v1.Volume, *, is_mount: bool, is_device: bool
) -> VolumeSpec:
    """What is to be mounted for one of a pod's volumes. Raises SetUpError: what Kubernetes says of the pod while this is not known."""
    source = volume.persistent_volume_claim
    if source is None and volume.ephemeral is None:
        return VolumeSpec(volume.name, volume)
    name = source.claim_name if source is not None else f"{pod.metadata.name}-{volume.name}"
    namespace = pod.metadata.namespace
    try:
        claim = await _bound_claim(objects, namespace, name)
        if source is None:
            _check_is_for(pod, claim)
        persistent = await _volume_of(objects, claim)
    except ObjectError as error:
        raise SetUpError(f"error processing PVC {namespace}/{name}: {error}") from error
    mode = persistent.spec.volume_mode or "Filesystem"
    for wanted, is_wanted, section in (("Filesystem", is_mount, "volumeMounts"), ("Block", is_device, "volumeDevices")):
        if is_wanted and mode != wanted:
            raise SetUpError(f"volume {volume.name} has volumeMode {mode}, but is specified in {section}")
    gid = persistent.metadata.annotations.get(GID_ANNOTATION, "")
    return VolumeSpec(
        volume.name,
        volume,
        persistent,
        read_only=source is not None and source.read_only,
        is_block=mode == "Block",
        gid=int(gid) if gid.isdecimal() else None,
    )


async def _bound_claim(objects: ClaimSource, namespace: str, name: str) -> core_v1.PersistentVolumeClaim:
    try:
        claim = await objects.claim(namespace, name)
    except ObjectError as error:
        raise ObjectError(f"failed to fetch PVC from API server: {error}") from error
    metadata = claim.metadata
    if metadata.deletion_timestamp is not None and _PROTECTION not in metadata.finalizers:
        raise ObjectError("PVC is being deleted")
    if claim.status.phase != "Bound":
        raise ObjectError("PVC is not bound")
    if not claim.spec.volume_name:
        raise ObjectError("PVC has empty pvc.Spec.VolumeName")
    return claim


def _check_is_for(pod: core_v1.Pod, claim: core_v1.PersistentVolumeClaim) -> None:
    """See that the claim of an ephemeral volume was made for this pod and none of the same name before it."""
    owners = (each for each in claim.metadata.owner_references if each.controller)
    if not any(each.uid == pod.metadata.uid for each in owners):
        shown = f"{claim.metadata.namespace}/{claim.metadata.name}"
        of_pod = f"{pod.metadata.namespace}/{pod.metadata.name}"
        raise SetUpError(f"PVC {shown} was not created for pod {of_pod} (pod is not owner)")


async def _volume_of(objects: ClaimSource, claim: core_v1.PersistentVolumeClaim) -> core_v1.PersistentVolume:
    name = claim.spec.volume_name
    try:
        found = await objects.volume(name)
    except ObjectError as error:
        raise ObjectError(f"failed to fetch PV {name} from API server: {error}") from error
    reference = found.spec.claim_ref
    if reference is None:
        text = "but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        raise ObjectError(f"found PV object {name} {text}")
    if reference.uid != claim.metadata.uid:
        text = f"but its pv.Spec.ClaimRef.UID {reference.uid} does not point to claim.UID {claim.metadata.uid}"
        raise ObjectError(f"found PV object {name} {text}")
    return found


def check_node_affinity(volume: core_v1.PersistentVolume, node: core_v1.Node | None) -> None:
    """Raises SetUpError if a persistent volume cannot be used on this node."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return
    if node is None:
        raise SetUpError("error retrieving node")
    if not selects(affinity.required, node):
        raise SetUpError("no matching NodeSelectorTerms")
