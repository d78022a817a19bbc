"""Names that controllers had before Kubernetes 1.28, which `--controllers` still takes (kube-controller-manager's aliases)."""

from __future__ import annotations

from typing import Final

_BY_RULE: Final = frozenset(
    (
        "clusterrole-aggregation",
        "cronjob",
        "daemonset",
        "deployment",
        "disruption",
        "endpointslice",
        "ephemeral-volume",
        "job",
        "namespace",
        "persistentvolume-binder",
        "persistentvolume-expander",
        "replicaset",
        "replicationcontroller",
        "resourcequota",
        "serviceaccount",
        "serviceaccount-token",
        "statefulset",
        "cloud-node",
        "cloud-node-lifecycle",
        "ttl",
        "ttl-after-finished",
    )
)
"""Those that have only got the ending `-controller`."""
_RENAMED: Final = {
    "attachdetach": "persistentvolume-attach-detach-controller",
    "bootstrapsigner": "bootstrap-signer-controller",
    "csrapproving": "certificatesigningrequest-approving-controller",
    "csrcleaner": "certificatesigningrequest-cleaner-controller",
    "csrsigning": "certificatesigningrequest-signing-controller",
    "endpoint": "endpoints-controller",
    "endpointslicemirroring": "endpointslice-mirroring-controller",
    "garbagecollector": "garbage-collector-controller",
    "horizontalpodautoscaling": "horizontal-pod-autoscaler-controller",
    "legacy-service-account-token-cleaner": "legacy-serviceaccount-token-cleaner-controller",
    "nodeipam": "node-ipam-controller",
    "nodelifecycle": "node-lifecycle-controller",
    "podgc": "pod-garbage-collector-controller",
    "pv-protection": "persistentvolume-protection-controller",
    "pvc-protection": "persistentvolumeclaim-protection-controller",
    "resource-claim-controller": "resourceclaim-controller",
    "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
    "route": "node-route-controller",
    "service": "service-lb-controller",
    "storage-version-gc": "storageversion-garbage-collector-controller",
    "svm": "storage-version-migrator-controller",
    "tokencleaner": "token-cleaner-controller",
}


def present_name(name: str) -> str:
    """What a controller is called today; names that are none of the older ones stay as they are."""
    return f"{name}-controller" if name in _BY_RULE else _RENAMED.get(name, name)
