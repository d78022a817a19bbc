"""Clients that write, read and watch through whichever server answers, and write down what they were told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from tests.robustness.history import (
    DONE,
    MOST_SECRETS,
    NAMESPACE,
    PATH,
    QUOTAS,
    REFUSED,
    SECRETS,
    SERVICES,
    UNKNOWN,
    History,
    Read,
    Seen,
    Session,
    Version,
    Write,
    version_of,
)

_MERGE = "application/merge-patch+json"


class Api(Protocol):
    """One API server, as one client sees it."""

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> tuple[int, dict[str, Any]]:
        """Status code and body. Raises ConnectionError when there is no answer."""

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[list[tuple[str, dict[str, Any]]]]:
        """Batches of (event type, object), until the watch ends. Raises ConnectionError."""


class Client:
    """One client. It stays with a server until that does not answer."""

    def __init__(
        self,
        name: str,
        apis: Sequence[Api],
        history: History,
        chance: random.Random,
        names: Sequence[str],
        pause: float,
    ) -> None:
        """names: of the objects. pause: mean seconds between two requests."""
        self.name, self._apis, self._history, self._chance, self._names = name, apis, history, chance, names
        self._pause = pause
        self._current = chance.randrange(len(apis))
        self._tokens = 0
        self._last: dict[str, tuple[int, dict[str, Any]]] = {}
        """The newest state of each object that it has seen."""
        self.newest = 0
        """The newest revision that it was told of."""
        self.done_at = 0.0
        """When a write of it was last acknowledged."""

    async def run(self, seconds: float) -> None:
        """Make requests for so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            await self.step()
            await asyncio.sleep(self._chance.expovariate(1 / self._pause))

    async def prove(self) -> None:
        """Create an object of its own, as often as it takes."""
        while not self.done_at:
            await self._create(f"{self.name}-{self._tokens}")
            await asyncio.sleep(0.1)

    async def step(self) -> None:
        """One request by chance."""
        name, kind = self._chance.choice(self._names), self._chance.random()
        if kind < 0.2:
            await self._create(name)
        elif kind < 0.4:
            await self._update(name)
        elif kind < 0.55:
            await self._patch(name)
        elif kind < 0.65:
            await self._delete(name)
        elif kind < 0.68:
            await self._service()
        elif kind < 0.7:
            await self._secret()
        elif kind < 0.8:
            await self.get(name)
        else:
            await self.list(at_least=self.newest if kind > 0.95 else 0, limit=3 if kind < 0.85 else 0)

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str], tree: Any = None, content_type: str = "application/json"
    ) -> tuple[str, int, dict[str, Any]]:
        """Outcome, status code and body."""
        body = b"" if tree is None else json.dumps(tree).encode()
        try:
            code, answer = await self._apis[self._current].request(method, path, query, body, content_type)
        except ConnectionError:
            self._next()
            return UNKNOWN, 0, {}
        if code == 500:
            self._history.servers_errors.append(f"{self.name}: {method} {path}: 500 {answer.get('message')}")
        if code >= 500 or code == 429:
            self._next()
            return UNKNOWN, code, answer
        return (DONE if code < 300 else REFUSED), code, answer

    def _next(self) -> None:
        self._current = (self._current + 1) % len(self._apis)

    def _write(self, verb: str, name: str, base: int = 0) -> Write:
        self._tokens += 1
        write = Write(self.name, verb, name, f"{self.name}-{self._tokens}", asyncio.get_running_loop().time(), base)
        self._history.writes.append(write)
        return write

    def _wrote(self, write: Write, outcome: str, code: int, answer: dict[str, Any]) -> None:
        write.ended, write.outcome, write.code = asyncio.get_running_loop().time(), outcome, code
        if outcome != DONE:
            return
        self.done_at = write.ended
        if write.verb == "delete":
            write.uid = answer["details"]["uid"] if answer["kind"] == "Status" else answer["metadata"]["uid"]
            return
        write.revision = self._saw(write.name, answer).revision
        write.uid = answer["metadata"]["uid"]

    def _saw(self, name: str, tree: dict[str, Any]) -> Version:
        version = version_of(tree)
        if version.revision >= self._last.get(name, (0, {}))[0]:
            self._last[name] = (version.revision, tree)
        self.newest = max(self.newest, version.revision)
        return version

    async def _create(self, name: str) -> None:
        write = self._write("create", name)
        body = {"metadata": {"name": name}, "data": {write.token: "1"}}
        self._wrote(write, *await self._ask("POST", PATH, {}, body))

    async def _update(self, name: str) -> None:
        if name not in self._last:
            await self.get(name)
        if name not in self._last:
            return
        base, tree = self._last[name]
        write = self._write("update", name, base)
        body = {**tree, "data": {**(tree.get("data") or {}), write.token: "1"}}
        outcome, code, answer = await self._ask("PUT", f"{PATH}/{name}", {}, body)
        if outcome == REFUSED:
            del self._last[name]
        self._wrote(write, outcome, code, answer)

    async def _patch(self, name: str) -> None:
        write = self._write("patch", name)
        answer = await self._ask("PATCH", f"{PATH}/{name}", {}, {"data": {write.token: "1"}}, _MERGE)
        self._wrote(write, *answer)

    async def _delete(self, name: str) -> None:
        write = self._write("delete", name)
        self._wrote(write, *await self._ask("DELETE", f"{PATH}/{name}", {}))

    async def _service(self) -> None:
        """Create or delete a Service, whose addresses and ports the servers give out."""
        name = f"service-{self._chance.randrange(8)}"
        if self._chance.random() < 0.4:
            await self._ask("DELETE", f"{SERVICES}/{name}", {})
            return
        spec = {"type": "NodePort", "ports": [{"port": 80}]}
        await self._ask("POST", SERVICES, {}, {"metadata": {"name": name}, "spec": spec})

    async def _secret(self) -> None:
        """Create one more of the objects that a quota limits."""
        self._tokens += 1
        await self._ask("POST", SECRETS, {}, {"metadata": {"name": f"{self.name}-{self._tokens}"}})

    async def get(self, name: str) -> None:
        """Read one object as it is at present."""
        read = Read(self.name, name, asyncio.get_running_loop().time())
        self._history.reads.append(read)
        read.outcome, read.code, answer = await self._ask("GET", f"{PATH}/{name}", {})
        read.ended = asyncio.get_running_loop().time()
        if read.outcome == DONE:
            version = read.items[name] = self._saw(name, answer)
            read.revision = version.revision

    async def list(self, *, at_least: int = 0, limit: int = 0) -> Read:
        """Read all objects; limit: in pages of so many."""
        read = Read(self.name, "", asyncio.get_running_loop().time(), at_least)
        self._history.reads.append(read)
        query = {"resourceVersion": str(at_least)} if at_least else {"limit": str(limit)} if limit else {}
        while True:
            read.outcome, read.code, answer = await self._ask("GET", PATH, query)
            if read.outcome != DONE:
                return read
            read.ended = asyncio.get_running_loop().time()
            metadata = answer["metadata"]
            read.revision = int(metadata["resourceVersion"])
            for item in answer["items"]:
                read.items[item["metadata"]["name"]] = version_of(item)
            self.newest = max(self.newest, read.revision)
            if not metadata.get("continue"):
                return read
            query = {"limit": str(limit), "continue": metadata["continue"]}


