"""Changes of one pod after the other: whatever the fast path makes of a pod is what the slow path would have made of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bayplan.api.protobuf import message_of
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.pods import pod_topology_labels
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.writes.write_memo import Change, WriteMemo
from tests.apiserver.standing_still import ADMIN, JSON, PODS, Server

STRATEGIC, MERGE, JSON_PATCH = (f"application/{one}-patch+json" for one in ("strategic-merge", "merge", "json"))
TIME = "2026-01-02T03:04:05Z"

Step = tuple[str, str, str, str]
"""(method, content type, subresource, body); in the body %n, %u and %h stand for a pod's name, uid and node."""


class PodServer(Server):
    """The same with steps to take with pods."""

    async def take(self, step: Step, name: str, uid: str, node: str, **query: str) -> tuple[int, Any]:
        method, content_type, subresource, body = step
        for mark, text in (("%n", name), ("%u", uid), ("%h", node)):
            body = body.replace(mark, text)
        path = f"{PODS}/{name}/{subresource}" if subresource else f"{PODS}/{name}"
        return await self.send(method, path, body.encode(), content_type, **query)

    def state(self) -> list[Any]:
        """All pods with what selectors see of them, and all that happened to pods."""
        kind = self.api.context.kinds.of_kind("v1", "Pod")
        assert kind is not None
        cache = self.api.context.objects.cache(kind)
        for entry in cache.ordered():
            pod: core_v1.Pod = cache.decode(entry)
            seen = (pod.metadata.labels, cache.strategy.selectable_fields(pod), pod.metadata.uid)
            assert (entry.labels, entry.fields, entry.uid) == seen
        events = [
            (event.revision, one.body, one.labels, one.fields)
            for event in cache.events_after(0)
            for one in (event.entry, event.previous)
            if one is not None
        ]
        return [[(one.name, one.body) for one in cache.ordered()], events]


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the pods that were changed on the fast path."""
    changed: list[str] = []
    write = Change.write

    async def noted(self: Change, **options: bool) -> Entry | None:
        written = await write(self, **options)
        if written is not None:
            changed.append(written.name)
        return written

    monkeypatch.setattr(Change, "write", noted)
    return changed


def none(self: WriteMemo, call: Any, operation: str, **_: Any) -> None:
    """The fast path is switched off."""


def pod(name: str, node: str = "", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that is gone at once when it is deleted."""
    containers = [{"name": "c", "image": "registry.example/i:1"}]
    placed = {"nodeName": node} if node else {}
    spec = {"containers": containers, "terminationGracePeriodSeconds": 0, **placed, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": spec}


def condition(kind: str, status: str = "True", time: str = TIME) -> str:
    return f'{{"type":"{kind}","status":"{status}","reason":"R","message":"why %","lastTransitionTime":"{time}"}}'


TARGET: Step = (
    "PATCH",
    STRATEGIC,
    "status",
    f'{{"status":{{"conditions":[{condition("DisruptionTarget")}]}}}}',
)
UNSCHEDULABLE: Step = (
    "PATCH",
    STRATEGIC,
    "status",
    f'{{"metadata":{{"uid":"%u"}},"status":{{"conditions":[{condition("PodScheduled", "False")}],"nominatedNodeName":"%h"}}}}',
)
GONE: Step = ("DELETE", JSON, "", '{"preconditions":{"uid":"%u"}}')
BOUND: Step = (
    "POST",
    JSON,
    "binding",
    '{"kind":"Binding","apiVersion":"v1","metadata":{"name":"%n","uid":"%u"},"target":{"kind":"Node","name":"%h"}}',
)
LATER: Step = ("DELETE", JSON, "", '{"gracePeriodSeconds":30}')
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


def turn(name: str, uid: str, node: str, *steps: Step) -> list[tuple[str, str, bytes, str]]:
    """What is to be sent for a pod."""
    asks = []
    for method, content_type, subresource, body in steps:
        for mark, text in (("%n", name), ("%u", uid), ("%h", node)):
            body = body.replace(mark, text)
        asks.append((method, f"{PODS}/{name}/{subresource}".rstrip("/"), body.encode(), content_type))
    return asks


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


async def victims(server: PodServer, count: int) -> list[tuple[str, str, str]]:
    """Pods on nodes: name, uid and node of each."""
    return [(name, await created(server, name, f"n{name[1:]}"), f"n{name[1:]}") for name in names(count)]


async def waiting(server: PodServer, count: int, nodes: int = 100) -> list[tuple[str, str, str]]:
    """Pods on no node, and the nodes that they are to get: so many in turn."""
    return [(name, await created(server, name), f"n{int(name[1:]) % nodes}") for name in names(count)]


def names(count: int) -> list[str]:
    return [f"p{index}" for index in range(count)]


async def created(server: PodServer, name: str, node: str = "") -> str:
    """The uid of a new pod."""
    uid: str = (await server.send("POST", PODS, pod(name, node)))[1]["metadata"]["uid"]
    return uid


def test_from_the_fourth_on_pods_go_the_short_way(repeated: list[str]) -> None:
    async def run() -> None:
        async with PodServer() as server:
            pods = await victims(server, 6)
            for one in pods:
                await server.take(TARGET, *one)
            assert repeated == ["p3", "p4", "p5"]
            for one in pods:
                assert (await server.take(GONE, *one))[0] == 200
                assert (await server.send("GET", f"{PODS}/{one[0]}"))[0] == 404
            assert repeated == ["p3", "p4", "p5"] * 2

    asyncio.run(run())


def test_pods_of_different_groups_go_the_short_way_together(repeated: list[str]) -> None:
    async def run() -> None:
        async with PodServer() as server:
            for index in range(6):
                group = {"podGroupName": f"g{index // 2}"}
                uid = (await server.send("POST", PODS, pod(f"p{index}", schedulingGroup=group)))[1]["metadata"]["uid"]
                assert (await server.take(BOUND, f"p{index}", uid, f"n{index}"))[0] == 201
                found = (await server.send("GET", f"{PODS}/p{index}"))[1]["spec"]
                assert (found["schedulingGroup"], found["nodeName"]) == (group, f"n{index}")
            assert repeated == ["p3", "p4", "p5"]

    asyncio.run(run())


def test_nominations_differ(repeated: list[str]) -> None:
    async def run() -> None:
        async with PodServer() as server:
            pods = await waiting(server, 6)
            for one in pods:
                changed = (await server.take(UNSCHEDULABLE, *one))[1]
                assert changed["status"]["nominatedNodeName"] == one[2]
            assert repeated == ["p3", "p4", "p5"]
            found = (await server.send("GET", PODS, fieldSelector="status.nominatedNodeName=n4"))[1]["items"]
            assert [one["metadata"]["name"] for one in found] == ["p4"]

    asyncio.run(run())


def test_pods_are_bound_to_their_nodes(repeated: list[str]) -> None:
    async def run() -> None:
        async with PodServer() as server:
            for index in range(6):
                zone = {"topology.kubernetes.io/zone": f"z{index // 3}"}
                await server.send("POST", "/api/v1/nodes", {"metadata": {"name": f"n{index}", "labels": zone}})
            pods = await waiting(server, 8, nodes=6)
            for one in pods[:7]:
                assert (await server.take(BOUND, *one))[0] == 201
            assert repeated == ["p3", "p4", "p5", "p6"]
            found = (await server.send("GET", PODS, labelSelector="topology.kubernetes.io/zone=z0"))[1]["items"]
            assert [one["metadata"]["name"] for one in found] == ["p0", "p1", "p2", "p6"]
            found = (await server.send("GET", PODS, fieldSelector="spec.nodeName=n4"))[1]["items"]
            assert [one["metadata"]["name"] for one in found] == ["p4"]
            assert (await server.take(BOUND, *pods[6]))[0] == 409
            assert (await server.take(BOUND, "p7", pods[6][1], "n1"))[0] == 409

    asyncio.run(run())


@pytest.mark.parametrize(
    "own",
    [
        {"app": "a%d"},
        {"name": "p%d", "namespace": "default", "uid": "u%d"},
        {"namespace": "n%d", "topology.kubernetes.io/region": "old%d", "topology.kubernetes.io/zone": "z%d"},
        {f"k{number}": "v%d" for number in range(12)},
    ],
    ids=["of one application each", "that are like metadata", "that are overwritten", "that are many"],
)
def test_pods_with_labels_are_bound_as_each_would_be_alone(
    own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> list[Any]:
        async with PodServer() as server:
            for index in range(9):
                zone = {
                    "topology.kubernetes.io/zone": f"z{index // 3}",
                    "topology.kubernetes.io/region": f"r{index % 2}",
                }
                await server.send("POST", "/api/v1/nodes", {"metadata": {"name": f"n{index}", "labels": zone}})
            for index in range(9):
                labels = {key: value.replace("%d", str(index)) for key, value in own.items()}
                made = await server.send("POST", PODS, pod(f"p{index}", metadata={"labels": labels}))
                uid = made[1]["metadata"]["uid"]
                assert (await server.take(BOUND, f"p{index}", uid, f"n{index}"))[0] == 201
                found = (await server.send("GET", f"{PODS}/p{index}"))[1]["metadata"]["labels"]
                zone = {
                    "topology.kubernetes.io/zone": f"z{index // 3}",
                    "topology.kubernetes.io/region": f"r{index % 2}",
                }
                assert found == {**labels, **zone}
            return server.state()

    fast = asyncio.run(run())
    monkeypatch.setattr(WriteMemo, "change", none)
    assert fast == asyncio.run(run())


def test_pods_of_different_applications_go_the_short_way_together(repeated: list[str]) -> None:
    async def run() -> None:
        async with PodServer() as server:
            for index in range(6):
                made = await server.send("POST", PODS, pod(f"p{index}", metadata={"labels": {"app": f"a{index}"}}))
                assert (await server.take(BOUND, f"p{index}", made[1]["metadata"]["uid"], "n0"))[0] == 201
            assert repeated == ["p3", "p4", "p5"]

    asyncio.run(run())


TRICKY = '"nodeName":"n", "securityContext":{},"x":{},"status":{"a":"b"}} "spec":{ "managedFields":['
SPECS: list[dict[str, Any]] = [
    {"metadata": {"annotations": {"a": TRICKY}}},
    {"schedulingGates": [{"name": "example.com/gate"}]},
    {"nodeSelector": {"a": "b"}, "restartPolicy": "Never", "terminationGracePeriodSeconds": 7},
    {"hostNetwork": True, "containers": [{"name": "c", "image": "2026-01-02T03:04:05Z"}]},
    {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"ephemeral-storage": "501M"}}}]},
    {"containers": [{"name": "c", "image": "i", "args": [TRICKY], "env": [{"name": "A", "value": TRICKY}]}]},
    {"containers": [{"name": "c", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}, "terminationGracePeriodSeconds": 3}}]},
    {"initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always", "securityContext": {"runAsUser": 1}}]},
    {"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u-1", "controller": True}]}},
    {"metadata": {"finalizers": ["example.com/f"]}},
    {"tolerations": [{"key": "a", "operator": "Exists"}], "priority": 0, "securityContext": {"runAsUser": 1}},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}}},
]  # fmt: skip
"""Of pods that have little in common. The first ones differ in what a binding looks at, or keep next to it."""
ORDINARY = SPECS[4:]


