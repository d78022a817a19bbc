"""Operators of other people, tested end to end with the fixtures: one written with kopf, one with the `kubernetes` client."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from kubernetes import config

from bayplan.apiserver.reads.watching import Watcher
from bayplan.testing.handle import ClusterHandle
from examples.operators.restarter import ANNOTATION, STAMP, follow

OPERATORS = Path(__file__).parents[2] / "examples" / "operators"


def namespace(name: str, size: str) -> dict[str, Any]:
    """A namespace of a team."""
    metadata = {"name": name, "labels": {"team": name}, "annotations": {"example.com/size": size}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def pods_of(cluster: ClusterHandle, team: str) -> str | None:
    """What the quota of a team allows."""
    quota = cluster.get("resourcequota", "team", team)
    return None if quota is None else str(quota["spec"]["hard"]["pods"])


def test_an_operator_written_with_kopf(bayplan_cluster: ClusterHandle, tmp_path: Path) -> None:
    bayplan_cluster.apply(namespace("before", "small"))
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--all-namespaces",
        "--standalone",
        str(OPERATORS / "quota_operator.py"),
    ]
    environment = {**os.environ, "KUBECONFIG": str(bayplan_cluster.kubeconfig)}
    log = tmp_path / "operator.log"
    with log.open("w") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as operator:
        try:
            bayplan_cluster.eventually(lambda: pods_of(bayplan_cluster, "before") == "10")
            bayplan_cluster.faults.fail_next("resourcequotas", code=500, verbs=("create",))
            bayplan_cluster.faults.drop_watches("namespaces")
            bayplan_cluster.apply(namespace("after", "large"))
            bayplan_cluster.eventually(lambda: "create resourcequotas" in bayplan_cluster.faults.committed)
            bayplan_cluster.apply(namespace("before", "large"))
            bayplan_cluster.eventually(lambda: pods_of(bayplan_cluster, "before") == "100")
        finally:
            operator.terminate()
    assert "(500)" in log.read_text()


def test_an_operator_written_with_the_kubernetes_client(bayplan_cluster: ClusterHandle) -> None:
    bayplan_cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "annotations": {ANNOTATION: "settings"}},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "nginx"}]},
                },
            },
        }
    )
    assert bayplan_cluster.eventually(
        lambda: bayplan_cluster.get("configmap", "kube-root-ca.crt")
    )  # no change to act on
    connection = config.new_client_from_config(str(bayplan_cluster.kubeconfig))
    operator = threading.Thread(target=follow, args=(connection, "default", 2))
    components = _watchers(bayplan_cluster)
    bayplan_cluster.faults.expire_next_watch("configmaps")
    operator.start()
    bayplan_cluster.eventually(lambda: "watch configmaps" in bayplan_cluster.faults.committed)
    bayplan_cluster.eventually(lambda: bayplan_cluster.faults.pending == 0)

    versions = set()
    for value in ("one", "two"):
        assert bayplan_cluster.eventually(lambda: _watchers(bayplan_cluster) - components)
        settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"key": value}}
        bayplan_cluster.apply(settings)
        found = bayplan_cluster.get("configmap", "settings")
        assert found is not None
        version = found["metadata"]["resourceVersion"]
        versions.add(version)

        def restarted(version: str = version) -> bool:
            pods = bayplan_cluster.list("pods", "default", labels="app=web")
            stamps = [pod["metadata"].get("annotations", {}).get(STAMP) for pod in pods]
            return stamps == [version, version]

        assert bayplan_cluster.eventually(restarted)
    operator.join(timeout=30)
    assert not operator.is_alive()
    assert len(versions) == 2


def _watchers(cluster: ClusterHandle) -> set[Watcher]:
    """Who watches ConfigMaps."""
    context = cluster.cluster.api.context
    return set(context.objects.cache(context.kinds.named("configmap")).watchers)
