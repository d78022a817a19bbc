"""Questions to the scheduler of a running cluster: through its API server, to a scheduler that runs alone, and from the command line."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import bayplan
from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1, rbac_v1, scheduling_v1
from bayplan.client import Client
from bayplan.client.credentials import Credentials
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load
from bayplan.client.reviews import AccessReviews
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.processes.answer_process import MANY
from bayplan.cluster.questions.asking import AskError, ask_scheduler
from bayplan.cluster.questions.what_if_page import MOST_BYTES, PATH, WhatIfPage
from bayplan.cluster.settings import ClusterSettings
from bayplan.cluster.standalone import HealthServer
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.scheduler.service import SchedulerService
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.cluster import eventually
from tests.cluster.serving import running, until

BAYPLAN = Path(sys.executable).parent / "bayplan"
Tree = dict[str, Any]


def pod(name: str, cpu: str = "1", **spec: Any) -> Tree:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def deployment(replicas: int, cpu: str = "1") -> Tree:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", cpu)["spec"]},
        },
    }


async def has_account(cluster: Cluster) -> None:
    await until(lambda: cluster.api.context.find("ServiceAccount", "default", "default") is not None)


def in_cluster(test: Callable[[Cluster, Client], Awaitable[None]], **settings: Any) -> None:
    """Run a test in a cluster of two nodes of 4 cores, in one process."""

    async def run() -> None:
        async with running(ClusterSettings(nodes=SimulatorSettings(nodes=2), **settings)) as cluster:
            await has_account(cluster)
            client = cluster.client()
            await eventually(lambda: _knows_nodes(client), within=30)
            await test(cluster, client)

    asyncio.run(run())


async def _knows_nodes(client: Client) -> bool:
    """Whether the scheduler has seen both nodes ready."""
    try:
        found = await ask_scheduler(client, [pod("probe", "10m")])
    except AskError:
        return False
    return bool(found.answer["pods"][0].get("feasible") == 2)


def test_the_scheduler_of_a_cluster_answers_through_its_api_server_and_changes_nothing() -> None:
    async def test(cluster: Cluster, client: Client) -> None:
        before = cluster.api.context.objects.revision
        asked = await ask_scheduler(client, [deployment(5), pod("big", "64")])
        assert [one["scheduled"] for one in asked.answer["pods"]] == [True] * 5 + [False]
        assert {one["node"] for one in asked.answer["pods"][:5]} == {"node-1", "node-2"}
        assert "2 Insufficient cpu" in asked.answer["pods"][5]["message"]
        assert not (await client.list(core_v1.Pod)).items
        assert before <= cluster.api.context.objects.revision
        document = json.loads(await client.raw("GET", "/bayplan/what-if"))
        assert list(document["paths"]) == ["/bayplan/what-if"]
        with pytest.raises(AskError, match="v1 Service makes no pods"):
            await ask_scheduler(client, [{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}}])
        with pytest.raises(ApiError) as refused:
            await client.raw("PUT", "/bayplan/what-if", {}, b"{}")
        assert refused.value.code == 405

    in_cluster(test)


def test_only_who_may_post_to_the_path_asks() -> None:
    async def test(cluster: Cluster, client: Client) -> None:
        alice = cluster.client("alice", ())
        with pytest.raises(AskError, match='User "alice" cannot post path "/bayplan/what-if"'):
            await ask_scheduler(alice, [pod("new")])
        await _allow(client, "/bayplan/what-if", "alice")
        asked = await ask_scheduler(alice, [pod("new")])
        assert asked.answer["placed"] == 1
        assert asked.notes, "who may not create pods is told that the API server was not asked"

    in_cluster(test)


async def _allow(client: Client, path: str, user: str) -> None:
    rule = rbac_v1.PolicyRule(non_resource_urls=(path,), verbs=("post",))
    await client.create(rbac_v1.ClusterRole(metadata=meta_v1.ObjectMeta(name="asks"), rules=(rule,)))
    subject = rbac_v1.Subject(kind="User", name=user, api_group="rbac.authorization.k8s.io")
    reference = rbac_v1.RoleRef(kind="ClusterRole", name="asks", api_group="rbac.authorization.k8s.io")
    await client.create(
        rbac_v1.ClusterRoleBinding(metadata=meta_v1.ObjectMeta(name="asks"), subjects=(subject,), role_ref=reference)
    )


def test_pods_are_decided_about_as_the_api_server_would_make_them() -> None:
    async def test(_: Cluster, client: Client) -> None:
        limits = core_v1.LimitRangeItem(type="Container", default_request={"cpu": "3"})
        spec = core_v1.LimitRangeSpec(limits=(limits,))
        await client.create(core_v1.LimitRange(metadata=meta_v1.ObjectMeta(name="l", namespace="default"), spec=spec))
        await client.create(scheduling_v1.PriorityClass(metadata=meta_v1.ObjectMeta(name="high"), value=1000))
        bare = pod("p")
        del bare["spec"]["containers"][0]["resources"]
        workload = deployment(3)
        workload["spec"]["template"]["spec"] = {**bare["spec"], "priorityClassName": "high"}
        asked = await ask_scheduler(client, [workload])
        assert (asked.answer["placed"], asked.answer["pending"]) == (2, 1), "3 of 4 cores are requested by default"
        without = await ask_scheduler(client, [deployment(3) | {"spec": workload["spec"]}], admission=False)
        assert without.answer["pending"] == 0
        refused = await ask_scheduler(client, [pod("r", priorityClassName="none"), pod("s")])
        assert list(refused.refused) == ["Pod default/r"]
        assert "no PriorityClass with name none" in refused.refused["Pod default/r"]
        assert [one["pod"] for one in refused.answer["pods"]] == ["default/s"]
        alone = await ask_scheduler(client, [pod("r", priorityClassName="none")])
        assert (alone.answer["pods"], len(alone.refused)) == ([], 1)

    in_cluster(test)


def test_a_cluster_without_a_scheduler_says_where_else_to_ask() -> None:
    async def run() -> None:
        async with running(ClusterSettings(run_scheduler=False, nodes=SimulatorSettings(nodes=0))) as cluster:
            await has_account(cluster)
            with pytest.raises(AskError, match="takes no questions"):
                await ask_scheduler(cluster.client(), [pod("new")])

    asyncio.run(run())


@asynccontextmanager
async def scheduler_alone(cluster: Cluster, host: str = "127.0.0.1") -> AsyncIterator[tuple[str, SchedulerService]]:
    """The URL of a scheduler's page."""
    client, clock, metrics = cluster.client(), SystemClock(), Registry()
    service = SchedulerService(client, clock=clock, randomness=SystemRandomness(), metrics=metrics)
    health = HealthServer(metrics)
    health.handle(PATH, WhatIfPage(service, AccessReviews(client, clock, refused_seconds=0.0)).handle)
    port = await health._server.start(host, 0)
    task = asyncio.create_task(service.run())
    try:
        yield f"http://127.0.0.1:{port}", service
    finally:
        task.cancel()
        await asyncio.wait([task])
        await health.stop()