def test_pods_that_have_little_in_common_are_bound_as_each_would_be_alone(
    repeated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> list[Any]:
        async with PodServer() as server:
            answers: list[Any] = []
            for index, spec in enumerate([*SPECS, *ORDINARY, *ORDINARY]):
                name, own = f"p{index:02d}", spec.get("schedulingGates")
                made = (await server.send("POST", PODS, pod(name, **spec)))[1]
                code, answer = await server.take(BOUND, name, made["metadata"]["uid"], f"n{index}")
                assert code == (409 if own else 201)
                answers.append(answer)
                found = (await server.send("GET", f"{PODS}/{name}"))[1]["spec"]
                expected = made["spec"] if own else {**made["spec"], "nodeName": f"n{index}"}
                assert found == expected
            return [*answers, *server.state()]

    fast = asyncio.run(run())
    assert repeated == [f"p{number:02d}" for number in range(6, 28)]
    monkeypatch.setattr(WriteMemo, "change", none)
    assert fast == asyncio.run(run())


def test_labels_that_admission_gives_and_that_are_not_valid_take_the_slow_path(
    repeated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zones = {f"n{index}": f"z{index}" for index in range(5)} | {"n5": 'not "good"}'}
    key = "topology.kubernetes.io/zone"
    monkeypatch.setattr(pod_topology_labels, "_labels", lambda _, node: {key: zones[node]})

    async def run() -> None:
        async with PodServer() as server:
            for one in await waiting(server, 6):
                assert (await server.take(BOUND, *one))[0] == 201
                found = (await server.send("GET", f"{PODS}/{one[0]}"))[1]["metadata"]["labels"]
                assert found == {key: zones[one[2]]}
            assert repeated == ["p3", "p4"]

    asyncio.run(run())


def test_statuses_of_pod_groups_go_the_short_way(repeated: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
    settings = ApiServerSettings(runtime_config=("scheduling.k8s.io/v1alpha2=true",))

    async def run() -> list[Any]:
        async with PodServer(settings) as server:
            for index in range(7):
                policy = {"gang": {"minCount": 3 if index == 6 else 4}}
                made = {
                    "metadata": {"name": f"g{index}", "labels": {"job": f"j{index}"}},
                    "spec": {"schedulingPolicy": policy},
                }
                assert (await server.send("POST", groups, made))[0] == 201
            found = []
            for index in range(7):
                body = f'{{"status":{{"conditions":[{condition("PodGroupScheduled")}]}}}}'.encode()
                answer = await server.send("PATCH", f"{groups}/g{index}/status", body, MERGE)
                assert answer[0] == 200
                found.append(answer[1])
            return found

    fast = asyncio.run(run())
    assert [one["metadata"]["labels"] for one in fast] == [{"job": f"j{index}"} for index in range(7)]
    assert repeated == ["g3", "g4", "g5"]
    monkeypatch.setattr(WriteMemo, "change", none)
    assert fast == asyncio.run(run())


def test_nominated_pods_are_bound_and_nominated_no_more(repeated: list[str]) -> None:
    async def run() -> None:
        async with PodServer() as server:
            pods = await waiting(server, 6)
            for one in pods:
                await server.take(UNSCHEDULABLE, *one)
            repeated.clear()
            for one in pods:
                assert (await server.take(BOUND, *one))[0] == 201
            assert repeated == ["p3", "p4", "p5"]
            found = (await server.send("GET", PODS, fieldSelector="status.nominatedNodeName="))[1]["items"]
            assert [one["spec"]["nodeName"] for one in found] == [one[2] for one in pods]

    asyncio.run(run())


def test_what_many_find_out_at_once_leaves_room_for_others(
    repeated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = ObjectStore.replace

    async def slowly(self: ObjectStore, *arguments: Any, **options: Any) -> Entry:
        await asyncio.sleep(0)
        return await replace(self, *arguments, **options)

    monkeypatch.setattr(ObjectStore, "replace", slowly)

    async def run() -> None:
        async with PodServer() as server:
            pods = await victims(server, 40)
            for name in ("p0", "p1", "p2", "p3"):
                await server.send("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"a": "b"}}}, MERGE)
            for one in pods[:4]:
                await server.take(TARGET, *one)
            assert repeated == ["p3"]
            await asyncio.gather(*(server.take(TARGET, *one) for one in pods[4:30]))
            assert repeated == ["p3"]
            await server.send("PATCH", f"{PODS}/p39", {"metadata": {"labels": {"a": "b"}}}, MERGE)
            await server.take(TARGET, *pods[39])
            assert repeated[-1] == "p39"

    asyncio.run(run())


def test_who_waits_for_a_revision_that_is_not_there_is_refused(repeated: list[str]) -> None:
    async def run() -> None:
        async with PodServer() as server:
            pods = await victims(server, 6)
            step = ("DELETE", JSON, "", '{"preconditions":{"resourceVersion":"1"}}')
            assert [(await server.take(step, *one))[0] for one in pods] == [409] * 6
            assert repeated == []

    asyncio.run(run())


def test_what_becomes_too_large_is_refused(repeated: list[str]) -> None:
    async def run(limit: int, names: list[str]) -> tuple[int, list[int]]:
        async with PodServer() as server:
            server.api.context.objects.max_object_bytes = limit  # less than what every cluster has
            codes = []
            for name in names:
                uid = await created(server, name, "n0")
                codes.append((await server.take(TARGET, name, uid, "n0"))[0])
            kind = server.api.context.kinds.of_kind("v1", "Pod")
            assert kind is not None
            cache = server.api.context.objects.cache(kind)
            return max(len(message_of(cache.decode(entry))) for entry in cache.all()), codes

    size, _ = asyncio.run(run(100_000, ["p0"]))
    repeated.clear()
    assert asyncio.run(run(size + 60, ["p0", "p1", "p2", "p3", "p4" * 50]))[1] == [200, 200, 200, 200, 500]
    assert not repeated  # as JSON they are larger than the limit, which is about protobuf
    assert asyncio.run(run(100_000, ["p0", "p1", "p2", "p3", "p4" * 50]))[1] == [200] * 5
    assert repeated == ["p3", "p4" * 50]


def test_a_dry_run_changes_nothing(repeated: list[str]) -> None:
    async def run() -> None:
        async with PodServer() as server:
            pods = await victims(server, 6)
            for one in pods[:4]:
                await server.take(TARGET, *one)
            assert repeated == ["p3"]
            shown = (await server.take(TARGET, *pods[4], dryRun="All"))[1]
            assert len(shown["status"]["conditions"]) == 1
            assert "conditions" not in (await server.send("GET", f"{PODS}/p4"))[1]["status"]

    asyncio.run(run())


def test_a_nomination_that_stays_is_no_change() -> None:
    async def run() -> None:
        async with PodServer() as server:
            pods = await waiting(server, 6)
            step = ("PATCH", MERGE, "status", '{"status":{"nominatedNodeName":"%h"}}')
            for one in pods:
                await server.take(step, *one)
            for name, uid, _ in pods[:4]:
                await server.take(step, name, uid, "another")
            before = (await server.send("GET", f"{PODS}/p5"))[1]
            assert (await server.take(step, *pods[5]))[1] == before

    asyncio.run(run())


def test_names_and_times_in_messages_stay_what_they_are() -> None:
    async def run() -> None:
        async with PodServer() as server:
            for index, (name, uid, _) in enumerate(await waiting(server, 8)):
                node, time = f"n{index // 4}", f"2026-01-02T03:04:0{index // 4}Z"
                body = {
                    "nominatedNodeName": node,
                    "startTime": time,
                    "message": f"{node} since {time}",
                    "conditions": [{"type": "A", "status": "True", "lastTransitionTime": time, "message": node}],
                }
                step = ("PATCH", MERGE, "status", msgspec.json.encode({"status": body}).decode())
                changed = (await server.take(step, name, uid, node))[1]["status"]
                assert changed["message"] == f"{node} since {time}"
                assert (changed["startTime"], changed["nominatedNodeName"]) == (time, node)
                assert changed["conditions"][0]["message"] == node

    asyncio.run(run())


def test_a_uid_that_is_written_otherwise_is_not_overlooked(repeated: list[str]) -> None:
    async def run() -> None:
        async with PodServer() as server:
            pods = await victims(server, 2)
            back = ("PATCH", MERGE, "status", '{"status":{"message":null}}')
            escaped = f'{{"metadata":{{"\\u0075id":"{pods[0][1]}"}},"status":{{"message":"m"}}}}'
            for _ in range(4):
                assert (await server.take(("PATCH", MERGE, "status", escaped), *pods[0]))[0] == 200
                assert (await server.take(back, *pods[0]))[0] == 200
            assert (await server.take(("PATCH", MERGE, "status", escaped), *pods[1]))[0] == 422
            assert set(repeated) == {"p0"}

    asyncio.run(run())


def test_nothing_is_learnt_of_a_pod_that_changed_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with PodServer() as server:
            pods = await victims(server, 6)
            replace = ObjectStore.replace
            late = {"p1", "p2"}

            async def overtaken(self: ObjectStore, kind: Any, obj: Any, guard: int, **more: Any) -> Entry:
                if obj.metadata.name in late:
                    late.discard(obj.metadata.name)
                    annotations = {"metadata": {"annotations": {"a": "b"}}}
                    await server.send("PATCH", f"{PODS}/{obj.metadata.name}", annotations, MERGE)
                return await replace(self, kind, obj, guard, **more)

            monkeypatch.setattr(ObjectStore, "replace", overtaken)
            changed = [(await server.take(TARGET, *one))[1] for one in pods]
            assert not late
            assert [one["metadata"].get("annotations") for one in changed] == [None, *[{"a": "b"}] * 2, *[None] * 3]

    asyncio.run(run())


HOOK: dict[str, Any] = {
    "name": "w.example.com",
    "clientConfig": {"url": "https://localhost:9/"},
    "sideEffects": "None",
    "failurePolicy": "Ignore",
    "admissionReviewVersions": ["v1"],
    "rules": [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/status"]}],
}

ELSEWHERE = {**HOOK, "rules": [{**HOOK["rules"][0], "resources": ["deployments"]}]}
CHOSEN = {"matchLabels": {"chosen": "yes"}}


def policy(resource: str) -> dict[str, Any]:
    """What is to be created so that every change of a resource is looked at."""
    rule = {"apiGroups": ["*"], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}
    return {"spec": {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [rule]}}}


@pytest.mark.parametrize(
    ("path", "body", "is_closed"),
    [
        ("mutatingwebhookconfigurations", {}, False),
        ("mutatingwebhookconfigurations", {"webhooks": [HOOK]}, True),
        ("mutatingwebhookconfigurations", {"webhooks": [ELSEWHERE]}, False),
        ("mutatingwebhookconfigurations", {"webhooks": [{**HOOK, "namespaceSelector": CHOSEN}]}, False),
        ("validatingwebhookconfigurations", {"webhooks": [HOOK]}, True),
        ("validatingwebhookconfigurations", {"webhooks": [ELSEWHERE]}, False),
        ("validatingwebhookconfigurations", {"webhooks": [{**HOOK, "objectSelector": CHOSEN}]}, True),
        ("validatingadmissionpolicies", policy("deployments"), False),
        ("validatingadmissionpolicies", policy("pods/status"), True),
    ],
)
def test_who_is_asked_about_changes_closes_the_short_way(
    path: str, body: dict[str, Any], is_closed: bool, repeated: list[str]
) -> None:
    async def run() -> None:
        async with PodServer() as server:
            group = "/apis/admissionregistration.k8s.io/v1"
            binding = {"metadata": {"name": "one"}, "spec": {"policyName": "one", "validationActions": ["Deny"]}}
            assert (await server.send("POST", f"{group}/validatingadmissionpolicybindings", binding))[0] == 201
            code, answer = await server.send("POST", f"{group}/{path}", {"metadata": {"name": "one"}, **body})
            assert code == 201, answer
            pods = await victims(server, 6)
            for one in pods:
                assert (await server.take(TARGET, *one))[0] == 200
            assert repeated == ([] if is_closed else ["p3", "p4", "p5"])
            await server.send("DELETE", f"{group}/{path}/one")
            del repeated[:]
            for one in pods:
                assert (await server.take(GONE, *one))[0] == 200
            assert repeated == ["p3", "p4", "p5"]

    asyncio.run(run())


def test_restricted_nodes_take_no_fast_path_and_others_do(repeated: list[str]) -> None:
    async def run() -> None:
        async with PodServer(ApiServerSettings(enable_admission_plugins=("NodeRestriction",))) as server:
            pods = await victims(server, 8)
            for one in pods[:5]:
                assert (await server.take(TARGET, *one))[0] == 200
            assert repeated == ["p3", "p4"]
            server.user = User("system:node:n6", ("system:nodes", "system:authenticated"))
            assert [(await server.take(TARGET, *one))[0] for one in pods[5:]] == [403, 200, 403]
            assert repeated == ["p3", "p4"]

    asyncio.run(run())


def test_a_pod_that_changes_in_between_is_changed_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with PodServer() as server:
            pods = await victims(server, 6)
            for one in pods[:4]:
                await server.take(TARGET, *one)
                await server.take(GONE, *one)
            write = Change.write

            async def late(self: Change, **options: bool) -> Entry | None:
                await server.send(
                    "PATCH", f"{PODS}/{self._subject.entry.name}", {"metadata": {"labels": {"a": "b"}}}, MERGE
                )
                return await write(self, **options)

            monkeypatch.setattr(Change, "write", late)
            changed = (await server.take(TARGET, *pods[4]))[1]
            assert changed["metadata"]["labels"] == {"a": "b"}
            assert [one["type"] for one in changed["status"]["conditions"]] == ["DisruptionTarget"]
            assert (await server.take(GONE, *pods[5]))[0] == 200
            assert (await server.send("GET", f"{PODS}/p5"))[0] == 404

    asyncio.run(run())
