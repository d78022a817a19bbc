"""The managers of the replicas of a workload, which are written through its Scale as well.

Source: Kubernetes' `apimachinery/pkg/util/managedfields/scalehandler.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.errors import failure
from bayplan.api.kinds import Kind
from bayplan.api.managedfields.compare import Comparison
from bayplan.api.managedfields.fieldset import FieldSet, difference, has, of_paths
from bayplan.api.managedfields.managers import (
    UPDATE,
    Identity,
    Managers,
    Owned,
    identity,
    update,
    write_entries,
)
from bayplan.api.types import autoscaling_v1
from bayplan.api.types.meta_v1 import ManagedFieldsEntry
from bayplan.apiserver.context import Call
from bayplan.apiserver.managed_fields.applying import Applier
from bayplan.apiserver.managed_fields.managers import given_managers, manager_name
from bayplan.support.timestamps import rfc3339

SCALE = Kind("autoscaling", "v1", "Scale", "scales", namespaced=True, module="autoscaling_v1")
"""No kind of its own, but something that can be applied."""
_REPLICAS = ("f:spec", "f:replicas")
"""The field of a Scale that workloads have as well."""
_OLD_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment": ("apps/v1beta1", "apps/v1beta2"),
    "ReplicaSet": ("apps/v1beta2",),
    "StatefulSet": ("apps/v1beta1", "apps/v1beta2"),
}
"""Versions that are not served any more but still known; entries of unknown versions go when a Scale is written."""


class ScaleApplier(Applier):
    """Server-side apply of a Scale, all of which its writer may own."""

    def __init__(self, call: Call, applied: dict[str, Any], *, has_floats: bool) -> None:
        super().__init__(call, applied, "scale", SCALE, has_floats=has_floats)

    def _served(self, live: autoscaling_v1.Scale) -> autoscaling_v1.Scale:
        return live

    def _object(self, merged: dict[str, Any]) -> Any:
        if self.call.kind.is_custom:  # whose converter knows nothing but the versions of the definition
            metadata = merged.get("metadata", {})
            name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            raise failure(
                500,
                "",
                f"failed to convert new object ({name}; autoscaling/v1, Kind=Scale) to proper version: "
                "request to convert CR to an invalid group/version: autoscaling/v1",
                details=False,
            )
        return super()._object(merged)

    def _keep(self, fields: FieldSet) -> FieldSet:
        return fields

    def _kind_in(self, version: str) -> Kind | None:
        return SCALE if version == SCALE.api_version else None


def _replicas(call: Call, version: str) -> tuple[str, ...] | None:
    """The field that a Scale sets in a version; () if it has none there. None for an unknown version."""
    kind = call.kind
    if version == kind.api_version and not kind.is_custom:
        return _REPLICAS
    if not isinstance(kind, CustomKind):
        return _REPLICAS if version in _OLD_VERSIONS.get(kind.kind, ()) else None
    found = kind if version == kind.api_version else call.context.kinds.of_kind(version, kind.kind)
    if not isinstance(found, CustomKind) or found.group != kind.group:
        return None
    if found.scale is None:
        return ()
    return tuple(f"f:{name}" for name in found.scale.spec_replicas_path.removeprefix(".").split("."))


def scale_entries(call: Call, entries: tuple[ManagedFieldsEntry, ...]) -> tuple[ManagedFieldsEntry, ...]:
    """The managers of a workload's replicas, as entries of its Scale."""
    return write_entries(_scale_managers(call, entries))


def _scale_managers(call: Call, entries: tuple[ManagedFieldsEntry, ...]) -> dict[Identity, Owned]:
    """The managers of a workload's replicas, as managers of its Scale."""
    found = {}
    for who, owned in given_managers(entries).items():
        replicas = _replicas(call, owned.api_version)
        if replicas and has(owned.fields, replicas):
            version = SCALE.api_version if who.operation == UPDATE else ""
            found[who._replace(api_version=version)] = Owned(of_paths(_REPLICAS), SCALE.api_version, owned.time)
    return found


def _from_scale(call: Call, entries: tuple[ManagedFieldsEntry, ...], scale: Managers) -> tuple[ManagedFieldsEntry, ...]:
    """The managers of a workload after a write of its Scale: the replicas are theirs who have them there.

    As in Kubernetes (`managedfields/scalehandler.go`), an updater is another one there, since its version is: even if it keeps the replicas it
    loses them here, and has them in an entry of their own, without a time.
    """
    result: dict[Identity, Owned] = {}
    left = dict(scale)
    parents = given_managers(entries)
    for who, owned in parents.items():
        path = _replicas(call, owned.api_version)
        if path is None:
            continue
        if not path or not has(owned.fields, path) or left.pop(who, None) is not None:
            result[who] = owned
            continue
        fields = difference(owned.fields, of_paths(path))
        if fields:
            result[who] = Owned(fields, owned.api_version, owned.time)
    replicas = _replicas(call, call.kind.api_version)
    assert replicas
    for who, owned in left.items():
        if has(owned.fields, _REPLICAS):
            parent = parents.get(who)
            time = parent.time if parent is not None else None
            result[who] = Owned(of_paths(replicas), call.kind.api_version, time)
    return write_entries(result)


def track_scale(call: Call, obj: Any, before: int | None, scale: autoscaling_v1.Scale) -> None:
    """Record who sets the replicas of a workload, which were `before`, through its Scale."""
    entries, after = obj.metadata.managed_fields, scale.spec.replicas
    if call.kind.is_custom and not (scale.kind and scale.api_version):  # its fields cannot be told, so nobody has them
        obj.metadata.managed_fields = _from_scale(call, entries, {})
        return
    managers: Managers = _scale_managers(call, entries)
    if managers and after != (before or 0):
        fields = of_paths(_REPLICAS)
        if not after:  # a Scale does not show that there are none
            changed = Comparison(fields, {}, {})
        else:
            changed = Comparison({}, fields, {}) if before else Comparison({}, {}, fields)
        who = identity(manager_name(call), UPDATE, SCALE.api_version, "scale")
        now = rfc3339(call.context.clock.now())
        managers = update(managers, changed, who=who, api_version=SCALE.api_version, now=now)
    obj.metadata.managed_fields = _from_scale(call, entries, managers)


def track_applied_scale(call: Call, obj: Any, scale: autoscaling_v1.Scale) -> None:
    """Record who manages the replicas of a workload, to whose Scale something was applied."""
    entries = obj.metadata.managed_fields
    obj.metadata.managed_fields = _from_scale(call, entries, given_managers(scale.metadata.managed_fields))
