"""The roles of Bayplan's own components, as data: where one process does what several identities do in Kubernetes.

All controllers act as one user, and the garbage collector among them follows and changes every kind; the node simulator acts for all of its nodes at once.
See `role_table` for the notation.
"""

from __future__ import annotations

from bayplan.apiserver.bootstrap.role_table import READ, PolicyRule, events, rule, urls

CONTROLLERS = "system:kube-controller-manager"
NODE_SIMULATOR = "system:node-simulator"
SCHEDULER = "system:kube-scheduler"
DESCHEDULER = "system:descheduler"


def component_roles() -> dict[str, tuple[str, tuple[PolicyRule, ...]]]:
    """User and rules by the role's name."""
    return {
        "bayplan:controllers": (CONTROLLERS, (rule("*", "*", "*"), urls("get", "*"))),
        "bayplan:node-simulator": (NODE_SIMULATOR, _simulator_rules()),
        "bayplan:descheduler": (DESCHEDULER, _descheduler_rules()),
        "bayplan:device-taints": (SCHEDULER, (rule(READ, "resource.k8s.io", "devicetaintrules"),)),
        "bayplan:gang-scheduling": (
            SCHEDULER,
            (
                rule(READ, "scheduling.k8s.io", "podgroups compositepodgroups workloads"),
                rule("get update patch", "scheduling.k8s.io", "podgroups/status compositepodgroups/status"),
            ),
        ),
    }


def _descheduler_rules() -> tuple[PolicyRule, ...]:
    return (
        rule(READ, "core", "nodes pods namespaces persistentvolumeclaims"),
        rule(READ, "policy", "poddisruptionbudgets"),
        rule(READ, "scheduling.k8s.io", "priorityclasses"),
        rule("get list", "metrics.k8s.io", "nodes pods"),
        rule("create", "core", "pods/eviction"),
        events(),
    )


def _simulator_rules() -> tuple[PolicyRule, ...]:
    return (
        rule(f"{READ} create update patch delete", "core", "nodes"),
        rule("get update patch", "core", "nodes/status"),
        rule(f"{READ} create delete", "core", "pods"),
        rule("get update patch", "core", "pods/status"),
        rule("create", "core", "pods/eviction serviceaccounts/token"),
        rule(READ, "core", "services secrets configmaps persistentvolumeclaims persistentvolumes"),
        rule(f"{READ} create update patch delete", "coordination.k8s.io", "leases"),
        rule(f"{READ} create update patch delete", "storage.k8s.io", "csinodes"),
        rule(READ, "storage.k8s.io", "csidrivers volumeattachments"),
        rule(READ, "node.k8s.io", "runtimeclasses"),
        rule(READ, "resource.k8s.io", "resourceclaims"),
        rule(f"{READ} create update patch delete", "resource.k8s.io", "resourceslices"),
        events(),
    )
