"""DefaultEvictor: which pods are protected, and which would have no place to go.

Source: the descheduler's `defaultevictor`. `requireBetterNode` is Bayplan's own argument, see `better_node`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from bayplan.api.selectors.labels import SelectorError
from bayplan.api.selectors.syntax import parse_labels
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation.profiles import MIRROR
from bayplan.descheduler.arguments import Arguments, Count, Fields, Int32, selector_errors, selector_of
from bayplan.descheduler.errors import PolicyError
from bayplan.descheduler.node_fit import fits_any_other, is_ready
from bayplan.descheduler.pods import EVICT, owner_kinds, prefers_to_stay, seconds_since
from bayplan.descheduler.snapshot import SnapshotIndex
from bayplan.support.durations import go_duration, go_seconds

NAME: Final = "DefaultEvictor"
SYSTEM_CRITICAL: Final = 2_000_000_000
"""Pods of this priority or more are critical for the system."""
CONFIG_SOURCE: Final = "kubernetes.io/config.source"

LOCAL_STORAGE, DAEMONS = "PodsWithLocalStorage", "DaemonSetPods"
CRITICAL, BARE = "SystemCriticalPods", "FailedBarePods"
CLAIMS, NO_BUDGET, RESOURCE_CLAIMS = "PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims"
DEFAULT_PROTECTIONS: Final = (LOCAL_STORAGE, CRITICAL, BARE, DAEMONS)
EXTRA_PROTECTIONS: Final = (CLAIMS, NO_BUDGET, RESOURCE_CLAIMS)
_NO_EVICTION_POLICIES: Final = ("Preferred", "Mandatory")


class PriorityThreshold(Fields, frozen=True, kw_only=True):
    """A priority, as a number or as that of a priority class."""

    value: Int32 | None = None
    name: str = ""


class ProtectedStorageClass(Fields, frozen=True, kw_only=True):
    """A storage class whose claims protect pods."""

    name: str = ""


class ProtectedClaims(Fields, frozen=True, kw_only=True):
    """Which claims protect pods."""

    protected_storage_classes: tuple[ProtectedStorageClass, ...] = ()


class ProtectionsConfig(Fields, frozen=True, kw_only=True):
    """Details of protections, by their names."""

    pods_with_pvc: ProtectedClaims = msgspec.field(default=ProtectedClaims(), name=CLAIMS)


class PodProtections(Fields, frozen=True, kw_only=True):
    """Protections that are on besides the usual ones, and usual ones that are off."""

    extra_enabled: tuple[str, ...] = ()
    default_disabled: tuple[str, ...] = ()
    config: ProtectionsConfig = ProtectionsConfig()

    @property
    def is_used(self) -> bool:
        """Whether they say anything; else the older flags count."""
        return bool(self.extra_enabled or self.default_disabled)

    def errors(self) -> list[str]:
        """Names must be known and stand there once."""
        found = []
        for field, names, known in (
            ("ExtraEnabled", self.extra_enabled, EXTRA_PROTECTIONS),
            ("DefaultDisabled", self.default_disabled, DEFAULT_PROTECTIONS),
        ):
            found += [
                f'invalid pod protection policy in {field}: "{name}". Valid options are: [{" ".join(known)}]'
                for name in names
                if name not in known
            ]
            if len(set(names)) < len(names):
                found.append(f"PodProtections.{field} contains duplicate entries")
        if CLAIMS in self.extra_enabled:
            found += [
                f"PodProtections.Config.PodsWithPVC.ProtectedStorageClasses[{index}] name cannot be empty"
                for index, one in enumerate(self.config.pods_with_pvc.protected_storage_classes)
                if not one.name
            ]
        return found


class DefaultEvictorArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of DefaultEvictor."""

    node_selector: str = ""
    """Nodes on which a pod may have to fit."""
    label_selector: meta_v1.LabelSelector | None = None
    namespace_label_selector: meta_v1.LabelSelector | None = None
    priority_threshold: PriorityThreshold = PriorityThreshold()
    node_fit: bool = False
    require_better_node: bool = False
    """Evict only if another node fits the pod and is not worse."""
    min_replicas: Count = 0
    min_pod_age: str = ""
    """A duration such as 10m."""
    no_eviction_policy: str = ""
    pod_protections: PodProtections = PodProtections()
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    evict_failed_bare_pods: bool = False
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = msgspec.field(default=False, name="ignorePodsWithoutPDB")

    def errors(self) -> list[str]:
        found = self.pod_protections.errors()
        threshold = self.priority_threshold
        if threshold.value is not None and threshold.name:
            found.append("priority threshold misconfigured, only one of priorityThreshold fields can be set")
        if threshold.value is not None and threshold.value > SYSTEM_CRITICAL:
            found.append(f"priority threshold can't be greater than {SYSTEM_CRITICAL}")
        if self.no_eviction_policy and self.no_eviction_policy not in _NO_EVICTION_POLICIES:
            found.append('noEvictionPolicy accepts only ["Preferred" "Mandatory"] values')
        if self._older_flags() and self.pod_protections.is_used:
            found.append(
                "cannot use Deprecated fields alongside PodProtections.ExtraEnabled or PodProtections.DefaultDisabled"
            )
        found += selector_errors(self.label_selector, "labelSelector")
        found += selector_errors(self.namespace_label_selector, "namespaceLabelSelector")
        try:
            parse_labels(self.node_selector)
        except SelectorError as error:
            found.append(f"nodeSelector: {error}")
        try:
            go_seconds(self.min_pod_age or "0")
        except ValueError:
            found.append(f'minPodAge: time: invalid duration "{self.min_pod_age}"')
        return found

    def _older_flags(self) -> bool:
        return bool(
            self.evict_local_storage_pods
            or self.evict_daemon_set_pods
            or self.evict_system_critical_pods
            or self.evict_failed_bare_pods
            or self.ignore_pvc_pods
            or self.ignore_pods_without_pdb
        )

    def protections(self) -> frozenset[str]:
        """The names of the protections that are on."""
        new = self.pod_protections
        if new.is_used:
            return (frozenset(DEFAULT_PROTECTIONS) - set(new.default_disabled)) | set(new.extra_enabled)
        flags = {
            LOCAL_STORAGE: not self.evict_local_storage_pods,
            DAEMONS: not self.evict_daemon_set_pods,
            CRITICAL: not self.evict_system_critical_pods,
            BARE: not self.evict_failed_bare_pods,
            CLAIMS: self.ignore_pvc_pods,
            NO_BUDGET: self.ignore_pods_without_pdb,
        }
        return frozenset(name for name, is_on in flags.items() if is_on)


