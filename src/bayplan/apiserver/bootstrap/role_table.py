"""The roles that every cluster has, as data. Source: Kubernetes 1.36 `bootstrappolicy`; what its server publishes is in the golden transcripts.

Words are separated by blanks; `core` stands for the group without a name. Lists come out sorted, as Kubernetes publishes them.
"""

from __future__ import annotations

from typing import Final

from bayplan.api.types import rbac_v1

PolicyRule = rbac_v1.PolicyRule

READ: Final = "get list watch"
WRITE: Final = "create update patch delete deletecollection"
READ_WRITE: Final = f"{READ} {WRITE}"
READ_UPDATE: Final = f"{READ} update patch"
SIGNERS: Final = "certificates.k8s.io"


def rule(verbs: str, groups: str, resources: str, names: str = "") -> PolicyRule:
    """A rule about resources."""
    return PolicyRule(
        verbs=_words(verbs),
        api_groups=tuple(sorted("" if group == "core" else group for group in groups.split())),
        resources=_words(resources),
        resource_names=_words(names),
    )


def urls(verbs: str, paths: str) -> PolicyRule:
    """A rule about other paths."""
    return PolicyRule(verbs=_words(verbs), non_resource_urls=_words(paths))


def _words(text: str) -> tuple[str, ...]:
    return tuple(sorted(text.split()))


def events() -> PolicyRule:
    """Telling what happens."""
    return rule("create update patch", "core events.k8s.io", "events")


def node_rules() -> tuple[PolicyRule, ...]:
    """What a node may do; the Node authorizer narrows much of it down to what the node has to do with."""
    return (
        rule("create", "authentication.k8s.io", "tokenreviews"),
        rule("create", "authorization.k8s.io", "subjectaccessreviews localsubjectaccessreviews"),
        rule(READ, "core", "services"),
        rule(f"create {READ}", "core", "nodes"),
        rule("update patch", "core", "nodes/status"),
        rule("update patch", "core", "nodes"),
        events(),
        rule(READ, "core", "pods"),
        rule("create delete", "core", "pods"),
        rule("update patch", "core", "pods/status"),
        rule("create", "core", "pods/eviction"),
        rule(READ, "core", "secrets configmaps"),
        rule("get", "core", "persistentvolumeclaims persistentvolumes"),
        rule("get", "core", "endpoints"),
        rule(f"create {READ}", SIGNERS, "certificatesigningrequests"),
        rule("get create update patch delete", "coordination.k8s.io", "leases"),
        rule("get", "storage.k8s.io", "volumeattachments"),
        rule("create", "core", "serviceaccounts/token"),
        rule("get update patch", "core", "persistentvolumeclaims/status"),
        rule(READ, "storage.k8s.io", "csidrivers"),
        rule("get create update patch delete", "storage.k8s.io", "csinodes"),
        rule(READ, "node.k8s.io", "runtimeclasses"),
        rule("get", "resource.k8s.io", "resourceclaims"),
        rule("deletecollection", "resource.k8s.io", "resourceslices"),
        rule("get", "core", "serviceaccounts"),
    )


