"""A conversion webhook for tests, behind real HTTPS: what version 1 calls `hostPort` is `host` and `port` in version 2."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from bayplan.apiserver.webhooks.http import HttpSender
from tests.apiserver.custom_resources.things import Door, Tree, definition, structure, version
from tests.apiserver.serving import served
from tests.apiserver.webhooks.senders import listening

STRING: Tree = {"type": "string"}
NUMBER: Tree = {"type": "integer"}
ONE = structure(hostPort=STRING, n=NUMBER)
TWO = structure(host=STRING, port=STRING, replicas=NUMBER)


def converted(tree: Tree, api_version: str) -> Tree:
    """An object in another version."""
    spec = dict(tree.get("spec", {}))
    if api_version.endswith("/v2"):
        host_port, n = spec.pop("hostPort", None), spec.pop("n", None)
        if host_port is not None:
            spec["host"], _, spec["port"] = host_port.partition(":")
        spec |= {} if n is None else {"replicas": n}
    else:
        host, port, replicas = (spec.pop(name, None) for name in ("host", "port", "replicas"))
        if host is not None:
            spec["hostPort"] = f"{host}:{port or ''}"
        spec |= {} if replicas is None else {"n": replicas}
    return {**tree, "apiVersion": api_version, "spec": spec}


@dataclass
class Converter:
    """What a webhook was asked, and how it answers."""

    asked: list[Tree] = field(default_factory=list)
    """Requests of reviews."""
    reviews: list[Tree] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    spoil: Callable[[Tree], Any] | None = None
    """Makes something else of the review that would be right."""
    spoil_object: Callable[[Tree], Any] | None = None
    """The same for every object of it."""
    admitted: list[Tree] = field(default_factory=list)
    """Requests of reviews of admission, which it is asked for as well if it is configured."""
    admit: Tree = field(default_factory=dict)
    """How it answers those."""
    gate: asyncio.Event | None = None
    """Answers wait for it."""
    port: int = 0
    authority: bytes = b""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        review = json.loads(await request.read())
        if review["kind"] == "AdmissionReview":
            self.admitted.append(review["request"])
            response = {"uid": review["request"]["uid"], "allowed": True, **self.admit}
            return web.json_response({**review, "response": response})
        self.reviews.append(review)
        self.paths.append(str(request.rel_url))
        asked = review["request"]
        self.asked.append(asked)
        if self.gate is not None:
            await self.gate.wait()
        objects: list[Any] = [converted(one, asked["desiredAPIVersion"]) for one in asked["objects"]]
        if self.spoil_object is not None:
            objects = [self.spoil_object(one) for one in objects]
        response = {"uid": asked["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
        answer: Any = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}
        if self.spoil is not None:
            answer = self.spoil(answer)
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    def fail(self, message: str = "my custom error") -> None:
        """Refuse from now on."""
        self.spoil = lambda answer: {
            **answer,
            "response": {"uid": answer["response"]["uid"], "result": {"status": "Failure", "message": message}},
        }

    def config(self, *versions: str, path: str = "/convert") -> Tree:
        """`spec.conversion` of a definition that asks this webhook."""
        client = {
            "url": f"https://127.0.0.1:{self.port}{path}",
            "caBundle": base64.b64encode(self.authority).decode(),
        }
        webhook = {"clientConfig": client, "conversionReviewVersions": list(versions) or ["v1", "v1beta1"]}
        return {"strategy": "Webhook", "webhook": webhook}

    def names(self) -> list[list[str]]:
        """The names of the objects of each call."""
        return [[one["metadata"]["name"] for one in asked["objects"]] for asked in self.asked]


def versions(*, storage: str = "v1", schemas: tuple[Tree, Tree] = (ONE, TWO), **more: Any) -> list[Tree]:
    """Both versions, of which one is that of the store."""
    return [
        version(name, storage=name == storage, schema=schema, **more)
        for name, schema in zip(("v1", "v2"), schemas, strict=True)
    ]


def converting(
    test: Callable[[Door, Converter], Awaitable[None]], *, define: bool = True, storage: str = "v1", **more: Any
) -> None:
    """Run a test against a server of its own and a webhook; by default there is a definition whose objects it converts."""

    async def run() -> None:
        converter = Converter()
        async with listening(converter.handle) as (converter.port, converter.authority), served() as server:
            server.api.context.webhook_sender = HttpSender(server.api.context.simulated.reason)
            door = Door(server)
            if define:
                await door.define(definition(*versions(storage=storage, **more), conversion=converter.config()))
            await test(door, converter)

    asyncio.run(run())
