"""How the kinds of the core group look in tables. Pods have a file of their own."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import (
    NONE,
    UNKNOWN,
    UNSET,
    Cells,
    age,
    at_most,
    container_texts,
    label_text,
    load_balancer_addresses,
    name_and_age,
    object_age,
    printers,
    quantity_text,
)
from bayplan.api.printing.pods import POD
from bayplan.api.types import core_v1

_ROLE_PREFIX = "node-role.kubernetes.io/"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _config_map(obj: core_v1.ConfigMap, now: float) -> list[Any]:
    return [obj.metadata.name, len(obj.data) + len(obj.binary_data), object_age(obj, now)]


def _secret(obj: core_v1.Secret, now: float) -> list[Any]:
    return [obj.metadata.name, obj.type, len(obj.data), object_age(obj, now)]


def _namespace(obj: core_v1.Namespace, now: float) -> list[Any]:
    return [obj.metadata.name, obj.status.phase, object_age(obj, now)]


def _component_status(obj: core_v1.ComponentStatus, now: float) -> list[Any]:
    status, message, error = "Unknown", "", ""
    for condition in obj.conditions:
        if condition.type == "Healthy":
            status = {"True": "Healthy", "False": "Unhealthy"}.get(condition.status, "Unknown")
            message, error = condition.message, condition.error
            break
    return [obj.metadata.name, status, message, error]


def _node(obj: core_v1.Node, now: float) -> list[Any]:
    info = obj.status.node_info
    ready = [condition.status for condition in obj.status.conditions if condition.type == "Ready"]
    state = ["Ready" if status == "True" else "NotReady" for status in ready] or ["Unknown"]
    if obj.spec.unschedulable:
        state.append("SchedulingDisabled")
    kernel = (
        f"{info.kernel_version} ({info.architecture})"
        if info.kernel_version and info.architecture
        else info.kernel_version
    )
    return [
        obj.metadata.name,
        ",".join(state),
        ",".join(_roles(obj.metadata.labels)) or NONE,
        object_age(obj, now),
        info.kubelet_version,
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.os_image or UNKNOWN,
        kernel or UNKNOWN,
        info.container_runtime_version or UNKNOWN,
    ]


def _roles(labels: dict[str, str]) -> list[str]:
    found = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return sorted((found | {labels.get("kubernetes.io/role", "")}) - {""})


def _address(node: core_v1.Node, kind: str) -> str:
    return next((address.address for address in node.status.addresses if address.type == kind), NONE)


def _service(obj: core_v1.Service, now: float) -> list[Any]:
    spec = obj.spec
    ports = ",".join(
        f"{port.port}:{port.node_port}/{port.protocol}" if port.node_port else f"{port.port}/{port.protocol}"
        for port in spec.ports
    )
    return [
        obj.metadata.name,
        spec.type,
        spec.cluster_ips[0] if spec.cluster_ips else NONE,
        _external_address(obj),
        ports or NONE,
        object_age(obj, now),
        label_text(spec.selector),
    ]


def _external_address(obj: core_v1.Service) -> str:
    spec = obj.spec
    if spec.type == "ExternalName":
        return spec.external_name
    given = ",".join(spec.external_ips)
    if spec.type == "LoadBalancer":
        balanced = load_balancer_addresses(obj.status)
        return ",".join(filter(None, (balanced, given))) or "<pending>"
    return (given or NONE) if spec.type in ("ClusterIP", "NodePort") else UNKNOWN


def _endpoints(obj: core_v1.Endpoints, now: float) -> list[Any]:
    found: list[str] = []
    for subset in obj.subsets:
        if not subset.ports:
            found += [address.ip for address in subset.addresses]
        for port in subset.ports:
            found += [
                f"[{address.ip}]:{port.port}" if ":" in address.ip else f"{address.ip}:{port.port}"
                for address in subset.addresses
            ]
    return [obj.metadata.name, at_most(found, 3) if obj.subsets else NONE, object_age(obj, now)]


def event_cells(obj: core_v1.Event, now: float) -> list[Any]:
    """Cells of an event, which both groups that serve events share."""
    about = obj.involved_object
    first = age(obj.first_timestamp or obj.event_time, now)
    last = age(obj.last_timestamp, now) if obj.last_timestamp else first
    count = obj.count or 1
    if obj.series is not None:
        last, count = age(obj.series.last_observed_time, now), obj.series.count
    component, instance = obj.source.component or obj.reporting_component, obj.source.host or obj.reporting_instance
    return [
        last,
        obj.type,
        obj.reason,
        f"{about.kind.lower()}/{about.name}" if about.name else about.kind.lower(),
        about.field_path,
        f"{component}, {instance}" if instance else component,
        obj.message.strip(),
        first,
        count,
        obj.metadata.name,
    ]


def _quota(obj: core_v1.ResourceQuota, now: float) -> list[Any]:
    requests: list[str] = []
    limits: list[str] = []
    for name, hard in sorted(obj.status.hard.items()):
        column = limits if name.startswith("limits.") else requests
        column.append(f"{name}: {quantity_text(obj.status.used.get(name))}/{quantity_text(hard)}")
    return [obj.metadata.name, ", ".join(requests), ", ".join(limits), object_age(obj, now)]


def _access_modes(modes: tuple[str, ...]) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)


def _claim(obj: core_v1.PersistentVolumeClaim, now: float) -> list[Any]:
    spec, status = obj.spec, obj.status
    bound = bool(spec.volume_name)
    return [
        obj.metadata.name,
        "Terminating" if obj.metadata.deletion_timestamp else status.phase,
        spec.volume_name,
        quantity_text(status.capacity.get("storage")) if bound else "",
        _access_modes(status.access_modes) if bound else "",
        obj.metadata.annotations.get(_CLASS_ANNOTATION, spec.storage_class_name or ""),
        spec.volume_attributes_class_name or UNSET,
        object_age(obj, now),
        spec.volume_mode or UNSET,
    ]


def _volume(obj: core_v1.PersistentVolume, now: float) -> list[Any]:
    spec, status, claim = obj.spec, obj.status, obj.spec.claim_ref
    return [
        obj.metadata.name,
        quantity_text(spec.capacity.get("storage")),
        _access_modes(spec.access_modes),
        spec.persistent_volume_reclaim_policy,
        "Terminating" if obj.metadata.deletion_timestamp else status.phase,
        f"{claim.namespace}/{claim.name}" if claim is not None else "",
        obj.metadata.annotations.get(_CLASS_ANNOTATION, spec.storage_class_name),
        spec.volume_attributes_class_name or UNSET,
        status.reason,
        object_age(obj, now),
        spec.volume_mode or UNSET,
    ]


def _pod_template(obj: core_v1.PodTemplate, now: float) -> list[Any]:
    return [obj.metadata.name, *container_texts(obj.template.spec), label_text(obj.template.metadata.labels)]


def _replication_controller(obj: core_v1.ReplicationController, now: float) -> list[Any]:
    spec, status = obj.spec, obj.status
    texts = container_texts(spec.template.spec) if spec.template is not None else ["", ""]
    desired = 1 if spec.replicas is None else spec.replicas
    return [
        obj.metadata.name,
        desired,
        status.replicas,
        status.ready_replicas,
        object_age(obj, now),
        *texts,
        label_text(spec.selector),
    ]


_CELLS: dict[str, Cells] = {
    "ComponentStatus": _component_status,
    "ConfigMap": _config_map,
    "Endpoints": _endpoints,
    "Event": event_cells,
    "Namespace": _namespace,
    "Node": _node,
    "PersistentVolume": _volume,
    "PersistentVolumeClaim": _claim,
    "PodTemplate": _pod_template,
    "ReplicationController": _replication_controller,
    "ResourceQuota": _quota,
    "Secret": _secret,
    "Service": _service,
    "ServiceAccount": name_and_age,
}

PRINTERS = {**printers("core", _CELLS), "Pod": POD}
