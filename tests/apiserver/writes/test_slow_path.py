"""Changes that the fast path must not take: what stays, what is written otherwise, what others change or look at."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import User
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.writes.write_memo import Change
from tests.apiserver.standing_still import PODS
from tests.apiserver.writes.pod_steps import GONE, MERGE, TARGET, PodServer, repeated, victims, waiting

__all__ = ["repeated"]


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
