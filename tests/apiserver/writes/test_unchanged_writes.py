"""Writes that change nothing and come again: they are answered as before, without being worked out anew, as long as nothing has changed that decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.apiserver.requests import User
from bayplan.apiserver.verbs import apply, patch, update
from bayplan.apiserver.writes.unchanged_writes import UnchangedWrites
from tests.apiserver.standing_still import ADMIN, CORE, Server

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WEB = f"{DEPLOYMENTS}/web"
MAP = f"{CORE}/configmaps/map"
Tree = dict[str, Any]

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DEPLOYMENT: Tree = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}
CONFIG_MAP: Tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": {"a": "1"}}


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of objects whose writes were worked out."""
    found: list[str] = []
    modify = update.modify

    async def noted(call: Any, *args: Any, **options: Any) -> Any:
        found.append(call.path.name)
        return await modify(call, *args, **options)

    monkeypatch.setattr(update, "modify", noted)
    monkeypatch.setattr(patch, "modify", noted)
    monkeypatch.setattr(apply, "modify", noted)
    return found


WRITES: list[tuple[str, str, str, Any, dict[str, str]]] = [
    ("PATCH", WEB, APPLY, DEPLOYMENT, {"fieldManager": "gitops"}),
    ("PATCH", WEB, APPLY, DEPLOYMENT, {"fieldManager": "gitops", "force": "true"}),
    ("PATCH", MAP, APPLY, CONFIG_MAP, {"fieldManager": "gitops"}),
    ("PATCH", WEB, MERGE, {"spec": {"replicas": 2}}, {}),
    ("PATCH", WEB, STRATEGIC, {"metadata": {"labels": {"app": "web"}}}, {}),
    ("PATCH", WEB, JSON_PATCH, [{"op": "replace", "path": "/spec/replicas", "value": 2}], {}),
    ("PUT", WEB, "application/json", DEPLOYMENT, {}),
    ("PUT", MAP, "application/json", CONFIG_MAP, {"fieldValidation": "Strict"}),
    ("PATCH", f"{WEB}/status", MERGE, {"status": {"replicas": 0}}, {}),
]


async def prepare(server: Server) -> None:
    for path, body in ((WEB, DEPLOYMENT), (MAP, CONFIG_MAP)):
        assert (await server.send("PATCH", path, body, APPLY, fieldManager="gitops"))[0] == 201


@pytest.mark.parametrize(("method", "path", "content_type", "body", "query"), WRITES)
def test_a_write_that_changes_nothing_is_worked_out_once(
    method: str, path: str, content_type: str, body: Any, query: dict[str, str], worked_out: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    async def run() -> list[Any]:
        async with Server() as server:
            await prepare(server)
            del worked_out[:]
            found = []
            for _ in range(4):
                server.clock.advance(60)
                found.append(await server.send(method, path, body, content_type, **query))
            return found

    found = asyncio.run(run())
    assert [code for code, _ in found] == [200] * 4
    assert found[1] == found[2] == found[3]
    assert 1 <= len(worked_out) <= 2  # the first may change who owns what
    monkeypatch.setattr(UnchangedWrites, "find", lambda self, call: None)
    assert found == asyncio.run(run())
    assert len(worked_out) == 4


Step = Callable[[Server], Awaitable[Any]]


def sends(method: str, path: str, body: Any = None, content_type: str = MERGE) -> Step:
    return lambda server: server.send(method, path, body, content_type)


async def by_somebody_else(server: Server) -> None:
    server.user = User("other", ADMIN.groups)


def policy() -> Tree:
    """Refuses all Deployments with two replicas."""
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "object.spec.replicas != 2"}]}
    return {"metadata": {"name": "odd"}, "spec": spec}


async def refuse(server: Server) -> None:
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    assert (await server.send("POST", policies, policy()))[0] == 201
    binding = {"metadata": {"name": "odd"}, "spec": {"policyName": "odd", "validationActions": ["Deny"]}}
    assert (await server.send("POST", policies.replace("policies", "policybindings"), binding))[0] == 201


@pytest.mark.parametrize(
    ("between", "code", "is_worked_out"),
    [
        (sends("PATCH", f"{WEB}/status", {"status": {"replicas": 1}}), 200, True),
        (sends("PATCH", WEB, {"spec": {"replicas": 5}}), 409, True),
        (sends("DELETE", WEB), 201, False),
        (sends("PATCH", MAP, {"data": {"b": "2"}}), 200, False),
        (refuse, 422, True),
        (by_somebody_else, 200, False),
    ],
)
def test_what_decides_is_looked_at_each_time(
    between: Step, code: int, is_worked_out: bool, worked_out: list[str]
) -> None:
    async def run() -> None:
        async with Server() as server:
            await prepare(server)
            for _ in range(2):
                assert (await server.send("PATCH", WEB, DEPLOYMENT, APPLY, fieldManager="gitops"))[0] == 200
            await between(server)
            del worked_out[:]
            assert (await server.send("PATCH", WEB, DEPLOYMENT, APPLY, fieldManager="gitops"))[0] == code
            assert worked_out == (["web"] if is_worked_out else [])

    asyncio.run(run())


def test_other_requests_are_others(worked_out: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            await prepare(server)
            for _ in range(3):
                await server.send("PATCH", MAP, CONFIG_MAP, APPLY, fieldManager="gitops")
            assert worked_out == ["map"]
            other = (await server.send("PATCH", MAP, CONFIG_MAP, APPLY, fieldManager="other"))[1]
            assert {one["manager"] for one in other["metadata"]["managedFields"]} == {"gitops", "other"}
            shown = await server.send("PATCH", MAP, CONFIG_MAP, APPLY, fieldManager="third", dryRun="All")
            assert len(shown[1]["metadata"]["managedFields"]) == 3
            changed = (
                await server.send("PATCH", MAP, {**CONFIG_MAP, "data": {"a": "2"}}, APPLY, fieldManager="gitops")
            )[0]
            assert changed == 409  # others own it now
            assert worked_out == ["map"] * 4

    asyncio.run(run())


def test_warnings_are_given_each_time(worked_out: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            await prepare(server)
            body = {**CONFIG_MAP, "extra": 1}
            for _ in range(3):
                assert (await server.send("PUT", MAP, body))[0] == 200
            assert worked_out == ["map"] * 3

    asyncio.run(run())


def test_a_replacement_of_an_older_revision_is_refused_each_time(worked_out: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            await prepare(server)
            seen = (await server.send("GET", MAP))[1]
            for _ in range(3):
                assert (await server.send("PUT", MAP, seen))[0] == 200
            assert worked_out == ["map"]
            await server.send("PATCH", MAP, {"data": {"a": "2"}}, MERGE)
            assert (await server.send("PUT", MAP, seen))[0] == 409

    asyncio.run(run())
