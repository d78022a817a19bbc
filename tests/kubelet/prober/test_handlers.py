"""Probes and hooks over real connections on the loopback interface, and commands over a simulated runtime."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.certificates import make_authority, sign
from bayplan.kubelet.core.plan import Health
from bayplan.kubelet.errors import HookError
from bayplan.kubelet.pods.hooks import HookRunner
from bayplan.kubelet.prober.handlers import ProbeRunner
from bayplan.kubelet.prober.results import ProbeType
from bayplan.kubelet.runtime.errors import RuntimeTimeoutError, RuntimeUnavailableError
from bayplan.kubelet.runtime.types import ExecResult
from bayplan.support.clock import SystemClock

HERE = "127.0.0.1"


class Told:
    """Events that a test sees: (reason, text)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def warning(self, pod: core_v1.Pod, container: core_v1.Container, reason: str, text: str) -> None:
        self.events.append((reason, text))

    def pod(self, pod: core_v1.Pod, event_type: str, reason: str, text: str) -> None:
        self.events.append((reason, text))


class Commands:
    """A runtime that only runs commands."""

    def __init__(self, *answers: ExecResult | Exception) -> None:
        self.answers = list(answers)
        self.lines: list[tuple[list[str], float]] = []

    async def exec_sync(self, container_id: str, command: Any, seconds: float) -> ExecResult:
        self.lines.append((list(command), seconds))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def container(port: int = 0) -> core_v1.Container:
    ports = (core_v1.ContainerPort(name="web", container_port=port),) if port else ()
    return core_v1.Container(name="c", ports=ports, env=(core_v1.EnvVar(name="WHO", value="me"),))


def probed(
    spec: core_v1.Probe, runtime: Any = None, port: int = 0, ip: str = HERE
) -> Awaitable[tuple[Health | None, list[tuple[str, str]]]]:
    """What a liveness probe finds, and what is told of it."""

    async def run() -> tuple[Health | None, list[tuple[str, str]]]:
        told = Told()
        runner = ProbeRunner(runtime or Commands(), told)  # type: ignore[arg-type]
        status = core_v1.PodStatus(pod_ip=ip)
        pod = core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p", namespace="default"))
        found = await runner.probe(ProbeType.LIVENESS, spec, pod, status, container(port), "id")
        return found, told.events

    return run()


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a web server."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, HERE, 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def get(port: int | str, path: str = "/ok", **fields: Any) -> core_v1.Probe:
    action = core_v1.HTTPGetAction(port=port, path=path, **fields)
    return core_v1.Probe(http_get=action, timeout_seconds=1)


async def answer(request: web.Request) -> web.StreamResponse:
    """What paths say: their number, a redirect, nothing for long."""
    match request.path:
        case "/ok":
            return web.Response(text="fine")
        case "/slow":
            await asyncio.sleep(5)
        case "/within":
            raise web.HTTPFound("/ok")
        case "/away":
            raise web.HTTPFound("http://example.invalid/")
        case "/around":
            raise web.HTTPFound("/around")
        case "/long":
            return web.Response(headers={"X-Long": "x" * 100_000})
        case "/headers":
            seen = {name: request.headers.get(name) for name in ("Host", "User-Agent", "Accept", "X-Who")}
            return web.Response(status=200 if seen == EXPECTED else 400)
    return web.Response(status=int(request.path[1:]))


EXPECTED = {"Host": "shop", "User-Agent": "kube-probe/1.36", "Accept": None, "X-Who": "me"}


def test_a_request_passes_with_any_answer_from_200_to_399() -> None:
    async def case() -> None:
        async with serving(answer) as port:
            assert await probed(get(port)) == (Health.SUCCESS, [])
            assert await probed(get("web", "ok"), port=port) == (Health.SUCCESS, [])
            assert await probed(get(port, "/within")) == (Health.SUCCESS, [])
            assert await probed(get(port, "/long")) == (Health.SUCCESS, [])
            for code in (404, 500):
                assert await probed(get(port, f"/{code}")) == (
                    Health.FAILURE,
                    [("Unhealthy", f"Liveness probe failed: HTTP probe failed with statuscode: {code}")],
                )

    asyncio.run(case())


def test_a_redirect_to_another_host_passes_with_a_warning() -> None:
    async def case() -> None:
        async with serving(answer) as port:
            found, told = await probed(get(port, "/away"))
            assert found is Health.SUCCESS
            assert told[0][0] == "ProbeWarning"
            assert told[0][1].startswith("Liveness probe warning: Probe terminated redirects, Response body: ")
            found, told = await probed(get(port, "/around"))
            assert found is Health.FAILURE
            assert told[0][1].endswith(": stopped after 10 redirects")

    asyncio.run(case())


