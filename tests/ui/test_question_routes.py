"""Why, fixes, what if, steps and changes, over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import apps_v1
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot, to_bytes
from bayplan.testing.builders import deployment, node
from bayplan.testing.cluster import eventually
from bayplan.ui.errors import RequestError
from bayplan.ui.questions import configuration_errors, named, simulate_arguments
from tests.simulation.objects import copy_of, owned, set_of
from tests.ui.page import Page, page_of, small_copy

JSON = {"Content-Type": "application/json"}


async def post(page: Page, path: str, body: Any, status: int = 200) -> Any:
    async with page.session.post(path, json=body) as response:
        answer = await response.json()
        assert response.status == status, answer
        return answer


@pytest.fixture
def copy_file(tmp_path: Path) -> Path:
    file = tmp_path / "copy.bayplan"
    file.write_bytes(to_bytes(small_copy()))
    return file


def test_answers_about_a_copy_are_those_of_the_command_line(copy_file: Path) -> None:
    async def whole() -> None:
        async with page_of(small_copy(), [f"--cluster={copy_file}"]) as page:
            why = await page.json("/api/why?namespace=shop&name=db")
            assert why["nodes"]["a"]["filter"]["reasons"] == ["Insufficient cpu"]
            fixes = await page.json("/api/fixes?namespace=shop&name=db")
            assert fixes["fixes"][0]["changes"][0]["kind"] == "lower-request"
            answer = await post(page, "/api/what-if", {"drain": ["a"]})
            assert answer["outcome"]["actions"] == ["drain a"]
            async with page.session.get(f"/api/report/{answer['report']}") as response:
                assert response.headers["Content-Disposition"].startswith("attachment")
                assert "sandbox" in response.headers["Content-Security-Policy"]
                assert "drain a" in await response.text()
            await page.text("/api/report/99", 404)
            assert "there is no pod nobody" in (await page.json("/api/why?namespace=shop&name=nobody", 422))["error"]
            steps = (await page.json("/api/steps?namespace=shop&name=web"))["steps"]
            assert steps[0]["title"].startswith("The pod is created")

    asyncio.run(whole())


@pytest.mark.parametrize("name", ["", "-x", "--kubeconfig=/etc/passwd", "a/b", "a b", "<b>", "a\n"])
def test_what_is_no_name_never_becomes_an_argument(name: str) -> None:
    with pytest.raises(RequestError):
        named(name)


def test_steps_become_options() -> None:
    arguments, manifest = simulate_arguments(
        {"drain": ["a", "b"], "failZones": ["z"], "scale": ["deployment/shop/web=5"], "addNodes": 2, "apply": "kind: Pod"}
    )  # fmt: skip
    assert arguments == [
        "--drain=a",
        "--drain=b",
        "--fail-zone=z",
        "--scale=deployment/shop/web=5",
        "--add-nodes=2",
        "--apply=-",
    ]
    assert manifest == b"kind: Pod"  # fmt: skip


@pytest.mark.parametrize(
    "steps",
    [
        {},
        {"drain": "a"},
        {"drain": [1]},
        {"drain": ["--html=/tmp/x"]},
        {"addNodes": "many"},
        {"addNodes": -1},
        {"apply": 3},
    ],
)
def test_steps_that_make_no_sense_are_refused(steps: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        simulate_arguments(steps)


PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins:
    score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}
"""


def even_copy() -> ClusterSnapshot:
    """Two nodes of four cpus, and four pods of half a cpu, two on each."""
    web = set_of("web", 4)
    pods = [owned(web, f"web-{number}", "ab"[number % 2], cpu="500m") for number in range(4)]
    return copy_of(node("a"), node("b"), web, *pods)


def nodes_used(outcome: dict[str, Any]) -> list[int]:
    return sorted(outcome["after"].values())


def test_another_configuration_is_compared_on_the_same_steps(tmp_path: Path) -> None:
    file = tmp_path / "copy.bayplan"
    file.write_bytes(to_bytes(even_copy()))

    async def whole() -> None:
        async with page_of(even_copy(), [f"--cluster={file}"]) as page:
            answer = await post(page, "/api/what-if", {"schedulerConfig": PACKING})
            assert answer["outcome"]["actions"] == ["place the pods of workloads anew"]
            assert nodes_used(answer["outcome"]) == [2, 2]
            assert max(nodes_used(answer["other"]["outcome"])) == 4
            reports = {answer["report"], answer["other"]["report"]}
            assert len(reports) == 2
            for number in reports:
                assert "place the pods of workloads anew" in await page.text(f"/api/report/{number}")

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("[", ["configuration"]),
        ("- x", ["configuration"]),
        ("kind: Pod", ["kind"]),
        ("parallelism: 0", ["parallelism"]),
        ("parallelism: 0\npercentageOfNodesToScore: 200", ["parallelism", "percentageOfNodesToScore"]),
        ("profiles: [{plugins: {score: {enabled: [{name: Nothing}]}}}]", ["profiles[0].plugins.score.enabled[0].name"]),
        (PACKING, []),
    ],
)
def test_errors_of_a_configuration_are_named_by_field(text: str, fields: list[str]) -> None:
    assert [one["field"] for one in configuration_errors(text)] == fields


