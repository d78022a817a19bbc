"""Steps that are taken with pods one after the other, and which of them took the fast path."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.writes.write_memo import Change, WriteMemo
from tests.apiserver.standing_still import JSON, PODS, Server

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


def turn(name: str, uid: str, node: str, *steps: Step) -> list[tuple[str, str, bytes, str]]:
    """What is to be sent for a pod."""
    asks = []
    for method, content_type, subresource, body in steps:
        for mark, text in (("%n", name), ("%u", uid), ("%h", node)):
            body = body.replace(mark, text)
        asks.append((method, f"{PODS}/{name}/{subresource}".rstrip("/"), body.encode(), content_type))
    return asks


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
