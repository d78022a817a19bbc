"""A server for tests of custom resources, definitions for it, and requests to it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.codec import to_tree
from bayplan.api.custom_resources.kinds import CustomKind
from tests.apiserver.serving import Served, served

Tree = dict[str, Any]
GROUP = "example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = f"{DEFINITIONS}/things.{GROUP}"
"""The definition of things."""
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
MERGE, JSON, APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
OPEN: Tree = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def structure(*, required: tuple[str, ...] = (), **spec: Tree) -> Tree:
    """A schema whose spec has these fields, with a status in which anything goes."""
    inner: Tree = {"type": "object", "properties": spec}
    if required:
        inner["required"] = list(required)
    return {"type": "object", "properties": {"spec": inner, "status": OPEN}}


def version(name: str = "v1", *, storage: bool = True, schema: Tree | None = None, **more: Any) -> Tree:
    given = structure(a={"type": "string"}, n={"type": "integer"}) if schema is None else schema
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": given}, **more}


def definition(
    *versions: Tree, kind: str = "Thing", namespaced: bool = True, names: Tree | None = None, **spec: Any
) -> Tree:
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"plural": plural, "kind": kind, **(names or {})},
            "versions": list(versions) or [version()],
            **spec,
        },
    }


def thing(
    name: str = "x",
    *,
    version: str = "v1",
    kind: str = "Thing",
    status: Tree | None = None,
    spec: Tree | None = None,
    **metadata: Any,
) -> Tree:
    tree = {
        "apiVersion": f"{GROUP}/{version}",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec or {},
    }
    return tree if status is None else {**tree, "status": status}


def path(
    name: str = "",
    *,
    version: str = "v1",
    namespace: str = "default",
    plural: str = "things",
    subresource: str = "",
    **query: str,
) -> str:
    place = f"/namespaces/{namespace}" if namespace else ""
    asked = "&".join(f"{key}={value}" for key, value in query.items())
    item = "".join(f"/{part}" for part in (name, subresource) if part)
    return f"/apis/{GROUP}/{version}{place}/{plural}{item}{'?' if asked else ''}{asked}"


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    code: int
    headers: dict[str, str]
    data: bytes
    warnings: tuple[str, ...] = ()

    @property
    def tree(self) -> Tree:
        tree: Tree = json.loads(self.data)
        return tree

    @property
    def message(self) -> str:
        return str(self.tree["message"])


@dataclass
class Door:
    """Requests to a running server."""

    server: Served
    watches: list[Any] = field(default_factory=list)

    async def send(self, method: str, where: str, body: Any = None, **headers: str) -> Answer:
        """A request; dicts and lists go as JSON. Underscores in names of headers are dashes."""
        data = None if body is None else io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        given = {**self.server.headers(), **({} if data is None else {"Content-Type": "application/json"})}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.server.session.request(method, self.server.url + where, data=data, headers=given) as response:
            warnings = tuple(response.headers.getall("Warning", []))
            return Answer(response.status, dict(response.headers), await response.read(), warnings)

    async def get(self, where: str, **headers: str) -> Answer:
        return await self.send("GET", where, **headers)

    async def create(self, where: str, body: Any, **headers: str) -> Tree:
        """Make something that has to be fine."""
        answer = await self.send("POST", where, body, **headers)
        assert answer.code == 201, answer.data
        return answer.tree

    async def patch(self, where: str, body: Any, media_type: str = MERGE, **headers: str) -> Answer:
        return await self.send("PATCH", where, body, Content_Type=media_type, **headers)

    async def define(self, tree: Tree) -> Tree:
        """Make a definition, or replace it, and wait until it is served like that."""
        name = tree["metadata"]["name"]
        answer = await self.send("POST", DEFINITIONS, tree)
        if answer.code == 409:
            now = (await self.get(f"{DEFINITIONS}/{name}")).tree
            changed = {**tree, "metadata": now["metadata"]}
            answer = await self.send("PUT", f"{DEFINITIONS}/{name}", changed)
        assert answer.code in (200, 201), answer.data
        await eventually(lambda: self.is_served(name))
        return (await self.get(f"{DEFINITIONS}/{name}")).tree

    async def is_established(self, name: str) -> bool:
        tree = (await self.get(f"{DEFINITIONS}/{name}")).tree
        return bool(condition(tree, "Established")["status"] == "True")

    async def is_served(self, name: str) -> bool:
        """Whether all versions of a definition are served as it says."""
        spec = (await self.get(f"{DEFINITIONS}/{name}")).tree["spec"]
        for one in spec["versions"]:
            kind = self.server.api.context.kinds.of_resource(spec["group"], one["name"], spec["names"]["plural"])
            known = to_tree(kind.definition) if isinstance(kind, CustomKind) else None
            if known != (one if one["served"] else None):
                return False
        return True

    async def is_gone(self, where: str) -> bool:
        return (await self.get(where)).code == 404

    @contextlib.asynccontextmanager
    async def watch(self, where: str, **headers: str) -> AsyncIterator[Callable[[], Awaitable[Tree | None]]]:
        """A watch; calls give one event each, None at the end."""
        given = {**self.server.headers(), **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.server.session.get(self.server.url + where, headers=given) as response:
            assert response.status == 200, await response.read()

            async def following() -> Tree | None:
                line = await asyncio.wait_for(response.content.readline(), 10)
                return json.loads(line) if line else None

            yield following


def condition(tree: Tree, name: str) -> Tree:
    """A condition of a definition; one without a status if there is none."""
    found: list[Tree] = tree.get("status", {}).get("conditions") or []
    return next((one for one in found if one["type"] == name), {"status": ""})


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 10.0) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not await check():  # noqa: ASYNC110  the server does not tell this test
            await asyncio.sleep(0.01)


def serving(test: Callable[[Door], Awaitable[None]]) -> None:
    """Run a test against a server of its own."""

    async def run() -> None:
        async with served() as server:
            await test(Door(server))

    asyncio.run(run())
