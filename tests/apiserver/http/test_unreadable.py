"""Objects whose stored form cannot be read: what fails, what does not, how it ends, and how they are removed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from bayplan.api.feature_gates import UNSAFE_DELETION
from bayplan.api.types import core_v1
from bayplan.store.errors import Untransformable
from bayplan.store.memory import MemoryStore
from bayplan.store.transforming import TransformingStore
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import AS_RECORDED, Served, client_of, served

MAPS = "/api/v1/namespaces/default/configmaps"
KEY = "/registry/core/configmaps/default/a"
PATIENCE = 20.0
"""Seconds that anything may take."""
ROLE = {
    "metadata": {"name": "remover", "namespace": "default"},
    "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]}],
}
BINDING = {
    "metadata": {"name": "remover", "namespace": "default"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "remover"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
}


class Lock:
    """Values of config maps are kept behind a word, which may be lost."""

    def __init__(self) -> None:
        self.word = b"one:"

    def to_storage(self, key: str, value: bytes) -> bytes:
        return self.word + value

    def from_storage(self, key: str, value: bytes) -> bytes:
        if not value.startswith(self.word):
            raise Untransformable(key, "no matching prefix found")
        return value[len(self.word) :]

    def is_current(self, value: bytes) -> bool:
        return value.startswith(self.word)

    def form(self, value: bytes) -> bytes:
        return value[:4]


class Locked:
    """A server with one config map, `a`, of which `lose` makes one that cannot be read."""

    def __init__(self, server: Served, lock: Lock, below: MemoryStore) -> None:
        self.server = server
        self.lock = lock
        self.below = below

    async def lose(self) -> None:
        """Another server writes the object behind a word of its own."""
        kept = await self.below.get(KEY)
        assert kept is not None
        revision = await self.below.put(KEY, b"two:" + kept.value[len(self.lock.word) :])
        partition = self.server.api.context.objects.partition("/registry/core/configmaps/")
        await asyncio.wait_for(partition.wait_for(revision), PATIENCE)

    async def ask(self, method: str, path: str, body: Any = None, user: str = "admin") -> tuple[int, dict[str, Any]]:
        """Status and answer of a request."""
        url, headers = self.server.url + path, self.server.headers(user)
        async with self.server.session.request(method, url, json=body, headers=headers) as answer:
            return answer.status, await answer.json()


@contextlib.asynccontextmanager
async def locked(*gates: str) -> AsyncIterator[Locked]:
    lock, below = Lock(), MemoryStore(clock=SystemClock())
    store = TransformingStore(below, lambda key: lock if key.startswith("/registry/core/configmaps/default/") else None)
    async with served(replace(AS_RECORDED, feature_gates=frozenset(gates)), store=store) as server:
        one = Locked(server, lock, below)
        for name in ("a", "b"):
            status, _ = await one.ask("POST", MAPS, {"metadata": {"name": name}})
            assert status == 201
        yield one


def test_requests_about_it_fail_and_others_do_not() -> None:
    async def run() -> None:
        async with locked() as one:
            await one.lose()
            why = f"Internal error occurred: unable to transform key '{KEY}': no matching prefix found"
            for method, path, body in (
                ("GET", f"{MAPS}/a", None),
                ("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}}),
                ("DELETE", f"{MAPS}/a", None),
                ("GET", MAPS, None),
                ("GET", "/api/v1/configmaps?limit=1", None),
                ("GET", f"{MAPS}?watch=true", None),
                ("DELETE", MAPS, None),
            ):
                status, answer = await one.ask(method, path, body)
                assert (status, answer["reason"], answer["message"]) == (500, "InternalError", why), (method, path)
            assert (await one.ask("POST", MAPS, {"metadata": {"name": "a"}}))[0] == 409
            async with one.server.session.get(f"{one.server.url}/metrics", headers=one.server.headers()) as page:
                metrics = await page.text()
            assert 'apiserver_storage_decode_errors_total{group="",resource="configmaps"} 1' in metrics
            assert 'apiserver_resource_objects{group="",resource="configmaps"} -1' in metrics
            for method, path, status in (
                ("GET", f"{MAPS}/b", 200),
                ("GET", "/api/v1/namespaces/kube-system/configmaps", 200),
                ("GET", "/api/v1/namespaces", 200),
                ("GET", f"{MAPS}/c", 404),
            ):
                assert (await one.ask(method, path))[0] == status

    asyncio.run(run())


def test_watches_of_clients_end_and_nobody_is_told_that_it_is_gone() -> None:
    async def run() -> None:
        async with locked() as one:
            version = (await one.ask("GET", MAPS))[1]["metadata"]["resourceVersion"]
            url = f"{one.server.url}{MAPS}?watch=true&resourceVersion={version}"
            async with one.server.session.get(url, headers=one.server.headers()) as watch:
                await one.lose()
                assert json.loads(await asyncio.wait_for(watch.content.read(), PATIENCE))["object"]["code"] == 410
            one.lock.word = b"two:"
            async with asyncio.timeout(PATIENCE):
                while (await one.ask("GET", f"{MAPS}/a"))[0] != 200:  # noqa: ASYNC110 - the server tries again
                    await asyncio.sleep(0.1)
            items = (await one.ask("GET", MAPS))[1]["items"]
            assert [item["metadata"]["name"] for item in items] == ["a", "b"]

    asyncio.run(run())


def test_it_is_there_again_when_somebody_writes_or_removes_it() -> None:
    async def run() -> None:
        async with locked() as one:
            api = client_of(one.server.api)
            for end in ("put", "delete"):
                await one.lose()
                assert (await one.ask("GET", f"{MAPS}/a"))[0] == 500
                if end == "put":
                    kept = await one.below.get(KEY)
                    assert kept is not None
                    await one.below.put(KEY, b"one:" + kept.value[4:])
                else:
                    await one.below.delete(KEY)
                found = [item.metadata.name for item in (await api.list(core_v1.ConfigMap, "default")).items]
                assert found == (["a", "b"] if end == "put" else ["b"])

    asyncio.run(run())


@pytest.mark.parametrize("has_gate", [True, False])
def test_it_is_removed_with_an_option_by_who_may(has_gate: bool) -> None:
    async def run() -> None:
        async with locked(*([UNSAFE_DELETION] if has_gate else [])) as one:
            rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
            await one.ask("POST", f"{rbac}/roles", ROLE)
            await one.ask("POST", f"{rbac}/rolebindings", BINDING)
            options = {"ignoreStoreReadErrorWithClusterBreakingPotential": True}
            status, answer = await one.ask("DELETE", f"{MAPS}/b", options)
            assert status == (422 if has_gate else 200)
            if has_gate:
                assert "is exclusively used to delete corrupt object(s)" in answer["message"]
                assert (await one.ask("DELETE", f"{MAPS}/missing", options))[0] == 404
                status, answer = await one.ask("DELETE", MAPS, options)
                assert (status, "is not allowed with DELETECOLLECTION" in answer["message"]) == (422, True)
                status, answer = await one.ask("DELETE", f"{MAPS}/a", {**options, "gracePeriodSeconds": 0})
                assert (status, "cannot be set together with .gracePeriodSeconds" in answer["message"]) == (422, True)
            await one.lose()
            assert (await one.ask("DELETE", f"{MAPS}/a", user="alice"))[0] == 500
            status, answer = await one.ask("DELETE", f"{MAPS}/a", options, user="alice")
            assert status == (403 if has_gate else 500)
            if has_gate:
                assert 'not permitted to do "unsafe-delete-ignore-read-errors", reason: ' in answer["message"]
            status, answer = await one.ask("DELETE", f"{MAPS}/a", options)
            assert (status, answer["status"]) == ((200, "Success") if has_gate else (500, "Failure"))
            assert (await one.ask("GET", f"{MAPS}/a"))[0] == (404 if has_gate else 500)

    asyncio.run(run())


def test_bytes_that_are_no_object_are_one_of_these() -> None:
    async def run() -> None:
        async with locked() as one:
            namespaces = "/registry/core/namespaces"
            for name, value in (("x", b"nonsense"), ("y", b'{"kind":"Namespace","apiVersion":"v1","metadata":7}')):
                await one.below.put(f"{namespaces}/{name}", value)
                status, answer = await one.ask("GET", f"/api/v1/namespaces/{name}")
                assert (status, f"unable to decode key '{namespaces}/{name}'" in answer["message"]) == (500, True)
            assert (await one.ask("GET", "/api/v1/namespaces/default"))[0] == 200

    asyncio.run(run())
