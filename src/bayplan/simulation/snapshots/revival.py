"""The objects of a copy as a cluster starts with them: named, owned and bound as they were.

The controllers that find them must see nothing to do. So identities are kept (or made where there are none) and owners
point at them; what owners compare with is there (revisions of templates, service accounts of pods); nodes are marked as
played by the simulator and have a fresh lease, unless they had lost contact. Nothing is random: equal copies give equal
clusters.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from bayplan.api.codec import DecodeError
from bayplan.api.defaults.pods import qos_class
from bayplan.api.kinds import Kind
from bayplan.api.nodes import SIMULATED
from bayplan.api.strategies import strategy_for
from bayplan.api.strategies.base import clone
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.controllers.base import controller_of, owner_reference
from bayplan.controllers.pods import POD_LABEL
from bayplan.controllers.workloads.revisions import HASH_LABEL, data_of, template_in
from bayplan.kubelet.simulator.nodes.objects import SILENT, make_lease
from bayplan.simulation.snapshots.load import give_load
from bayplan.simulation.snapshots.snapshot import KINDS, ClusterSnapshot, Objects, defaulted
from bayplan.support.timestamps import rfc3339

_WITH_TEMPLATE: Final = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job")
_OWN: Final = (("Service", "default", "kubernetes"),)
"""What every API server publishes by itself."""


def revived(copy: ClusterSnapshot, now: float) -> list[tuple[Kind, Any]]:
    """The objects to begin with, kinds with their storage version. `now`: Unix seconds. Raises DecodeError."""
    objects: Objects = {kind: [clone(obj) for obj in found] for kind, found in copy.objects.items()}
    defaulted(objects)
    for kind, namespace, name in _OWN:
        objects[kind] = [
            one for one in objects.get(kind, []) if (one.metadata.namespace, one.metadata.name) != (namespace, name)
        ]
    for kind, made in tuple(_surroundings(objects)):
        objects.setdefault(kind, []).append(made)
    _identify(objects, now)
    _own(objects)
    give_load(objects)
    _settle_revisions(objects)
    _rest(objects, now)
    leases = [_play(node, now) for node in objects.get("Node", [])]
    objects["Lease"] = [*objects.get("Lease", []), *(lease for lease in leases if lease is not None)]
    _identify({"Lease": objects["Lease"]}, now)
    return [(KINDS.storage_kind(KINDS.of_type(type(obj))), obj) for found in objects.values() for obj in found]


def _surroundings(objects: Objects) -> Iterator[tuple[str, Any]]:
    """Namespaces and service accounts that are referred to and not there."""
    namespaces = {one.metadata.name: None for one in objects.get("Namespace", [])}
    accounts = {(one.metadata.namespace, one.metadata.name): None for one in objects.get("ServiceAccount", [])}
    wanted: dict[tuple[str, str], None] = {}
    for kind, found in objects.items():
        for obj in found:
            namespace = obj.metadata.namespace
            if namespace and namespace not in namespaces:
                namespaces[namespace] = None
                yield "Namespace", _namespace(namespace)
            for spec in _specs(kind, obj):
                wanted[namespace, spec.service_account_name or "default"] = None
    for namespace, name in wanted:
        if (namespace, name) not in accounts:
            yield "ServiceAccount", core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name=name, namespace=namespace))


def _namespace(name: str) -> core_v1.Namespace:
    return core_v1.Namespace(
        metadata=meta_v1.ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name}),
        spec=core_v1.NamespaceSpec(finalizers=("kubernetes",)),
        status=core_v1.NamespaceStatus(phase="Active"),
    )


def _specs(kind: str, obj: Any) -> Iterator[core_v1.PodSpec]:
    if kind == "Pod":
        yield obj.spec
    elif kind in _WITH_TEMPLATE and obj.spec.template is not None:
        yield obj.spec.template.spec
    elif kind == "CronJob":
        yield obj.spec.job_template.spec.template.spec


# Identity and ownership


def _identify(objects: Objects, now: float) -> None:
    """UIDs and creation times for objects that came without."""
    for kind, found in objects.items():
        for obj in found:
            metadata = obj.metadata
            if not metadata.uid:
                metadata.uid = _uid(kind, metadata.namespace, metadata.name)
            if not metadata.creation_timestamp:
                metadata.creation_timestamp = rfc3339(now)
            if not metadata.generation and kind in _WITH_TEMPLATE:
                metadata.generation = 1


def _uid(*names: str) -> str:
    digest = hashlib.sha256("/".join(names).encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def _own(objects: Objects) -> None:
    """Let owner references point at owners that are there; those to owners that were not copied go, or their pods would be collected as garbage."""
    owners = {
        (kind, one.metadata.namespace, one.metadata.name): one.metadata.uid
        for kind, found in objects.items()
        for one in found
    }
    for found in objects.values():
        for obj in found:
            references = obj.metadata.owner_references
            if references:
                obj.metadata.owner_references = tuple(_found(references, obj.metadata.namespace, owners))


def _found(
    references: Iterable[meta_v1.OwnerReference], namespace: str, owners: dict[tuple[str, str, str], str]
) -> Iterator[meta_v1.OwnerReference]:
    for one in references:
        uid = owners.get((one.kind, namespace, one.name)) or owners.get((one.kind, "", one.name))
        if uid is not None:
            yield one if one.uid == uid else replace(one, uid=uid)


# Revisions


def _settle_revisions(objects: Objects) -> None:
    """Revisions hold templates in the form that the controllers compare with; where none was copied, one is made for the template of today."""
    revisions: list[apps_v1.ControllerRevision] = objects.setdefault("ControllerRevision", [])
    by_owner: dict[str, list[apps_v1.ControllerRevision]] = {}
    for one in revisions:
        reference = controller_of(one)
        if reference is not None:
            by_owner.setdefault(reference.uid, []).append(one)
    for kind in ("StatefulSet", "DaemonSet"):
        for owner in objects.get(kind, []):
            known = by_owner.get(owner.metadata.uid, [])
            for one in known:
                one.data = _comparable(kind, owner, one)
            if not any(one.data == data_of(owner.spec.template) for one in known):
                made = _revision(kind, owner, objects.get("Pod", []), known)
                if made is not None:
                    revisions.append(made)
    _identify({"ControllerRevision": revisions}, 0.0)


def _comparable(kind: str, owner: Any, revision: apps_v1.ControllerRevision) -> Any:
    """What a revision holds, with defaults filled in as in its owner."""
    try:
        template = template_in(revision)
    except (DecodeError, KeyError, TypeError):
        return revision.data
    other = clone(owner)
    other.spec.template = template
    strategy_for(KINDS.of_type(type(owner))).default(other)
    return data_of(other.spec.template)


def _revision(
    kind: str, owner: Any, pods: Iterable[core_v1.Pod], known: list[apps_v1.ControllerRevision]
) -> apps_v1.ControllerRevision | None:
    """The revision from which the owner's pods say that they were made; None if it has no pods."""
    labels = Counter(
        pod.metadata.labels.get(POD_LABEL, "")
        for pod in pods
        if (reference := controller_of(pod)) is not None and reference.uid == owner.metadata.uid
    )
    said = owner.status.update_revision if kind == "StatefulSet" else ""
    name = said or max(labels, key=lambda label: (labels[label], label), default="")
    if not name or any(one.metadata.name.endswith(name) for one in known):
        return None
    short = name.removeprefix(f"{owner.metadata.name}-")
    hash_label = HASH_LABEL if kind == "StatefulSet" else POD_LABEL
    return apps_v1.ControllerRevision(
        metadata=meta_v1.ObjectMeta(
            name=name if kind == "StatefulSet" else f"{owner.metadata.name}-{short}",
            namespace=owner.metadata.namespace,
            labels={**owner.spec.template.metadata.labels, hash_label: short},
            owner_references=(owner_reference("apps/v1", kind, owner),),
            creation_timestamp=owner.metadata.creation_timestamp,
        ),
        data=data_of(owner.spec.template),
        revision=max((one.revision for one in known), default=0) + 1,
    )


# Time and nodes


def _rest(objects: Objects, now: float) -> None:
    """Pods have what the API server says of every pod; no cron job makes up for the time since the copy was taken."""
    for pod in objects.get("Pod", []):
        pod.status.phase = pod.status.phase or "Pending"
        pod.status.qos_class = pod.status.qos_class or qos_class(pod.spec)
    for one in objects.get("CronJob", []):
        one.status.last_schedule_time = rfc3339(now)


def _play(node: core_v1.Node, now: float) -> Any:
    """Hand a node over to the simulator; returns its lease. A node that had lost contact stays silent and gets none."""
    ready = next((one.status for one in node.status.conditions if one.type == "Ready"), "")
    node.metadata.annotations[SIMULATED] = "true"
    if ready == "Unknown":
        node.metadata.annotations[SILENT] = "true"
        return None
    return make_lease(node, now)
