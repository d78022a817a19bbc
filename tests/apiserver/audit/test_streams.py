"""Logs, exec and proxies in the audit log: they begin and end, and somebody else answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.apiserver.context import Call
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.routing import relays
from tests.apiserver.audit.recording import record
from tests.apiserver.http.test_relays import ask
from tests.apiserver.relaying import POD
from tests.apiserver.serving import ADMIN, Served

Get = Callable[[str], Awaitable[tuple[int, Any]]]
STAGES = ["RequestReceived", "ResponseStarted", "ResponseComplete"]


def test_logs() -> None:
    async def check(server: Served, get: Get) -> None:
        log = record(server.api, {"level": "RequestResponse"})
        assert (await get(f"{POD}/log"))[0] == 200
        assert [one["stage"] for one in log.events] == STAGES
        found = await log.last()
        assert (found["objectRef"]["subresource"], found["responseStatus"]) == ("log", {"metadata": {}, "code": 200})
        assert "responseObject" not in found
        assert (await get(f"{POD}/log?previous=true"))[0] == 400
        assert [one["stage"] for one in log.events] == STAGES
        status = (await log.last())["responseStatus"]
        assert (status["code"], status["message"]) == (400, "previous terminated container not found")
        assert (await get(f"{POD.replace('/p', '/absent')}/log"))[0] == 404
        assert [one["stage"] for one in log.events] == STAGES
        assert log.events[1]["responseStatus"]["code"] == 404

    ask(check)


def test_exec_begins_when_the_protocol_changes() -> None:
    async def check(server: Served, get: Get) -> None:
        log = record(server.api, {"level": "Metadata"})
        url = f"{server.url}{POD}/exec?command=ls"
        async with server.session.ws_connect(url, headers=server.headers(), protocols=("v4.channel.k8s.io",)) as socket:
            await socket.receive()
            assert [one["stage"] for one in log.events] == STAGES[:2]
            assert log.events[1]["responseStatus"]["code"] == 101
        found = await log.last()
        assert (found["verb"], found["objectRef"]["subresource"]) == ("get", "exec")
        assert found["requestURI"] == f"{POD}/exec?command=ls"

    ask(check)


def test_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "check_address", lambda address: None)

    async def check(server: Served, get: Get) -> None:
        log = record(server.api, {"level": "Metadata", "resources": [{"resources": ["pods/proxy"]}]})
        for path, code in ((f"{POD}/proxy", 301), (f"{POD}/proxy/a", 200), (f"{POD}:1/proxy/a", 503)):
            assert (await get(path))[0] == code
            assert [one["stage"] for one in log.events] == STAGES
            assert (await log.last())["responseStatus"]["code"] == code

    ask(check)


def test_nobody_in_this_process_gets_a_connection() -> None:
    async def check(server: Served, get: Get) -> None:
        log = record(server.api, {"level": "Metadata"})
        code, _ = await InProcessEndpoint(server.api, ADMIN).call("GET", f"{POD}/log", {}, b"", "")
        assert code == 503
        assert [one["stage"] for one in log.events] == STAGES
        assert (await log.last())["responseStatus"]["reason"] == "ServiceUnavailable"

    ask(check)


def test_a_client_that_goes_before_there_is_an_answer() -> None:
    async def check(server: Served, get: Get) -> None:
        log = record(server.api, {"level": "Metadata"})
        begun = asyncio.Event()

        async def hold(_call: Call) -> None:
            begun.set()
            await asyncio.sleep(60)

        server.api.interceptor = hold
        door = InProcessEndpoint(server.api, ADMIN)
        task = asyncio.create_task(door.call("GET", "/api/v1/namespaces", {}, b"", ""))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        status = {"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200}
        assert (await log.last())["responseStatus"] == status

    ask(check)
