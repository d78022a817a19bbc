"""VerticalPodAutoscaler objects on a live cluster: recommended in their status, applied, and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from bayplan.api.types import apps_v1
from bayplan.cluster.manifests.apply import apply_manifests
from bayplan.controllers.autoscaling.vpa_annotations import MODE, RECOMMENDATION
from bayplan.testing.builders import deployment
from bayplan.testing.cluster import LiveCluster
from tests.integration.autoscaling.test_vertical import USAGE, all_request, live, told

FILE = Path(__file__).parents[3] / "deploy" / "vertical-pod-autoscaler.yaml"
PATH = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers"
ONLY_CPU = {
    "containerName": "*",
    "controlledResources": ["cpu"],
    "minAllowed": {"cpu": "300m"},
    "maxAllowed": {"cpu": "300m"},
}


def autoscaler(mode: str, *, kind: str = "Deployment", **policy: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"},
            "updatePolicy": {"updateMode": mode},
            "resourcePolicy": {"containerPolicies": [{**ONLY_CPU, **policy}]},
        },
    }


async def put(cluster: LiveCluster, *trees: dict[str, Any]) -> None:
    for tree in trees:
        await apply_manifests(cluster.client, [(FILE, tree)])


async def deploy(cluster: LiveCluster, **annotations: str) -> None:
    await put(cluster, yaml.safe_load(FILE.read_text()))
    web = deployment("web", 2, cpu="100m", meta={"annotations": annotations}, pod_meta={"annotations": USAGE})
    await cluster.client.create(web)
    await cluster.rolled_out("web", 2)


async def status(cluster: LiveCluster) -> dict[str, Any]:
    return dict(json.loads(await cluster.client.raw("GET", f"{PATH}/web")).get("status") or {})


async def condition(cluster: LiveCluster, kind: str) -> dict[str, Any] | None:
    found = [one for one in (await status(cluster)).get("conditions", ()) if one["type"] == kind]
    return found[0] if found else None


async def target(cluster: LiveCluster) -> dict[str, str]:
    found = (await status(cluster)).get("recommendation", {}).get("containerRecommendations", [])
    return dict(found[0]["target"]) if found else {}


def test_off_only_recommends() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await deploy(cluster)
        await put(cluster, autoscaler("Off", maxAllowed={"cpu": "2"}))
        found = await cluster.eventually(lambda: target(cluster))
        assert set(found) == {"cpu"}
        assert 460 <= int(found["cpu"].removesuffix("m")) <= 500
        provided = await condition(cluster, "RecommendationProvided")
        assert provided is not None
        assert provided["status"] == "True"
        assert await all_request(cluster, "100m")

    live(scenario)


def test_pods_get_what_they_need_while_they_run() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await deploy(cluster)
        before = {pod.metadata.uid for pod in await cluster.pods(app="web")}
        await put(cluster, autoscaler("InPlaceOrRecreate"))
        await cluster.eventually(lambda: all_request(cluster, "300m"))
        assert {pod.metadata.uid for pod in await cluster.pods(app="web")} == before

    live(scenario)


def test_pods_are_evicted_for_what_they_need() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await deploy(cluster)
        await put(cluster, autoscaler("Off"))
        await cluster.eventually(lambda: target(cluster))
        before = {pod.metadata.uid for pod in await cluster.pods(app="web")}
        await put(cluster, autoscaler("Auto"))
        await cluster.eventually(lambda: all_request(cluster, "300m"), 20.0)
        assert not before & {pod.metadata.uid for pod in await cluster.pods(app="web")}

    live(scenario)


def test_an_autoscaler_goes_before_annotations() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await deploy(cluster)
        await put(cluster, autoscaler("Off"))
        await cluster.eventually(lambda: target(cluster))
        mode = {"metadata": {"annotations": {MODE: "InPlaceOrRecreate"}}}
        await cluster.client.patch(apps_v1.Deployment, "web", "default", mode)
        await put(cluster, autoscaler("Off", maxAllowed={"cpu": "350m"}, minAllowed={"cpu": "350m"}))
        await cluster.eventually(lambda: _is(cluster, {"cpu": "350m"}))
        assert await all_request(cluster, "100m")
        found = await cluster.client.get(apps_v1.Deployment, "web", "default")
        assert RECOMMENDATION not in found.metadata.annotations
        await cluster.client.raw("DELETE", f"{PATH}/web")

        async def is_by_annotation() -> bool:
            found = await cluster.client.get(apps_v1.Deployment, "web", "default")
            return RECOMMENDATION in found.metadata.annotations

        await cluster.eventually(is_by_annotation)

    live(scenario)


async def _is(cluster: LiveCluster, amounts: dict[str, str]) -> bool:
    return await target(cluster) == amounts


def test_what_cannot_be_scaled_is_told() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        await put(cluster, yaml.safe_load(FILE.read_text()), autoscaler("Off", kind="ReplicaSet"))
        found = await cluster.eventually(lambda: condition(cluster, "ConfigUnsupported"))
        assert found is not None
        assert found["message"].startswith(
            "spec.targetRef: 'ReplicaSet' of 'apps/v1' is not one of DaemonSet, Deployment"
        )
        await put(cluster, autoscaler("Off"))

        async def is_missing() -> bool:
            found = await condition(cluster, "ConfigUnsupported")
            return found is not None and found["message"].endswith("Deployment default/web does not exist")

        await cluster.eventually(is_missing)
        await cluster.client.create(deployment("web", 1, cpu="100m"))
        await put(cluster, autoscaler("Off", minAllowed={"cpu": "lots"}))

        async def is_malformed() -> bool:
            found = await condition(cluster, "ConfigUnsupported")
            return found is not None and "containerPolicies[0].minAllowed.cpu" in found["message"]

        await cluster.eventually(is_malformed)
        [one] = await cluster.eventually(lambda: told(cluster, "InvalidVerticalAutoscaling"))
        assert one.involved_object.kind == "VerticalPodAutoscaler"

    live(scenario)
