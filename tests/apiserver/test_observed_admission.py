"""Admission plugins declare nothing: whatever decides what they do is observed, and no answer is repeated that would be another one now."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from bayplan.api.errors import forbidden_error
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, AdmissionChain, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.requests import Request, User
from tests.apiserver.standing_still import ADMIN, CORE, PODS, Server
from tests.apiserver.writes.pod_steps import STRATEGIC, TARGET, PodServer, pod, repeated, victims
from tests.apiserver.writes.test_create_templates import instances

__all__ = ["instances", "repeated"]
Admit = Callable[[AdmissionRequest], Awaitable[None] | None]


class Plugin(AdmissionPlugin):
    """Changes pods when they are created."""

    name = "Plugin"

    def __init__(self, admit: Admit) -> None:
        self._admit = admit

    def admit(self, request: AdmissionRequest) -> Awaitable[None] | None:
        return self._admit(request)

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and operation == CREATE and not subresource


class Watchman(AdmissionPlugin):
    """Looks at all changes of pods."""

    name = "Watchman"

    def __init__(self, validate: Admit) -> None:
        self._validate = validate

    def validate(self, request: AdmissionRequest) -> Awaitable[None] | None:
        return self._validate(request)

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and operation != CREATE


def add(server: Server, plugin: AdmissionPlugin) -> None:
    """Put a plugin in front of the server's own."""
    context = server.api.context
    context.admission = AdmissionChain((plugin, *context.admission.plugins))


def annotate(request: AdmissionRequest, text: object) -> None:
    request.obj.metadata.annotations["seen"] = str(text)


async def create(server: Server, name: str, **metadata: Any) -> str:
    """Create a pod; what the plugin wrote."""
    code, made = await server.send("POST", PODS, pod(name, metadata=metadata))
    assert code == 201, made
    return str(made["metadata"]["annotations"]["seen"])


def test_a_plugin_that_reads_the_clock_is_asked_about_every_pod(instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(lambda request: annotate(request, request.call.context.clock.now())))
            seen = []
            for name in "abcde":
                server.clock.advance(1)
                seen.append(await create(server, name))
            assert len({*seen}) == 5
            assert instances == []

    asyncio.run(run())


def test_a_plugin_that_looks_at_the_requester_is_asked_about_other_requesters(instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(lambda request: annotate(request, request.call.request.user.name)))
            assert [await create(server, name) for name in "abcd"] == ["admin"] * 4
            assert instances == ["c", "d"]
            server.user = User("other", ADMIN.groups)
            assert [await create(server, name) for name in "efg"] == ["other"] * 3
            assert "e" not in instances
            server.user = ADMIN
            assert await create(server, "h") == "admin"

    asyncio.run(run())


def test_a_plugin_that_reads_a_config_map_is_asked_again_when_that_changes_and_only_then(instances: list[str]) -> None:
    def admit(request: AdmissionRequest) -> None:
        found = request.call.context.find("ConfigMap", request.namespace, "settings")
        annotate(request, found.data["mode"] if found is not None else "none")

    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(admit))
            maps = f"{CORE}/configmaps"
            assert [await create(server, name) for name in "abc"] == ["none"] * 3
            await server.send("POST", maps, {"metadata": {"name": "other"}, "data": {}})
            assert await create(server, "d") == "none"
            assert instances == ["c", "d"]
            await server.send("POST", maps, {"metadata": {"name": "settings"}, "data": {"mode": "one"}})
            assert [await create(server, name) for name in "efg"] == ["one"] * 3
            assert instances == ["c", "d", "f", "g"]
            await server.send("PUT", f"{maps}/settings", {"metadata": {"name": "settings"}, "data": {"mode": "two"}})
            assert await create(server, "h") == "two"
            await server.send("DELETE", f"{maps}/settings")
            assert await create(server, "i") == "none"

    asyncio.run(run())


