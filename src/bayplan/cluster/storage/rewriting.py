"""Writing every object of chosen resources again, unchanged, so that the store keeps it in the form of today: encrypted with the first key, in the storage version.

It is done through the API, with any API server: one that finds an object kept as it would be today writes nothing, and an object that somebody changes meanwhile is
rewritten by that. So it can be interrupted and done again at any time; a state file says where to go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bayplan.api.errors import ApiError
from bayplan.client import Client
from bayplan.cluster.errors import ClusterError
from bayplan.support.system.private_files import write_private

_PAGE: Final = 500
_AT_ONCE: Final = 16
_TRIES: Final = 3
"""Attempts to list a resource whose list expires."""
_CONFLICT, _NOT_FOUND, _GONE = 409, 404, 410


class Resource(NamedTuple):
    """Something that can be listed and updated."""

    name: str
    """Plural, and the group behind a dot if it has one: `secrets`, `deployments.apps`."""
    api_version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def root(self) -> str:
        """The path of its group version."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    def path(self, namespace: str = "", name: str = "") -> str:
        """Of one object, or of all."""
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"{self.root}{place}/{self.plural}" + (f"/{name}" if name else "")


@dataclass(slots=True)
class Rewritten:
    """What was done."""

    written: int = 0
    """Objects whose revision is another now."""
    current: int = 0
    """Objects that were kept as they would be today."""
    changed: int = 0
    """Objects that others changed or deleted meanwhile."""
    failures: list[str] = field(default_factory=list)
    """Objects that could not be written, and why."""

    @property
    def seen(self) -> int:
        """All of them."""
        return self.written + self.current + self.changed + len(self.failures)


class _State(msgspec.Struct):
    """The state file."""

    done: list[str] = []
    """Resources of which nothing is left."""
    resource: str = ""
    """The one that is being worked at."""
    last: str = ""
    """Its last object that was rewritten, as `NAMESPACE/NAME`: all before it were as well."""


class Rewriting:
    """Goes through resources, and remembers how far it has come."""

    def __init__(self, client: Client, state: Path | None = None) -> None:
        """Raises ClusterError if there is a state file that is none."""
        self._client = client
        self._path = state
        self._state = _State()
        if state is not None and state.exists():
            try:
                self._state = msgspec.json.decode(state.read_bytes(), type=_State)
            except (OSError, msgspec.DecodeError) as error:
                raise ClusterError(f"{state}: not the state of a rewriting: {error}") from error

    async def resources(self, names: Sequence[str]) -> list[Resource]:
        """The resources of these names; all that can be rewritten if there are none. Raises ClusterError, ApiError, TransportError."""
        known = {one.name: one async for one in self._discovered()}
        if not names:
            return list(known.values())
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ClusterError(
                f"{', '.join(unknown)}: no such resource; write plural and group, such as secrets or deployments.apps"
            )
        return [known[name] for name in dict.fromkeys(names)]

    async def _discovered(self) -> AsyncIterator[Resource]:
        """Everything that can be listed and updated, in the preferred versions."""
        roots = ["/api/v1"]
        groups = msgspec.json.decode(await self._client.raw("GET", "/apis"))["groups"]
        roots += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups]
        for root in roots:
            found = msgspec.json.decode(await self._client.raw("GET", root))
            group = found["groupVersion"].rpartition("/")[0]
            for one in found["resources"]:
                if "/" not in one["name"] and {"list", "update"} <= set(one["verbs"]):
                    name = f"{one['name']}.{group}" if group else one["name"]
                    yield Resource(name, found["groupVersion"], one["kind"], one["name"], one["namespaced"])

    async def rewrite(
        self, resource: Resource, step: Callable[[int, int], None] = lambda _done, _of: None
    ) -> Rewritten:
        """Write all objects of a resource again, but for those that were before an interruption. step: called with the number of objects that were seen, and of all.

        Raises ApiError, TransportError.
        """
        result = Rewritten()
        if resource.name in self._state.done:
            return result
        if self._state.resource != resource.name:
            self._state.resource, self._state.last = resource.name, ""
        for attempt in range(_TRIES):
            try:
                async for items, left in self._pages(resource):
                    fresh = [item for item in items if _key(item) > self._state.last]
                    for start in range(0, len(fresh), _AT_ONCE):
                        batch = fresh[start : start + _AT_ONCE]
                        await asyncio.gather(*(self._write(resource, item, result) for item in batch))
                        self._state.last = _key(batch[-1])
                        step(result.seen, result.seen + left + len(fresh) - start - len(batch))
                    self._save()
                break
            except ApiError as error:
                if error.code != _GONE or attempt == _TRIES - 1:
                    raise
        self._state.done.append(resource.name)
        self._save()
        return result

    async def _pages(self, resource: Resource) -> AsyncIterator[tuple[list[dict[str, Any]], int]]:
        """Objects in order of their keys, and how many come after them."""
        query = {"limit": str(_PAGE)}
        while True:
            page = msgspec.json.decode(await self._client.raw("GET", resource.path(), query=query))
            metadata: Mapping[str, Any] = page["metadata"]
            yield page["items"] or [], int(metadata.get("remainingItemCount") or 0)
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def _write(self, resource: Resource, item: dict[str, Any], result: Rewritten) -> None:
        """Write one object. Raises TransportError."""
        metadata = item["metadata"]
        path = resource.path(metadata.get("namespace", ""), metadata["name"])
        body = msgspec.json.encode({**item, "apiVersion": resource.api_version, "kind": resource.kind})
        try:
            answer = msgspec.json.decode(await self._client.raw("PUT", path, body=body))
        except ApiError as error:
            if error.code in (_CONFLICT, _NOT_FOUND):
                result.changed += 1
            else:
                result.failures.append(f"{resource.name} {_key(item).lstrip('/')}: {error}")
            return
        if answer["metadata"]["resourceVersion"] == metadata["resourceVersion"]:
            result.current += 1
        else:
            result.written += 1

    def _save(self) -> None:
        if self._path is not None:
            write_private(self._path, msgspec.json.encode(self._state))

    def finish(self) -> None:
        """Everything was rewritten: a later rewriting begins anew."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _key(item: Mapping[str, Any]) -> str:
    """By which servers order their lists."""
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
