"""Changes of one pod after the other: whatever the fast path makes of a pod is what the slow path would have made of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.writes.write_memo import WriteMemo
from tests.apiserver.standing_still import ADMIN, JSON, PODS
from tests.apiserver.writes.pod_steps import (
    BOUND,
    GONE,
    JSON_PATCH,
    LATER,
    MERGE,
    STRATEGIC,
    TARGET,
    UNSCHEDULABLE,
    PodServer,
    Step,
    none,
    pod,
    turn,
    victims,
)

STEPS: list[Step] = [
    TARGET,
    UNSCHEDULABLE,
    GONE,
    LATER,
    BOUND,
    ("DELETE", JSON, "", ""),
    ("DELETE", JSON, "", '{"propagationPolicy":"Foreground"}'),
    ("DELETE", JSON, "", '{"dryRun":["All"]}'),
    ("DELETE", JSON, "", '{"preconditions":{"resourceVersion":"9"}}'),
    ("DELETE", JSON, "", '{"preconditions":{"uid":"another"}}'),
    ("PATCH", STRATEGIC, "status", '{"status":{"nominatedNodeName":null}}'),
    ("PATCH", STRATEGIC, "status", '{"status":{"nominatedNodeName":"same"}}'),
    ("PATCH", STRATEGIC, "status", '{"status":{"nominatedNodeName":"-wrong-"}}'),
    ("PATCH", STRATEGIC, "status", '{"status":{"$patch":"replace","phase":"Failed"}}'),
    ("PATCH", STRATEGIC, "status", '{"metadata":{"uid":"another"},"status":{"phase":"Failed"}}'),
    ("PATCH", STRATEGIC, "status", '{"metadata":{"labels":{"own":"%n"}},"status":{"phase":"Running"}}'),
    ("PATCH", STRATEGIC, "status", '{"metadata":{"resourceVersion":"9"},"status":{"phase":"Running"}}'),
    ("PATCH", STRATEGIC, "status", '{"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}'),
    ("PATCH", STRATEGIC, "status", '{"status":{"unknown":1}}'),
    ("PATCH", MERGE, "status", '{"status":{"phase":"Succeeded","message":"%n on %h"}}'),
    ("PATCH", MERGE, "status", '{"status":{"conditions":null}}'),
    ("PATCH", MERGE, "status", "{}"),
    ("PATCH", MERGE, "status", '{"status":'),
    ("PATCH", MERGE, "", '{"metadata":{"labels":{"a":"b"}}}'),
    ("PATCH", MERGE, "", '{"metadata":{"finalizers":["example.com/f"]}}'),
    ("PATCH", MERGE, "", '{"metadata":{"finalizers":null}}'),
    ("PATCH", JSON_PATCH, "status", '[{"op":"test","path":"/metadata/name","value":"p0"},{"op":"add","path":"/status/phase","value":"Failed"}]'),
    ("PUT", JSON, "status", '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%n"},"status":{"phase":"Running"}}'),
    ("POST", JSON, "binding", '{"metadata":{"name":"%n"},"target":{"kind":"Node","name":"%h"}}'),
]  # fmt: skip
PODS_OF: list[dict[str, Any]] = [
    {},
    {"metadata": {"labels": {"a": "b"}, "annotations": {"nodeName": "n1", "x": '"managedFields":[ %b'}}},
    {"metadata": {"finalizers": ["example.com/f"]}},
    {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 5},
    {"hostname": "p0", "subdomain": "same"},
    {"schedulingGroup": {"podGroupName": "%g"}, "metadata": {"annotations": {"podGroupName": "g0"}}},
]
"""What pods are like; %g stands for the name of a group of two pods."""


async def after_all(steps: list[Step], kind: dict[str, Any], seconds: tuple[float, ...], count: int) -> list[Any]:
    """What a server answers when each step is taken with each pod, and what is left in the end."""
    async with PodServer() as server:
        pods = []
        for index in range(count):
            node = f"n{index // 2}"
            own = json.loads(json.dumps(kind).replace("%g", f"g{index // 2}"))
            made = (await server.send("POST", PODS, pod(f"p{index}", node if index < count // 2 else "", **own)))[1]
            pods.append((f"p{index}", made["metadata"]["uid"], node))
        answers: list[Any] = []
        for step, pause in zip(steps, seconds, strict=True):
            await server.clock.sleep(0)
            server.clock.advance(pause)
            answers += [await server.take(step, *one) for one in pods]
        return [*answers, *server.state()]


SECOND_STEPS = (TARGET, UNSCHEDULABLE, GONE, LATER, BOUND)


def second_steps(first: Step, kind: dict[str, Any]) -> list[Step]:
    """All for the first kind of pods; for each of the others two, so that each kind meets each of them after many first steps."""
    if kind is PODS_OF[0]:
        return list(SECOND_STEPS)
    begin = STEPS.index(first) + PODS_OF.index(kind)
    return [SECOND_STEPS[(begin + number) % len(SECOND_STEPS)] for number in (0, 2)]


@pytest.mark.parametrize("kind", PODS_OF)
@pytest.mark.parametrize("first", STEPS)
def test_repeated_changes_are_what_each_would_be_alone(
    first: Step, kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for second in second_steps(first, kind):
        steps, seconds = [first, second, GONE], (0.0, 1.0, 0.0)
        with monkeypatch.context() as closed:
            short = asyncio.run(after_all(steps, kind, seconds, 8))
            closed.setattr(WriteMemo, "change", none)
            assert short == asyncio.run(after_all(steps, kind, seconds, 8))


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from([0.0, 0.0, 1.0, 40.0])), min_size=1, max_size=8),
    kind=st.sampled_from(PODS_OF),
)
def test_any_sequence_of_changes(steps: list[tuple[Step, float]], kind: dict[str, Any]) -> None:
    sequence, seconds = [step for step, _ in steps], tuple(pause for _, pause in steps)
    short = asyncio.run(after_all(sequence, kind, seconds, 8))
    with pytest.MonkeyPatch.context() as closed:
        closed.setattr(WriteMemo, "change", none)
        assert short == asyncio.run(after_all(sequence, kind, seconds, 8))


async def after_turns(turns: list[list[Step]], kind: dict[str, Any], store: str) -> list[Any]:
    """What a server answers when each pod in turn is sent the steps of a turn, and what is left in the end."""
    async with PodServer(store=store) as server:
        door = InProcessEndpoint(server.api, ADMIN)
        pods = []
        for index in range(8):
            node = f"n{index // 2}"
            made = (await server.send("POST", PODS, pod(f"p{index}", node if index < 4 else "", **kind)))[1]
            pods.append((f"p{index}", made["metadata"]["uid"], node))
        answers: list[Any] = []
        for steps in turns:
            server.clock.advance(1.0)
            for name, uid, node in pods:
                ((code, answer),) = await door.send([turn(name, uid, node, *steps)])
                answers.append((code, answer if code >= 300 else b""))
        return [*answers, *server.state()]


@pytest.mark.parametrize("store", ["memory:", "sqlite:"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    turns=st.lists(st.lists(st.sampled_from(STEPS), min_size=1, max_size=3), min_size=1, max_size=4),
    kind=st.sampled_from(PODS_OF),
)
@example(turns=[[TARGET, GONE]], kind={})
@example(turns=[[UNSCHEDULABLE], [BOUND, TARGET], [GONE]], kind={})
def test_what_is_sent_comes_to_what_it_would_alone(
    store: str, turns: list[list[Step]], kind: dict[str, Any], tmp_path: Path
) -> None:
    paths = [store if store == "memory:" else f"{store}{tmp_path}/{uuid4()}.db" for _ in range(2)]
    short = asyncio.run(after_turns(turns, kind, paths[0]))
    with pytest.MonkeyPatch.context() as closed:
        closed.setattr(WriteMemo, "change", none)
        assert short == asyncio.run(after_turns(turns, kind, paths[1]))


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests whose write was submitted without waiting."""
    paths: list[str] = []
    submit = ApiServer.submit

    def noted(self: ApiServer, request: Request) -> Any:
        pending = submit(self, request)
        if pending is not None:
            paths.append(f"{request.method} {request.path.removeprefix(PODS)}")
        return pending

    monkeypatch.setattr(ApiServer, "submit", noted)
    return paths


