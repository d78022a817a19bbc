"""The official JavaScript client: lists, informers, errors, server-side apply, logs, commands, scales, metrics."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.stages.kwok_files import read_files
from bayplan.testing.handle import ClusterHandle

HERE = Path(__file__).parent
SHELLS = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {name: shells}
spec: {execs: [{local: {}}]}
"""


@pytest.fixture
def answering(tmp_path: Path, request: pytest.FixtureRequest) -> ClusterHandle:
    """A cluster whose pods run commands."""
    (tmp_path / "shells.yaml").write_text(SHELLS)
    answers = read_files((tmp_path / "shells.yaml",)).answers
    settings = ClusterSettings(nodes=SimulatorSettings(nodes=2, answers=answers))
    request.node.add_marker(pytest.mark.bayplan(settings=settings))
    handle: ClusterHandle = request.getfixturevalue("bayplan_cluster")
    return handle


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(
    not (HERE / "node_modules").exists(), reason="the client is not installed: npm ci --prefix tests/javascript"
)
def test_a_program_works_as_with_any_cluster(answering: ClusterHandle) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "KUBECONFIG": str(answering.kubeconfig)}
    done = subprocess.run(
        ["node", "client.js"], cwd=HERE, env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    log = seen.pop("log")
    assert seen == {
        "nodes": ["node-1", "node-2"],
        "events": ["add 1", "update 2", "delete 2"],
        "twice": "409 AlreadyExists",
        "manager": "javascript",
        "pods": ["Running", "Running"],
        "exec": ["hello\n", "3"],
        "usage": 2,
    }
    assert "image nginx, which runs no program" in log
