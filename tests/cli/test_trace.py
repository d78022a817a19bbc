"""`bayplan trace`: every write of a cluster in virtual time, the same for equal seeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from bayplan.cli.main import main
from bayplan.simulation.snapshots.snapshot import to_bytes
from bayplan.testing.builders import node
from tests.simulation.objects import copy_of, owned, set_of

WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "web"}]},
        },
    },
}


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(WEB))
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["trace", "--for", "20s", *arguments])


def test_who_wrote_what_and_when(manifest: str) -> None:
    result = run("--nodes", "2", "--apply", manifest, "-o", "json")
    rows = json.loads(result.stdout)
    bound = [row for row in rows if row["actor"] == "scheduler"]
    assert [row["verb"] for row in bound] == ["update", "update"]
    assert all(row["key"].startswith("core/pods/default/web-") for row in bound)
    assert [float(row["seconds"]) for row in rows] == sorted(float(row["seconds"]) for row in rows)
    assert not any("leases" in row["key"] for row in rows)
    assert "writes, digest " in result.stderr


def test_equal_seeds_give_equal_traces(manifest: str) -> None:
    first, again, other = (run("--apply", manifest, "--restless", "--seed", seed) for seed in "112")
    assert first.stdout == again.stdout != other.stdout
    assert first.stderr == again.stderr != other.stderr
    assert "coordination.k8s.io/leases" in first.stdout


def test_a_copy_of_a_cluster_goes_on(tmp_path: Path) -> None:
    web = set_of("web")
    file = tmp_path / "cluster.bayplan"
    file.write_bytes(to_bytes(copy_of(node("a"), web, owned(web, "web-1", "a", cpu="1"))))
    result = run("--cluster", str(file))
    assert result.exit_code == 0
    assert "core/nodes/a" in result.stdout


def test_a_broken_manifest_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("kind: [")
    result = run("--apply", str(file))
    assert result.exit_code == 2
    assert "broken.yaml" in result.output
