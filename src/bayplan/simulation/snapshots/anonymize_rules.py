"""What may stay as it is when a copy is anonymized. Everything that is not named here is renamed."""

from __future__ import annotations

import re
from typing import Final

KEPT_NAMES: Final = frozenset(
    [
        "",
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "kubernetes",
        "standard",
        "system-cluster-critical",
        "system-node-critical",
    ]
)
"""Names that every cluster has, or that are published wherever a copy is started."""

KEPT_FIELDS: Final = frozenset(
    [
        "$patch",
        "accessModes",
        "action",
        "allocationMode",
        "apiGroup",
        "apiVersion",
        "architecture",
        "clusterIP",
        "clusterIPs",
        "completionMode",
        "concurrencyPolicy",
        "conditionType",
        "containerRuntimeVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "dnsPolicy",
        "effect",
        "expression",
        "externalTrafficPolicy",
        "finalizers",
        "fsType",
        "imagePullPolicy",
        "internalTrafficPolicy",
        "ipFamilies",
        "ipFamilyPolicy",
        "kernelVersion",
        "kind",
        "kubeProxyVersion",
        "kubeletVersion",
        "lastProbeTime",
        "lastTransitionTime",
        "lastUpdateTime",
        "lastScheduleTime",
        "lastSuccessfulTime",
        "startTime",
        "completionTime",
        "startedAt",
        "finishedAt",
        "lastHeartbeatTime",
        "lastPhaseTransitionTime",
        "timeAdded",
        "medium",
        "mode",
        "nodeAffinityPolicy",
        "nodeInclusionPolicy",
        "nodeTaintsPolicy",
        "operatingSystem",
        "operator",
        "osImage",
        "persistentVolumeReclaimPolicy",
        "phase",
        "podManagementPolicy",
        "podReplacementPolicy",
        "preemptionPolicy",
        "propagation",
        "protocol",
        "qosClass",
        "reason",
        "reclaimPolicy",
        "resize",
        "restartPolicy",
        "schedule",
        "schedulerName",
        "scopeName",
        "scopes",
        "selectPolicy",
        "sessionAffinity",
        "signal",
        "status",
        "succeededCount",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "type",
        "unhealthyPodEvictionPolicy",
        "volumeBindingMode",
        "volumeMode",
        "whenDeleted",
        "whenScaled",
        "whenUnsatisfiable",
        "declaredFeatures",
        "fsGroupPolicy",
        "volumeLifecycleModes",
        "completedIndexes",
        "failedIndexes",
    ]
)
"""Fields whose texts are words of Kubernetes, versions or times."""

KEPT_TREES: Final = frozenset({"attributes", "swap", "features", "runtimeHandlers"})
"""Fields that are kept whole: what devices are, which expressions compare literally, and what nodes can do."""

DROPPED: Final = frozenset(
    [
        "addresses",
        "bootID",
        "externalID",
        "externalIPs",
        "externalName",
        "hostIP",
        "hostIPs",
        "hostname",
        "hostnameOverride",
        "loadBalancer",
        "loadBalancerIP",
        "loadBalancerSourceRanges",
        "machineID",
        "message",
        "nodeID",
        "nodePublishSecretRef",
        "podCIDR",
        "podCIDRs",
        "podIP",
        "podIPs",
        "providerID",
        "subdomain",
        "systemUUID",
        "timeZone",
    ]
)
"""Fields that are left out: they tell where something is and bear on no placement. Of ports, `hostIP` stays."""

LABELS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "selector"})
"""Fields that are maps of labels."""

KEYS: Final = frozenset({"topologyKey", "topologyKeys", "matchLabelKeys", "mismatchLabelKeys"})
"""Fields whose texts are keys of labels."""

RESOURCES: Final = frozenset(
    [
        "allocatable",
        "allocatedResources",
        "capacity",
        "default",
        "defaultRequest",
        "limits",
        "max",
        "maxLimitRequestRatio",
        "min",
        "overhead",
        "requests",
    ]
)
"""Fields that are maps of resources."""

QUOTAS: Final = frozenset({"hard", "used"})
"""Fields that are maps of what quotas count."""

OF_CLASS: Final = re.compile(
    r"(?P<name>.+)(?P<rest>\.(storageclass\.storage|volumeattributesclass\.storage|deviceclass\.resource)\.k8s\.io/.+)"
)
"""What a quota counts of one class."""

METRICS: Final = frozenset({"resource", "containerResource"})
"""Fields whose `name` is a resource."""

