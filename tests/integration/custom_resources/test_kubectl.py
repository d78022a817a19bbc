"""Real kubectl and custom resources: as people use the definitions that operators bring."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import LiveCluster

pytestmark = pytest.mark.xdist_group("lone-server")
_VERSIONS = ("1.27", "1.33")
STATUS = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}
SPEC = {
    "type": "object",
    "description": "What the backup should be.",
    "required": ["schedule"],
    "properties": {
        "schedule": {"type": "string", "description": "When to run, as cron says it.", "pattern": r"^(\S+ ){4}\S+$"},
        "replicas": {"type": "integer", "default": 1, "minimum": 0},
        "target": {
            "type": "object",
            "description": "Where it goes.",
            "properties": {"bucket": {"type": "string", "description": "The name of the bucket."}, "retries": {"type": "integer"}},
        },
    },
}  # fmt: skip


def _binaries() -> list[str]:
    """The oldest and the newest kubectl that lie beside the one on the path."""
    found = shutil.which("kubectl")
    if found is None:
        return []
    real = Path(found).resolve()
    beside = [real.with_name(f"kubectl.{version}") for version in _VERSIONS]
    return [str(one) for one in beside if one.exists()] or [str(real)]


def definition(group: str) -> dict[str, Any]:
    """Backups, in a group of the test's own."""
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "description": "A backup.", "properties": {"spec": SPEC, "status": STATUS}}},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [{"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"}],
    }  # fmt: skip
    names = {"plural": "backups", "singular": "backup", "kind": "Backup", "shortNames": ["bk"], "categories": ["saved"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"backups.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.mark.parametrize("binary", _binaries() or [None], ids=lambda one: re.sub(r".*/", "", one or "none"))
def test_backups_are_defined_explained_applied_scaled_and_deleted(
    lone_server: LiveCluster, tmp_path: Path, binary: str | None
) -> None:
    if binary is None:
        pytest.skip("no kubectl on the path")
    name = Path(binary).name.replace(".", "-")
    group, namespace = f"{name}.example.com", f"backups-{name}"
    manifest, backup = tmp_path / "definition.yaml", tmp_path / "backup.yaml"
    manifest.write_text(yaml.safe_dump(definition(group)))

    def kubectl(*arguments: str, check: bool = True) -> str:
        home = str(tmp_path)  # what kubectl remembers of other servers stays out of it
        return lone_server.kubectl(binary, f"--cache-dir={home}", *arguments, check=check)

    def write(**spec: Any) -> None:
        tree = {"apiVersion": f"{group}/v1", "kind": "Backup", "metadata": {"name": "daily", "namespace": namespace}}
        backup.write_text(yaml.safe_dump({**tree, "spec": spec}))

    kubectl("create", "namespace", namespace)
    assert "created" in kubectl("apply", "-f", str(manifest))
    kubectl("wait", "--for=condition=Established", f"crd/backups.{group}", "--timeout=10s")
    assert "The name of the bucket." in kubectl("explain", f"backups.{group}.spec.target.bucket")
    assert "When to run, as cron says it." in kubectl("explain", f"backups.{group}.spec")

    write(schedule="0 0 * * *", target={"bucket": "b"}, sched="typo")
    refused = kubectl("apply", "--validate=strict", "-f", str(backup), check=False)
    assert re.search(r'unknown field "spec\.sched"', refused)
    write(schedule="never")
    assert "should match" in kubectl("apply", "-f", str(backup), check=False)
    write(schedule="0 0 * * *", target={"bucket": "b"})
    assert "created" in kubectl("apply", "--validate=strict", "-f", str(backup))
    assert "unchanged" in kubectl("apply", "--validate=strict", "-f", str(backup))
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", str(backup), "--force-conflicts")
    write(schedule="0 1 * * *", target={"bucket": "c"})
    assert "0 1 * * *" in kubectl("diff", "-f", str(backup), check=False)
    assert "configured" in kubectl("apply", "-f", str(backup))

    where = ("-n", namespace)
    table = kubectl(*where, "get", "bk").split("\n")
    assert table[0].split() == ["NAME", "SCHEDULE"]
    assert table[1].split() == ["daily", "0", "1", "*", "*", "*"]
    assert f"backup.{group}/daily" in kubectl(*where, "get", "saved", "-o", "name")
    assert "bk" in kubectl("api-resources", f"--api-group={group}", "--no-headers")
    kubectl(*where, "scale", f"backups.{group}/daily", "--replicas=3")
    kubectl(
        *where,
        "patch",
        f"backups.{group}",
        "daily",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"replicas":3}}',
    )
    found = json.loads(kubectl(*where, "get", f"backups.{group}", "daily", "-o", "json"))
    assert (found["spec"]["replicas"], found["status"], found["metadata"]["generation"]) == (3, {"replicas": 3}, 3)
    assert "Bucket:" in kubectl(*where, "describe", f"backups.{group}", "daily")
    kubectl(*where, "label", f"backups.{group}", "daily", "a=b")
    kubectl(*where, "wait", "--for=jsonpath={.status.replicas}=3", f"backups.{group}/daily", "--timeout=5s")

    kubectl("delete", "-f", str(manifest), "--timeout=20s")
    gone = kubectl(*where, "get", f"backups.{group}", check=False)
    assert "the server doesn't have a resource type" in gone or "could not find the requested resource" in gone
