"""API servers over HTTPS, and what really happened in etcd."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import aiohttp

from bayplan.store.etcd.client import EtcdClient
from bayplan.store.etcd.errors import EtcdError
from bayplan.store.etcd.settings import EtcdSettings
from bayplan.support.clock import SystemClock
from tests.robustness.real.installation import TOKEN

_SECONDS: Final = 8.0
"""How long a client waits for an answer, and for the next event of a watch before it opens another."""


class RealApi:
    """See `tests.robustness.clients.Api`."""

    def __init__(self, session: aiohttp.ClientSession, fresh: aiohttp.ClientSession, url: str) -> None:
        """fresh: makes a connection for each request. aiohttp sends a PUT or DELETE again by itself where a connection that it had used before is lost."""
        self._session, self._fresh, self._url = session, fresh, url

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> tuple[int, dict[str, Any]]:
        session = self._fresh if method in ("PUT", "DELETE") else self._session
        try:
            async with session.request(
                method, self._url + path, params=query, data=body or None, headers={"Content-Type": content_type}
            ) as response:
                return response.status, json.loads(await response.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(str(error)) from error

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[list[tuple[str, dict[str, Any]]]]:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_SECONDS, sock_read=_SECONDS)
        try:
            async with self._session.get(self._url + path, params=query, timeout=limits) as response:
                if response.status != 200:
                    yield [("ERROR", {"code": response.status})]
                    return
                async for line in response.content:
                    event = json.loads(line)
                    yield [(event["type"], event["object"])]
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(str(error)) from error


@contextlib.asynccontextmanager
async def apis_of(urls: Sequence[str]) -> AsyncIterator[list[RealApi]]:
    """One client for each server. Their certificates are not checked: each server has made its own."""
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for url in urls:
            sessions = [
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=trust, limit=0, force_close=is_fresh),
                    headers={"Authorization": f"Bearer {TOKEN}"},
                    timeout=aiohttp.ClientTimeout(total=_SECONDS),
                    read_bufsize=1 << 20,
                )
                for is_fresh in (False, True)
            ]
            kept, fresh = [await stack.enter_async_context(session) for session in sessions]
            found.append(RealApi(kept, fresh, url))
        yield found


class Observer:
    """Follows everything that etcd commits, from one revision on."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        self.client = EtcdClient(EtcdSettings(endpoints=tuple(endpoints)), clock=SystemClock())
        self.changes: list[tuple[int, list[Any]]] = []
        self.revision = 0
        """Up to where it knows everything."""
        self.lost: list[EtcdError] = []
        self._heard = asyncio.Event()

    async def start(self, prefix: bytes) -> None:
        """Follow all keys with a prefix, from now on."""
        self.revision = (await self.client.range(prefix, prefix + b"\xff", limit=1)).revision
        self.client.watch(
            prefix, prefix + b"\xff", start_revision=self.revision + 1, on_events=self._take, on_lost=self._lose
        )

    def _take(self, events: Sequence[Any], _: int) -> None:
        for event in events:
            revision = event.kv.mod_revision
            if self.changes and self.changes[-1][0] == revision:
                self.changes[-1][1].append(event)
            else:
                self.changes.append((revision, [event]))
        self.revision = self.changes[-1][0]
        self._heard.set()

    def _lose(self, error: EtcdError) -> None:
        self.lost.append(error)
        self._heard.set()

    async def reached(self, revision: int) -> None:
        """Return when it knows everything up to a revision. Raises EtcdError if it can not."""
        while self.revision < revision:
            if self.lost:
                raise self.lost[0]
            self._heard.clear()
            await self._heard.wait()

    async def close(self) -> None:
        """End it."""
        await self.client.close()
