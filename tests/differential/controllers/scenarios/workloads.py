"""Deployments, ReplicaSets, StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import Final

from tests.differential.controllers.builders import (
    claim_templates,
    daemon_set,
    deployment,
    pod,
    service,
    set_image,
    set_spec,
    stateful_set,
)
from tests.differential.controllers.steps import (
    Scenario,
    create,
    delete,
    end,
    patch,
    reap,
    rest,
    run,
    selecting,
    template,
    unready,
)

_ROLLING: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
SCENARIOS: Final = (
    Scenario(
        "deployment-rolling",
        [
            [deployment()],
            [run()],
            [set_image("Deployment", "web", "image:2")],
            [run(most=1)],
            [reap()],
            [run(most=1)],
            [reap()],
            [run(most=1)],
            [reap()],
        ],
    ),
    Scenario(
        "deployment-careful",
        [
            [deployment(4, strategy=_ROLLING)],
            [run(most=2)],
            [run()],
            [set_image("Deployment", "web", "image:2")],
            [run(most=1)],
            [reap()],
            [run(most=1)],
            [set_image("Deployment", "web", "image:1")],
            [run(most=1)],
            [reap()],
        ],
    ),
    Scenario(
        "deployment-recreate",
        [
            [deployment(2, strategy={"type": "Recreate"})],
            [run()],
            [set_image("Deployment", "web", "image:2")],
            [reap()],
            [run()],
            [set_spec("Deployment", "web", replicas=0)],
            [reap()],
        ],
    ),
    Scenario(
        "deployment-paused",
        [
            [deployment(2)],
            [run()],
            [set_spec("Deployment", "web", paused=True)],
            [set_image("Deployment", "web", "image:2"), set_spec("Deployment", "web", replicas=4)],
            [run()],
            [set_spec("Deployment", "web", paused=None)],
            [run(most=1)],
            [reap()],
        ],
    ),
    Scenario(
        "deployment-proportional",
        [
            [deployment(10, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})],
            [run()],
            [set_image("Deployment", "web", "image:2")],
            [run(most=1)],
            [run(most=1)],
            [set_spec("Deployment", "web", replicas=20)],
            [run(most=1)],
            [set_spec("Deployment", "web", replicas=7)],
            [reap()],
            [run(most=1)],
        ],
    ),
    Scenario(
        "deployment-deadline",
        [
            [deployment(2, progressDeadlineSeconds=4, minReadySeconds=2)],
            [rest(6)],
            [run()],
            [rest(4)],
            [set_image("Deployment", "web", "none")],
            [rest(6)],
        ],
    ),
    Scenario(
        "deployment-history",
        [
            [deployment(1, revisionHistoryLimit=1)],
            [run()],
            [set_image("Deployment", "web", "image:2")],
            [run(), reap()],
            [set_image("Deployment", "web", "image:3")],
            [run(), reap()],
            [run(), reap()],
            [delete("Deployment", "web", "Foreground")],
            [reap()],
        ],
    ),
    Scenario(
        "deployment-quota",
        [
            [create("ResourceQuota", "few", spec={"hard": {"pods": "2", "requests.cpu": "1"}})],
            [deployment(4)],
            [run()],
            [set_spec("Deployment", "web", replicas=1)],
            [reap()],
        ],
    ),
    Scenario(
        "deployment-orphan",
        [
            [deployment(2)],
            [run()],
            [delete("Deployment", "web", "Orphan")],
            [deployment(2)],
            [delete("Deployment", "web")],
            [reap()],
        ],
    ),
    Scenario(
        "deployment-percent",
        [
            [
                deployment(
                    5,
                    strategy={
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "30%"},
                    },
                )
            ],
            [run()],
            [set_image("Deployment", "web", "image:2")],
            [run(most=1)],
            [unready(most=1)],
            [reap()],
            [run(most=1)],
            [run(most=1), reap()],
        ],
    ),
    Scenario(
        "deployment-zero",
        [
            [deployment(0)],
            [set_image("Deployment", "web", "image:2")],
            [set_spec("Deployment", "web", replicas=1)],
            [run()],
            [unready()],
            [delete("Deployment", "web", "Background")],
            [reap()],
        ],
    ),
    Scenario(
        "replicaset",
        [
            [pod("mine"), pod("ended", metadata={"labels": {"app": "web", "also": "yes"}})],
            [
                create(
                    "ReplicaSet",
                    "web",
                    spec={"replicas": 3, "selector": selecting("web"), "template": template("web")},
                )
            ],
            [run()],
            [patch("Pod", "mine", {"metadata": {"labels": {"app": "other"}}})],
            [end(most=1, code=1)],
            [run()],
            [set_spec("ReplicaSet", "web", replicas=1)],
            [reap()],
            [set_spec("ReplicaSet", "web", replicas=2, minReadySeconds=2)],
            [run()],
            [rest(3)],
            [delete("ReplicaSet", "web", "Orphan")],
        ],
    ),
    Scenario(
        "replicationcontroller",
        [
            [
                create(
                    "ReplicationController",
                    "rc",
                    spec={"replicas": 2, "selector": {"app": "rc"}, "template": template("rc")},
                )
            ],
            [run()],
            [end(most=1, code=3)],
            [set_spec("ReplicationController", "rc", replicas=0)],
            [reap()],
            [delete("ReplicationController", "rc", "Foreground")],
        ],
    ),
    Scenario(
        "replicaset-refused",
        [
            [
                create(
                    "ReplicaSet",
                    "web",
                    spec={
                        "replicas": 2,
                        "selector": selecting("web"),
                        "template": template("web", serviceAccountName="missing"),
                    },
                )
            ],
            [rest(3)],
        ],
    ),
    Scenario(
        "statefulset",
        [
            [service("db", "db", clusterIP="None"), stateful_set(volumeClaimTemplates=claim_templates())],
            [run()],
            [run()],
            [run()],
            [set_image("StatefulSet", "db", "image:2")],
            [reap()],
            [run()],
            [reap()],
            [run()],
            [set_spec("StatefulSet", "db", replicas=1)],
            [reap()],
            [reap()],
        ],
    ),
    Scenario(
        "statefulset-parallel",
        [
            [stateful_set(podManagementPolicy="Parallel", ordinals={"start": 5}, minReadySeconds=2)],
            [run()],
            [rest(3)],
            [set_image("StatefulSet", "db", "image:2")],
            [reap()],
            [run()],
            [set_spec("StatefulSet", "db", replicas=0)],
            [reap()],
            [delete("StatefulSet", "db", "Foreground")],
        ],
    ),
    Scenario(
        "statefulset-partition",
        [
            [
                stateful_set(
                    podManagementPolicy="Parallel",
                    updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
                )
            ],
            [run()],
            [set_image("StatefulSet", "db", "image:2")],
            [reap()],
            [run()],
            [patch("StatefulSet", "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})],
            [reap()],
            [run()],
            [reap()],
            [run()],
        ],
    ),
    Scenario(
        "statefulset-retention",
        [
            [
                stateful_set(
                    2,
                    volumeClaimTemplates=claim_templates(),
                    persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"},
                )
            ],
            [run()],
            [run()],
            [set_spec("StatefulSet", "db", replicas=1)],
            [reap()],
            [delete("StatefulSet", "db")],
            [reap()],
        ],
    ),
    Scenario(
        "statefulset-failing",
        [
            [stateful_set(2)],
            [run()],
            [run()],
            [end("db-0", code=1)],
            [reap()],
            [run()],
            [set_spec("StatefulSet", "db", updateStrategy={"type": "OnDelete", "rollingUpdate": None})],
            [set_image("StatefulSet", "db", "image:3")],
            [delete("Pod", "db-1")],
            [reap()],
            [run()],
            [unready("db-0")],
        ],
    ),
    Scenario(
        "statefulset-max-unavailable",
        [
            [
                stateful_set(
                    4,
                    podManagementPolicy="Parallel",
                    revisionHistoryLimit=0,
                    updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
                )
            ],
            [run()],
            [set_image("StatefulSet", "db", "image:2")],
            [reap()],
            [run()],
            [reap()],
            [run()],
        ],
    ),
    Scenario(
        "daemonset",
        [
            [daemon_set()],
            [run()],
            [set_image("DaemonSet", "agent", "image:2")],
            [reap()],
            [run()],
            [reap()],
            [run()],
            [patch("DaemonSet", "agent", {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}})],
            [reap()],
            [run()],
            [delete("DaemonSet", "agent", "Foreground")],
            [reap()],
        ],
    ),
    Scenario(
        "daemonset-surge",
        [
            [
                daemon_set(
                    updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                    minReadySeconds=1,
                )
            ],
            [run()],
            [rest(2)],
            [set_image("DaemonSet", "agent", "image:2")],
            [run()],
            [rest(2), reap()],
            [run()],
            [rest(2), reap()],
        ],
    ),
    Scenario(
        "daemonset-on-delete",
        [
            [daemon_set(updateStrategy={"type": "OnDelete"})],
            [run()],
            [end(most=1, code=1)],
            [reap()],
            [run()],
            [set_image("DaemonSet", "agent", "image:2")],
            [unready(most=1)],
        ],
    ),
    Scenario(
        "statefulset-orphans",
        [
            [stateful_set(2, podManagementPolicy="Parallel")],
            [run()],
            [delete("StatefulSet", "db", "Orphan")],
            [stateful_set(3, podManagementPolicy="Parallel")],
            [run()],
            [delete("StatefulSet", "db", "Background")],
            [reap()],
        ],
    ),
    Scenario(
        "daemonset-nodes",
        [
            [daemon_set(template=template("agent", nodeSelector={"extra": "yes"}))],
            [patch("Node", "node-0", {"metadata": {"labels": {"extra": "yes"}}})],
            [run()],
            [patch("Node", "node-0", {"metadata": {"labels": {"extra": None}}})],
            [reap()],
            [set_spec("DaemonSet", "agent", template={"spec": {"nodeSelector": None}})],
            [run()],
            [delete("DaemonSet", "agent", "Orphan")],
            [daemon_set()],
            [delete("DaemonSet", "agent")],
            [reap()],
        ],
    ),
    Scenario(
        "deployment-selectors",
        [
            [
                deployment(2),
                create(
                    "ReplicaSet",
                    "web-mine",
                    spec={"replicas": 1, "selector": selecting("web"), "template": template("web")},
                ),
            ],
            [run()],
            [patch("ReplicaSet", "web-mine", {"metadata": {"labels": {"app": "web"}}})],
            [reap()],
            [set_spec("Deployment", "web", replicas=1, revisionHistoryLimit=0, minReadySeconds=1)],
            [reap()],
            [patch("Deployment", "web", {"metadata": {"annotations": {"note": "x"}, "labels": {"a": "b"}}})],
        ],
    ),
)
