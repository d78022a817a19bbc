"""Kinds that a server has only if it is asked for them (`--runtime-config`): alpha and beta versions, those of a newer Kubernetes, and figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from bayplan.api.feature_gates import COMPOSITE_POD_GROUPS
from bayplan.api.kinds import BUILT_IN, METRICS_GROUP, STATUS, Kind, KindTable

_SCHEDULING: Final = "scheduling.k8s.io"

POD_GROUP: Final = Kind(
    _SCHEDULING, "v1alpha2", "PodGroup", "podgroups", True, subresources=(STATUS,), module="scheduling_v1alpha2"
)
WORKLOAD: Final = Kind(_SCHEDULING, "v1alpha2", "Workload", "workloads", True, module="scheduling_v1alpha2")
STORAGE_VERSION_MIGRATION: Final = Kind(
    "storagemigration.k8s.io", "v1beta1", "StorageVersionMigration", "storageversionmigrations", False,
    subresources=(STATUS,), module="storagemigration_v1beta1",
)  # fmt: skip
OPTIONAL: Final = (POD_GROUP, WORKLOAD, STORAGE_VERSION_MIGRATION)
"""Kinds of alpha and beta versions."""


def _newer(version: str, kind: str, plural: str, storage_version: str = "v1alpha2") -> Kind:
    return Kind(
        _SCHEDULING, version, kind, plural, True, subresources=() if kind == "Workload" else (STATUS,),
        storage_version=storage_version, module=f"scheduling_{version}",
    )  # fmt: skip


NEWER_POD_GROUP: Final = _newer("v1beta1", "PodGroup", "podgroups")
NEWER_WORKLOAD: Final = _newer("v1beta1", "Workload", "workloads")
COMPOSITE_POD_GROUP: Final = _newer("v1alpha3", "CompositePodGroup", "compositepodgroups", "")
NEWER: Final = (
    NEWER_POD_GROUP,
    NEWER_WORKLOAD,
    COMPOSITE_POD_GROUP,
    _newer("v1alpha3", "PodGroup", "podgroups"),
    _newer("v1alpha3", "Workload", "workloads"),
)
"""Kinds of Kubernetes 1.37. Servers of 1.36 do not have them, so that they are here only by the name of their version."""
METRICS: Final = (
    Kind(METRICS_GROUP, "v1beta1", "NodeMetrics", "nodes", False, verbs=("get", "list")),
    Kind(METRICS_GROUP, "v1beta1", "PodMetrics", "pods", True, verbs=("get", "list")),
)
"""What nodes and pods use, which in Kubernetes an add-on serves: here only by name (`--runtime-config metrics.k8s.io/v1beta1=true`)."""
EVERY_KIND: Final = (*BUILT_IN, *OPTIONAL, *NEWER)
"""All kinds that are not custom, whether they have to be asked for or not, but figures."""
_STAGES: Final = {"api/alpha": ("alpha",), "api/beta": ("beta",), "api/all": ("alpha", "beta")}


def optional_kinds(runtime_config: Iterable[str], gates: Collection[str] = ()) -> tuple[Kind, ...]:
    """The optional kinds that `GROUP/VERSION=true`, `api/alpha=true`, `api/beta=true` and `api/all=true` turn on; later entries win. gates: those that are
    on; composite groups need one. Raises ValueError."""
    versions = {kind.api_version: kind.version for kind in OPTIONAL}
    known = {*versions, *(kind.api_version for kind in (*NEWER, *METRICS))}
    on: dict[str, bool] = {}
    for entry in runtime_config:
        name, _, value = entry.partition("=")
        if value not in ("", "true", "false"):
            raise ValueError(f"{entry}: expected true or false")
        if name in _STAGES:
            chosen = [one for one, version in versions.items() if any(stage in version for stage in _STAGES[name])]
            on |= dict.fromkeys(chosen, value != "false")
        elif name in known:
            on[name] = value != "false"
        else:
            raise ValueError(f"{name} is not one of {', '.join(sorted(known))}, api/alpha, api/beta, api/all")
    return tuple(
        kind
        for kind in (*NEWER, *OPTIONAL, *METRICS)
        if on.get(kind.api_version) and (kind is not COMPOSITE_POD_GROUP or COMPOSITE_POD_GROUPS in gates)
    )


def with_optional(kinds: Iterable[Kind], runtime_config: Iterable[str], gates: Collection[str] = ()) -> KindTable:
    """A table of kinds with the optional ones that are turned on. Versions in which their objects are kept are known, served or not. Raises ValueError."""
    found = optional_kinds(runtime_config, gates)
    table = KindTable((*kinds, *found))
    for kind in OPTIONAL:
        if kind not in found and any(one.storage_prefix == kind.storage_prefix for one in found):
            table.add(kind, is_served=False)
    return table
