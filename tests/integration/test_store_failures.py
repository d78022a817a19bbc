"""A cluster whose store is damaged or full, seen through the command line and the API."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.requests import User
from bayplan.apiserver.server import ApiServer
from bayplan.cli.main import main
from bayplan.client import Client
from bayplan.client.in_process import InProcessTransport
from bayplan.store.settings import HistorySettings, SqliteSettings
from bayplan.store.sqlite.store import SqliteStore
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SystemRandomness

QUIET = SqliteSettings(history=HistorySettings(automatic=False), tells_previous=False)


async def opened(path: Path, settings: SqliteSettings = QUIET) -> tuple[ApiServer, Client]:
    store = SqliteStore(path, clock=SystemClock(), settings=settings)
    server = ApiServer(store, clock=SystemClock(), randomness=SystemRandomness())
    await server.open()
    door = InProcessEndpoint(server, User("admin", ("system:masters", "system:authenticated")))
    return server, Client(InProcessTransport(door), server.context.kinds.built_in())


def config_map(name: str, text: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), data={"text": text})


def test_a_cluster_on_a_damaged_store_names_what_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def fill() -> None:
        server, client = await opened(path)
        for name in ("first", "second"):
            await client.create(config_map(name, f"text of {name}"))
        await server.close()

    asyncio.run(fill())
    path.write_bytes(path.read_bytes().replace(b"text of second", b"text of secund"))
    before = path.read_bytes()
    result = CliRunner().invoke(main, ["up", "--data-dir", str(tmp_path), "--port", "0", "--processes", "1"])
    assert result.exit_code == 1
    assert "1 object is lost" in result.stderr
    assert re.search(r"/configmaps/default/second \(revision \d+\)", result.stderr)
    for command in ("bayplan store check", "bayplan store restore", "--repair"):
        assert command in result.stderr
    assert path.read_bytes() == before
    assert CliRunner().invoke(main, ["store", "check", "--repair", "--data-dir", str(tmp_path)]).exit_code == 0

    async def read() -> list[str]:
        server, client = await opened(path)
        names = [one.metadata.name for one in (await client.list(core_v1.ConfigMap, "default")).items]
        await server.close()
        return names

    assert asyncio.run(read()) == ["first"]


def test_a_damaged_past_is_answered_with_500(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def scenario() -> None:
        server, client = await opened(path)
        old = await client.create(config_map("one", "old text"))
        revision = old.metadata.resource_version
        old.data = {"text": "new text"}
        await client.update(old)
        connection = sqlite3.connect(path)
        connection.execute(
            "UPDATE log SET value = replace(value, 'old text', 'odd text') WHERE revision = ?", (int(revision),)
        )
        connection.commit()
        connection.close()
        query = {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
        with pytest.raises(ApiError) as caught:
            await client.transport.request("GET", "/api/v1/namespaces/default/configmaps", query)
        assert caught.value.status.code == 500
        assert f"/configmaps/default/one (revision {revision})" in caught.value.status.message
        now = await client.get(core_v1.ConfigMap, "one", "default")
        assert now.data == {"text": "new text"}
        await server.close()

    asyncio.run(scenario())


def test_a_full_store_fails_writes_and_still_reads(tmp_path: Path) -> None:
    limited = SqliteSettings(max_size_bytes=2_000_000, history=HistorySettings(automatic=False), tells_previous=False)

    async def scenario() -> None:
        server, client = await opened(tmp_path / "store.db", limited)
        failure = None
        for number in range(1000):
            try:
                await client.create(config_map(f"one-{number}", "x" * 50_000))
            except ApiError as error:
                failure = error
                break
        assert failure is not None
        assert (failure.status.code, failure.status.reason) == (503, "ServiceUnavailable")
        assert "the store is full" in failure.status.message
        assert "the store is full" in server.context.objects.store.write_error
        assert len((await client.list(core_v1.ConfigMap, "default")).items) == number
        await server.context.objects.store.compact(server.context.objects.store.revision)
        await client.create(config_map("small", "fits"))
        assert server.context.objects.store.write_error == ""
        await server.close()

    asyncio.run(scenario())
