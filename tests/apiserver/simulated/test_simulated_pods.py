"""What is asked of pods on simulated nodes, and refused before anything is opened."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.nodes import SIMULATED
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.requests import Request, Response
from bayplan.apiserver.routing.relays import Purpose
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, client_of, opened


async def make_pod(api: ApiServer, *, runs: bool) -> None:
    """A pod `p` with one container on a simulated node."""
    client = client_of(api)
    await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name="n", annotations={SIMULATED: "true"})))
    await client.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default")))
    spec = core_v1.PodSpec(containers=(core_v1.Container(name="c", image="i"),), node_name="n")
    await client.create(core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p", namespace="default"), spec=spec))
    state = {"running": {"startedAt": "2026-01-02T03:04:05Z"}} if runs else {"waiting": {"reason": "ContainerCreating"}}
    status = {"name": "c", "image": "i", "imageID": "", "ready": runs, "restartCount": 0, "state": state}
    status |= {"containerID": "sim://1"} if runs else {}
    await client.patch(core_v1.Pod, "p", "default", {"status": {"containerStatuses": [status]}}, subresource="status")


def answer(what: str, query: dict[str, str], *, runs: bool = True) -> Response:
    async def run() -> Response:
        async with opened() as api:
            await make_pod(api, runs=runs)
            path = f"/api/v1/namespaces/default/pods/p/{what}"
            return await api.handle(Request("POST", path, query, ADMIN))

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("what", "query", "runs", "code", "why"),
    [
        ("exec", {"command": "ls"}, True, 400, b"you must specify at least 1 of stdin, stdout, stderr"),
        ("attach", {"stderr": "true", "tty": "true"}, True, 400, b"at least 1 of stdin, stdout, stderr"),
        ("exec", {"stdout": "true"}, True, 400, b"you must specify a command"),
        ("exec", {"stdout": "true", "command": "ls"}, True, 503, b"runs no containers that exec could reach"),
        ("exec", {"stdout": "true", "command": "ls"}, False, 500, b"container not found"),
        ("attach", {"stdout": "true"}, False, 500, b"container not found"),
        ("portforward", {"ports": "80"}, True, 503, b"runs no containers that portforward could reach"),
        ("portforward", {"ports": "80,x"}, True, 400, b"invalid syntax"),
        ("portforward", {"ports": "70000"}, True, 400, b"value out of range"),
    ],
)
def test_what_makes_no_sense_is_refused(what: str, query: dict[str, str], runs: bool, code: int, why: bytes) -> None:
    response = answer(what, query, runs=runs)
    assert (response.code, response.relay) == (code, None)
    assert why in response.body


def test_those_who_attach_are_told_what_happens() -> None:
    response = answer("attach", {"stdout": "true"})
    assert response.relay is not None
    assert (response.relay.purpose, response.relay.host) == (Purpose.STREAM, "")
    assert response.relay.stream is not None
