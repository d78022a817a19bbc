"""An APIService per built-in group version: what aggregation and clients read to learn what this server answers itself."""

from __future__ import annotations

from bayplan.api.kinds import KindTable
from bayplan.api.types import apiregistration_v1, meta_v1

LABEL, AT_START = "kube-aggregator.kubernetes.io/automanaged", "onstart"
_GROUP_PRIORITIES = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "resource.k8s.io": 16200,
}
"""Which group clients prefer if several have a kind: the highest. Source: Kubernetes' `controlplane/apiserver/aggregator.go`.

Metrics are not among them, though this server may serve them: charts of metrics servers create that APIService, and must not find it made by another.
"""
_VERSION_PRIORITIES = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
}
_VERSION_PRIORITY = 15
_REGISTRATION = "apiregistration.k8s.io"
"""Describes the others and not itself."""


def api_services(kinds: KindTable) -> list[apiregistration_v1.APIService]:
    """The objects, freshly made, in no order."""
    versions = {(kind.group, kind.version) for kind in kinds if kind.group != _REGISTRATION}
    return [_service(group, version) for group, version in sorted(versions) if group in _GROUP_PRIORITIES]


def _service(group: str, version: str) -> apiregistration_v1.APIService:
    spec = apiregistration_v1.APIServiceSpec(
        group=group,
        version=version,
        group_priority_minimum=_GROUP_PRIORITIES[group],
        version_priority=_VERSION_PRIORITIES.get((group, version), _VERSION_PRIORITY),
    )
    metadata = meta_v1.ObjectMeta(name=f"{version}.{group}", labels={LABEL: AT_START})
    return apiregistration_v1.APIService(metadata=metadata, spec=spec)
