"""What kube-controller-manager calls the queues of its controllers in metrics, by the controller's name."""

from __future__ import annotations

_NAMES = {
    "bootstrap-signer-controller": "bootstrap_signer_queue",
    "certificatesigningrequest-approving-controller": "certificate",
    "certificatesigningrequest-cleaner-controller": "certificate_cleaner",
    "certificatesigningrequest-signing-controller": "certificate",
    "clusterrole-aggregation-controller": "ClusterRoleAggregator",
    "endpoints-controller": "endpoint",
    "endpointslice-controller": "endpoint_slice",
    "endpointslice-mirroring-controller": "endpoint_slice_mirroring",
    "garbage-collector-controller": "garbage_collector_attempt_to_delete",
    "horizontal-pod-autoscaler-controller": "horizontalpodautoscaler",
    "node-ipam-controller": "cidrset",
    "persistentvolume-binder-controller": "volumes",
    "persistentvolume-protection-controller": "pvprotection",
    "persistentvolumeclaim-protection-controller": "pvcprotection",
    "podgroup-protection-controller": "podgroupprotection",
    "replicationcontroller-controller": "replicationmanager",
    "resourcequota-controller": "resourcequota_primary",
    "root-ca-certificate-publisher-controller": "root_ca_cert_publisher",
    "serviceaccount-token-controller": "serviceaccount_tokens_secret",
    "token-cleaner-controller": "token_cleaner",
    "ttl-after-finished-controller": "ttl_jobs_to_delete",
    "ttl-controller": "ttlcontroller",
}


def queue_name(controller: str) -> str:
    """The value of the label `name`: from the table, else made of the controller's name."""
    return _NAMES.get(controller) or controller.removesuffix("-controller").replace("-", "_")
