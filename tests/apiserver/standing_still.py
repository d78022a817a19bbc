"""An API server in which no time passes, for comparing two ways to the same objects."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.store.url import open_store
from bayplan.support.randomness import SeededRandomness
from bayplan.testing.clock import ManualClock

ADMIN = User("admin", ("system:masters",))
CORE = "/api/v1/namespaces/default"
PODS = f"{CORE}/pods"
JSON = "application/json"


class Server:
    """An API server whose clock stands still and whose randomness is seeded: two of them make the same objects."""

    def __init__(self, settings: ApiServerSettings | None = None, store: str = "memory:") -> None:
        self.clock = ManualClock()
        self.user = ADMIN
        self.api = ApiServer(
            open_store(store, clock=self.clock), clock=self.clock, randomness=SeededRandomness(7), settings=settings
        )

    async def __aenter__(self) -> Self:
        await self.api.open()
        await self.send("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "default"}})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.api.close()

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = JSON, **query: str
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body) if body is not None else b""
        request = Request(method, path, query, self.user, data, content_type, user_agent="tester/1.0 (linux)")
        response = await self.api.handle(request)
        return response.code, msgspec.json.decode(response.whole_body())
