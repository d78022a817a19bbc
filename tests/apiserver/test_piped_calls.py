"""Calls of the wrong shape through the pipe between processes are refused one by one: nothing is executed, no traceback is logged."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import pytest

from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.piped import PipedRequests
from bayplan.support.pipe import PipeError, open_pipe
from tests.apiserver.serving import ADMIN, opened

NAMESPACES = "/api/v1/namespaces"
BODY = b'{"metadata":{"name":"made"}}'
JSON = "application/json"
MALFORMED: dict[str, tuple[Any, ...]] = {
    "a query of bytes": ("request", "admin", "POST", NAMESPACES, {b"a": "b"}, BODY, JSON),
    "a query that is a list": ("request", "admin", "POST", NAMESPACES, [], BODY, JSON),
    "a body that is a number": ("request", "admin", "POST", NAMESPACES, {}, 5, JSON),
    "a body that is text": ("request", "admin", "POST", NAMESPACES, {}, BODY.decode(), JSON),
    "a method that is missing": ("request", "admin", NAMESPACES, {}, BODY, JSON),
    "one argument too many": ("request", "admin", "POST", NAMESPACES, {}, BODY, JSON, 1),
    "a turn that is a request": ("send", "admin", [["POST", NAMESPACES, BODY, JSON]]),
    "a request of a turn with a body that is text": ("send", "admin", [[["POST", NAMESPACES, BODY.decode(), JSON]]]),
    "turns that are a text": ("send", "admin", "x"),
    "a watch whose number is a text": ("watch", "1", "admin", NAMESPACES, {"watch": "1"}),
    "a watch without a query": ("watch", 1, "admin", NAMESPACES, None),
    "a number of a watch that is open": ("watch", 7, "admin", NAMESPACES, {"watch": "1"}),
    "a topic that there is not": ("nothing", "admin"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_call_is_refused(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> tuple[str, int, int]:
        async with asyncio.timeout(20), opened() as api:
            here, there = [await open_pipe(end) for end in socket.socketpair()]
            here.notification_handlers |= {"lines": lambda *_: None, "ended": lambda _: None}
            server = PipedRequests(there, lambda _: InProcessEndpoint(api, ADMIN))
            try:
                assert (await here.call("watch", 7, "admin", NAMESPACES, {"watch": "1"}))[0] == 200
                here.notify("close", "x")  # of a watch that there is not
                with pytest.raises(PipeError) as caught:
                    await here.call(*MALFORMED[name])
                made = await here.call("request", "admin", "GET", f"{NAMESPACES}/made", {}, b"", "")
                version = await here.call("request", "admin", "GET", "/version", {}, b"", "")
                return str(caught.value), made[0], version[0]
            finally:
                server.close()
                here.close()
                there.close()

    with caplog.at_level(logging.ERROR):
        text, made, version = asyncio.run(run())
    assert text.startswith("MalformedCall: ")
    assert (made, version) == (404, 200)
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.getMessage().startswith("refused ")
