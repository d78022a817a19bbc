"""Requests as the conformance tests send them: over HTTPS, with JSON bodies, refused unless the answer is a success."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp

from tests.apiserver.serving import Served, served

Object = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATIENCE_SECONDS = 10.0


class Refused(AssertionError):
    """An answer other than a success, with its Status."""

    def __init__(self, code: int, status: Object, what: str) -> None:
        super().__init__(f"{what}: {code} {status.get('message', status)}")
        self.code, self.status = code, status

    @property
    def reason(self) -> str:
        """The Status' reason, such as NotFound."""
        return str(self.status.get("reason", ""))

    @property
    def message(self) -> str:
        """The Status' message."""
        return str(self.status.get("message", ""))


class Watching:
    """The events of one watch."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self) -> tuple[str, Object]:
        """The next event: its type and object."""
        line = await asyncio.wait_for(self._answer.content.readline(), PATIENCE_SECONDS)
        assert line, "the watch was closed"
        event = json.loads(line)
        return event["type"], event["object"]

    async def until(self, type_: str, condition: Callable[[Object], bool] = lambda _: True) -> Object:
        """The object of the next event of this type that meets the condition."""
        while True:
            found, obj = await self.next()
            if found == type_ and condition(obj):
                return obj

    async def is_silent(self, milliseconds: int = 50) -> bool:
        """Nothing has arrived."""
        try:
            await asyncio.wait_for(self._answer.content.readline(), milliseconds / 1000)
        except TimeoutError:
            return True
        return False


class Requests:
    """Requests of one user to a server."""

    accept = ""
    """The media types that are asked for where a request says nothing else."""

    def __init__(self, server: Served, user: str = "admin", headers: dict[str, str] | None = None) -> None:
        self.server = server
        self.headers = server.headers(user) | (headers or {})
        self._groups: list[str] = []

    def impersonating(self, name: str, uid: str, groups: list[str]) -> Requests:
        """The same credentials, used in somebody's place."""
        other = Requests(self.server)
        other.headers = self.headers | {"Impersonate-User": name, "Impersonate-Uid": uid}
        other._groups = groups
        return other

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        media_type: str = "application/json",
        accept: str = "",
        **query: str,
    ) -> Any:
        """The decoded answer. Raises Refused if it is no success."""
        headers = [*self.headers.items(), *(("Impersonate-Group", one) for one in self._groups)]
        data, media_type = self._encoded(method, path, body, media_type)
        headers.append(("Content-Type", media_type))
        if accept or self.accept:
            headers.append(("Accept", accept or self.accept))
        async with self.server.session.request(
            method, self.server.url + path, data=data, headers=headers, params=query
        ) as answer:
            decoded = self._decoded(path, answer.content_type, await answer.read())
            if answer.status >= 300:
                status = decoded if isinstance(decoded, dict) else {"message": str(decoded)}
                raise Refused(answer.status, status, f"{method} {path}")
            return decoded

    def _encoded(self, method: str, path: str, body: object, media_type: str) -> tuple[bytes | None, str]:
        """A body as it is sent, and its media type; a string goes as it is."""
        if body is None:
            return None, media_type
        return (body if isinstance(body, str) else json.dumps(body)).encode(), media_type

    def _decoded(self, path: str, media_type: str, received: bytes) -> Any:
        """What an answer says; text if it is no JSON."""
        return json.loads(received) if "json" in media_type else received.decode()

    async def get(self, path: str, **query: str) -> Any:
        """Read an object, a list, or any other path."""
        return await self.send("GET", path, **query)

    async def names(self, path: str, **query: str) -> list[str]:
        """The names of what a list holds."""
        return [one["metadata"]["name"] for one in (await self.get(path, **query))["items"]]

    async def create(self, path: str, body: object, **query: str) -> Object:
        """Create an object in a collection."""
        created: Object = await self.send("POST", path, body, **query)
        return created

    async def update(self, path: str, body: object, **query: str) -> Object:
        """Replace an object or one of its subresources."""
        updated: Object = await self.send("PUT", path, body, **query)
        return updated

    async def patch(self, path: str, body: object, media_type: str = MERGE_PATCH, **query: str) -> Object:
        """Patch an object or one of its subresources."""
        patched: Object = await self.send("PATCH", path, body, media_type, **query)
        return patched

    async def delete(self, path: str, body: object = None, **query: str) -> Any:
        """Delete an object or a collection."""
        return await self.send("DELETE", path, body, **query)

    async def refused(self, method: str, path: str, body: object = None, **options: str) -> Refused:
        """The refusal of a request that must not succeed."""
        try:
            answer = await self.send(method, path, body, **options)
        except Refused as refusal:
            return refusal
        raise AssertionError(f"{method} {path} succeeded: {answer}")

    async def gone(self, path: str) -> bool:
        """There is no such object."""
        return (await self.refused("GET", path)).reason == "NotFound"

    @contextlib.asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[Watching]:
        """Watch a collection."""
        async with self.server.session.get(
            self.server.url + path, headers=self.headers, params={"watch": "1", **query}
        ) as answer:
            if answer.status != 200:
                raise Refused(answer.status, json.loads(await answer.text()), f"watch {path}")
            yield Watching(answer)

    async def namespace(self, name: str = "conformance", labels: dict[str, str] | None = None) -> str:
        """A new namespace; returns the path of its resources of the core group."""
        await self.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
        await self.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
        return f"/api/v1/namespaces/{name}"


def conformance(scenario: Callable[[Requests], Awaitable[None]]) -> None:
    """Run a scenario against a fresh server."""

    async def run() -> None:
        async with served() as server:
            await scenario(Requests(server))

    asyncio.run(run())


def pod(name: str, **spec: object) -> Object:
    """A small pod."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}
