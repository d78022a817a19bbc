"""Small typed builders of API objects: say what a test is about, leave the rest to defaults.

Everything that `spec` takes is a field of the object's spec by its Python name, so `pod("web", restart_policy="Never")` needs no builder of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from bayplan.api.types import apps_v1, core_v1, meta_v1

T = TypeVar("T", bound=msgspec.Struct)

NAMESPACE = "default"
CREATED = "2026-01-02T03:04:05Z"
"""Creation time of built objects that say so."""


def metadata(
    name: str,
    namespace: str = "",
    *,
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owners: Sequence[meta_v1.OwnerReference] = (),
    finalizers: Sequence[str] = (),
    created: str | None = None,
    deleted: str | None = None,
    generation: int = 0,
) -> meta_v1.ObjectMeta:
    """Metadata of any object."""
    return meta_v1.ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        owner_references=tuple(owners),
        finalizers=tuple(finalizers),
        creation_timestamp=created,
        deletion_timestamp=deleted,
        generation=generation,
    )


def owner(
    obj: Any, kind: str, api_version: str = "apps/v1", *, controller: bool = True, block: bool = True
) -> meta_v1.OwnerReference:
    """A reference to an owner."""
    return meta_v1.OwnerReference(
        api_version=api_version,
        kind=kind,
        name=obj.metadata.name,
        uid=obj.metadata.uid,
        controller=controller or None,
        block_owner_deletion=block or None,
    )


def container(
    name: str = "main", image: str = "app:1", *, cpu: str = "", memory: str = "", **fields: Any
) -> core_v1.Container:
    """A container, with requests if given."""
    requests: dict[str, Any] = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    resources = core_v1.ResourceRequirements(requests=requests) if requests else core_v1.ResourceRequirements()
    return core_v1.Container(name=name, image=image, **{"resources": resources, **fields})


def pod(
    name: str,
    *,
    namespace: str = NAMESPACE,
    cpu: str = "",
    memory: str = "",
    image: str = "app:1",
    meta: Mapping[str, Any] | None = None,
    status: core_v1.PodStatus | None = None,
    **spec: Any,
) -> core_v1.Pod:
    """A pod of one container. `meta` takes what `metadata` takes."""
    spec.setdefault("containers", (container(image=image, cpu=cpu, memory=memory),))
    return core_v1.Pod(
        metadata=metadata(name, namespace, **(meta or {})),
        spec=core_v1.PodSpec(**spec),
        status=status or core_v1.PodStatus(),
    )


def pod_status(
    phase: str = "Running", *, ready: bool | None = None, since: str = CREATED, ip: str = ""
) -> core_v1.PodStatus:
    """A pod's status; ready unless said otherwise if it runs."""
    is_ready = phase == "Running" if ready is None else ready
    condition = core_v1.PodCondition(type="Ready", status=str(is_ready), last_transition_time=since)
    return core_v1.PodStatus(
        phase=phase,
        conditions=(condition,),
        pod_ip=ip,
        pod_ips=(core_v1.PodIP(ip=ip),) if ip else (),
    )


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    taints: Sequence[core_v1.Taint] = (),
    conditions: Mapping[str, str] | None = None,
    unschedulable: bool = False,
    meta: Mapping[str, Any] | None = None,
) -> core_v1.Node:
    """A node that is ready. `conditions` are types with their statuses."""
    capacity: dict[str, Any] = {"cpu": cpu, "memory": memory, "pods": pods}
    shown = {"Ready": "True"} if conditions is None else conditions
    return core_v1.Node(
        metadata=metadata(name, **{"labels": {"kubernetes.io/hostname": name}, **(meta or {})}),
        spec=core_v1.NodeSpec(taints=tuple(taints), unschedulable=unschedulable),
        status=core_v1.NodeStatus(
            capacity=capacity,
            allocatable=dict(capacity),
            conditions=tuple(core_v1.NodeCondition(type=kind, status=value) for kind, value in shown.items()),
        ),
    )


def taint(key: str, effect: str = "NoExecute", value: str = "", *, added: str | None = None) -> core_v1.Taint:
    """A taint."""
    return core_v1.Taint(key=key, effect=effect, value=value, time_added=added)