def test_a_scheduler_alone_asks_the_api_server_who_asks_and_whether_they_may() -> None:
    async def run() -> None:
        settings = ClusterSettings(run_scheduler=False, nodes=SimulatorSettings(nodes=0))
        async with (
            running(settings) as cluster,
            scheduler_alone(cluster) as (url, service),
            aiohttp.ClientSession() as http,
        ):
            await has_account(cluster)
            await until(lambda: service.questions.knows_the_cluster)
            client = cluster.client()
            account = "system:serviceaccount:default:default"
            data = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).encode()
            answered = json.loads(
                await client.raw("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {}, data)
            )
            token = answered["status"]["token"]

            async def post(
                body: bytes | io.BytesIO, authorization: str = f"Bearer {token}", method: str = "POST"
            ) -> tuple[int, Tree]:
                headers = {"Authorization": authorization} if authorization else {}
                async with http.request(method, url + PATH, data=body, headers=headers) as response:
                    return response.status, await response.json()

            question = json.dumps(pod("new")).encode()
            assert (await post(question, ""))[0] == 401
            assert (await post(question, "Bearer wrong"))[0] == 401
            code, status = await post(question)
            assert (code, status["message"]) == (403, f'forbidden: User "{account}" cannot post path "{PATH}"')
            await _allow(client, PATH, account)
            code, answer = await post(question)
            assert (code, answer["kind"], answer["pending"]) == (200, "PlacementAnswer", 1)
            assert answer["pods"][0]["message"] == "no nodes available to schedule pods"
            assert (await post(b"["))[0] == 400
            assert (await post(io.BytesIO(b"x" * (MOST_BYTES + 1))))[0] == 413
            assert (await post(b"", method="GET"))[0] == 403, "the right to post is none to get"
            found = await ask_scheduler(client, [pod("new")], scheduler=Credentials(url, token=token))
            assert found.answer["pending"] == 1
            with pytest.raises(AskError, match="bearer tokens only"):
                await ask_scheduler(client, [pod("new")], scheduler=Credentials(url))

    asyncio.run(run())


def test_a_scheduler_that_does_not_know_the_cluster_yet_says_so() -> None:
    async def run() -> None:
        async with running(ClusterSettings(run_scheduler=False, nodes=SimulatorSettings(nodes=0))) as cluster:
            client, clock = cluster.client(), SystemClock()
            service = SchedulerService(client, clock=clock, randomness=SystemRandomness(), metrics=Registry())
            cluster.api.what_if = lambda method, body, namespace, explain: _respond(service, body, namespace, explain)
            with pytest.raises(AskError, match="does not know the cluster"):
                await ask_scheduler(client, [pod("new")], admission=False)

    asyncio.run(run())


async def _respond(service: SchedulerService, body: bytes, namespace: str, explain: bool) -> tuple[int, bytes]:
    from bayplan.cluster.questions.what_if import respond

    return await respond(service, body, namespace=namespace, explain=explain)


@pytest.mark.parametrize("processes", ["1", "2", "3"])
def test_the_command_asks_a_cluster_as_users_start_it(tmp_path: Path, processes: str) -> None:
    kubeconfig, manifest = tmp_path / "kubeconfig", tmp_path / "web.json"
    manifest.write_text(json.dumps(deployment(20, "1")))
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig)}
    command = [
        str(BAYPLAN),
        "up",
        "--nodes",
        "2",
        f"--processes={processes}",
        "--port",
        "0",
        "--data-dir",
        str(tmp_path / "data"),
        "--kubeconfig",
        str(kubeconfig),
    ]
    up = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert up.stdout is not None
        assert "ready" in up.stdout.readline()

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [BAYPLAN, "what-if", *arguments],
                capture_output=True,
                text=True,
                timeout=60,
                env=environment,
                check=False,
            )

        done = run("-f", str(manifest))
        assert (done.returncode, done.stdout.splitlines()[0]) == (
            1,
            "Deployment default/web: 8 of 20 pods find a node",
        ), done.stderr
        assert "12  pending" in done.stdout
        assert "Insufficient cpu" in done.stdout
        done = run("-f", str(manifest), "--replicas", "1")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("Deployment default/web: node-")
        done = run("-f", str(manifest), "-o", "json", "--explain")
        assert set(json.loads(done.stdout)["pods"][0]["decision"]["nodes"]) == {"node-1", "node-2"}
        asked = bayplan.ask(deployment(2), kubeconfig=kubeconfig)
        assert (asked.answer["placed"], asked.refused) == (2, {})
        assert run("-f", str(tmp_path / "absent.yaml")).returncode == 2
        assert run("-f", str(manifest), "--scheduler", "nowhere").returncode == 2
        if processes == "2":
            asyncio.run(_gets_a_process_of_its_own(kubeconfig, up.pid))
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(20)
        assert up.stdout is not None
        up.stdout.close()