class Informer:
    """Lists, and watches from there through whichever server answers; lists anew when it has to."""

    def __init__(self, name: str, apis: Sequence[Api], history: History, chance: random.Random) -> None:
        self.name, self._apis, self._history = name, apis, history
        self._client = Client(name, apis, history, chance, (), 1.0)
        self._current = chance.randrange(len(apis))
        self.revision = 0
        """Up to where it has been told."""
        self._told = asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            read = await self._client.list()
            if read.outcome != DONE:
                await asyncio.sleep(0.5)
                continue
            session = Session(self.name, read.revision)
            self._history.sessions.append(session)
            self._reach(read.revision)
            while await self._watch(session):
                self._current = (self._current + 1) % len(self._apis)
                await asyncio.sleep(0.2)

    async def _watch(self, session: Session) -> bool:
        """One watch, to its end. False if it has to list anew."""
        query = {"watch": "true", "resourceVersion": str(self.revision), "allowWatchBookmarks": "true"}
        try:
            async for batch in self._apis[self._current].watch(PATH, query):
                for kind, tree in batch:
                    if kind == "ERROR":
                        return int(tree["code"]) != 410
                    self._take(session, kind, tree)
        except ConnectionError:
            return True
        return True

    def _take(self, session: Session, kind: str, tree: dict[str, Any]) -> None:
        time = asyncio.get_running_loop().time()
        revision = int(tree["metadata"]["resourceVersion"])
        version = None if kind == "BOOKMARK" else version_of(tree)
        session.events.append(Seen(time, kind, tree["metadata"].get("name", ""), revision, version))
        self._reach(revision)

    def _reach(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        self._told.set()

    async def reached(self, revision: int) -> None:
        """Return when it has been told of everything up to a revision."""
        while self.revision < revision:
            self._told.clear()
            await self._told.wait()


async def prepare(api: Api) -> None:
    """Make the namespace of all objects, and a quota in it. Tries again until the server is there."""
    limit = {"count/secrets": str(MOST_SECRETS)}
    quota = {"metadata": {"name": "quota"}, "spec": {"hard": limit}}
    status = {"status": {"hard": limit, "used": {"count/secrets": "0"}}}
    for method, path, tree, content_type in (
        ("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, "application/json"),
        ("POST", QUOTAS, quota, "application/json"),
        ("PATCH", f"{QUOTAS}/quota/status", status, _MERGE),
    ):
        code = 0
        while code not in (200, 201, 409):
            with contextlib.suppress(ConnectionError):
                code, _ = await api.request(method, path, {}, json.dumps(tree).encode(), content_type)
            await asyncio.sleep(0.05)
