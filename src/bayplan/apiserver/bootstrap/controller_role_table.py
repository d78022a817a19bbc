"""The roles of Kubernetes' controllers, as data; each is bound to the service account of kube-system that has the controller's name.

Source: Kubernetes 1.36 `bootstrappolicy/controller_policy.go`. See `role_table` for the notation.
"""

from __future__ import annotations

from bayplan.apiserver.bootstrap.role_table import READ, SIGNERS, PolicyRule, events, rule

PREFIX = "system:controller:"
_APPS = "apps extensions"
_CERTIFICATES = (
    "kubernetes.io/legacy-unknown kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet "
    "kubernetes.io/kubelet-serving"
)


def controller_roles() -> dict[str, tuple[PolicyRule, ...]]:
    """Rules by the controller's name."""
    return {**_workloads(), **_network(), **_storage(), **_others()}


def _owner(group: str, plural: str, verbs: str) -> tuple[PolicyRule, ...]:
    """What the controller of a kind needs of the kind itself."""
    return (
        rule(verbs, group, plural),
        rule("update", group, f"{plural}/status"),
        rule("update", group, f"{plural}/finalizers"),
    )


def _workloads() -> dict[str, tuple[PolicyRule, ...]]:
    pods = rule("list watch create delete patch", "core", "pods")
    return {
        "cronjob-controller": (
            rule(f"{READ} update", "batch", "cronjobs"),
            rule(f"{READ} create update delete patch", "batch", "jobs"),
            rule("update", "batch", "cronjobs/status"),
            rule("update", "batch", "cronjobs/finalizers"),
            rule("list watch delete", "core", "pods"),
            events(),
        ),
        "daemon-set-controller": (
            *_owner(_APPS, "daemonsets", READ),
            rule("list watch", "core", "nodes"),
            pods,
            rule("create", "core", "pods/binding"),
            rule(f"{READ} create delete update patch", "apps", "controllerrevisions"),
            events(),
        ),
        "deployment-controller": (
            *_owner(_APPS, "deployments", f"{READ} update"),
            rule(f"{READ} create update patch delete", _APPS, "replicasets"),
            rule(f"{READ} update", "core", "pods"),
            events(),
        ),
        "job-controller": (*_owner("batch", "jobs", f"{READ} update patch"), pods, events()),
        "replicaset-controller": (*_owner(_APPS, "replicasets", f"{READ} update"), pods, events()),
        "replication-controller": (*_owner("core", "replicationcontrollers", f"{READ} update"), pods, events()),
        "statefulset-controller": (
            rule("list watch", "core", "pods"),
            *_owner("apps", "statefulsets", READ),
            rule("get create delete update patch", "core", "pods"),
            rule(f"{READ} create delete update patch", "apps", "controllerrevisions"),
            rule(f"{READ} create", "core", "persistentvolumeclaims"),
            rule("update delete", "core", "persistentvolumeclaims"),
            rule("update", "core", "pods/finalizers"),
            events(),
        ),
        "disruption-controller": (
            rule(READ, _APPS, "deployments"),
            rule(READ, _APPS, "replicasets"),
            rule(READ, "core", "replicationcontrollers"),
            rule(READ, "policy", "poddisruptionbudgets"),
            rule(READ, "apps", "statefulsets"),
            rule("update", "policy", "poddisruptionbudgets/status"),
            rule("patch update", "core", "pods/status"),
            rule("get", "*", "*/scale"),
            events(),
        ),
        "horizontal-pod-autoscaler": (
            rule(READ, "autoscaling", "horizontalpodautoscalers"),
            rule("update", "autoscaling", "horizontalpodautoscalers/status"),
            rule("get update", "*", "*/scale"),
            rule("list watch", "core", "pods"),
            rule("list watch", "metrics.k8s.io", "pods"),
            rule(READ, "custom.metrics.k8s.io", "*"),
            rule(READ, "external.metrics.k8s.io", "*"),
            events(),
        ),
        "pod-garbage-collector": (
            rule("list watch delete", "core", "pods"),
            rule(READ, "core", "nodes"),
            rule("patch", "core", "pods/status"),
        ),
        "ttl-after-finished-controller": (rule(f"{READ} delete", "batch", "jobs"), events()),
    }


