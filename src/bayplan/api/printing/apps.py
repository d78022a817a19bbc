"""How the workloads of the group `apps` look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import NONE, container_texts, label_text, object_age, printers, selector_text
from bayplan.api.types import apps_v1, meta_v1


def _wanted(replicas: int | None) -> int:
    return 1 if replicas is None else replicas


def _deployment(obj: apps_v1.Deployment, now: float) -> list[Any]:
    spec, status = obj.spec, obj.status
    return [
        obj.metadata.name,
        f"{status.ready_replicas}/{_wanted(spec.replicas)}",
        status.updated_replicas,
        status.available_replicas,
        object_age(obj, now),
        *container_texts(spec.template.spec),
        selector_text(spec.selector, ""),
    ]


def _replica_set(obj: apps_v1.ReplicaSet, now: float) -> list[Any]:
    spec, status = obj.spec, obj.status
    return [
        obj.metadata.name,
        _wanted(spec.replicas),
        status.replicas,
        status.ready_replicas,
        object_age(obj, now),
        *container_texts(spec.template.spec),
        selector_text(spec.selector),
    ]


def _stateful_set(obj: apps_v1.StatefulSet, now: float) -> list[Any]:
    ready = f"{obj.status.ready_replicas}/{_wanted(obj.spec.replicas)}"
    return [obj.metadata.name, ready, object_age(obj, now), *container_texts(obj.spec.template.spec)]


def _daemon_set(obj: apps_v1.DaemonSet, now: float) -> list[Any]:
    spec, status = obj.spec, obj.status
    return [
        obj.metadata.name,
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_ready,
        status.updated_number_scheduled,
        status.number_available,
        label_text(spec.template.spec.node_selector),
        object_age(obj, now),
        *container_texts(spec.template.spec),
        selector_text(spec.selector),
    ]


def _controller_revision(obj: apps_v1.ControllerRevision, now: float) -> list[Any]:
    owner = next((one for one in obj.metadata.owner_references if one.controller), None)
    return [obj.metadata.name, NONE if owner is None else _owner_text(owner), obj.revision, object_age(obj, now)]


def _owner_text(owner: meta_v1.OwnerReference) -> str:
    """`daemonset.apps/name`."""
    group = owner.api_version.rpartition("/")[0]
    return f"{owner.kind}.{group}".rstrip(".").lower() + f"/{owner.name}"


PRINTERS = printers(
    "apps",
    {
        "ControllerRevision": _controller_revision,
        "DaemonSet": _daemon_set,
        "Deployment": _deployment,
        "ReplicaSet": _replica_set,
        "StatefulSet": _stateful_set,
    },
)