def test_a_plugin_that_counts_objects_of_a_kind_is_asked_again_when_one_comes(instances: list[str]) -> None:
    def admit(request: AdmissionRequest) -> None:
        context = request.call.context
        kind = context.kinds.of_kind("v1", "ConfigMap")
        assert kind is not None
        annotate(request, sum(1 for _ in context.objects.cache(kind).ordered(request.namespace)))

    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(admit))
            for number, name in enumerate("abc"):
                assert await create(server, name) == str(number)
                await server.send("POST", f"{CORE}/configmaps", {"metadata": {"name": name}})
            assert [await create(server, name) for name in "def"] == ["3"] * 3
            assert instances == ["e", "f"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "read",
    [
        lambda pod: pod.metadata.labels["tier"],
        lambda pod: {**pod.metadata.labels}["tier"],
        lambda pod: pod.metadata.labels.get("tier"),
        lambda pod: dict(pod.metadata.labels)["tier"],
        lambda pod: (pod.metadata.labels | {})["tier"],
        lambda pod: (
            "silver" if pod.metadata.labels in [{"tier": "silver", "index": one} for one in "abcdef"] else "gold"
        ),
        lambda pod: next(value for key, value in pod.metadata.labels.items() if key == "tier"),
        lambda pod: "gold" if "gold" in pod.metadata.labels.values() else "silver",
        lambda pod: "gold" if b"gold" in msgspec.json.encode(pod) else "silver",
        lambda pod: msgspec.structs.asdict(pod.metadata)["labels"]["tier"],
        lambda pod: "gold" if "gold" in repr(pod) else "silver",
        lambda pod: msgspec.structs.replace(pod.metadata).labels["tier"],
    ],
)
def test_a_label_that_a_plugin_reads_decides(read: Callable[[Any], str], instances: list[str]) -> None:
    def admit(request: AdmissionRequest) -> None:
        annotate(request, read(request.obj))

    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(admit))
            for name, tier in zip("abcdefghi", ["silver"] * 6 + ["gold"] * 3, strict=True):
                assert await create(server, name, labels={"tier": tier, "index": name}) == tier
            assert "g" not in instances

    asyncio.run(run())


def test_labels_that_no_plugin_reads_stay_open(instances: list[str]) -> None:
    def admit(request: AdmissionRequest) -> None:
        labels = request.obj.metadata.labels
        annotate(request, f"{labels['tier']} of {sorted(labels)}")

    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(admit))
            for name in "abcdef":
                labels = {"tier": "gold", "index": name}
                assert await create(server, name, labels=labels) == "gold of ['index', 'tier']"
            assert instances == ["c", "d", "e", "f"]

    asyncio.run(run())


def test_the_value_of_a_variable_that_a_plugin_reads_decides(instances: list[str]) -> None:
    def admit(request: AdmissionRequest) -> None:
        annotate(request, request.obj.spec.containers[0].env[0].value)

    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(admit))
            for name in "abcdef":
                variables = [{"name": "INDEX", "value": name}, {"name": "OTHER", "value": name}]
                body = pod(name, containers=[{"name": "c", "image": "i", "env": variables}])
                made = (await server.send("POST", PODS, body))[1]
                assert made["metadata"]["annotations"]["seen"] == name
            assert instances == []

    asyncio.run(run())


@pytest.mark.parametrize(
    "admit",
    [
        lambda request: annotate(request, request.name),
        lambda request: annotate(request, request.obj.metadata.name),
        lambda request: annotate(request, request.call.context.randomness.random()),
        lambda request: annotate(request, request.call.request.body[-20:]),
    ],
)
def test_what_is_different_for_every_pod_is_never_repeated(admit: Admit, instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(admit))
            for name in "abcde":
                await create(server, name)
            assert instances == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("draw", "length"), [(lambda randomness: randomness.suffix(5), 5), (lambda randomness: randomness.uuid4(), 36)]
)
def test_texts_by_chance_are_drawn_for_every_pod(draw: Callable[[Any], str], length: int, instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(lambda request: annotate(request, draw(request.call.context.randomness))))
            seen = [await create(server, name) for name in "abcde"]
            assert instances == ["c", "d", "e"]
            assert len({*seen}) == 5
            assert {len(text) for text in seen} == {length}

    asyncio.run(run())


def test_a_plugin_that_waits_or_warns_is_asked_about_every_pod(instances: list[str]) -> None:
    asked = []

    async def waits(request: AdmissionRequest) -> None:
        asked.append(request.name)
        annotate(request, "waited")

    def warns(request: AdmissionRequest) -> None:
        request.call.warnings.append("careful")
        annotate(request, "warned")

    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(waits))
            for name in "abcd":
                await create(server, name)
            assert asked == ["a", "b", "c", "d"]
            add(server, Plugin(warns))
            for name in "efgh":
                await create(server, name)
            assert instances == []

    asyncio.run(run())


begin: list[float] = []
"""When the last cluster began."""


async def changed(server: PodServer, plugin: AdmissionPlugin, between: Callable[[int], Awaitable[None]]) -> list[int]:
    """The answers to the same change of eight pods."""
    add(server, plugin)
    codes = []
    for number, one in enumerate(await victims(server, 8)):
        await between(number)
        codes.append((await server.take(TARGET, *one))[0])
    return codes