def _network() -> dict[str, tuple[PolicyRule, ...]]:
    slices = rule(f"{READ} create update delete", "discovery.k8s.io", "endpointslices")
    return {
        "endpoint-controller": (
            rule(READ, "core", "services pods"),
            rule(f"{READ} create update delete", "core", "endpoints"),
            rule("create", "core", "endpoints/restricted"),
            events(),
        ),
        "endpointslice-controller": (
            rule(READ, "core", "services pods nodes"),
            rule("update", "core", "services/finalizers"),
            slices,
            events(),
        ),
        "endpointslicemirroring-controller": (
            rule(READ, "core", "services endpoints"),
            rule("update", "core", "services/finalizers"),
            rule("update", "core", "endpoints/finalizers"),
            slices,
            events(),
        ),
        "route-controller": (rule("list watch", "core", "nodes"), rule("patch", "core", "nodes/status"), events()),
        "service-controller": (
            rule(READ, "core", "services"),
            rule("patch update", "core", "services/status"),
            rule("list watch", "core", "nodes"),
            events(),
        ),
        "service-cidrs-controller": (
            rule(f"{READ} patch update", "networking.k8s.io", "servicecidrs"),
            rule("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
            rule("patch update", "networking.k8s.io", "servicecidrs/status"),
            rule(READ, "networking.k8s.io", "ipaddresses"),
            events(),
        ),
    }


def _storage() -> dict[str, tuple[PolicyRule, ...]]:
    return {
        "attachdetach-controller": (
            rule("list watch", "core", "persistentvolumes persistentvolumeclaims"),
            rule(READ, "core", "nodes"),
            rule("patch update", "core", "nodes/status"),
            rule("list watch", "core", "pods"),
            events(),
            rule(f"{READ} create delete", "storage.k8s.io", "volumeattachments"),
            rule(READ, "storage.k8s.io", "csidrivers"),
            rule(READ, "storage.k8s.io", "csinodes"),
        ),
        "expand-controller": (
            rule(f"{READ} update patch", "core", "persistentvolumes"),
            rule("update patch", "core", "persistentvolumeclaims/status"),
            rule(READ, "core", "persistentvolumeclaims"),
            events(),
        ),
        "ephemeral-volume-controller": (
            rule(READ, "core", "pods"),
            rule("update", "core", "pods/finalizers"),
            rule(f"{READ} create", "core", "persistentvolumeclaims"),
            events(),
        ),
        "persistent-volume-binder": (
            rule(f"{READ} update create delete", "core", "persistentvolumes"),
            rule("update", "core", "persistentvolumes/status"),
            rule(f"{READ} update", "core", "persistentvolumeclaims"),
            rule("update", "core", "persistentvolumeclaims/status"),
            rule(f"{READ} create delete", "core", "pods"),
            rule(READ, "storage.k8s.io", "storageclasses"),
            rule("list watch", "core", "nodes"),
            events(),
            rule("watch", "core", "events"),
        ),
        "pvc-protection-controller": (
            rule(f"{READ} update", "core", "persistentvolumeclaims"),
            rule("update", "core", "persistentvolumeclaims/status"),
            rule(READ, "core", "pods"),
            events(),
        ),
        "pv-protection-controller": (rule(f"{READ} update", "core", "persistentvolumes"), events()),
        "volumeattributesclass-protection-controller": (
            rule(READ, "core", "persistentvolumeclaims"),
            rule(READ, "core", "persistentvolumes"),
            rule(f"{READ} update", "storage.k8s.io", "volumeattributesclasses"),
            events(),
        ),
        "selinux-warning-controller": (
            events(),
            rule(READ, "core", "persistentvolumes"),
            rule(READ, "core", "persistentvolumeclaims"),
            rule(READ, "core", "pods"),
            rule(READ, "storage.k8s.io", "csidrivers"),
        ),
    }


def _others() -> dict[str, tuple[PolicyRule, ...]]:
    devices = ("resourceclaims", "resourceslices", "deviceclasses")
    return {
        "clusterrole-aggregation-controller": (
            rule(f"escalate {READ} update patch", "rbac.authorization.k8s.io", "clusterroles"),
        ),
        "resource-claim-controller": (
            rule(READ, "core", "pods"),
            rule("update", "core", "pods/finalizers"),
            rule(f"{READ} create delete", "resource.k8s.io", "resourceclaims"),
            rule("update patch", "resource.k8s.io", "resourceclaims resourceclaims/status"),
            rule("update patch", "core", "pods/status"),
            events(),
            rule("update patch", "resource.k8s.io", "resourceclaims/binding"),
        ),
        "device-taint-eviction-controller": (
            rule(f"{READ} delete", "core", "pods"),
            rule("update patch", "core", "pods/status"),
            *(rule(READ, "resource.k8s.io", plural) for plural in devices),
            events(),
        ),
        "generic-garbage-collector": (rule(f"{READ} patch update delete", "*", "*"), events()),
        "namespace-controller": (
            rule(f"{READ} delete", "core", "namespaces"),
            rule("update", "core", "namespaces/finalize namespaces/status"),
            rule(f"{READ} delete deletecollection", "*", "*"),
        ),
        "node-controller": (
            rule(f"{READ} update delete patch", "core", "nodes"),
            rule("patch update", "core", "nodes/status"),
            rule("patch update", "core", "pods/status"),
            rule(f"{READ} delete", "core", "pods"),
            events(),
        ),
        "resourcequota-controller": (
            rule("list watch", "*", "*"),
            rule("update", "core", "resourcequotas/status"),
            events(),
        ),
        "service-account-controller": (rule("create", "core", "serviceaccounts"), events()),
        "ttl-controller": (rule("update patch list watch", "core", "nodes"), events()),
        "certificate-controller": (
            rule(f"{READ} delete", SIGNERS, "certificatesigningrequests"),
            rule("update", SIGNERS, "certificatesigningrequests/status certificatesigningrequests/approval"),
            rule("approve", SIGNERS, "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
            rule("sign", SIGNERS, "signers", _CERTIFICATES),
            rule("create", "authorization.k8s.io", "subjectaccessreviews"),
            events(),
        ),
        "root-ca-cert-publisher": (rule("create update", "core", "configmaps"), events()),
        "service-ca-cert-publisher": (rule("create update", "core", "configmaps"), events()),
        "validatingadmissionpolicy-status-controller": (
            rule(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
            rule("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
            events(),
        ),
        "legacy-service-account-token-cleaner": (
            rule("get", "core", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
            rule("patch delete", "core", "secrets"),
        ),
    }
