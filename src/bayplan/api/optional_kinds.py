"""Kinds that a server has only if it is asked for them (`--runtime-config`): alpha and beta versions, those of a newer Kubernetes, and figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from bayplan.api.feature_gates import COMPOSITE_POD_GROUPS
from bayplan.api.kinds import BUILT_IN, METRICS_GROUP, STATUS, Kind, KindTable

_SCHEDULING: Final = "scheduling.k8s.io"
_CERTIFICATES: Final = "certificates.k8s.io"
_COORDINATION: Final = "coordination.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
_RESOURCE: Final = "resource.k8s.io"
_MODULES: Final = {"internal.apiserver.k8s.io": "apiserverinternal"}
"""Modules of types that are not named after the group."""


def _optional(
    group: str, version: str, kind: str, plural: str, *, namespaced: bool = False, has_status: bool = False, storage_version: str = "",
    short_names: tuple[str, ...] = (), categories: tuple[str, ...] = (),
) -> Kind:  # fmt: skip
    return Kind(
        group, version, kind, plural, namespaced, short_names, categories, subresources=(STATUS,) if has_status else (),
        storage_version=storage_version, module=f"{_MODULES.get(group, group.partition('.')[0])}_{version}",
    )  # fmt: skip


def _policies(version: str) -> tuple[Kind, ...]:
    """Mutating admission policies and their bindings in an older version."""
    return tuple(
        _optional(
            "admissionregistration.k8s.io", version, kind, plural, storage_version="v1", categories=("api-extensions",)
        )
        for kind, plural in (
            ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
            ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
        )
    )


def _devices(version: str) -> tuple[Kind, ...]:
    """The kinds of dynamic resource allocation in an older version."""
    return (
        _optional(_RESOURCE, version, "DeviceClass", "deviceclasses", storage_version="v1"),
        _optional(
            _RESOURCE,
            version,
            "ResourceClaim",
            "resourceclaims",
            namespaced=True,
            has_status=True,
            storage_version="v1",
        ),
        _optional(
            _RESOURCE, version, "ResourceClaimTemplate", "resourceclaimtemplates", namespaced=True, storage_version="v1"
        ),
        _optional(_RESOURCE, version, "ResourceSlice", "resourceslices", storage_version="v1"),
    )


POD_GROUP: Final = _optional(_SCHEDULING, "v1alpha2", "PodGroup", "podgroups", namespaced=True, has_status=True)
POD_GROUP_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"
"""Of pod groups: it is taken off when no pod needs the group any more."""
WORKLOAD: Final = _optional(_SCHEDULING, "v1alpha2", "Workload", "workloads", namespaced=True)
STORAGE_VERSION_MIGRATION: Final = _optional(
    "storagemigration.k8s.io", "v1beta1", "StorageVersionMigration", "storageversionmigrations", has_status=True
)
CLUSTER_TRUST_BUNDLE: Final = _optional(_CERTIFICATES, "v1beta1", "ClusterTrustBundle", "clustertrustbundles")
POD_CERTIFICATE_REQUEST: Final = _optional(
    _CERTIFICATES, "v1beta1", "PodCertificateRequest", "podcertificaterequests", namespaced=True, has_status=True
)
LEASE_CANDIDATE: Final = _optional(_COORDINATION, "v1beta1", "LeaseCandidate", "leasecandidates", namespaced=True)
DEVICE_TAINT_RULE: Final = _optional(_RESOURCE, "v1alpha3", "DeviceTaintRule", "devicetaintrules", has_status=True)
NEWER_DEVICE_TAINT_RULE: Final = _optional(
    _RESOURCE, "v1beta2", "DeviceTaintRule", "devicetaintrules", has_status=True, storage_version="v1alpha3"
)
RESOURCE_POOL_STATUS_REQUEST: Final = _optional(
    _RESOURCE, "v1alpha3", "ResourcePoolStatusRequest", "resourcepoolstatusrequests", has_status=True
)
STORAGE_VERSION: Final = _optional(
    "internal.apiserver.k8s.io", "v1alpha1", "StorageVersion", "storageversions", has_status=True
)
OPTIONAL: Final = (
    CLUSTER_TRUST_BUNDLE,
    POD_CERTIFICATE_REQUEST,
    _optional(_CERTIFICATES, "v1alpha1", "ClusterTrustBundle", "clustertrustbundles", storage_version="v1beta1"),
    _optional(_NETWORKING, "v1beta1", "IPAddress", "ipaddresses", storage_version="v1", short_names=("ip",)),
    _optional(_NETWORKING, "v1beta1", "ServiceCIDR", "servicecidrs", has_status=True, storage_version="v1"),
    _optional(
        "storage.k8s.io", "v1beta1", "VolumeAttributesClass", "volumeattributesclasses", storage_version="v1", short_names=("vac",)
    ),
    *_policies("v1beta1"),
    *_policies("v1alpha1"),
    POD_GROUP,
    WORKLOAD,
    LEASE_CANDIDATE,
    _optional(
        _COORDINATION, "v1alpha2", "LeaseCandidate", "leasecandidates", namespaced=True, storage_version="v1beta1"
    ),
    *_devices("v1beta2"),
    NEWER_DEVICE_TAINT_RULE,
    *_devices("v1beta1"),
    DEVICE_TAINT_RULE,
    RESOURCE_POOL_STATUS_REQUEST,
    STORAGE_VERSION,
    STORAGE_VERSION_MIGRATION,
)  # fmt: skip
"""Kinds of alpha and beta versions, groups and versions in order of discovery."""


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
_ALWAYS: Final = frozenset(("api/ga", *(kind.api_version for kind in BUILT_IN)))
"""What needs not be turned on."""
_STAGES: Final = {"api/alpha": ("alpha",), "api/beta": ("beta",), "api/all": ("alpha", "beta")}


def optional_kinds(runtime_config: Iterable[str], gates: Collection[str] = ()) -> tuple[Kind, ...]:
    """The optional kinds that `GROUP/VERSION=true`, `api/alpha=true`, `api/beta=true` and `api/all=true` turn on; later entries win. Versions that are always
    served may be named as well, and not turned off. gates: those that are on; composite groups need one. Raises ValueError."""
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
        elif name in _ALWAYS:
            if value == "false":
                raise ValueError(f"{name} is always served")
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
