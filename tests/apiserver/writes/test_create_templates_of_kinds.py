"""Objects of every kind from templates: whatever the fast path makes of a body is what the slow path would have made of it."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.writes.create_templates import CreateTemplates
from tests.apiserver.instances import note_instances, recorded_creates
from tests.apiserver.standing_still import ADMIN, CORE, Server

NO_TEMPLATES = ("certificates.k8s.io", "admissionregistration.k8s.io")
"""Groups whose objects say who made them, or have effects on all others."""
EVENTS = f"{CORE}/events"
Body = dict[str, Any]
KINDS = {(one.group, one.plural): one for one in DEFAULT_KINDS if one.is_stored and one.group not in NO_TEMPLATES}


@pytest.fixture
def instances(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The objects that took the fast path."""
    made: list[Any] = []
    note_instances(monkeypatch, made.append)
    return made


def recorded() -> dict[str, dict[str, list[Body]]]:
    """The different objects that the transcripts create, by API group and collection. Not pods, which have tests of their own, and nothing that has effects
    on what comes after."""
    found: dict[str, dict[str, dict[str, Body]]] = {}
    for path, body in recorded_creates():
        parts = path.split("/")
        kind = KINDS.get((parts[2] if parts[1] == "apis" else "", parts[-1]))
        if kind is None or kind.plural in ("pods", "customresourcedefinitions", "apiservices"):
            continue
        if kind.namespaced:
            parts[-2] = "default"
        of_group = found.setdefault(kind.group or "core", {})
        without_name = {key: value for key, value in body.items() if key != "metadata"}
        of_group.setdefault("/".join(parts), {})[json.dumps(without_name, sort_keys=True)] = body
    return {group: {path: [*bodies.values()] for path, bodies in paths.items()} for group, paths in found.items()}


RECORDED = recorded()


def variants(body: Body) -> Iterator[Body]:
    """The same object with other names, labels and annotations; the last with some that are refused or kept otherwise."""
    for name in ("one", "two", "three", "four", "with.dot", "BAD", "five"):
        label = "not a label" if name == "BAD" else name
        labels, annotations = {"variant": label}, {"example.com/variant": f"of {name}", "at": "2026-01-02T03:04:05Z"}
        metadata = {key: one for key, one in body["metadata"].items() if key not in ("namespace", "name")}
        named = {} if "generateName" in metadata else {"name": name}
        yield {**body, "metadata": {**metadata, **named, "labels": labels, "annotations": annotations}}


async def answers_to(paths: dict[str, list[Body]]) -> list[Any]:
    async with Server() as server:
        found: list[Any] = []
        for path, bodies in paths.items():
            for body in bodies:
                found += [await server.send("POST", path, one, fieldManager="m") for one in variants(body)]
            found.append(await server.send("GET", path))
        return found


@pytest.mark.parametrize("group", RECORDED)
def test_instances_are_what_they_would_be_alone(
    group: str, instances: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = asyncio.run(answers_to(RECORDED[group]))
    assert instances or group == "events.k8s.io"  # which is not the version that is kept
    monkeypatch.setattr(CreateTemplates, "request_key", lambda self, call: None)
    assert short == asyncio.run(answers_to(RECORDED[group]))


def event(number: int, **more: Any) -> Body:
    """What a scheduler reports."""
    reference = {"kind": "Pod", "namespace": "default", "name": f"web-{number}", "uid": f"u-{number}"}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"web-{number}.{number:016x}"},
        "involvedObject": {**reference, "resourceVersion": str(100 + number)},
        "reason": "Scheduled",
        "message": f"Successfully assigned default/web-{number} to node-{number}",
        "type": "Normal",
        "eventTime": f"2026-01-02T03:04:{number:02d}.{number:06d}Z",
        "action": "Binding",
        "reportingComponent": "default-scheduler",
        "reportingInstance": "default-scheduler",
        **more,
    }


ODD_EVENTS: list[Body] = [
    {"eventTime": "2026-01-02T03:04:05Z"},
    {"eventTime": "2026-13-02T03:04:05.000000Z"},
    {"eventTime": "2026-01-02T03:04:05.000000+01:00"},
    {"eventTime": None},
    {"message": "x" * 1025},
    {"message": ""},
    {"message": 'quo"te'},
    {"message": "\u00e9 \u2028 <&> 100 %b %%"},
    {"reportingInstance": "x" * 129},
    {"involvedObject": {"kind": "Pod", "namespace": "other", "name": "web", "uid": "u", "resourceVersion": "7"}},
    {"metadata": {"name": "not/a/name"}},
    {"metadata": {"name": ".."}},
    {"metadata": {"name": "a" * 300}},
]
"""What is refused, or kept otherwise than it came."""


