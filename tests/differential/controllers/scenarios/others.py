"""Namespaces, quotas, owners, roles, policies, tokens, taints."""

from __future__ import annotations

from typing import Final

from tests.differential.controllers.builders import (
    daemon_set,
    deployment,
    job,
    owned_config_map,
    pod,
    service,
    set_spec,
)
from tests.differential.controllers.steps import Scenario, create, delete, end, patch, reap, rest, run

_RULES: Final = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
_POLICY: Final = {
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
        ]
    }
}
SCENARIOS: Final = (
    Scenario(
        "namespace",
        [
            [create("Namespace", "short"), create("Namespace", "held", metadata={"name": "held"})],
            [delete("ConfigMap", "kube-root-ca.crt"), delete("ServiceAccount", "default")],
            [delete("Namespace", "short")],
        ],
    ),
    Scenario(
        "finalizers",
        [
            [create("ConfigMap", "held", metadata={"finalizers": ["example.com/hold"]}, data={"a": "b"})],
            [delete("ConfigMap", "held")],
            [delete("Namespace", "finalizers")],
            [patch("ConfigMap", "held", {"metadata": {"finalizers": None}})],
        ],
    ),
    Scenario(
        "quota",
        [
            [
                create(
                    "ResourceQuota",
                    "all",
                    spec={
                        "hard": {
                            "pods": "5",
                            "requests.cpu": "1",
                            "limits.memory": "1Gi",
                            "services": "3",
                            "services.nodeports": "1",
                            "configmaps": "9",
                            "count/deployments.apps": "2",
                            "persistentvolumeclaims": "4",
                            "requests.storage": "10Gi",
                        }
                    },
                ),
                create("ResourceQuota", "best", spec={"hard": {"pods": "1"}, "scopes": ["BestEffort"]}),
                create("ResourceQuota", "ending", spec={"hard": {"pods": "1"}, "scopes": ["Terminating"]}),
            ],
            [
                pod(
                    "one",
                    containers=[
                        {"name": "c", "image": "i", "resources": {"limits": {"cpu": "200m", "memory": "100Mi"}}}
                    ],
                ),
                service(type="NodePort"),
                create(
                    "PersistentVolumeClaim",
                    "p",
                    spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                ),
            ],
            [run()],
            [end()],
            [delete("Service", "web"), delete("Pod", "one")],
            [reap()],
        ],
    ),
    Scenario(
        "owners",
        [
            [
                create("ConfigMap", "top", data={}),
            ],
            [owned_config_map("middle", "top", blocking=True)],
            [
                owned_config_map("bottom", "middle", blocking=True),
                owned_config_map("loose", "middle", blocking=False),
            ],
            [delete("ConfigMap", "top", "Foreground")],
            [create("ConfigMap", "second", data={})],
            [owned_config_map("kept", "second", blocking=False)],
            [delete("ConfigMap", "second", "Orphan")],
            [
                create(
                    "ConfigMap",
                    "absent-owner",
                    metadata={
                        "ownerReferences": [
                            {
                                "apiVersion": "v1",
                                "kind": "ConfigMap",
                                "name": "nobody",
                                "uid": "00000000-0000-0000-0000-000000000001",
                            }
                        ]
                    },
                ),
                create(
                    "ConfigMap",
                    "wrong-namespace",
                    metadata={
                        "ownerReferences": [
                            {
                                "apiVersion": "v1",
                                "kind": "Node",
                                "name": "node-0",
                                "uid": "00000000-0000-0000-0000-000000000002",
                            }
                        ]
                    },
                ),
            ],
        ],
    ),
    Scenario(
        "roles",
        [
            [
                create(
                    "ClusterRole",
                    "sum-of-roles",
                    aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"sum": "yes"}}]},
                    rules=None,
                ),
                create("ClusterRole", "part-one", metadata={"labels": {"sum": "yes"}}, rules=_RULES),
            ],
            [
                create(
                    "ClusterRole",
                    "part-two",
                    metadata={"labels": {"sum": "yes"}},
                    rules=[{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]}, *_RULES],
                )
            ],
            [delete("ClusterRole", "part-one")],
        ],
    ),
    Scenario(
        "policy-types",
        [
            [
                create(
                    "ValidatingAdmissionPolicy",
                    "typed",
                    spec={
                        **_POLICY,
                        "validations": [
                            {"expression": "object.spec.replicas > 'a'"},
                            {"expression": "object.spec.nothing == 1"},
                            {"expression": "object.spec.replicas < 5"},
                        ],
                    },
                )
            ],
            [
                create(
                    "ValidatingAdmissionPolicy",
                    "fine",
                    spec={**_POLICY, "validations": [{"expression": "object.spec.replicas < 5"}]},
                )
            ],
        ],
    ),
    Scenario(
        "tokens",
        [
            [
                create("ServiceAccount", "robot"),
                create(
                    "Secret",
                    "robot-token",
                    metadata={"annotations": {"kubernetes.io/service-account.name": "robot"}},
                    type="kubernetes.io/service-account-token",
                ),
                create(
                    "Secret",
                    "orphan-token",
                    metadata={"annotations": {"kubernetes.io/service-account.name": "nobody"}},
                    type="kubernetes.io/service-account-token",
                ),
            ],
            [delete("ServiceAccount", "robot")],
        ],
    ),
    Scenario(
        "taints",
        [
            [
                pod(
                    "tolerates",
                    tolerations=[{"key": "gone", "operator": "Exists", "effect": "NoExecute"}],
                    nodeName="node-3",
                ),
                pod(
                    "limited",
                    tolerations=[{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}],
                    nodeName="node-3",
                ),
                pod("none", nodeName="node-3"),
            ],
            [run()],
            [set_spec("Node", "node-3", taints=[{"key": "gone", "effect": "NoExecute"}])],
            [rest(4)],
            [reap()],
            [set_spec("Node", "node-3", taints=None)],
        ],
    ),
    Scenario(
        "lost-pods",
        [[pod("lost", nodeName="node-4"), pod("waits")], [run("lost")], [delete("Node", "node-4")], [rest(1)]],
    ),
    Scenario(
        "namespace-full",
        [
            [deployment(2), service(), daemon_set(), job(), create("ConfigMap", "c", data={"a": "b"})],
            [run()],
            [delete("Namespace", "namespace-full"), reap()],
            [reap()],
            [reap()],
        ],
    ),
)