def test_changes_are_repeated_until_what_a_plugin_reads_changes(repeated: list[str]) -> None:
    def validate(request: AdmissionRequest) -> None:
        if request.call.context.find("ConfigMap", request.namespace, "stop") is not None:
            raise forbidden_error("pods", "", request.name, "stopped")

    async def run() -> None:
        async with PodServer() as server:

            async def between(number: int) -> None:
                if number == 5:
                    await server.send("POST", f"{CORE}/configmaps", {"metadata": {"name": "stop"}})
                if number == 7:
                    await server.send("DELETE", f"{CORE}/configmaps/stop")

            assert await changed(server, Watchman(validate), between) == [200] * 5 + [403] * 2 + [200]
            assert repeated == ["p3", "p4", "p7"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "refuses",
    [
        lambda request: request.call.context.clock.now() >= begin[0] + 5,
        lambda request: request.call.request.user.name == "other",
        lambda request: request.name >= "p5",
        lambda request: request.old.metadata.name >= "p5",
        lambda request: request.call.path.name >= "p5",
        lambda request: isinstance(request.obj, dict) or request.obj.metadata.name >= "p5",
    ],
)
def test_changes_that_a_plugin_would_refuse_are_not_repeated(refuses: Any) -> None:

    def validate(request: AdmissionRequest) -> None:
        if refuses(request):
            raise forbidden_error("pods", "", request.name, "no")

    async def run() -> None:
        async with PodServer() as server:
            begin[:] = [server.clock.now()]

            async def between(number: int) -> None:
                server.user = User("other", ADMIN.groups) if number >= 5 else ADMIN
                if number == 5:
                    server.clock.advance(5)

            assert await changed(server, Watchman(validate), between) == [200] * 5 + [403] * 3

    asyncio.run(run())


def test_changes_by_another_program_are_judged_for_themselves(repeated: list[str]) -> None:
    def validate(request: AdmissionRequest) -> None:
        if request.call.request.user_agent == "other":
            raise forbidden_error("pods", "", request.name, "no")

    async def run() -> None:
        async with PodServer() as server:
            add(server, Watchman(validate))
            codes = []
            for number, (name, _, _) in enumerate(await victims(server, 8)):
                agent = "one" if number < 4 else "other"
                path, body = f"{PODS}/{name}/status", TARGET[3].encode()
                request = Request("PATCH", path, {}, ADMIN, body, STRATEGIC, user_agent=agent)
                codes.append((await server.api.handle(request)).code)
            assert codes == [200] * 4 + [403] * 4
            assert repeated == []

    asyncio.run(run())


def test_a_plugin_that_looks_for_a_custom_kind_is_asked_again_when_kinds_change(instances: list[str]) -> None:
    def admit(request: AdmissionRequest) -> None:
        annotate(request, request.call.context.kinds.of_kind("example.com/v1", "Rule") is not None)

    async def run() -> None:
        async with Server() as server:
            add(server, Plugin(admit))
            assert [await create(server, name) for name in "abcd"] == ["False"] * 4
            assert instances == ["c", "d"]
            kinds = server.api.context.kinds
            (pods,) = [one for one in kinds if one.kind == "Pod" and not one.group]
            kinds.add(dataclasses.replace(pods, group="example.com", kind="Rule", plural="rules"))
            assert await create(server, "e") == "True"

    asyncio.run(run())


class Doorman(AdmissionPlugin):
    """Looks at all new ConfigMaps."""

    name = "Doorman"

    def __init__(self, validate: Admit) -> None:
        self._validate = validate

    def validate(self, request: AdmissionRequest) -> Awaitable[None] | None:
        return self._validate(request)

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "ConfigMap" and operation == CREATE


@pytest.mark.parametrize(
    ("look", "asked"),
    [
        (lambda request: "", 2),  # once for each user
        (lambda request: request.call.request.user.name, 2),
        (lambda request: request.obj.data["a"], 6),
        (lambda request: request.name, 6),
        (lambda request: request.call.context.clock.now(), 6),
        (lambda request: request.call.dry_run, 6),
        (lambda request: request.call.context.randomness.random(), 6),
        (lambda request: request.call.context.randomness.uuid4(), 8),
    ],
)
def test_a_plugin_is_asked_about_each_object_if_it_looks_at_more_than_is_compared(
    look: Callable[[AdmissionRequest], object], asked: int
) -> None:
    seen: list[object] = []

    def validate(request: AdmissionRequest) -> None:
        seen.append(look(request))

    async def run() -> None:
        async with Server() as server:
            add(server, Doorman(validate))
            for number in range(6):
                if number == 3:
                    server.user = User("other", ADMIN.groups)
                body = {"metadata": {"name": f"m-{number}"}, "data": {"a": str(number)}}
                assert (await server.send("POST", f"{CORE}/configmaps", body))[0] == 201
            assert len(seen) == asked

    asyncio.run(run())
