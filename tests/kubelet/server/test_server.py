"""What the kubelet's server answers on each path, over HTTPS on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from bayplan.api.pods.container_logs import LogOptions
from bayplan.kubelet.runtime.errors import NotFoundError, RuntimeRequestError
from bayplan.kubelet.runtime.types import ContainerConfig, SandboxConfig
from bayplan.kubelet.server.errors import RequestError
from bayplan.kubelet.server.options import log_options
from tests.kubelet.server.served import Served, served, streaming_server

UNDECODABLE, INVALID = '{"message": "Unable to decode query."}', '{"message": "Invalid request."}'
NOT_FOUND, NO_PAGE, NOT_ALLOWED = "404 page not found\n", "404: Page Not Found", "405: Method Not Allowed"
DISABLED = "Debug endpoints are disabled.\n"
LONG = "a" * 100_000


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/nothing", 404, NOT_FOUND),
        ("GET", "/", 404, NOT_FOUND),
        ("POST", "/pods", 405, NOT_ALLOWED),
        ("GET", "/pods/more", 404, NO_PAGE),
        ("GET", "/containerLogs/ns/p", 404, NO_PAGE),
        ("POST", "/containerLogs/ns/p/c", 405, NOT_ALLOWED),
        ("GET", "/containerLogs/ns/none/c", 404, 'pod "none" does not exist'),
        ("GET", "/containerLogs/ns/p/none", 404, 'container "none" not found in pod "p"'),
        (
            "GET",
            "/containerLogs/ns/p/late",
            400,
            'container "late" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        ("GET", "/containerLogs/ns/p/c?tailLines=x", 400, UNDECODABLE),
        ("GET", "/containerLogs/ns/p/c?limitBytes=0", 422, INVALID),
        ("GET", "/run/ns/p/c?cmd=ls", 405, NOT_ALLOWED),
        ("POST", "/run/ns/none/c?cmd=ls", 404, "pod does not exist"),
        ("GET", "/exec/ns/none/c", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("GET", "/exec/ns/none/c?output=1", 404, "pod does not exist"),
        ("GET", "/exec/ns/p/late?output=1", 500, 'container not found ("late")'),
        ("GET", "/exec/ns/p/other/c?output=1", 404, "pod not found"),
        ("GET", "/attach/ns/p/none?output=1", 500, 'container not found ("none")'),
        ("GET", "/portForward/ns/none", 404, "pod does not exist"),
        ("GET", "/portForward/ns/p?port=0", 400, 'port "0" must be > 0'),
        ("GET", "/portForward/ns/p", 500, "failed to find sandboxID for pod p"),
        ("POST", "/checkpoint/ns/p/none", 403, None),
        ("GET", "/logs/none", 404, NOT_FOUND),
        ("GET", "/logs/messages", 200, "hello\n"),
        ("GET", "/logs/", 200, '<pre>\n<a href="messages">messages</a>\n</pre>\n'),
        ("GET", "/logs/..%2f..%2fca.pem", 404, NOT_FOUND),
        ("GET", "/metrics", 200, "a page"),
        ("GET", "/healthz", 200, "ok"),
        ("GET", "/healthz/syncloop", 200, "ok"),
        ("GET", "/healthz/none", 404, NOT_FOUND),
        ("GET", "/healthz?verbose", 200, "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n"),
    ],
)
def test_answers(tmp_path: Path, method: str, path: str, status: int, text: str | None) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server:
            found = await server.ask(path, method=method)
            assert found == (status, found[1] if text is None else text)

    asyncio.run(steps())


def test_refused_methods_name_those_that_are_allowed(tmp_path: Path) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server, aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{server.port}/pods"
            async with session.post(url, ssl=server.tls("admin")) as answer:
                assert (answer.status, answer.headers["Allow"]) == (405, "GET")

    asyncio.run(steps())


@pytest.mark.parametrize(
    ("configuration", "path", "expected"),
    [
        ({"enableDebuggingHandlers": False}, "/exec/ns/p/c?output=1", (405, DISABLED)),
        ({"enableDebuggingHandlers": False}, "/containerLogs/ns/p/c", (405, DISABLED)),
        ({"enableDebuggingHandlers": False}, "/runningpods/", (405, DISABLED)),
        ({"enableDebuggingHandlers": False}, "/portForward/ns/p", (405, DISABLED)),
        ({"enableDebuggingHandlers": False}, "/logs/messages", (405, DISABLED)),
        ({"enableDebuggingHandlers": False}, "/configz", (404, NOT_FOUND)),
        ({"enableDebuggingHandlers": False}, "/healthz", (200, "ok")),
        ({"enableDebuggingHandlers": False}, "/metrics", (200, "a page")),
        ({"enableSystemLogHandler": False}, "/logs/messages", (405, "logs endpoint is disabled.\n")),
        ({"enableSystemLogHandler": False}, "/healthz", (200, "ok")),
    ],
)
def test_what_the_configuration_disables_is_not_served(
    tmp_path: Path, configuration: Mapping[str, object], path: str, expected: tuple[int, str]
) -> None:
    async def steps() -> None:
        async with served(tmp_path, configuration) as server:
            assert await server.ask(path) == expected

    asyncio.run(steps())


def test_a_port_that_is_taken_is_told_with_the_process_that_has_it(tmp_path: Path) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server:
            port = server.health_port
            with pytest.raises(OSError, match=rf"port {port} is taken by process {os.getpid()} "):
                await server.server.start_health("127.0.0.1", port)

    asyncio.run(steps())


def test_failing_checks_are_told_without_reasons_to_those_who_ask_for_all(tmp_path: Path) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server, aiohttp.ClientSession() as session:
            server.problem.append("sync Loop took longer than expected")
            everything = "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n"
            assert await server.ask("/healthz") == (500, everything)
            reason = "internal server error: sync Loop took longer than expected\n"
            assert await server.ask("/healthz/syncloop") == (500, reason)
            assert await server.ask("/healthz/ping") == (200, "ok")
            plain = f"http://127.0.0.1:{server.health_port}"
            for path, expected in (
                ("/healthz", (500, everything)),
                ("/healthz/ping", (200, "ok")),
                ("/healthzother", (404, NOT_FOUND)),
                ("/pods", (404, NOT_FOUND)),
            ):
                async with session.get(plain + path) as answer:
                    assert (answer.status, await answer.text()) == expected

    asyncio.run(steps())


async def run_pod(server: Served, name: str, uid: str = "u") -> tuple[str, str]:
    """(sandbox, container) of a pod that runs in the runtime."""
    config = SandboxConfig(name, "ns", uid, 0, name, "/logs")
    sandbox = await server.runtime.run_sandbox(config)
    container = await server.runtime.create_container(sandbox, ContainerConfig("c", 0, "app:1", "app:1"), config)
    await server.runtime.start_container(container)
    return sandbox, container


def test_pods_are_those_that_the_kubelet_wants_and_running_ones_those_of_the_runtime(tmp_path: Path) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server:
            listed = json.loads((await server.ask("/pods"))[1])
            assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
            (shown,) = listed["items"]
            assert (shown["metadata"]["name"], shown["status"]["phase"]) == ("p", "Running")
            await server.runtime.pull_image("app:1", None)
            ended, _ = await run_pod(server, "ended", "e")
            await server.runtime.stop_sandbox(ended)
            await run_pod(server, "runs", "r")
            (running,) = json.loads((await server.ask("/runningpods/"))[1])["items"]
            assert running["metadata"] == {"name": "runs", "namespace": "ns", "uid": "r"}
            assert [(each["name"], each["image"]) for each in running["spec"]["containers"]] == [("c", "app:1")]

    asyncio.run(steps())


def test_configuration_is_shown_as_the_kubelet_uses_it(tmp_path: Path) -> None:
    async def steps() -> None:
        async with served(tmp_path, {"maxPods": 7}) as server:
            assert json.loads((await server.ask("/configz"))[1])["kubeletconfig"]["maxPods"] == 7

    asyncio.run(steps())


def test_logs_are_of_the_container_that_is_meant(tmp_path: Path) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server:
            assert await server.ask("/containerLogs/ns/p/c?tailLines=5&follow=true") == (200, "first\nsecond\n")
            assert (await server.ask("/containerLogs/ns/p/c?previous=true"))[0] == 200
            assert server.logs == [
                ("new", LogOptions(follow=True, tail_lines=5)),
                ("old", LogOptions(previous=True)),
            ]
            server.pods.shown.container_statuses[0].last_state.terminated = None
            text = 'previous terminated container "c" in pod "p" not found'
            assert await server.ask("/containerLogs/ns/p/c?previous=true") == (400, text)

    asyncio.run(steps())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param({}, LogOptions(), id="all of the log"),
        pytest.param({"tail": "3", "tailLines": "9"}, LogOptions(tail_lines=3), id="tail is the old name"),
        pytest.param({"tail": "all", "tailLines": "9"}, LogOptions(), id="tail=all is no tail"),
        pytest.param({"tailLines": "0"}, LogOptions(tail_lines=0), id="no line"),
        pytest.param({"sinceSeconds": "60"}, LogOptions(since=940.0), id="seconds before now"),
        pytest.param({"sinceTime": "1970-01-01T00:00:05Z"}, LogOptions(since=5.0), id="since a time"),
        pytest.param({"follow": "", "timestamps": "yes"}, LogOptions(follow=True, timestamps=True), id="set"),
        pytest.param({"follow": "0", "previous": "False"}, LogOptions(), id="not set"),
        pytest.param({"limitBytes": "1", "stream": "Stderr"}, LogOptions(limit_bytes=1, stream="Stderr"), id="some"),
        pytest.param({"tailLines": "-1"}, INVALID, id="a negative tail"),
        pytest.param({"limitBytes": "-5"}, INVALID, id="a negative limit"),
        pytest.param({"sinceSeconds": "0"}, INVALID, id="no second"),
        pytest.param({"sinceSeconds": "5", "sinceTime": "1970-01-01T00:00:05Z"}, INVALID, id="two times"),
        pytest.param({"stream": "stdout"}, INVALID, id="an unknown stream"),
        pytest.param({"stream": "Stdout", "tailLines": "1"}, INVALID, id="the tail of one stream"),
        pytest.param({"tailLines": "1_0"}, UNDECODABLE, id="no number of Go's"),
        pytest.param({"sinceTime": "yesterday"}, UNDECODABLE, id="no time"),
        pytest.param({"limitBytes": "1.5"}, UNDECODABLE, id="no whole number"),
    ],
)
def test_options_of_logs(query: dict[str, str], expected: LogOptions | str) -> None:
    if isinstance(expected, LogOptions):
        assert log_options(query, 1000.0) == expected
        return
    with pytest.raises(RequestError) as caught:
        log_options(query, 1000.0)
    assert (str(caught.value), caught.value.status) == (expected, 422 if expected == INVALID else 400)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (
            "/exec/ns/p/c?command=ls&command=-l&input=1&output=1&error=1",
            ("exec", "new", ("ls", "-l"), True, True, True, False),
        ),
        ("/exec/ns/p/c?command=sh&output=1&error=1&tty=1", ("exec", "new", ("sh",), False, True, False, True)),
        pytest.param(
            f"/exec/ns/p/c?command={LONG}&output=1",
            ("exec", "new", (LONG,), False, True, False, False),
            id="long command",
        ),
        # A terminal is what the container has, whatever the client says.
        ("/attach/ns/p/c?output=1&error=1", ("attach", "new", False, True, True, False)),
        ("/portForward/ns/p?port=80,443&port=8080", ("portForward", (80, 443, 8080))),
    ],
)
def test_streams_are_carried_to_the_runtime_and_back(tmp_path: Path, path: str, asked: tuple[object, ...]) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server, streaming_server() as url, aiohttp.ClientSession() as session:
            server.runtime.url = url
            server.pods.pod.metadata.uid = "u"
            await server.runtime.pull_image("app:1", None)
            await run_pod(server, "p")
            address = f"wss://127.0.0.1:{server.port}{path}"
            async with session.ws_connect(address, ssl=server.tls("admin"), protocols=("v5.channel.k8s.io",)) as socket:
                await socket.send_bytes(b"hello")
                assert await socket.receive_bytes(timeout=5) == b"HELLO"
                assert socket.protocol == "v5.channel.k8s.io"
            assert server.runtime.asked == [asked]

    asyncio.run(steps())


@pytest.mark.parametrize(
    ("refusal", "status", "text"),
    [
        (NotFoundError("no such container"), 404, "rpc error: code = NotFound desc = no such container"),
        (RuntimeRequestError("busy", "RESOURCE_EXHAUSTED"), 429, "rpc error: code = ResourceExhausted desc = busy"),
        (RuntimeRequestError("broken", "INTERNAL"), 500, "rpc error: code = Internal desc = broken"),
    ],
)
def test_refusals_of_the_runtime_are_passed_on(
    tmp_path: Path, refusal: RuntimeRequestError, status: int, text: str
) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server:
            server.runtime.refusal = refusal
            assert await server.ask("/exec/ns/p/c?output=1") == (status, text)

    asyncio.run(steps())


def test_streams_need_an_upgrade_and_a_runtime_that_serves_them(tmp_path: Path) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}

    async def steps() -> None:
        async with served(tmp_path) as server:
            path = "/exec/ns/p/c?output=1"
            server.runtime.url = "http://127.0.0.1:1"
            assert await server.ask(path) == (400, "Upgrade request required")
            status, text = await server.ask(path, method="POST", **upgrade)
            assert (status, text.partition(":")[0]) == (500, "error dialing backend")
            async with streaming_server(lambda _: web.Response(status=404, text="no such stream")) as url:
                server.runtime.url = url
                assert await server.ask(path, method="POST", **upgrade) == (404, "no such stream")

    asyncio.run(steps())
