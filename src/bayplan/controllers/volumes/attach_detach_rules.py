"""Which CSI volumes have to be attached to a node and which may be detached. Pure functions.

Source of the behaviour: kube-controller-manager's persistentvolume-attach-detach-controller (`attachdetach/reconciler`) and the CSI volume plugin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bayplan.api.nodes import is_ready_node
from bayplan.api.types import core_v1, meta_v1, storage_v1
from bayplan.api.volume_attachments import UNIQUE_PREFIX, attachment_name, unique_name
from bayplan.controllers.pods import has_ended

MANAGED = "volumes.kubernetes.io/controller-managed-attach-detach"
"""Annotation of nodes whose kubelet leaves attaching to this controller."""
KEEP_TERMINATED = "volumes.kubernetes.io/keep-terminated-pod-volumes"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
MAX_WAIT_FOR_UNMOUNT = 360.0
"""Seconds after which a volume is detached from a node that is not healthy, though it may be mounted there."""
TIMEOUT = "timeout"
OUT_OF_SERVICE_REASON = "out-of-service"
"""Why a volume is detached by force, as the metric of forced detaches says it."""
_OWN_NAME = re.compile("csi-[0-9a-f]{64}")


def is_own(one: storage_v1.VolumeAttachment, source: core_v1.CSIPersistentVolumeSource | None) -> bool:
    """Whether an attachment has the name that this controller would have given it. Others belong to whoever made them; `source` is None where nobody knows the
    volume any more."""
    name = one.metadata.name
    if source is None:
        return _OWN_NAME.fullmatch(name) is not None
    return name == attachment_name(source.driver, source.volume_handle, one.spec.node_name)


def may_be_shared(volume: core_v1.PersistentVolume) -> bool:
    """Whether the volume may be attached to several nodes at once."""
    modes = volume.spec.access_modes
    return not modes or "ReadWriteMany" in modes or "ReadOnlyMany" in modes


def uses_volumes(pod: core_v1.Pod, *, keep_terminated: bool) -> bool:
    """Whether a pod still needs its volumes on its node: a pod that has ended does not, nor one that is deleted and whose containers have all stopped."""
    if not pod.spec.node_name:
        return False
    if keep_terminated:
        return True
    if has_ended(pod):
        return False
    if not pod.metadata.deletion_timestamp:
        return True
    return any(
        one.state is None or (one.state.terminated is None and one.state.waiting is None)
        for one in pod.status.container_statuses
    )


def is_healthy(node: core_v1.Node | None) -> bool:
    """Whether a node is there and ready."""
    return node is not None and is_ready_node(node)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A volume that pods on a node need."""

    volume: core_v1.PersistentVolume
    source: core_v1.CSIPersistentVolumeSource
    pods: tuple[core_v1.Pod, ...]

    def attachment(self, node_name: str) -> storage_v1.VolumeAttachment:
        """The attachment as it has to be made."""
        name = attachment_name(self.source.driver, self.source.volume_handle, node_name)
        source = storage_v1.VolumeAttachmentSource(persistent_volume_name=self.volume.metadata.name)
        spec = storage_v1.VolumeAttachmentSpec(attacher=self.source.driver, source=source, node_name=node_name)
        return storage_v1.VolumeAttachment(metadata=meta_v1.ObjectMeta(name=name), spec=spec)


@dataclass(frozen=True, slots=True)
class Detach:
    """An attachment that has to go."""

    attachment: storage_v1.VolumeAttachment
    forced: str = ""
    """`TIMEOUT` or `OUT_OF_SERVICE_REASON` if nobody knows whether the volume is still mounted; empty if it is not."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about one node, in this order."""

    report: tuple[core_v1.AttachedVolume, ...]
    """What the node's status has to list as attached before anything is detached."""
    detach: tuple[Detach, ...] = ()
    attach: tuple[Wanted, ...] = ()
    blocked: tuple[Wanted, ...] = ()
    """Wanted volumes that another node has and that cannot be shared."""
    waits: tuple[str, ...] = ()
    """Names of attachments that are not wanted, but may be mounted."""


def plan(
    node: core_v1.Node | None,
    wanted: Mapping[str, Wanted],
    attached: Iterable[tuple[str, storage_v1.VolumeAttachment]],
    elsewhere: set[str],
    unwanted_since: Mapping[str, float],
    now: float,
    *,
    force_on_timeout: bool = True,
) -> Plan:
    """Decide about a node.

    `wanted` and `attached` (the attachments of this node) go by unique name; `elsewhere` are the unique names of volumes that have an attachment to another
    node; `unwanted_since` says since when (same clock as `now`) an attachment of a name is not wanted. Without `force_on_timeout` what a node that is not
    healthy may have mounted stays attached until the node says otherwise or is out of service.
    """
    in_use = set(node.status.volumes_in_use) if node is not None else set()
    lost = node is not None and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)
    healthy = is_healthy(node)
    report: dict[str, core_v1.AttachedVolume] = {
        one.name: one
        for one in (node.status.volumes_attached if node is not None else ())
        if not one.name.startswith(UNIQUE_PREFIX)
    }
    detach, waits, present = [], [], set()
    for name, one in attached:
        present.add(name)
        leaving = bool(one.metadata.deletion_timestamp)
        if name not in wanted and not leaving:
            waited = now - unwanted_since.get(one.metadata.name, now)
            expired = force_on_timeout and waited >= MAX_WAIT_FOR_UNMOUNT
            mounted = name in in_use or node is None
            if mounted and not lost and (healthy or not expired):
                waits.append(one.metadata.name)
            else:
                detach.append(Detach(one, TIMEOUT if expired else OUT_OF_SERVICE_REASON if lost else ""))
                continue
        if one.status.attached and not leaving:
            path = one.status.attachment_metadata.get("devicePath", "")
            report[name] = core_v1.AttachedVolume(name=name, device_path=path)
    missing = [one for name, one in wanted.items() if name not in present]
    blocked = [
        one
        for one in missing
        if unique_name(one.source.driver, one.source.volume_handle) in elsewhere and not may_be_shared(one.volume)
    ]
    attach = [one for one in missing if one not in blocked]
    return Plan(
        tuple(report[name] for name in sorted(report)), tuple(detach), tuple(attach), tuple(blocked), tuple(waits)
    )
