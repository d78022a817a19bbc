"""Logs of simulated pods: what happened to a container."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bayplan.api.codec import decode, encode, to_tree
from bayplan.api.errors import ApiError
from bayplan.api.nodes import SIMULATED
from bayplan.api.pods.container_logs import LogOptions
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.simulated.logs import log_of, run_of
from bayplan.client import Client
from bayplan.support.clock import SystemClock
from bayplan.support.timestamps import parse_rfc3339
from bayplan.support.virtual_time import VirtualTimeLoop
from tests.apiserver.serving import Served, client_of, served

STARTED, READY, FINISHED = "2026-01-02T03:04:05Z", "2026-01-02T03:04:07Z", "2026-01-02T03:05:00Z"
RUNNING = {"running": {"startedAt": STARTED}}
START = "web: started on simulated node n, image nginx:1, which runs no program\n"


def ended(container_id: str = "sim://1", **more: Any) -> dict[str, Any]:
    return {
        "terminated": {
            "startedAt": STARTED,
            "finishedAt": FINISHED,
            "exitCode": 1,
            "reason": "Error",
            "containerID": container_id,
            **more,
        }
    }


def pod(
    state: dict[str, Any],
    last: dict[str, Any] | None = None,
    *,
    ready: bool = False,
    uid: str = "u",
    container_id: str = "sim://1",
) -> core_v1.Pod:
    status = {
        "name": "web",
        "image": "nginx:1",
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
        "lastState": last or {},
        "containerID": "" if "waiting" in state else container_id,
    }
    condition = {"type": "ContainersReady", "status": str(ready), "lastTransitionTime": READY}
    tree = {
        "metadata": {"name": "p", "namespace": "default", "uid": uid},
        "spec": {"nodeName": "n", "containers": [{"name": "web", "image": "nginx"}]},
        "status": {"containerStatuses": [status], "conditions": [condition]},
    }
    found: core_v1.Pod = decode(core_v1.Pod, encode(tree))
    return found


def read(*pods: core_v1.Pod | None, **options: Any) -> list[str]:
    """The pieces of the log of a pod, which is like the further ones at later looks."""
    first, later = pods[0], list(pods[1:])
    assert first is not None

    async def run() -> list[str]:
        wanted = LogOptions(**options)
        found = run_of(first, "web", previous=wanted.previous)
        log = log_of(first, found, wanted, SystemClock(), lambda: later.pop(0) if len(later) > 1 else later[0])
        return [piece.decode() async for piece in log]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run())


@pytest.mark.parametrize(
    ("state", "ready", "text"),
    [
        (RUNNING, False, START),
        (RUNNING, True, f"{START}web: ready\n"),
        (ended(), False, f"{START}web: ended with exit code 1, Error\n"),
        (
            ended(exitCode=137, signal=9, reason="OOMKilled", message="too much"),
            False,
            f"{START}web: ended with exit code 137, signal 9, OOMKilled, too much\n",
        ),
    ],
)
def test_the_log_tells_what_happened(state: dict[str, Any], text: str, *, ready: bool) -> None:
    assert read(pod(state, ready=ready)) == [text]


def test_the_log_of_the_previous_run_is_that_of_the_last_state() -> None:
    assert read(pod(RUNNING, ended("sim://0")), previous=True) == [f"{START}web: ended with exit code 1, Error\n"]


def test_a_container_that_waits_for_its_next_run_shows_the_last_one() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert read(pod(waiting, ended())) == [f"{START}web: ended with exit code 1, Error\n"]


@pytest.mark.parametrize(
    ("state", "container", "previous", "why"),
    [
        (RUNNING, "web", True, 'previous terminated container "web" in pod "p" not found'),
        (RUNNING, "other", False, 'container "other" in pod "p" is not available'),
        ({"waiting": {"reason": "ContainerCreating"}}, "web", False, "is waiting to start: ContainerCreating"),
        ({"waiting": {"reason": "ErrImagePull"}}, "web", False, "is waiting to start: image can't be pulled"),
        ({"waiting": {"reason": "ImagePullBackOff"}}, "web", False, "trying and failing to pull image"),
        ({}, "web", False, "is waiting to start - no logs yet"),
    ],
)
def test_why_there_is_no_log_is_told_as_by_a_kubelet(
    state: dict[str, Any], container: str, previous: bool, why: str
) -> None:
    with pytest.raises(ApiError, match=why) as error:
        run_of(pod(state), container, previous=previous)
    assert error.value.code == 400


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tail_lines": 1}, "web: ended with exit code 1, Error\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 9}, f"{START}web: ended with exit code 1, Error\n"),
        ({"since": parse_rfc3339(FINISHED)}, "web: ended with exit code 1, Error\n"),
        ({"since": parse_rfc3339(FINISHED) + 1}, ""),
        ({"limit_bytes": 12}, START[:12]),
        (
            {"timestamps": True, "tail_lines": 1},
            "2026-01-02T03:05:00.000000000Z web: ended with exit code 1, Error\n",
        ),
    ],
)
def test_what_is_asked_for_is_shown(options: dict[str, Any], text: str) -> None:
    assert read(pod(ended()), **options) == [text]


def test_a_log_that_is_followed_goes_on_until_the_run_ends() -> None:
    ready = pod(RUNNING, ready=True)
    waiting = pod({"waiting": {"reason": "CrashLoopBackOff"}}, ended())
    found = read(pod(RUNNING), pod(RUNNING), ready, ready, waiting, follow=True, tail_lines=0)
    assert found == ["", "", "web: ready\n", "", "web: ended with exit code 1, Error\n"]


def test_a_log_that_is_followed_does_not_go_on_with_the_next_run() -> None:
    again = pod(RUNNING, ended(), ready=True, container_id="sim://2")
    assert read(pod(RUNNING), again, follow=True) == [START, "web: ended with exit code 1, Error\n"]


@pytest.mark.parametrize("after", [None, pod(RUNNING, uid="other"), pod({"waiting": {"reason": "x"}})])
def test_a_log_that_is_followed_ends_with_its_pod(after: core_v1.Pod | None) -> None:
    assert read(pod(RUNNING), after, follow=True) == [START]


def test_a_log_that_is_followed_ends_when_enough_is_shown() -> None:
    assert read(pod(RUNNING), pod(RUNNING), follow=True, limit_bytes=4) == [START[:4]]


LOG = "/api/v1/namespaces/default/pods/p/log"


@contextlib.asynccontextmanager
async def with_pod() -> AsyncIterator[tuple[Served, Client]]:
    """A server over HTTPS, and a pod that runs on a simulated node."""
    async with served() as server:
        client = client_of(server.api)
        marked = meta_v1.ObjectMeta(name="n", annotations={SIMULATED: "true"})
        await client.create(core_v1.Node(metadata=marked))
        metadata = meta_v1.ObjectMeta(name="default", namespace="default")
        await client.create(core_v1.ServiceAccount(metadata=metadata))
        container = core_v1.Container(name="web", image="nginx")
        spec = core_v1.PodSpec(containers=(container,), node_name="n")
        await client.create(core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p", namespace="default"), spec=spec))
        await change(client, pod(RUNNING))
        yield server, client


async def change(client: Client, like: core_v1.Pod) -> None:
    """Give the pod the status of another one."""
    status = to_tree(like.status)
    await client.patch(core_v1.Pod, "p", "default", {"status": status}, subresource="status")


def test_kubectl_gets_a_text() -> None:
    async def main() -> None:
        async with with_pod() as (server, _):
            async with server.session.get(server.url + LOG, headers=server.headers()) as answer:
                assert (answer.status, answer.content_type) == (200, "text/plain")
                assert await answer.text() == START
            query = {"previous": "true"}
            async with server.session.get(server.url + LOG, headers=server.headers(), params=query) as answer:
                assert answer.status == 400
                assert "previous terminated container" in (await answer.json())["message"]

    asyncio.run(main())


def test_a_log_that_is_followed_comes_as_it_is_written() -> None:
    async def main() -> None:
        async with with_pod() as (server, client):
            query = {"follow": "true"}
            async with server.session.get(server.url + LOG, headers=server.headers(), params=query) as answer:
                assert (await answer.content.readline()).decode() == START
                await change(client, pod(ended()))
                assert await answer.text() == "web: ended with exit code 1, Error\n"

    asyncio.run(main())


def test_a_log_that_is_followed_ends_when_the_server_stops() -> None:
    async def main() -> None:
        async with with_pod() as (server, _):
            query = {"follow": "true"}
            async with server.session.get(server.url + LOG, headers=server.headers(), params=query) as answer:
                assert (await answer.content.readline()).decode() == START
                async with asyncio.timeout(5):
                    await asyncio.gather(server.http.stop(), answer.content.read())

    asyncio.run(main())


def test_browsers_get_a_log_as_messages() -> None:
    async def main() -> None:
        async with with_pod() as (server, _):
            url = server.url + LOG
            async with server.session.ws_connect(
                url, headers=server.headers(), protocols=("binary.k8s.io",)
            ) as messages:
                found = [message.data async for message in messages]
            assert found == [b"", START.encode()]

    asyncio.run(main())