async def _gets_a_process_of_its_own(kubeconfig: Path, main: int) -> None:
    """Ask a lot, and see that another process comes that answers likewise; and that nothing is lost if it goes."""

    def workers() -> set[int]:
        servers = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return {
            int(one) for server in servers for one in Path(f"/proc/{server}/task/{server}/children").read_text().split()
        }

    def cpu(process: int) -> int:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11])

    client = Client(HttpTransport(load(kubeconfig)))
    body = json.dumps(deployment(50)).encode()

    async def answers() -> set[bytes]:
        return set(await asyncio.gather(*(client.raw("POST", "/bayplan/what-if", {}, body) for _ in range(2 * MANY))))

    def counts(found: set[bytes]) -> set[tuple[int, int]]:
        return {(one["placed"], one["pending"]) for one in map(json.loads, found)}

    (scheduler,) = workers()
    assert counts(await answers()) == {(8, 42)}
    await until(lambda: len(workers()) == 2)
    (other,) = workers() - {scheduler}

    async def answers_there() -> bool:
        before = cpu(other), cpu(scheduler)
        assert counts(await answers()) == {(8, 42)}
        return cpu(other) - before[0] > cpu(scheduler) - before[1]

    await eventually(answers_there, within=30)
    os.kill(other, signal.SIGKILL)
    assert counts(await answers()) == {(8, 42)}
    await until(lambda: workers() == {scheduler})
    await client.close()


def test_a_scheduler_that_only_answers_places_and_writes_nothing() -> None:
    async def run() -> None:
        async with running(ClusterSettings(run_scheduler=False, nodes=SimulatorSettings(nodes=1))) as cluster:
            await has_account(cluster)
            client = cluster.client()
            await client.create(
                from_tree(core_v1.Pod, pod("waits") | {"metadata": {"name": "waits", "namespace": "default"}})
            )
            service = SchedulerService(
                client, clock=SystemClock(), randomness=SystemRandomness(), metrics=Registry(), schedules=False
            )
            task = asyncio.create_task(service.run())
            question = json.dumps(pod("new")).encode()

            async def is_answered() -> bool:
                _, answer = await _respond(service, question, "default", False)
                return bool(json.loads(answer).get("placed") == 1)

            try:
                await eventually(is_answered, within=30)
                before = cluster.api.context.objects.revision
                started = asyncio.get_running_loop().time()
                await asyncio.gather(*(is_answered() for _ in range(100)))
                assert asyncio.get_running_loop().time() - started < 1.0, "a pod that waits holds up no question"
                waits = await client.get(core_v1.Pod, "waits", "default")
                assert (waits.spec.node_name, waits.status.conditions) == ("", ())
                assert not [
                    one for one in (await client.list(core_v1.Event)).items if one.involved_object.name == "waits"
                ]
                assert cluster.api.context.objects.revision - before < 50, "leases and the like"
            finally:
                task.cancel()
                await asyncio.wait([task])

    asyncio.run(run())


def test_transport_of_another_server_is_closed() -> None:
    async def run() -> None:
        client = Client(HttpTransport(Credentials("http://127.0.0.1:1")))
        with pytest.raises(Exception, match=r"127\.0\.0\.1"):
            await ask_scheduler(client, [pod("new")], scheduler=Credentials("http://127.0.0.1:1"), admission=False)
        await client.close()

    asyncio.run(run())