def test_a_request_has_the_headers_that_the_probe_says() -> None:
    headers = tuple(
        core_v1.HTTPHeader(name=name, value=value)
        for name, value in (("Host", "shop"), ("Accept", ""), ("X-Who", "me"))
    )

    async def case() -> None:
        async with serving(answer) as port:
            assert await probed(get(port, "/headers", http_headers=headers)) == (Health.SUCCESS, [])

    asyncio.run(case())


def test_no_answer_is_a_failure_with_words_of_go() -> None:
    async def case() -> None:
        async with serving(answer) as port:
            url = f"http://{HERE}:{port}/slow"
            assert await probed(get(port, "/slow")) == (
                Health.FAILURE,
                [
                    (
                        "Unhealthy",
                        f'Liveness probe failed: Get "{url}": context deadline exceeded '
                        "(Client.Timeout exceeded while awaiting headers)",
                    )
                ],
            )
        _, told = await probed(get(port))
        text = f'Get "http://{HERE}:{port}/ok": dial tcp {HERE}:{port}: connect: connection refused'
        assert told == [("Unhealthy", f"Liveness probe failed: {text}")]

    asyncio.run(case())


def _tls(directory: Path) -> ssl.SSLContext:
    """A certificate that nobody trusts."""
    now = SystemClock().now()
    made = sign(make_authority(now), now, "other.host", hosts=("other.host",))
    (directory / "both.pem").write_bytes(made.certificate + made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "both.pem")
    return context


def test_a_port_that_does_not_exist_says_nothing_about_the_container() -> None:
    async def case() -> None:
        assert await probed(get("none")) == (
            None,
            [
                (
                    "Unhealthy",
                    'Liveness probe errored and resulted in unknown state: strconv.Atoi: parsing "none": invalid syntax',
                )
            ],
        )
        _, told = await probed(core_v1.Probe(tcp_socket=core_v1.TCPSocketAction(port=70000)))
        assert told[0][1].endswith("invalid port number: 70000")
        _, told = await probed(core_v1.Probe())
        assert told[0][1].endswith("missing probe handler for c")

    asyncio.run(case())


def test_a_connection_that_opens_passes() -> None:
    def open_at(port: int) -> core_v1.Probe:
        return core_v1.Probe(tcp_socket=core_v1.TCPSocketAction(port=port), timeout_seconds=1)

    async def case() -> None:
        async with serving(answer) as port:
            assert await probed(open_at(port)) == (Health.SUCCESS, [])
        assert await probed(open_at(port)) == (
            Health.FAILURE,
            [("Unhealthy", f"Liveness probe failed: dial tcp {HERE}:{port}: connect: connection refused")],
        )

    asyncio.run(case())


