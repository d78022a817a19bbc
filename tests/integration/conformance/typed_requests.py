"""Requests as the typed clients of client-go send them: objects, lists and watches in protobuf, patches in JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec

from bayplan.api import protobuf
from bayplan.api.codec import decode, encode
from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.api.protobuf.wire import fields
from bayplan.api.schema import definition_of
from bayplan.api.types import authentication_v1, autoscaling_v1, meta_v1, policy_v1
from tests.integration.conformance.requests import PATIENCE_SECONDS, Object, Requests, Watching

_ACCEPT_WATCH = f"{protobuf.MEDIA_TYPE};stream=watch,application/json;stream=watch"
_OTHERS: dict[str, tuple[type[Any], str]] = {
    "Scale": (autoscaling_v1.Scale, "autoscaling/v1"),
    "Eviction": (policy_v1.Eviction, "policy/v1"),
    "TokenRequest": (authentication_v1.TokenRequest, "authentication.k8s.io/v1"),
    "DeleteOptions": (meta_v1.DeleteOptions, "v1"),
    "Status": (meta_v1.Status, "v1"),
}
"""Kinds that are no resources: type and version."""
_BODIES = {"scale": "Scale", "eviction": "Eviction", "token": "TokenRequest"}
"""What the bodies of subresources are, unless they are the object itself."""


def _place(path: str) -> tuple[Kind, str]:
    """The kind that a path is about, and the subresource."""
    parts = path.strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    of_namespace = len(rest) == 3 and rest[2] in ("status", "finalize")
    rest = rest[2:] if rest[0] == "namespaces" and len(rest) > 2 and not of_namespace else rest
    kind = DEFAULT_KINDS.of_resource(group, version, rest[0])
    assert kind is not None, path
    return kind, rest[2] if len(rest) > 2 else ""


def _type_of(kind: Kind, name: str) -> type[Any]:
    """The class of an answer of this name, about this kind."""
    found = kind.type if name == kind.kind else _OTHERS[name][0]
    assert found is not None
    return found


def _plain(cls: type[Any], tree: Object) -> Object:
    """An object as JSON shows it, from what protobuf holds: fields that are not set are left out."""
    shown: Object = msgspec.json.decode(encode(decode(cls, json.dumps(tree).encode())))
    return shown


def _read(kind: Kind, body: bytes) -> Object:
    """The object or list in an enveloped message."""
    _, name, message = protobuf.unwrap(body)
    if name != f"{kind.kind}List":
        cls = _type_of(kind, name)
        return _plain(cls, protobuf.to_tree(definition_of(cls), message))
    cls = _type_of(kind, kind.kind)
    found = protobuf.to_tree(f"{definition_of(cls)}List", message)
    return {**found, "items": [_plain(cls, one) for one in found.get("items", ())]}


def _written(kind: Kind, subresource: str, method: str, body: Object) -> bytes:
    """A body in protobuf."""
    name = "DeleteOptions" if method == "DELETE" else _BODIES.get(subresource, kind.kind)
    cls = _type_of(kind, name)
    version = kind.api_version if name == kind.kind else _OTHERS[name][1]
    return protobuf.envelope(version, name, protobuf.message_of(decode(cls, json.dumps(body).encode())))


class _Frames(Watching):
    """The events of a watch in protobuf: each is a message behind its length."""

    def __init__(self, answer: aiohttp.ClientResponse, kind: Kind) -> None:
        super().__init__(answer)
        self._kind = kind

    async def next(self) -> tuple[str, Object]:
        length = await asyncio.wait_for(self._answer.content.readexactly(4), PATIENCE_SECONDS)
        event: dict[int, Any] = dict(fields(await self._answer.content.readexactly(int.from_bytes(length, "big"))))
        raw: dict[int, Any] = dict(fields(event[2]))
        return event[1].decode(), _read(self._kind, raw[1])


class TypedRequests(Requests):
    """Requests of one user to a server, in protobuf; what is no protobuf in an answer fails the test."""

    accept = f"{protobuf.MEDIA_TYPE},application/json"

    def _encoded(self, method: str, path: str, body: object, media_type: str) -> tuple[bytes | None, str]:
        if not isinstance(body, dict) or media_type != "application/json":
            return super()._encoded(method, path, body, media_type)
        return _written(*_place(path), method, body), protobuf.MEDIA_TYPE

    def _decoded(self, path: str, media_type: str, received: bytes) -> Any:
        assert media_type == protobuf.MEDIA_TYPE, received
        kind, _ = _place(path)
        return _read(kind, received)

    @contextlib.asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[Watching]:
        kind, _ = _place(path)
        headers = {**self.headers, "Accept": _ACCEPT_WATCH}
        async with self.server.session.get(
            self.server.url + path, headers=headers, params={"watch": "1", **query}
        ) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == protobuf.MEDIA_TYPE, answer.headers
            yield _Frames(answer, kind)
