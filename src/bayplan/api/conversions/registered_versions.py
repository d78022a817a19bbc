"""Versions that Kubernetes knows of a kind, whether it serves them or not.

An object of one of these versions is understood wherever the kind is expected, and refused since the version is not the one of the path; one of any other version is
not understood at all. Source: the `register.go` of each package of `k8s.io/api`.
"""

from __future__ import annotations

from typing import Final

_ADMISSION = "admissionregistration.k8s.io"
_STORAGE = "storage.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"
_RESOURCE = "resource.k8s.io"
_POLICIES = f"{_ADMISSION}/v1 {_ADMISSION}/v1beta1 {_ADMISSION}/v1alpha1"
_WEBHOOKS = f"{_ADMISSION}/v1 {_ADMISSION}/v1beta1"
_APPS = "apps/v1 apps/v1beta2"
_REVIEWS = f"{_AUTHORIZATION}/v1 {_AUTHORIZATION}/v1beta1"
_ROLES = f"{_RBAC}/v1 {_RBAC}/v1beta1 {_RBAC}/v1alpha1"
_FLOWS = f"{_FLOW}/v1 {_FLOW}/v1beta3 {_FLOW}/v1beta2 {_FLOW}/v1beta1"
_STORED = f"{_STORAGE}/v1 {_STORAGE}/v1beta1"
_STORED_LONGER = f"{_STORED} {_STORAGE}/v1alpha1"
_DEVICES = f"{_RESOURCE}/v1 {_RESOURCE}/v1beta2 {_RESOURCE}/v1beta1"

_VERSIONS: Final = {
    "CSIDriver": _STORED,
    "CSINode": _STORED,
    "CSIStorageCapacity": _STORED_LONGER,
    "CertificateSigningRequest": "certificates.k8s.io/v1 certificates.k8s.io/v1beta1",
    "ClusterRole": _ROLES,
    "ClusterRoleBinding": _ROLES,
    "ClusterTrustBundle": "certificates.k8s.io/v1beta1 certificates.k8s.io/v1alpha1",
    "ControllerRevision": f"{_APPS} apps/v1beta1",
    "CronJob": "batch/v1 batch/v1beta1",
    "DaemonSet": f"{_APPS} extensions/v1beta1",
    "Deployment": f"{_APPS} apps/v1beta1 extensions/v1beta1",
    "DeviceClass": _DEVICES,
    "DeviceTaintRule": f"{_RESOURCE}/v1beta2 {_RESOURCE}/v1alpha3",
    "EndpointSlice": "discovery.k8s.io/v1 discovery.k8s.io/v1beta1",
    "Event": "v1 events.k8s.io/v1 events.k8s.io/v1beta1",
    "Eviction": "policy/v1 policy/v1beta1",
    "FlowSchema": _FLOWS,
    "HorizontalPodAutoscaler": "autoscaling/v2 autoscaling/v1",
    "IPAddress": "networking.k8s.io/v1 networking.k8s.io/v1beta1",
    "Ingress": "networking.k8s.io/v1 networking.k8s.io/v1beta1 extensions/v1beta1",
    "IngressClass": "networking.k8s.io/v1 networking.k8s.io/v1beta1",
    "Lease": "coordination.k8s.io/v1 coordination.k8s.io/v1beta1",
    "LeaseCandidate": "coordination.k8s.io/v1beta1 coordination.k8s.io/v1alpha2",
    "LocalSubjectAccessReview": _REVIEWS,
    "MutatingAdmissionPolicy": _POLICIES,
    "MutatingAdmissionPolicyBinding": _POLICIES,
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "NetworkPolicy": "networking.k8s.io/v1 extensions/v1beta1",
    "PodDisruptionBudget": "policy/v1 policy/v1beta1",
    "PriorityClass": "scheduling.k8s.io/v1 scheduling.k8s.io/v1beta1",
    "PriorityLevelConfiguration": _FLOWS,
    "ReplicaSet": f"{_APPS} extensions/v1beta1",
    "ResourceClaim": _DEVICES,
    "ResourceClaimTemplate": _DEVICES,
    "ResourceSlice": _DEVICES,
    "Role": _ROLES,
    "RoleBinding": _ROLES,
    "RuntimeClass": "node.k8s.io/v1 node.k8s.io/v1beta1 node.k8s.io/v1alpha1",
    "SelfSubjectAccessReview": _REVIEWS,
    "SelfSubjectReview": "authentication.k8s.io/v1 authentication.k8s.io/v1beta1 authentication.k8s.io/v1alpha1",
    "SelfSubjectRulesReview": _REVIEWS,
    "ServiceCIDR": "networking.k8s.io/v1 networking.k8s.io/v1beta1",
    "StatefulSet": f"{_APPS} apps/v1beta1",
    "StorageClass": _STORED,
    "SubjectAccessReview": _REVIEWS,
    "TokenReview": "authentication.k8s.io/v1 authentication.k8s.io/v1beta1",
    "ValidatingAdmissionPolicy": _POLICIES,
    "ValidatingAdmissionPolicyBinding": _POLICIES,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "VolumeAttachment": _STORED_LONGER,
    "VolumeAttributesClass": _STORED_LONGER,
}


def is_registered(kind: str, api_version: str) -> bool:
    """Whether Kubernetes knows a kind of several versions in this one."""
    return api_version in _VERSIONS.get(kind, "").split()