def test_events_take_the_fast_path(instances: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[Any]:
        async with Server() as server:
            found = [await server.send("POST", EVENTS, event(number)) for number in range(6)]
            for number, odd in enumerate(ODD_EVENTS):
                found.append(await server.send("POST", EVENTS, event(10 + number, **copy.deepcopy(odd))))
            return [*found, await server.send("GET", EVENTS)]

    found = asyncio.run(run())
    assert [code for code, _ in found[:6]] == [201] * 6
    assert {number for number, (code, _) in enumerate(found[6:-1]) if code >= 400} == {0, 1, 4, 8, 10, 11}
    names = [one.metadata.name for one in instances]
    assert names[:4] == [f"web-{number}.{number:016x}" for number in range(2, 6)]
    monkeypatch.setattr(CreateTemplates, "request_key", lambda self, call: None)
    assert found == asyncio.run(run())


def test_events_end_after_their_time_whichever_way_they_came(instances: list[Any]) -> None:
    async def run() -> None:
        async with Server() as server:
            for number in range(4):
                assert (await server.send("POST", EVENTS, event(number)))[0] == 201
            assert len(instances) == 2
            server.clock.advance(3600 + 1)
            for _ in range(5):
                await asyncio.sleep(0)
            assert (await server.send("GET", EVENTS))[1]["items"] == []

    asyncio.run(run())


WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def definition(rule: str) -> Body:
    """Custom resources with defaults, a pattern and a rule."""
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "mode": {"type": "string", "default": "safe"},
        },
        "x-kubernetes-validations": [{"rule": rule}],
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def served(server: Server, defined: Body) -> None:
    """Wait until custom resources are served as a definition says."""
    rule = defined["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
    for _ in range(100):
        kind = server.api.context.kinds.of_resource("example.com", "v1", "widgets")
        if isinstance(kind, CustomKind) and kind.schema["properties"]["spec"]["x-kubernetes-validations"] == rule:
            return
        server.clock.advance(1)
        await asyncio.sleep(0.001)
    raise AssertionError("the definition is not served")


def widget(name: str, size: int = 3) -> Body:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "labels": {"own": name}}}
    return {**body, "spec": {"size": size, "unknown": {"a": "b"}}}


def test_custom_resources_have_templates_until_their_definition_changes(instances: list[Any]) -> None:
    async def run() -> None:
        async with Server() as server:
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            code, made = await server.send("POST", path, definition("self.size < 9"))
            assert code == 201
            await served(server, made)
            quiet = {"fieldValidation": "Ignore"}
            for name in "abcd":
                code, one = await server.send("POST", WIDGETS, widget(name), **quiet)
                assert (code, one["spec"]) == (201, {"size": 3, "mode": "safe"})
                assert one["metadata"]["labels"] == {"own": name}
            assert [one.metadata.name for one in instances] == ["c", "d"]
            assert (await server.send("POST", WIDGETS, widget("NO"), **quiet))[0] == 422
            changed = (await server.send("GET", f"{path}/widgets.example.com"))[1] | {
                "spec": definition("self.size < 3")["spec"]
            }
            assert (await server.send("PUT", f"{path}/widgets.example.com", changed))[0] == 200
            await served(server, changed)
            assert (await server.send("POST", WIDGETS, widget("e"), **quiet))[0] == 422

    asyncio.run(run())


def test_requests_for_certificates_say_who_makes_them(instances: list[Any]) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = next(body["spec"] for where, body in recorded_creates() if where == path)

    async def run() -> None:
        async with Server() as server:
            for number, name in enumerate(("alice", "bob", "alice", "bob", "carol")):
                user = User(name, ADMIN.groups)
                body = {"metadata": {"name": f"c-{number}"}, "spec": spec}
                request = Request("POST", path, {}, user, json.dumps(body).encode(), "application/json")
                made = json.loads((await server.api.handle(request)).whole_body())
                assert made["spec"]["username"] == name
            assert instances == []

    asyncio.run(run())


def test_services_get_addresses_of_their_own(instances: list[Any]) -> None:
    async def run() -> None:
        async with Server() as server:
            found = set()
            for name in "abcde":
                body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
                code, made = await server.send("POST", f"{CORE}/services", body)
                assert code == 201
                found.add(made["spec"]["clusterIP"])
            assert len(found) == 5
            assert instances == []

    asyncio.run(run())
