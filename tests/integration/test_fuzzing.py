"""A short run of `make fuzz`: a whole cluster takes whatever comes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.leftovers import Leftovers
from tests.fuzz.target import Cluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a network namespace, so that nothing leaves the machine")
def test_a_cluster_survives_requests_that_make_no_sense() -> None:
    arguments = [sys.executable, "-m", "tests.fuzz", "--seconds", "20", "--seed", "1"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-5_000:]
    assert "nothing found" in done.stdout
    sent = next(line for line in done.stdout.splitlines() if " requests: " in line)
    assert int(sent.split()[0]) > 1_000, sent


_GROUP = "fuzz.example.com"
_SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
_MADE: list[tuple[str, dict[str, object]]] = [
    ("/api/v1/namespaces", {"metadata": {"name": "own"}}),
    ("/api/v1/namespaces/own/configmaps", {"metadata": {"name": "held", "finalizers": ["example.com/nobody"]}}),
    ("/api/v1/nodes", {"metadata": {"name": "a.node", "finalizers": ["example.com/nobody"]}}),
    (
        "/apis/apps/v1/namespaces/default/deployments",
        {
            "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        },
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": f"things.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "scope": "Cluster",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": _SCHEMA}],
            },
        },
    ),
]


def test_what_a_run_has_made_is_deleted_whatever_holds_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1)
    try:
        target, leftovers = cluster.address, Leftovers(cluster.address)
        for path, body in _MADE:
            assert "uid" in leftovers.ask("POST", path, json.dumps(body).encode()).get("metadata", {}), path
        assert set(Leftovers(target).before) > set(leftovers.before)
        assert leftovers.delete() == []
        assert set(Leftovers(target).before) == set(leftovers.before)
    finally:
        cluster.stop()
