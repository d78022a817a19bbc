"""Which changes of pods, bindings and statuses take the fast path, and what they are afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bayplan.api.protobuf import message_of
from bayplan.apiserver.admission.pods import pod_topology_labels
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.writes.write_memo import WriteMemo
from tests.apiserver.standing_still import JSON, PODS
from tests.apiserver.writes.pod_steps import (
    BOUND,
    GONE,
    MERGE,
    TARGET,
    UNSCHEDULABLE,
    PodServer,
    condition,
    created,
    none,
    pod,
    repeated,
    victims,
    waiting,
)

__all__ = ["repeated"]


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