REFERENCES: Final = frozenset({"describedObject", "ownerReferences", "scaleTargetRef"})
"""Fields that name an object whose kind may be anybody's."""

NAMED: Final = frozenset(
    ["attachmentMetadata", "binaryData", "data", "disruptedPods", "options", "parameters", "volumeAttributes"]
)
"""Fields that are maps of texts whose keys somebody chose."""

QUALIFIED: Final = frozenset({"conditionType", "finalizers", "type"})
"""Fields with words of Kubernetes, or with those of others after their domain."""

OWN_ANNOTATIONS: Final = "bayplan.dev/"
TEMPLATE_HASH: Final = "pod-template-hash"
NUMBER: Final = re.compile(r"-?\d+")
_HARMLESS: Final = re.compile(r"\d+(\.\d+)?(%|m|[kKMGTPE]i?)?|\d{4}-\d\d-\d\dT[\d:.]+Z?")
_AMOUNT: Final = r"\d+(\.\d+)?(%|[a-zA-Z]{1,2})?"
_BEHAVIOUR: Final = re.compile(
    rf"true|false|follow|([a-z]+\({_AMOUNT}(,{_AMOUNT})*\)|{_AMOUNT})(@{_AMOUNT})?( {_AMOUNT}@{_AMOUNT})*"
)

_KEPT_KEYS: Final = frozenset(
    {"controller-revision-hash", "controller-uid", "job-name", "pod-template-generation", TEMPLATE_HASH}
)
_CHOSEN_NAMES: Final = ("node-role.kubernetes.io", "node-restriction.kubernetes.io")
"""Domains of Kubernetes under which users choose names."""
_ROLES: Final = frozenset({"control-plane", "master", "worker", "node", "infra"})
_KEPT_DOMAINS: Final = ("kubernetes.io", "k8s.io", "bayplan.dev")
_KEPT_VALUES: Final = frozenset(
    {
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "pod-template-generation",
    }
)
_KEPT_VENDORS: Final = ("kubernetes.io", "k8s.io", "nvidia.com", "amd.com", "intel.com")
_KEPT_DRIVERS: Final = (
    "bayplan.dev",
    "kubernetes.io",
    "k8s.io",
    "csi.aws.com",
    "csi.azure.com",
    "gke.io",
    "csi.ceph.com",
    "csi.vsphere.vmware.com",
    "openebs.io",
    "longhorn.io",
    "nvidia.com",
)


def harmless(text: str) -> bool:
    """Whether a text is a number, a quantity, a share or a time."""
    return not text or _HARMLESS.fullmatch(text) is not None


def is_behaviour(text: str) -> bool:
    """Whether a text says how a simulated pod behaves: an amount, one that changes with time, or a distribution."""
    return _BEHAVIOUR.fullmatch(text) is not None


def is_kept_domain(text: str) -> bool:
    """Whether a text has no domain before it, or one of Kubernetes."""
    domain, slash, _ = text.partition("/")
    return not slash or _under(domain, _KEPT_DOMAINS)


def is_kept_key(key: str) -> bool:
    """Whether a key of a label or taint is one of Kubernetes' own."""
    domain, slash, name = key.partition("/")
    if domain in _CHOSEN_NAMES:
        return name in _ROLES
    return key in _KEPT_KEYS or not key or (bool(slash) and _under(domain, _KEPT_DOMAINS))


def is_kept_value(key: str) -> bool:
    """Whether the values of a label say what every cluster says: zone, region, platform, machine type."""
    return key in _KEPT_VALUES or key.startswith("node-role.kubernetes.io/")


def is_kept_resource(name: str) -> bool:
    """Whether a resource is one of Kubernetes', or of a maker of devices that everybody can buy."""
    domain, slash, _ = name.partition("/")
    return not slash or _under(domain, _KEPT_VENDORS)


def is_kept_driver(name: str) -> bool:
    """Whether a storage driver or provisioner is one that everybody can have."""
    return _under(name.partition("/")[0], _KEPT_DRIVERS) or all(
        _under(part.partition("/")[0], _KEPT_DRIVERS) for part in name.split(",")
    )


def is_kept_image_part(image: str) -> bool:
    """Whether an image is one that every cluster runs."""
    return image.startswith(("registry.k8s.io/", "k8s.gcr.io/"))


def _under(domain: str, known: tuple[str, ...]) -> bool:
    return domain.endswith(known) and any(domain == one or domain.endswith(f".{one}") for one in known)
