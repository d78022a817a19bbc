"""A workload and a configuration as an older release of Kubernetes takes them, with its feature gates at their defaults.

What a gate that is off does is what `kube-apiserver` of that release does when an object is created: fields of the gate are
dropped (`dropDisabledFields` of pods, claims, classes, slices and volumes), and objects that are invalid without them are refused.
What no gate guards (a changed formula, a mended error) is as in 1.36.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from bayplan.api.codec import to_tree
from bayplan.api.declared_features import features_of
from bayplan.api.types.core_v1 import Container, Pod, PodSpec
from bayplan.api.types.resource_v1 import Device, DeviceCapacity, DeviceRequest, ResourceClaim
from bayplan.scheduler.configuration.settings import ProfileSettings, SchedulerSettings
from bayplan.simulation.rehearsal.gates import HISTORIES, gates_on
from bayplan.simulation.replay.run import Arrival, Workload

Change = Callable[[Any], Any]
"""An object as it is without a gate; None if it is refused."""

_PLUGIN_OF: Final = {
    "DynamicResourceAllocation": "DynamicResources",
    "NodeDeclaredFeatures": "NodeDeclaredFeatures",
}
"""Gate -> the plugin that the default profile has with it only."""


def workload_under(workload: Workload, version: str) -> Workload:
    """The workload as clients can create it in a release of `VERSIONS`; objects that are refused are left out."""
    off = _off(version)
    pods = tuple(
        Arrival(one.at, changed, one.ends, one.lasts)
        for one in workload.arrivals
        if (changed := _without(one.pod, "Pod", off)) is not None
    )
    return Workload(workload.nodes, pods, tuple(_others(workload.others, off)))


def uses_of_gates(workload: Workload, gates: Iterable[str]) -> dict[str, int]:
    """Gate -> how many objects of a workload are not the same without it. Gates that no object uses are left out."""
    objects = [("Pod", one.pod) for one in workload.arrivals]
    objects += [(_kind_of(obj), obj) for obj in workload.others]
    found = {gate: sum(_uses(gate, kind, obj) for kind, obj in objects) for gate in gates}
    return {gate: count for gate, count in found.items() if count}


def _uses(gate: str, kind: str, obj: Any) -> bool:
    if gate == "NodeDeclaredFeatures":
        return kind == "Pod" and bool(features_of(obj.spec))
    change = _CHANGES.get((gate, kind))
    changed = obj if change is None else change(obj)
    return changed is not obj and (changed is None or to_tree(changed) != to_tree(obj))


def settings_under(settings: SchedulerSettings, version: str) -> SchedulerSettings:
    """The configuration with the default plugins that a release of `VERSIONS` has."""
    gone = {_PLUGIN_OF[gate] for gate in _off(version) if gate in _PLUGIN_OF}
    profiles = tuple(_without_plugins(profile, gone) for profile in settings.profiles)
    return dataclasses.replace(settings, profiles=profiles)


def _without_plugins(profile: ProfileSettings, gone: Iterable[str]) -> ProfileSettings:
    kept = tuple(choice for choice in profile.multi_point if choice.name not in gone)
    return dataclasses.replace(profile, multi_point=kept)


def _off(version: str) -> list[str]:
    on = gates_on(version)
    return [one.name for one in HISTORIES if one.name not in on]


def _others(objects: Iterable[Any], off: Iterable[str]) -> Iterable[Any]:
    off = list(off)
    for obj in objects:
        changed = _without(obj, _kind_of(obj), off)
        if changed is not None:
            yield changed


def _kind_of(obj: Any) -> str:
    """Custom objects, which are plain trees, have no gates."""
    return "" if isinstance(obj, dict) else obj.kind or type(obj).__name__


def _without(obj: Any, kind: str, off: Iterable[str]) -> Any:
    for gate in off:
        change = _CHANGES.get((gate, kind))
        obj = obj if change is None else change(obj)
        if obj is None:
            return None
    return obj


# Pods


def _pod_without_claims(pod: Pod) -> Pod:
    spec = pod.spec
    if not spec.resource_claims:
        return pod
    containers, init = tuple(map(_unclaimed, spec.containers)), tuple(map(_unclaimed, spec.init_containers))
    changed: PodSpec = replace(spec, containers=containers, init_containers=init, resource_claims=())
    return replace(pod, spec=changed)


def _unclaimed(container: Container) -> Container:
    if not container.resources.claims:
        return container
    return replace(container, resources=replace(container.resources, claims=()))


def _pod_without_own_resources(pod: Pod) -> Pod:
    return pod if pod.spec.resources is None else replace(pod, spec=replace(pod.spec, resources=None))


def _pod_without_own_allocation(pod: Pod) -> Pod:
    status = pod.status
    if status.resources is None and not status.allocated_resources:
        return pod
    return replace(pod, status=replace(status, resources=None, allocated_resources={}))


# Claims


def _no_object(obj: Any) -> None:
    """Kinds that a release does not serve."""


def _with_requests(change: Callable[[DeviceRequest], DeviceRequest]) -> Change:
    def changed(claim: ResourceClaim) -> ResourceClaim:
        devices = claim.spec.devices
        requests = [change(request) for request in devices.requests]
        return replace(claim, spec=replace(claim.spec, devices=replace(devices, requests=requests)))

    return changed


def _refused_with_alternatives(claim: ResourceClaim) -> ResourceClaim | None:
    """Without its alternatives a request names neither a class nor a list, which is invalid."""
    return None if any(request.first_available for request in claim.spec.devices.requests) else claim


def _request_without(**fields: Any) -> Callable[[DeviceRequest], DeviceRequest]:
    """Requests and, where they have such fields, their alternatives with these values."""

    def changed(request: DeviceRequest) -> DeviceRequest:
        exactly = request.exactly if request.exactly is None else replace(request.exactly, **fields)
        shared = {name: value for name, value in fields.items() if name != "admin_access"}
        alternatives = tuple(replace(one, **shared) for one in request.first_available)
        return replace(request, exactly=exactly, first_available=alternatives)

    return changed


def _claim_without_consumed_capacity(claim: ResourceClaim) -> ResourceClaim:
    changed: ResourceClaim = _with_requests(_request_without(capacity=None))(claim)
    devices = changed.spec.devices
    constraints = tuple(replace(one, distinct_attribute=None) for one in devices.constraints)
    return replace(changed, spec=replace(changed.spec, devices=replace(devices, constraints=constraints)))


# Slices and classes


def _with_devices(change: Callable[[Device], Device], **spec: Any) -> Change:
    def changed(pool: Any) -> Any:
        devices = tuple(change(device) for device in pool.spec.devices)
        return replace(pool, spec=replace(pool.spec, devices=devices, **spec))

    return changed


def _device_without(**fields: Any) -> Callable[[Device], Device]:
    return lambda device: replace(device, **fields)


def _device_for_one(device: Device) -> Device:
    capacity: dict[str, DeviceCapacity] = {
        name: replace(one, request_policy=None) for name, one in device.capacity.items()
    }
    return replace(device, allow_multiple_allocations=None, capacity=capacity)


def _with_spec(**fields: Any) -> Change:
    return lambda obj: replace(obj, spec=replace(obj.spec, **fields))


_CHANGES: Final[dict[tuple[str, str], Change]] = {
    ("DynamicResourceAllocation", "Pod"): _pod_without_claims,
    ("DynamicResourceAllocation", "ResourceClaim"): _no_object,
    ("DynamicResourceAllocation", "ResourceSlice"): _no_object,
    ("DynamicResourceAllocation", "DeviceClass"): _no_object,
    ("PodLevelResources", "Pod"): _pod_without_own_resources,
    ("InPlacePodLevelResourcesVerticalScaling", "Pod"): _pod_without_own_allocation,
    ("VolumeAttributesClass", "PersistentVolume"): _with_spec(volume_attributes_class_name=None),
    ("VolumeAttributesClass", "PersistentVolumeClaim"): _with_spec(volume_attributes_class_name=None),
    ("DRAAdminAccess", "ResourceClaim"): _with_requests(_request_without(admin_access=None)),
    ("DRAPrioritizedList", "ResourceClaim"): _refused_with_alternatives,
    ("DRAConsumableCapacity", "ResourceClaim"): _claim_without_consumed_capacity,
    ("DRAConsumableCapacity", "ResourceSlice"): _with_devices(_device_for_one),
    ("DRADeviceTaints", "ResourceClaim"): _with_requests(_request_without(tolerations=())),
    ("DRADeviceTaints", "ResourceSlice"): _with_devices(_device_without(taints=())),
    ("DRADeviceBindingConditions", "ResourceSlice"): _with_devices(
        _device_without(binding_conditions=(), binding_failure_conditions=(), binds_to_node=None)
    ),
    ("DRAExtendedResource", "DeviceClass"): _with_spec(extended_resource_name=None),
    ("DRAPartitionableDevices", "ResourceSlice"): _with_devices(
        _device_without(consumes_counters=(), node_name=None, node_selector=None, all_nodes=None),
        shared_counters=(),
        per_device_node_selection=None,
    ),
}
"""(gate, kind) -> what becomes of an object of that kind while the gate is off."""