def test_writes_that_are_submitted_together_are_committed_together(submitted: list[str], tmp_path: Path) -> None:
    async def run() -> None:
        async with PodServer(store=f"sqlite:{tmp_path}/store.db") as server:
            door = InProcessEndpoint(server.api, ADMIN)
            pods = await victims(server, 6)
            for one in pods[:4]:
                assert [code for code, _ in await door.send([turn(*one, TARGET, GONE)])] == [200]
            submitted.clear()
            before = server.api.context.objects.revision
            answers = door.send([turn(*one, TARGET, GONE) for one in pods[4:]])
            assert await answers == [(200, b"")] * 2
            assert submitted == [
                f"{what}" for name in ("p4", "p5") for what in (f"PATCH /{name}/status", f"DELETE /{name}")
            ]
            kind = server.api.context.kinds.of_kind("v1", "Pod")
            assert kind is not None
            events = server.api.context.objects.cache(kind).events_after(before)
            told = [(event.revision - before, (event.entry or event.previous).name) for event in events]  # type: ignore[union-attr]
            assert told == [(1, "p4"), (2, "p4"), (3, "p4"), (4, "p5"), (5, "p5"), (6, "p5")]

    asyncio.run(run())


@pytest.mark.parametrize("closing", ["interceptor", "auditor"])
def test_nothing_is_submitted_early_where_every_request_is_intercepted(
    closing: str, submitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with PodServer() as server:
            door = InProcessEndpoint(server.api, ADMIN)
            seen: list[str] = []

            async def intercept(call: Any) -> None:
                seen.append(call.request.method)

            class Auditor:
                async def answer(self, request: Request, handle: Any) -> Any:
                    seen.append(request.method)
                    return await handle(request)

                async def close(self) -> None:
                    """Nothing to close."""

            pods = await victims(server, 8)
            for one in pods[:4]:
                await door.send([turn(*one, TARGET, GONE)])
            assert len(submitted) > 2
            submitted.clear()
            monkeypatch.setattr(server.api, closing, intercept if closing == "interceptor" else Auditor())
            assert await door.send([turn(*pods[5], TARGET, GONE)]) == [(200, b"")]
            assert (seen, submitted) == (["PATCH", "DELETE"], [])

    asyncio.run(run())
