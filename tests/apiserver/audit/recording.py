"""Servers with an audit log, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from bayplan.apiserver.audit.auditor import Auditor
from bayplan.apiserver.audit.events import Event, line
from bayplan.apiserver.audit.policy_file import parse_policy
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from tests.apiserver.serving import Served, served

Tree = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"


class Recorded:
    """A backend that keeps events."""

    def __init__(self, *, takes: bool = True) -> None:
        self.takes = takes
        self.events: list[Tree] = []

    def process(self, event: Event) -> asyncio.Future[bool]:
        self.events.append(json.loads(line(event)))
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        done.set_result(self.takes)
        return done

    async def close(self) -> None:
        """Nothing is left to do."""

    def stages(self) -> list[tuple[str, str, int]]:
        """Verb, stage and code of each event."""
        return [(one["verb"], one["stage"], one.get("responseStatus", {}).get("code", 0)) for one in self.events]

    async def last(self, stage: str = "ResponseComplete") -> Tree:
        """The newest event of a stage, once there is one. Older ones are forgotten."""
        for _ in range(2000):
            found = [one for one in self.events if one["stage"] == stage]
            if found:
                self.events.clear()
                return found[-1]
            await asyncio.sleep(0.005)
        raise AssertionError(f"no {stage} among {self.stages()}")


def record(api: ApiServer, *rules: Tree, takes: bool = True, **rest: Any) -> Recorded:
    """Put an audit log before a server."""
    backend = Recorded(takes=takes)
    tree = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **rest}
    api.auditor = Auditor(parse_policy(msgspec.json.encode(tree)), [backend], api.context, api.metrics)
    return backend


@contextlib.asynccontextmanager
async def recorded(
    *rules: Tree, settings: ApiServerSettings | None = None, **rest: Any
) -> AsyncIterator[tuple[Served, Recorded]]:
    """A server over HTTPS with an audit log."""
    async with served(settings) as server:
        yield server, record(server.api, *rules, **rest)


async def send(
    server: Served,
    method: str,
    path: str,
    body: Any = None,
    headers: Sequence[tuple[str, str]] = (),
    user: str = "admin",
) -> tuple[int, dict[str, str], bytes]:
    """One request; a body that is no bytes goes as JSON."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **(server.headers(user) if user else {}), **dict(headers)}
    async with server.session.request(method, server.url + path, data=data, headers=given) as answer:
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}, await answer.read()


def config_map(name: str = "a", **data: str) -> Tree:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