def toleration(key: str = "", *, value: str = "", effect: str = "", seconds: int | None = None) -> core_v1.Toleration:
    """A toleration: of a value if one is given, else of the key (of everything without key); with `seconds` of the effect NoExecute."""
    return core_v1.Toleration(
        key=key,
        operator="Equal" if value else "Exists",
        value=value,
        effect=effect or ("" if seconds is None else "NoExecute"),
        toleration_seconds=seconds,
    )


def template(
    labels: Mapping[str, str], *, image: str = "app:1", meta: Mapping[str, Any] | None = None, **spec: Any
) -> core_v1.PodTemplateSpec:
    """A pod template of one container."""
    spec.setdefault("containers", (container(image=image, cpu=spec.pop("cpu", ""), memory=spec.pop("memory", "")),))
    return core_v1.PodTemplateSpec(metadata=metadata("", labels=labels, **(meta or {})), spec=core_v1.PodSpec(**spec))


def selector(labels: Mapping[str, str]) -> meta_v1.LabelSelector:
    """A selector of labels."""
    return meta_v1.LabelSelector(match_labels=dict(labels))


def rolling(surge: int | str = "25%", unavailable: int | str = "25%") -> apps_v1.DeploymentStrategy:
    """A rolling update."""
    update = apps_v1.RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    return apps_v1.DeploymentStrategy(type="RollingUpdate", rolling_update=update)


RECREATE = apps_v1.DeploymentStrategy(type="Recreate")


def deployment(
    name: str,
    replicas: int = 1,
    *,
    namespace: str = NAMESPACE,
    image: str = "app:1",
    cpu: str = "",
    meta: Mapping[str, Any] | None = None,
    pod_meta: Mapping[str, Any] | None = None,
    pod_spec: Mapping[str, Any] | None = None,
    status: apps_v1.DeploymentStatus | None = None,
    **spec: Any,
) -> apps_v1.Deployment:
    """A deployment of pods labelled `app: NAME`."""
    labels = {"app": name}
    spec.setdefault("strategy", rolling())
    made = template(labels, image=image, cpu=cpu, meta=pod_meta, **(pod_spec or {}))
    return apps_v1.Deployment(
        metadata=metadata(name, namespace, **(meta or {})),
        spec=apps_v1.DeploymentSpec(replicas=replicas, selector=selector(labels), template=made, **spec),
        status=status or apps_v1.DeploymentStatus(),
    )


def replica_set(
    name: str,
    replicas: int = 1,
    *,
    namespace: str = NAMESPACE,
    labels: Mapping[str, str] | None = None,
    image: str = "app:1",
    meta: Mapping[str, Any] | None = None,
    available: int | None = None,
    **spec: Any,
) -> apps_v1.ReplicaSet:
    """A ReplicaSet of pods with these labels (`app: NAME`); `available` fills its status."""
    chosen = dict(labels or {"app": name})
    status = apps_v1.ReplicaSetStatus()
    if available is not None:
        status = apps_v1.ReplicaSetStatus(replicas=replicas, ready_replicas=available, available_replicas=available)
    return apps_v1.ReplicaSet(
        metadata=metadata(name, namespace, **(meta or {})),
        spec=apps_v1.ReplicaSetSpec(
            replicas=replicas, selector=selector(chosen), template=template(chosen, image=image), **spec
        ),
        status=status,
    )


def service(
    name: str, *, namespace: str = NAMESPACE, select: Mapping[str, str] | None = None, port: int = 80, **spec: Any
) -> core_v1.Service:
    """A service over pods labelled `app: NAME`."""
    spec.setdefault("ports", (core_v1.ServicePort(port=port),))
    chosen = {"app": name} if select is None else dict(select)
    return core_v1.Service(metadata=metadata(name, namespace), spec=core_v1.ServiceSpec(selector=chosen, **spec))


def namespace(name: str) -> core_v1.Namespace:
    """A namespace."""
    return core_v1.Namespace(metadata=metadata(name))


def changed(obj: T, **fields: Any) -> T:
    """A copy of a struct with other fields."""
    return msgspec.structs.replace(obj, **fields)