@contextlib.asynccontextmanager
async def health_server(states: dict[str, int], *, has_protocol: bool = True) -> AsyncIterator[int]:
    """The port of a gRPC server that knows how these services are."""

    async def check(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        assert not request or request[0] == 0x0A
        assert not request or request[1] == len(request) - 2
        name = request[2:].decode()
        if name == "slow":
            await asyncio.sleep(5)
        if name not in states:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return bytes((0x08, states[name])) if states[name] else b""

    server = grpc.aio.server()
    if has_protocol:
        method: Any = grpc.unary_unary_rpc_method_handler(check)
        handlers = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": method})
        server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port(f"{HERE}:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def asked(port: int, service: str | None = None) -> core_v1.Probe:
    return core_v1.Probe(grpc=core_v1.GRPCAction(port=port, service=service), timeout_seconds=1)


def test_a_grpc_server_says_how_its_services_are() -> None:
    async def case() -> None:
        async with health_server({"": 1, "ill": 2, "new": 0}) as port:
            assert await probed(asked(port)) == (Health.SUCCESS, [])
            for name, state in (("ill", "NOT_SERVING"), ("new", "UNKNOWN")):
                assert await probed(asked(port, name)) == (
                    Health.FAILURE,
                    [("Unhealthy", f'Liveness probe failed: service unhealthy (responded with "{state}")')],
                )
            assert await probed(asked(port, "none")) == (Health.FAILURE, NOT_FOUND)
            assert await probed(asked(port, "slow")) == (
                Health.FAILURE,
                [("Unhealthy", "Liveness probe failed: timeout: health rpc did not complete within 1s")],
            )

    asyncio.run(case())


NOT_FOUND = [
    (
        "Unhealthy",
        "Liveness probe failed: error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
    )
]


def test_a_server_without_the_protocol_or_without_a_server_is_a_failure() -> None:
    async def case() -> None:
        async with health_server({}, has_protocol=False) as port:
            _, told = await probed(asked(port))
            assert told[0][1].startswith(
                "Liveness probe failed: error: this server does not implement the grpc health protocol"
            )
        found, told = await probed(asked(port))
        assert found is Health.FAILURE
        assert f'error: failed to connect service at "{HERE}:{port}": ' in told[0][1]

    asyncio.run(case())


def run_command(*words: str) -> core_v1.Probe:
    return core_v1.Probe(exec=core_v1.ExecAction(command=words), timeout_seconds=3)


def test_a_command_passes_with_code_0() -> None:
    async def case() -> None:
        runtime = Commands(ExecResult(b"", b"", 0), ExecResult(b"out", b"err", 2))
        assert await probed(run_command("check", "$(WHO)", "$$(WHO)"), runtime) == (Health.SUCCESS, [])
        assert runtime.lines == [(["check", "me", "$(WHO)"], 3)]
        assert await probed(run_command("check"), runtime) == (
            Health.FAILURE,
            [("Unhealthy", "Liveness probe failed: outerr")],
        )

    asyncio.run(case())


def test_a_command_that_takes_too_long_fails_and_one_that_cannot_be_run_is_tried_again() -> None:
    async def case() -> None:
        found, told = await probed(run_command("check"), Commands(RuntimeTimeoutError("3s")))
        assert (found, told) == (Health.FAILURE, [("Unhealthy", "Liveness probe failed: command timed out: 3s")])
        away = RuntimeUnavailableError("no runtime")
        assert await probed(run_command("check"), Commands(away, away, ExecResult(b"", b"", 0))) == (Health.SUCCESS, [])
        found, told = await probed(run_command("check"), Commands(away, away, away))
        assert found is None
        assert told == [("Unhealthy", "Liveness probe errored and resulted in unknown state: no runtime")]

    asyncio.run(case())


async def hooked(handler: core_v1.LifecycleHandler, runtime: Any = None, ips: tuple[str, ...] = (HERE,)) -> Told:
    """What is told of a hook. Raises HookError."""
    told = Told()
    runner = HookRunner(runtime or Commands(), told, SystemClock())  # type: ignore[arg-type]
    pod = core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p", namespace="default", uid="u"))
    await runner.run(handler, pod, container(), "id", ips)
    return told


def requesting(port: int, **fields: Any) -> core_v1.LifecycleHandler:
    return core_v1.LifecycleHandler(http_get=core_v1.HTTPGetAction(port=port, path="/404", **fields))


def test_a_hook_is_content_with_any_answer() -> None:
    async def case() -> None:
        async with serving(answer) as port:
            assert (await hooked(requesting(port))).events == []

    asyncio.run(case())


def test_a_hook_over_tls_takes_any_certificate_and_falls_back_to_plain_text(tmp_path: Path) -> None:
    async def case() -> None:
        async with serving(answer, _tls(tmp_path)) as port:
            assert (await hooked(requesting(port, scheme="HTTPS"))).events == []
        seen: list[str | None] = []

        async def plain(request: web.Request) -> web.StreamResponse:
            seen.append(request.headers.get("Authorization"))
            return web.Response()

        secret = core_v1.HTTPHeader(name="Authorization", value="secret")
        async with serving(plain) as port:
            told = await hooked(requesting(port, scheme="HTTPS", http_headers=(secret,)))
        assert seen == [None]
        assert told.events == [
            (
                "LifecycleHTTPFallback",
                f"request to HTTPS lifecycle hook {HERE}:{port} got HTTP response, retry with HTTP succeeded",
            )
        ]

    asyncio.run(case())


def test_a_hook_that_fails_says_whose_it_is() -> None:
    async def case() -> None:
        with pytest.raises(HookError) as caught:
            await hooked(requesting(1), ips=())
        assert str(caught.value) == (
            'HTTP lifecycle hook (/404) for Container "c" in Pod "p_default(u)" failed - error: '
            "failed to find networking container"
        )
        command = core_v1.LifecycleHandler(exec=core_v1.ExecAction(command=("stop", "now")))
        with pytest.raises(HookError) as caught:
            await hooked(command, Commands(ExecResult(b"no", b"", 3)))
        assert str(caught.value) == (
            'Exec lifecycle hook ([stop now]) for Container "c" in Pod "p_default(u)" failed - error: '
            "command 'stop now' exited with 3: no, message: \"no\""
        )
        with pytest.raises(HookError, match="invalid handler"):
            await hooked(core_v1.LifecycleHandler())

    asyncio.run(case())
