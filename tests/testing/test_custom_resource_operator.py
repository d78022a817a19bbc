"""An operator of a custom resource, tested end to end with the fixtures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from bayplan.testing.handle import ClusterHandle

GREETINGS = "/apis/example.com/v1/namespaces/default/greetings"
OPERATORS = Path(__file__).parents[2] / "examples" / "operators"


def greeting(name: str, /, **spec: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": metadata, "spec": spec}


def texts(cluster: ClusterHandle, name: str) -> tuple[str, str]:
    """What the ConfigMap and the status say; "" where nothing is said."""
    greets, said = cluster.get("configmap", name), cluster.get("greeting", name)
    status = {} if said is None else said.get("status", {})
    return "" if greets is None else greets["data"]["text"], status.get("text", "")


def test_greetings_are_said_kept_and_taken_back(bayplan_cluster: ClusterHandle, tmp_path: Path) -> None:
    cluster = bayplan_cluster
    cluster.apply(yaml.safe_load((OPERATORS / "greetings.yaml").read_text()))
    cluster.eventually(lambda: _is_established(cluster))
    cluster.apply(greeting("before", name="Ann"))
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--namespace=default",
        "--standalone",
        str(OPERATORS / "greeting_operator.py"),
    ]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    log = tmp_path / "operator.log"
    with log.open("w") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as operator:
        try:
            cluster.eventually(lambda: texts(cluster, "before") == ("Hello, Ann", "Hello, Ann"))
            cluster.faults.drop_watches("greetings")
            cluster.apply(greeting("after", name="Bo", language="fr"))
            cluster.eventually(lambda: texts(cluster, "after") == ("Bonjour, Bo", "Bonjour, Bo"))
            cluster.apply(greeting("before", name="Cy"))
            cluster.eventually(lambda: texts(cluster, "before") == ("Hello, Cy", "Hello, Cy"))
            cluster.run(lambda client: client.raw("DELETE", f"{GREETINGS}/before"))
            cluster.eventually(lambda: cluster.get("configmap", "before") is None)
        finally:
            operator.terminate()


def _is_established(cluster: ClusterHandle) -> bool:
    found = cluster.get("customresourcedefinition", "greetings.example.com")
    conditions = [] if found is None else found.get("status", {}).get("conditions", [])
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
