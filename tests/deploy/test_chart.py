"""The chart of the scheduler: what it makes is accepted, and its scheduler may do what it has to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import bayplan
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.credentials import Credentials
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load
from bayplan.testing.handle import ClusterHandle

CHART = Path(__file__).parents[2] / "deploy" / "charts" / "bayplan-scheduler"
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")


def rendered(*options: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["helm", "template", "second", CHART, "--namespace", "placing", *options],
        capture_output=True,
        text=True,
        check=True,
    )
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == bayplan.__version__


def test_every_value_is_used() -> None:
    templates = "".join(each.read_text() for each in (CHART / "templates").iterdir())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert [name for name in values if f".Values.{name}" not in templates] == []
    assert [name for name in values["image"] if f".Values.image.{name}" not in templates] == []


@needs_helm
def test_it_installs_and_its_account_may_do_what_a_scheduler_does(bayplan_cluster: ClusterHandle) -> None:
    objects = rendered("--set", "profile.plugins.score.disabled[0].name=ImageLocality", "--set", "schedulerName=mine")
    (configuration,) = [each for each in objects if each["kind"] == "ConfigMap"]
    found = yaml.safe_load(configuration["data"]["configuration.yaml"])
    assert found["profiles"] == [
        {"schedulerName": "mine", "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}}}
    ]
    bayplan_cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "placing"}}, *objects)
    name = found["leaderElection"]["resourceName"]
    bayplan_cluster.eventually(
        lambda: bayplan_cluster.get("deploy", name, "placing")["status"].get("readyReplicas") == 1  # type: ignore[index]
    )

    async def token(client: Client) -> str:
        path = f"/api/v1/namespaces/placing/serviceaccounts/{name}/token"
        raw = await client.raw("POST", path, body=b'{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1"}')
        return str(yaml.safe_load(raw)["status"]["token"])

    admin = load(bayplan_cluster.kubeconfig)
    client = Client(HttpTransport(Credentials(admin.server, admin.tls, bayplan_cluster.run(token))))

    async def scheduling(_: Client) -> None:
        try:
            await client.list(core_v1.Node)
            await client.list(core_v1.PersistentVolumeClaim)
            for group in ("scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1", "scheduling.k8s.io/v1beta1"):
                with pytest.raises(ApiError) as refused:  # allowed, but not there
                    await client.raw("GET", f"/apis/{group}/podgroups")
                assert refused.value.code == 404
        finally:
            await client.close()

    bayplan_cluster.run(scheduling)


@needs_helm
def test_helm_installs_changes_and_takes_it_away(bayplan_cluster: ClusterHandle, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(bayplan_cluster.kubeconfig)}

    def helm(*arguments: str) -> str:
        done = subprocess.run(
            ["helm", *arguments, "--namespace", "placing"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def replicas() -> list[int]:
        return [one["status"]["availableReplicas"] for one in bayplan_cluster.list("deployments", "placing")]

    chart = str(CHART)
    helm("install", "second", chart, "--create-namespace", "--wait", "--timeout", "30s")
    assert replicas() == [1]
    helm("upgrade", "second", chart, "--set", "replicas=2", "--wait", "--timeout", "30s")
    assert replicas() == [2]
    helm("rollback", "second", "1", "--wait", "--timeout", "30s")
    bayplan_cluster.eventually(lambda: replicas() == [1])
    (release,) = json.loads(helm("list", "--output", "json"))
    assert (release["name"], release["revision"], release["status"]) == ("second", "3", "deployed")
    helm("uninstall", "second", "--wait", "--timeout", "30s")
    assert bayplan_cluster.list("deployments", "placing") == []
