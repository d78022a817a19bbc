"""Kinds of dynamic resource allocation, by a client that knows no types and follows every step with a streaming list.

Conformance: [DRA] CRUD Tests resource.k8s.io/v1 DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.conformance.requests import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Object,
    Watching,
)
from tests.integration.conformance.workloads import Space, Workloads, revision

GROUP = "/apis/resource.k8s.io/v1"
STREAM = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
REQUEST = {"devices": {"requests": [{"name": "first", "exactly": {"deviceClassName": "cranes.example.com"}}]}}
LABELLED = {"metadata": {"labels": {"crane.example.com": "seen"}}}
ADD_LABEL = [{"op": "add", "path": "/metadata/labels/crane.example.com", "value": "seen"}]
ALLOCATED: Object = {"status": {"allocation": {}}}
ADD_ALLOCATION: list[Object] = [{"op": "add", "path": "/status/allocation", "value": {}}]


@dataclass(frozen=True)
class Device:
    """What is created of a kind, and the same change as patches of several types."""

    plural: str
    namespaced: bool
    body: Object
    change: Object
    patches: tuple[tuple[str, Any], ...]
    status_change: Object | None = None
    status_patches: tuple[tuple[str, Any], ...] = ()


def selecting(expression: str) -> Object:
    """A class of devices by an expression."""
    return {"spec": {"selectors": [{"cel": {"expression": expression}}]}}


SLICE = {
    "driver": "cranes.example.com",
    "pool": {"name": "pier", "generation": 1, "resourceSliceCount": 1},
    "nodeName": "nowhere",
}
WITH_DEVICE = {"spec": {"devices": [{"name": "crane-0"}]}}
FOUR_WAYS = ((STRATEGIC_PATCH, LABELLED), (APPLY_PATCH, LABELLED), (MERGE_PATCH, LABELLED), (JSON_PATCH, ADD_LABEL))
FOUR_STATUS_WAYS = (
    (STRATEGIC_PATCH, ALLOCATED),
    (APPLY_PATCH, ALLOCATED),
    (MERGE_PATCH, ALLOCATED),
    (JSON_PATCH, ADD_ALLOCATION),
)
DEVICES = {
    "DeviceClass": Device(
        "deviceclasses", False, selecting("false"), selecting("2 == 3"), ((STRATEGIC_PATCH, selecting("2 == 3")),)
    ),
    "ResourceClaim": Device(
        "resourceclaims", True, {"spec": REQUEST}, LABELLED, FOUR_WAYS, ALLOCATED, FOUR_STATUS_WAYS
    ),
    "ResourceClaimTemplate": Device(
        "resourceclaimtemplates", True, {"spec": {"spec": REQUEST}}, LABELLED, ((STRATEGIC_PATCH, LABELLED),)
    ),
    "ResourceSlice": Device("resourceslices", False, {"spec": SLICE}, WITH_DEVICE, ((STRATEGIC_PATCH, WITH_DEVICE),)),
}


def merged(target: Any, change: Any) -> Any:
    """An object with a change in it; lists are replaced."""
    if not isinstance(target, dict) or not isinstance(change, dict):
        return copy.deepcopy(change)
    return {**target, **{key: merged(target.get(key), value) for key, value in change.items()}}


class Follower:
    """What an informer hears: each event of one object, none out of order."""

    def __init__(self, watch: Watching) -> None:
        self._watch = watch
        self._last = 0

    async def hear(self, type_: str, obj: Object) -> None:
        """The next event is of this type and shows the object in this state."""
        while (event := await self._watch.next())[0] == "BOOKMARK":
            pass
        kind, seen = event
        assert (kind, seen["metadata"]["name"], seen["metadata"]["uid"]) == (
            type_,
            obj["metadata"]["name"],
            obj["metadata"]["uid"],
        )
        assert int(revision(seen)) >= max(self._last, int(revision(obj)))
        assert type_ == "DELETED" or seen == obj
        self._last = int(revision(seen))


class Followers:
    """Informers of all namespaces and of the own one, and what was done last."""

    def __init__(self, space: Space, path: str, own: str, followers: list[Follower]) -> None:
        self._api, self._path, self._own, self._followers = space.dynamic, path, own, followers
        self.state: Object = {}

    async def _heard(self, type_: str, obj: Object) -> Object:
        for follower in self._followers:
            await follower.hear(type_, obj)
        self.state = obj
        return obj

    async def create(self, body: Object) -> None:
        """Create the object."""
        await self._heard("ADDED", await self._api.create(self._path, body, fieldValidation="Strict"))

    async def update(self, change: Object, subresource: str = "") -> None:
        """Change the object by an update."""
        before = self.state
        updated = await self._api.update(f"{self._own}{subresource}", merged(before, change))
        assert int(revision(updated)) > int(revision(before))
        await self._heard("MODIFIED", updated)

    async def patch(self, media_type: str, body: Any, subresource: str = "") -> None:
        """Change the object by a patch; patches that are objects say which object they are for."""
        if isinstance(body, dict):
            metadata = {
                key: self.state["metadata"][key]
                for key in ("name", "namespace", "uid")
                if key in self.state["metadata"]
            }
            body = merged({key: self.state[key] for key in ("apiVersion", "kind")} | {"metadata": metadata}, body)
        query = {"fieldManager": "test-apply", "force": "true"} if media_type == APPLY_PATCH else {}
        path = f"{self._own}{subresource}"
        await self._heard("MODIFIED", await self._api.patch(path, body, media_type, fieldValidation="Strict", **query))

    async def delete(self, **query: str) -> None:
        """Delete the object, or the collection by its label."""
        await self._api.delete(self._path if query else self._own, **query)
        assert await self._api.gone(self._own)
        for follower in self._followers:
            await follower.hear("DELETED", self.state)


@asynccontextmanager
async def following(space: Space, paths: list[str], own: str, label: str) -> AsyncIterator[Followers]:
    """Informers that have seen that there is nothing."""
    async with AsyncExitStack() as stack:
        found = []
        for path in paths:
            watch = await stack.enter_async_context(space.dynamic.watch(path, labelSelector=label, **STREAM))
            kind, obj = await watch.next()
            assert (kind, obj["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})
            assert obj["kind"]
            found.append(Follower(watch))
        yield Followers(space, paths[-1], own, found)


@pytest.mark.parametrize("kind", DEVICES)
def test_a_kind_is_created_changed_and_deleted_in_every_way(workloads: Workloads, kind: str) -> None:
    """[DRA] CRUD Tests resource.k8s.io/v1 DeviceClass / ResourceClaim / ResourceClaimTemplate / ResourceSlice."""
    device = DEVICES[kind]

    async def scenario(space: Space) -> None:
        resources = (await space.dynamic.get(GROUP))["resources"]
        assert device.plural in [one["name"] for one in resources]
        everywhere = f"{GROUP}/{device.plural}"
        paths = [everywhere, f"{GROUP}/namespaces/{space.name}/{device.plural}"] if device.namespaced else [everywhere]
        label = {"trial.example.com": space.name}
        name = "test" if device.namespaced else f"test-{space.name}"
        metadata = {"name": name, "labels": label, **({"namespace": space.name} if device.namespaced else {})}
        body = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, **device.body}
        body = {**body, "status": {}} if device.status_change else body
        selector = f"trial.example.com={space.name}"
        async with following(space, paths, f"{paths[-1]}/{name}", selector) as followers:
            await followers.create(body)
            assert await space.dynamic.get(f"{paths[-1]}/{name}") == followers.state
            await followers.update(device.change)
            if device.status_change:
                await followers.update(device.status_change, "/status")
                assert await space.dynamic.get(f"{paths[-1]}/{name}/status") == followers.state
            for media_type, patch in device.patches:
                await followers.delete()
                await followers.create(body)
                await followers.patch(media_type, patch)
            for media_type, patch in device.status_patches:
                await followers.delete()
                await followers.create(body)
                await followers.update(device.change)
                await followers.patch(media_type, patch, "/status")
                assert followers.state["status"] == {"allocation": {"devices": {}}}
            for path in paths:
                assert await space.dynamic.names(path, labelSelector=selector) == [name]
            await followers.delete(labelSelector=selector)

    workloads.run(scenario)