def _edit_rules() -> tuple[PolicyRule, ...]:
    workloads = "statefulsets statefulsets/scale daemonsets deployments deployments/scale deployments/rollback"
    replicas = "replicasets replicasets/scale"
    connections = "pods/attach pods/proxy pods/exec pods/portforward"
    content = "serviceaccounts services services/proxy persistentvolumeclaims configmaps secrets"
    return (
        rule(READ, "core", f"{connections} secrets services/proxy"),
        rule("impersonate", "core", "serviceaccounts"),
        rule(WRITE, "core", f"pods {connections}"),
        rule("create", "core", "pods/eviction"),
        rule(WRITE, "core", f"replicationcontrollers replicationcontrollers/scale {content}"),
        rule("create", "core", "serviceaccounts/token"),
        rule(WRITE, "core events.k8s.io", "events"),
        rule(WRITE, "apps", f"{workloads} {replicas}"),
        rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
        rule(WRITE, "batch", "jobs cronjobs"),
        rule(
            WRITE,
            "extensions",
            "daemonsets deployments deployments/scale deployments/rollback ingresses networkpolicies "
            f"{replicas} replicationcontrollers/scale",
        ),
        rule(WRITE, "policy", "poddisruptionbudgets"),
        rule(WRITE, "networking.k8s.io", "networkpolicies ingresses"),
        rule(READ_WRITE, "coordination.k8s.io", "leases"),
        rule(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    )


def _view_rules() -> tuple[PolicyRule, ...]:
    workloads = "daemonsets daemonsets/status deployments deployments/scale deployments/status"
    replicas = "replicasets replicasets/scale replicasets/status"
    return (
        rule(
            READ,
            "core",
            "pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status endpoints "
            "persistentvolumeclaims persistentvolumeclaims/status configmaps",
        ),
        rule(
            READ,
            "core",
            "limitranges resourcequotas bindings pods/status resourcequotas/status namespaces/status "
            "replicationcontrollers/status pods/log",
        ),
        rule(READ, "core", "namespaces"),
        rule(READ, "core events.k8s.io", "events"),
        rule(READ, "discovery.k8s.io", "endpointslices"),
        rule(
            READ,
            "apps",
            f"controllerrevisions {workloads} {replicas} statefulsets statefulsets/scale statefulsets/status",
        ),
        rule(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
        rule(READ, "batch", "jobs cronjobs cronjobs/status jobs/status"),
        rule(
            READ,
            "extensions",
            f"{workloads} ingresses ingresses/status networkpolicies {replicas} replicationcontrollers/scale",
        ),
        rule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        rule(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        rule(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
    )


def _manager_rules() -> tuple[PolicyRule, ...]:
    return (
        events(),
        rule("create", "coordination.k8s.io", "leases"),
        rule("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
        rule("create", "core", "secrets serviceaccounts"),
        rule("delete", "core", "secrets"),
        rule("get", "core", "configmaps namespaces secrets serviceaccounts"),
        rule("update", "core", "secrets serviceaccounts"),
        rule("create", "authentication.k8s.io", "tokenreviews"),
        rule("create", "authorization.k8s.io", "subjectaccessreviews"),
        rule("list watch", "*", "*"),
        rule("create", "core", "serviceaccounts/token"),
    )


def _scheduler_rules() -> tuple[PolicyRule, ...]:
    return (
        events(),
        rule("create", "coordination.k8s.io", "leases"),
        rule("get update list watch", "coordination.k8s.io", "leases", "kube-scheduler"),
        rule(READ_WRITE, "coordination.k8s.io", "leasecandidates"),
        rule(READ, "core", "nodes"),
        rule(f"{READ} delete", "core", "pods"),
        rule("create", "core", "bindings pods/binding"),
        rule("patch update", "core", "pods/status"),
        rule(READ, "core", "services replicationcontrollers"),
        rule(READ, "apps extensions", "replicasets"),
        rule(READ, "apps", "statefulsets"),
        rule(READ, "policy", "poddisruptionbudgets"),
        rule(READ, "core", "persistentvolumeclaims persistentvolumes"),
        rule("create", "authentication.k8s.io", "tokenreviews"),
        rule("create", "authorization.k8s.io", "subjectaccessreviews"),
        rule(READ, "storage.k8s.io", "csinodes"),
        rule(READ, "storage.k8s.io", "volumeattachments"),
        rule(READ, "core", "namespaces"),
        rule(READ, "storage.k8s.io", "csidrivers"),
        rule(READ, "storage.k8s.io", "csistoragecapacities"),
        rule(READ, "resource.k8s.io", "deviceclasses"),
        rule(READ_UPDATE, "resource.k8s.io", "resourceclaims"),
        rule(READ_UPDATE, "resource.k8s.io", "resourceclaims/status"),
        rule("update", "core", "pods/finalizers"),
        rule(READ, "resource.k8s.io", "resourceslices"),
        rule("create delete", "resource.k8s.io", "resourceclaims"),
        rule("update patch", "resource.k8s.io", "resourceclaims/binding"),
    )


PUBLIC: Final = "/livez /readyz /healthz /version /version/"
_MONITORED: Final = "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"


def _approver(signer: str) -> tuple[PolicyRule, ...]:
    return (rule("approve", SIGNERS, "signers", f"kubernetes.io/{signer}"),)


def cluster_roles() -> dict[str, tuple[PolicyRule, ...]]:
    """Rules of the cluster roles by name, without those of controllers and the aggregated ones."""
    csr = "system:certificates.k8s.io:certificatesigningrequests"
    approvers = "system:certificates.k8s.io"
    return {
        "cluster-admin": (rule("*", "*", "*"), urls("*", "*")),
        "system:discovery": (urls("get", f"{PUBLIC} /openapi /openapi/* /api /api/* /apis /apis/*"),),
        "system:monitoring": (urls("get", _MONITORED), rule("get", "core", "nodes/metrics")),
        "system:basic-user": (
            rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            rule("create", "authentication.k8s.io", "selfsubjectreviews"),
        ),
        "system:public-info-viewer": (urls("get", PUBLIC),),
        "system:aggregate-to-admin": (
            rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
            rule(READ_WRITE, "rbac.authorization.k8s.io", "roles rolebindings"),
        ),
        "system:aggregate-to-edit": _edit_rules(),
        "system:aggregate-to-view": _view_rules(),
        "system:heapster": (
            rule(READ, "core", "events pods nodes namespaces"),
            rule(READ, "extensions", "deployments"),
        ),
        "system:node": node_rules(),
        "system:node-problem-detector": (
            rule("get", "core", "nodes"),
            rule("patch", "core", "nodes/status"),
            events(),
        ),
        "system:kubelet-api-admin": (
            rule(READ, "core", "nodes"),
            rule("proxy", "core", "nodes"),
            rule("*", "core", "nodes/proxy nodes/metrics nodes/stats nodes/log"),
            rule("*", "core", "nodes/pods nodes/healthz nodes/configz"),
        ),
        "system:node-bootstrapper": (rule(f"create {READ}", SIGNERS, "certificatesigningrequests"),),
        "system:auth-delegator": (
            rule("create", "authentication.k8s.io", "tokenreviews"),
            rule("create", "authorization.k8s.io", "subjectaccessreviews"),
        ),
        "system:kube-aggregator": (rule(READ, "core", "services endpoints"),),
        "system:kube-controller-manager": _manager_rules(),
        "system:kube-dns": (rule("list watch", "core", "endpoints services"),),
        "system:persistent-volume-provisioner": (
            rule(f"{READ} create delete", "core", "persistentvolumes"),
            rule(f"{READ} update", "core", "persistentvolumeclaims"),
            rule(READ, "storage.k8s.io", "storageclasses"),
            rule("watch", "core", "events"),
            events(),
        ),
        "system:volume-scheduler": (
            rule(READ_UPDATE, "core", "persistentvolumes"),
            rule(READ, "storage.k8s.io", "storageclasses"),
            rule(READ_UPDATE, "core", "persistentvolumeclaims"),
        ),
        f"{approvers}:legacy-unknown-approver": _approver("legacy-unknown"),
        f"{approvers}:kubelet-serving-approver": _approver("kubelet-serving"),
        f"{approvers}:kube-apiserver-client-approver": _approver("kube-apiserver-client"),
        f"{approvers}:kube-apiserver-client-kubelet-approver": _approver("kube-apiserver-client-kubelet"),
        "system:service-account-issuer-discovery": (
            urls(
                "get",
                "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
            ),
        ),
        f"{csr}:nodeclient": (rule("create", SIGNERS, "certificatesigningrequests/nodeclient"),),
        f"{csr}:selfnodeclient": (rule("create", SIGNERS, "certificatesigningrequests/selfnodeclient"),),
        "system:kube-scheduler": _scheduler_rules(),
        "system:node-proxier": (
            rule("list watch", "core", "endpoints services"),
            rule(READ, "core", "nodes"),
            events(),
            rule("list watch", "networking.k8s.io", "servicecidrs"),
            rule("list watch", "discovery.k8s.io", "endpointslices"),
        ),
    }


AGGREGATED: Final = {"admin": "", "edit": "admin", "view": "edit"}
"""Roles that gather others by the label `aggregate-to-NAME` -> the one that they are themselves gathered into."""

GROUPS: Final = {
    "cluster-admin": ("system:masters",),
    "system:monitoring": ("system:monitoring",),
    "system:discovery": ("system:authenticated",),
    "system:basic-user": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
    "system:service-account-issuer-discovery": ("system:serviceaccounts",),
    "system:node": (),
}
"""Cluster roles that are bound to groups."""

USERS: Final = {
    "system:node-proxier": "system:kube-proxy",
    "system:kube-controller-manager": "system:kube-controller-manager",
    "system:kube-scheduler": "system:kube-scheduler",
    "system:volume-scheduler": "system:kube-scheduler",
}
"""Cluster roles that are bound to a user."""

ACCOUNTS: Final = {"system:kube-dns": "kube-dns"}
"""Cluster roles that are bound to a service account of kube-system."""
