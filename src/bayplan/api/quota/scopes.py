"""Scopes: which pods and claims a quota is about.

Source: ResourceQuotaScope of the Kubernetes API; a quota counts an object that matches all of its scopes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayplan.api.defaults.pods import qos_class
from bayplan.api.pods.execution_rules import preferred_pod_terms, required_pod_terms
from bayplan.api.types import core_v1

Requirement = core_v1.ScopedResourceSelectorRequirement


def requirements_of(quota: core_v1.ResourceQuota) -> tuple[Requirement, ...]:
    """Scopes and scope selector of a quota in one form."""
    plain = tuple(Requirement(scope_name=scope, operator="Exists") for scope in quota.spec.scopes)
    selector = quota.spec.scope_selector
    return plain if selector is None else (*plain, *selector.match_expressions)


def has_deadline(pod: core_v1.Pod) -> bool:
    """Whether a pod ends by itself, and so is in the scope `Terminating`."""
    return pod.spec.active_deadline_seconds is not None and pod.spec.active_deadline_seconds >= 0


def pod_matches(pod: core_v1.Pod, scope: Requirement) -> bool:
    """Whether a pod is in a scope."""
    spec, name = pod.spec, scope.scope_name
    if name in ("Terminating", "NotTerminating"):
        return has_deadline(pod) == (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return (qos_class(spec) == "BestEffort") == (name == "BestEffort")
    if name == "PriorityClass":
        return _selects(scope, [spec.priority_class_name] if spec.priority_class_name else [])
    if name == "CrossNamespacePodAffinity":
        return _looks_into_other_namespaces(spec.affinity)
    return False


def claim_matches(claim: core_v1.PersistentVolumeClaim, scope: Requirement) -> bool:
    """Whether a claim is in a scope: by its volume attributes classes."""
    return scope.scope_name == "VolumeAttributesClass" and _selects(scope, attributes_classes(claim))


def attributes_classes(claim: core_v1.PersistentVolumeClaim) -> list[str]:
    """The volume attributes classes that a claim has, had, or is changing to."""
    status = claim.status
    found = {claim.spec.volume_attributes_class_name, status.current_volume_attributes_class_name}
    if status.modify_volume_status is not None:
        found.add(status.modify_volume_status.target_volume_attributes_class_name)
    return sorted(name for name in found if name)


def _selects(scope: Requirement, names: Sequence[str]) -> bool:
    """Whether the requirement holds for one of the names, or for having none."""
    if scope.operator == "Exists":
        return bool(names)
    if scope.operator == "DoesNotExist":
        return not names
    if scope.operator == "In":
        return any(name in scope.values for name in names)
    return not names or any(name not in scope.values for name in names)


def _looks_into_other_namespaces(affinity: core_v1.Affinity | None) -> bool:
    if affinity is None:
        return False
    return any(
        term.namespaces or term.namespace_selector is not None
        for side in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if side is not None
        for term in _terms(side)
    )


def _terms(side: core_v1.PodAffinity | core_v1.PodAntiAffinity) -> Iterable[core_v1.PodAffinityTerm]:
    yield from required_pod_terms(side)
    for weighted in preferred_pod_terms(side):
        yield weighted.pod_affinity_term