def test_a_configuration_with_errors_is_not_played() -> None:
    async def whole() -> None:
        async with page_of(small_copy(), ["--cluster=nowhere"]) as page:
            answer = await post(page, "/api/what-if", {"schedulerConfig": "parallelism: 0", "drain": ["a"]}, 422)
            assert answer["error"] == "the scheduler configuration has errors"
            assert answer["fields"][0]["field"] == "parallelism"
            await post(page, "/api/what-if", {"schedulerConfig": 7, "drain": ["a"]}, 400)

    asyncio.run(whole())


PATCH = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}


@pytest.mark.parametrize("allowed", [True, False])
def test_a_fix_is_applied_only_if_changes_are_allowed(allowed: bool) -> None:
    async def whole() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=1, start_seconds=0.02)))
        await cluster.start()
        try:
            client = cluster.client()
            await client.create(deployment("web", 1))
            async with page_of(client, allow_changes=allowed) as page:
                change = {"kind": "Deployment", "namespace": "default", "name": "web", "patch": PATCH}
                answer = await post(page, "/api/patch", change, 200 if allowed else 403)
                found = await client.get(apps_v1.Deployment, "web", "default")
                requests = found.spec.template.spec.containers[0].resources.requests
                assert requests == ({"cpu": "1"} if allowed else {})
                if allowed:
                    assert answer == {"done": "Deployment default/web is patched"}
                    await post(page, "/api/patch", {**change, "kind": "Secret"}, 400)
                    await post(page, "/api/patch", {**change, "name": "nobody"}, 404)
                    await post(page, "/api/patch", [], 400)
                    async with page.session.post("/api/patch", data="{", headers=JSON) as response:
                        assert response.status == 400
                    async with page.session.post("/api/patch", data="{}") as response:
                        assert response.status == 415
        finally:
            await cluster.stop()

    asyncio.run(whole())


def test_the_scheduler_is_asked_where_it_can_be() -> None:
    states: list[dict[str, Any] | None] = [{"sizes": {}, "queue": [], "attempts": []}, None]

    async def state() -> dict[str, Any] | None:
        return states.pop(0)

    async def whole() -> None:
        async with page_of(small_copy(), (), state) as page:
            assert (await page.json("/api/snapshot"))["status"]["scheduler"] is True
            assert (await page.json("/api/scheduler"))["attempts"] == []
            assert "does not answer" in await page.text("/api/scheduler", 503)
        async with page_of(small_copy()) as page:
            assert (await page.json("/api/snapshot"))["status"]["scheduler"] is False
            await page.text("/api/scheduler", 404)

    asyncio.run(whole())


def test_a_copy_cannot_be_changed() -> None:
    async def whole() -> None:
        async with page_of(small_copy(), allow_changes=True) as page:
            change = {"kind": "Deployment", "namespace": "default", "name": "web", "patch": PATCH}
            assert "copy" in (await post(page, "/api/patch", change, 403))["error"]

    asyncio.run(whole())


def test_the_way_of_a_pod_of_a_live_cluster_begins_with_its_deployment() -> None:
    async def whole() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=1, start_seconds=0.02)))
        await cluster.start()
        try:
            client = cluster.client()
            await client.create(deployment("web", 1))
            async with page_of(client) as page:

                async def ready() -> bool:
                    pods = (await page.json("/api/snapshot"))["tables"]["pods"]
                    if "Running" not in pods["columns"].get("status", []):
                        return False
                    path = f"/api/steps?namespace=default&name={pods['columns']['name'][0]}"
                    steps = {step["title"]: step for step in (await page.json(path))["steps"]}
                    assert steps["Deployment web is created, admitted and stored"]["time"]
                    assert steps["Decided: a node is chosen"]["who"] == "default-scheduler"
                    assert steps["Ready"]["time"]
                    return True

                await eventually(ready)
        finally:
            await cluster.stop()

    asyncio.run(whole())