def threshold_of(threshold: PriorityThreshold, priorities: Mapping[str, int]) -> int:
    """The priority from which on pods are protected. Raises PolicyError for a priority class that does not exist."""
    if threshold.value is not None:
        return threshold.value
    if not threshold.name:
        return SYSTEM_CRITICAL
    value = priorities.get(threshold.name)
    cause = "unable to get priority value from the priority class"
    if value is None:
        missing = f'priorityclasses.scheduling.k8s.io "{threshold.name}" not found'
        raise PolicyError([f"priorityThreshold.name: {cause}: {missing}"])
    if value > SYSTEM_CRITICAL:
        raise PolicyError([f"priorityThreshold.name: priority threshold can't be greater than {SYSTEM_CRITICAL}"])
    return value


Check = Callable[[core_v1.Pod], str]
"""Why a pod is protected; empty if it is not."""


class DefaultEvictor:
    """The evictor of a profile in one pass."""

    def __init__(self, arguments: DefaultEvictorArguments, snapshot: SnapshotIndex) -> None:
        """Raises PolicyError for a priority class that does not exist."""
        self.arguments = arguments
        self._snapshot = snapshot
        self._threshold = threshold_of(arguments.priority_threshold, snapshot.priorities)
        self._labels = selector_of(arguments.label_selector)
        self._namespaces = selector_of(arguments.namespace_label_selector)
        self._min_age = go_seconds(arguments.min_pod_age or "0")
        self._classes = {one.name for one in arguments.pod_protections.config.pods_with_pvc.protected_storage_classes}
        nodes = parse_labels(arguments.node_selector)
        self.nodes = [
            node for node in snapshot.nodes.values() if is_ready(node) and nodes.matches(node.metadata.labels)
        ]
        """Where evicted pods may go: ready nodes of the node selector."""
        enabled = arguments.protections()
        self._checks = [check for name, check in self._named_checks() if name in enabled or not name]
        if BARE not in enabled:
            self._checks.append(_lives_without_owner)

    def _named_checks(self) -> Iterator[tuple[str, Check]]:
        """Checks with the protections that they belong to, or an empty name."""
        yield CRITICAL, self._priority
        yield BARE, _without_owner
        yield LOCAL_STORAGE, _local_storage
        yield DAEMONS, _daemon
        yield CLAIMS, self._claims
        yield NO_BUDGET, self._budget
        yield RESOURCE_CLAIMS, _resource_claims
        yield "", self._selected
        yield "", self._replicas
        yield "", self._age

    def protections(self, pod: core_v1.Pod) -> tuple[str, ...]:
        """Why a pod must not be considered; nothing protects one with the annotation that asks for eviction."""
        annotations = pod.metadata.annotations
        if EVICT in annotations:
            return ()
        if self.arguments.no_eviction_policy == "Mandatory" and prefers_to_stay(pod):
            return ("pod has the annotation that prefers no eviction, which is mandatory",)
        found = []
        if MIRROR in annotations:
            found.append("pod is a mirror pod")
        if annotations.get(CONFIG_SOURCE, "api") != "api":
            found.append("pod is a static pod")
        if pod.metadata.deletion_timestamp is not None:
            found.append("pod is terminating")
        return (*found, *filter(None, (check(pod) for check in self._checks)))

    def last_objections(self, pod: core_v1.Pod) -> tuple[str, ...]:
        """Why a pod must not be evicted now: it fits nowhere else, or its namespace has other labels."""
        found = []
        if self.arguments.node_fit and not fits_any_other(pod, self.nodes, self._snapshot):
            found.append("pod does not fit on any other node")
        if not self._namespaces.matches(self._snapshot.namespace_labels(pod.metadata.namespace)):
            found.append("pod namespace does not match the namespaceLabelSelector filter in the policy parameter")
        return tuple(found)

    def _priority(self, pod: core_v1.Pod) -> str:
        priority = pod.spec.priority
        if priority is not None and priority >= SYSTEM_CRITICAL:
            return "pod has system critical priority and is protected against eviction"
        if priority is not None and priority >= self._threshold:
            return "pod has higher priority than specified priority class threshold"
        return ""

    def _claims(self, pod: core_v1.Pod) -> str:
        claims = [one.persistent_volume_claim for one in pod.spec.volumes]
        names = [one.claim_name for one in claims if one is not None]
        if not self._classes:
            return "pod with PVC is protected against eviction" if names else ""
        namespace = pod.metadata.namespace
        for name in names:
            claim = self._snapshot.claims.get((namespace, name))
            storage_class = claim.spec.storage_class_name if claim is not None else None
            if not storage_class:
                return f'failed to resolve storage class for pod "{namespace}"/"{name}"'
            if storage_class in self._classes:
                return f'pod using protected storage class "{storage_class}"'
        return ""

    def _budget(self, pod: core_v1.Pod) -> str:
        covered = self._snapshot.has_budget(pod)
        return "" if covered else "pod does not have a PodDisruptionBudget and is protected against eviction"

    def _selected(self, pod: core_v1.Pod) -> str:
        matches = self._labels.matches(pod.metadata.labels)
        return "" if matches else "pod labels do not match the labelSelector filter in the policy parameter"

    def _replicas(self, pod: core_v1.Pod) -> str:
        least, owners = self.arguments.min_replicas, pod.metadata.owner_references
        if least <= 1 or len(owners) != 1:
            return ""
        count = self._snapshot.replicas(owners[0].uid)
        return f"owner has {count} replicas which is less than minReplicas of {least}" if count < least else ""

    def _age(self, pod: core_v1.Pod) -> str:
        if not self.arguments.min_pod_age:
            return ""
        age = seconds_since(pod.status.start_time, self._snapshot.now)
        young = age is None or age < self._min_age
        return f"pod age is not older than MinPodAge: {go_duration(self._min_age)}" if young else ""


def _without_owner(pod: core_v1.Pod) -> str:
    return "" if pod.metadata.owner_references else "pod does not have any ownerRefs"


def _lives_without_owner(pod: core_v1.Pod) -> str:
    bare = not pod.metadata.owner_references and pod.status.phase != "Failed"
    return "pod does not have any ownerRefs and is not in failed phase" if bare else ""


def _local_storage(pod: core_v1.Pod) -> str:
    local = any(one.host_path is not None or one.empty_dir is not None for one in pod.spec.volumes)
    return "pod has local storage and is protected against eviction" if local else ""


def _daemon(pod: core_v1.Pod) -> str:
    return "daemonset pods are protected against eviction" if "DaemonSet" in owner_kinds(pod) else ""


def _resource_claims(pod: core_v1.Pod) -> str:
    return (
        "pod has ResourceClaims and descheduler is configured to protect ResourceClaims pods"
        if pod.spec.resource_claims
        else ""
    )
