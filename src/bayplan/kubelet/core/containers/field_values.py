"""What a container may be told of its own pod: fields of the pod and amounts of resources (downward API; pkg/fieldpath, pkg/api/v1/resource)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bayplan.api.errors import quoted
from bayplan.api.pods.resources import pod_level
from bayplan.api.quantity import Quantity, parse
from bayplan.api.selectors.labels import qualified_name_errors
from bayplan.api.types import core_v1
from bayplan.kubelet.core.restarts import AnyContainer

Wire = Mapping[str, str | int | float]
"""Resource name -> amount as the API has it."""

_WITH_DEFAULT = ("cpu", "memory", "ephemeral-storage")
"""Resources whose missing limit is what the node has."""


class FieldValueError(ValueError):
    """There is no such value; the text is Kubernetes'."""


def every_container(spec: core_v1.PodSpec) -> tuple[AnyContainer, ...]:
    """All containers of a pod in Kubernetes' order: init containers, containers, ephemeral containers."""
    return (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)


def split_subscript(path: str) -> tuple[str, str] | None:
    """("metadata.labels", "key") of `metadata.labels['key']`; None without a subscript."""
    before, separator, subscript = path.removesuffix("']").partition("['")
    return (before, subscript) if path.endswith("']") and separator and before else None


def format_map(values: Mapping[str, str]) -> str:
    """Labels or annotations as a file shows them: a line `key="value"` each, in order of keys."""
    return "\n".join(f"{key}={quoted(value)}" for key, value in sorted(values.items()))


def metadata_field(pod: core_v1.Pod, path: str) -> str:
    """A field of a pod's metadata. Raises FieldValueError."""
    metadata = pod.metadata
    subscripted = split_subscript(path)
    if subscripted is not None:
        return _subscripted(metadata.annotations, metadata.labels, path, *subscripted)
    found = {
        "metadata.annotations": lambda: format_map(metadata.annotations),
        "metadata.labels": lambda: format_map(metadata.labels),
        "metadata.name": lambda: metadata.name,
        "metadata.namespace": lambda: metadata.namespace,
        "metadata.uid": lambda: metadata.uid,
    }.get(path)
    if found is None:
        raise FieldValueError(f"unsupported fieldPath: {path}")
    return found()


def _subscripted(
    annotations: Mapping[str, str], labels: Mapping[str, str], path: str, field: str, subscript: str
) -> str:
    if field not in ("metadata.annotations", "metadata.labels"):
        raise FieldValueError(f"fieldPath {quoted(path)} does not support subscript")
    is_annotation = field == "metadata.annotations"
    errors = qualified_name_errors(subscript.lower() if is_annotation else subscript)
    if errors:
        raise FieldValueError(f"invalid key subscript in {path}: {';'.join(errors)}")
    return (annotations if is_annotation else labels).get(subscript, "")


_POD_FIELDS: dict[str, Callable[[core_v1.Pod], str]] = {
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.host": lambda pod: pod.spec.node_name,
    "spec.serviceAccountName": lambda pod: pod.spec.service_account_name,
    "status.hostIP": lambda pod: pod.status.host_ip,
    "status.hostIPs": lambda pod: ",".join(each.ip for each in pod.status.host_ips),
    "status.podIP": lambda pod: pod.status.pod_ip,
    "status.podIPs": lambda pod: ",".join(each.ip for each in pod.status.pod_ips),
}
_METADATA = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_SELECTABLE = ("spec.restartPolicy", "spec.schedulerName", "status.phase")
"""Fields that selectors know, and variables do not."""


def pod_field(pod: core_v1.Pod, selector: core_v1.ObjectFieldSelector) -> str:
    """A field of a pod for a variable; the pod's status has the addresses of now. Raises FieldValueError."""
    if selector.api_version not in ("", "v1"):
        raise FieldValueError(f"unsupported pod version: {selector.api_version}")
    path = selector.field_path
    found = _POD_FIELDS.get(path)
    if found is not None:
        return found(pod)
    subscripted = split_subscript(path)
    if subscripted is not None:
        if subscripted[0] not in ("metadata.annotations", "metadata.labels"):
            raise FieldValueError(f"field label does not support subscript: {path}")
    elif path not in _METADATA and path not in _SELECTABLE:
        raise FieldValueError(f"field label not supported: {path}")
    return metadata_field(pod, path)


def container_named(pod: core_v1.Pod, name: str) -> core_v1.Container:
    """A container or init container. Raises FieldValueError."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if container.name == name:
            return container
    raise FieldValueError(f"container {name} not found")


def default_limits(pod: core_v1.Pod, allocatable: Wire) -> dict[str, str | int | float]:
    """What stands for limits that a container does not have: the pod's own, then what the node has."""
    found = {name: amount for name, amount in allocatable.items() if name in _WITH_DEFAULT}
    for name, amount in pod_level(pod.spec, "limits").items():
        if name in found and not amount.is_zero():
            found[name] = str(amount)
    return found


def resource_value(selector: core_v1.ResourceFieldSelector, container: AnyContainer, limits_by_default: Wire) -> str:
    """An amount in units of the divisor, rounded up. Raises FieldValueError."""
    side, _, name = selector.resource.partition(".")
    if side not in ("limits", "requests") or not (name in _WITH_DEFAULT or name.startswith("hugepages-")):
        raise FieldValueError(f"unsupported container resource : {selector.resource}")
    resources = container.resources
    own = resources.limits if side == "limits" else resources.requests
    amount = parse(own.get(name, "0"))
    if side == "limits" and name in _WITH_DEFAULT and amount.is_zero():
        amount = parse(limits_by_default.get(name, "0"))
    divisor = parse(selector.divisor)
    return str(_divided(name, amount, Quantity(1) if divisor.is_zero() else divisor))


def _divided(name: str, amount: Quantity, divisor: Quantity) -> int:
    if name == "cpu":
        return -(-amount.milli_value() // divisor.milli_value())
    return -(-amount.value() // divisor.value())
