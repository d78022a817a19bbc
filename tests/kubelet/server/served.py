"""A kubelet's server on loopback with an authority of its own, an API server that knows a few users, and a runtime that streams."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web

from bayplan.api.kinds import Kind
from bayplan.api.pods.container_logs import LogOptions
from bayplan.api.types import core_v1
from bayplan.apiserver.certificates import KeyPair, make_authority, sign
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.transport import Decode, RawWatch, Transport
from bayplan.kubelet.configuration import KubeletConfiguration, from_tree
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.server.access import Access
from bayplan.kubelet.server.server import KubeletServer, ServerParts
from bayplan.support.clock import Clock, SystemClock
from bayplan.support.randomness import SeededRandomness
from bayplan.testing.builders import container, pod

RIGHTS: Mapping[str, frozenset[tuple[str, str]]] = {
    "admin": frozenset((verb, each) for verb in ("get", "create") for each in ("proxy", "stats", "log", "metrics")),
    "prometheus": frozenset((("get", "metrics"),)),
    "watcher": frozenset((("get", "pods"), ("get", "healthz"), ("get", "configz"))),
}
"""User -> (verb, subresource of nodes) that it may."""


class Reviewer(Transport):
    """An API server that reviews tokens (each is its user's name) and rights; `requests` are the paths that it was asked for."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.groups: list[list[str]] = []
        self.is_away = False

    async def request(
        self, method: str, path: str, query: Mapping[str, str], body: bytes = b"", content_type: str = ""
    ) -> bytes:
        if self.is_away:
            raise TransportError("connection refused")
        self.requests.append(path)
        review = msgspec.json.decode(body)
        spec = review["spec"]
        if path.endswith("/tokenreviews"):
            review["status"] = {"authenticated": spec["token"] in RIGHTS, "user": {"username": spec["token"]}}
        else:
            self.groups.append(spec.get("groups", []))
            wanted = spec["resourceAttributes"]
            assert (wanted["resource"], wanted["name"]) == ("nodes", "n1")
            right = wanted["verb"], wanted["subresource"]
            review["status"] = {"allowed": right in RIGHTS.get(spec["user"], ())}
        return msgspec.json.encode(review)

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        raise AssertionError(f"the kubelet's server watches nothing, but {path}")

    async def close(self) -> None:
        """Nothing to release."""


class StreamingRuntime(SimulatedRuntime):
    """A simulated runtime whose streams are at `url`; `asked` is what they were asked for."""

    url = ""
    refusal: RuntimeRequestError | None = None

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, SeededRandomness(1))
        self.asked: list[tuple[object, ...]] = []

    async def exec_url(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> str:
        return self._stream("exec", container_id, tuple(command), stdin, stdout, stderr, tty)

    async def attach_url(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        return self._stream("attach", container_id, stdin, stdout, stderr, tty)

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        return self._stream("portForward", tuple(ports))

    def _stream(self, *asked: object) -> str:
        self.asked.append(asked)
        if self.refusal is not None:
            raise self.refusal
        return f"{self.url}/{asked[0]}/token"


@dataclass
class ServedPods:
    """The pods of the node: one, "p" in "ns", whose container "c" runs and was started anew before."""

    pod: core_v1.Pod
    shown: core_v1.PodStatus

    def all(self) -> list[core_v1.Pod]:
        return [self.pod]

    def by_name(self, namespace: str, name: str) -> core_v1.Pod | None:
        return self.pod if (namespace, name) == ("ns", "p") else None

    def status(self, pod: core_v1.Pod) -> core_v1.PodStatus:
        return self.shown


def a_status() -> core_v1.PodStatus:
    """What the kubelet says of the pod."""
    running = core_v1.ContainerState(running=core_v1.ContainerStateRunning(started_at="2026-01-01T00:00:00Z"))
    ended = core_v1.ContainerState(terminated=core_v1.ContainerStateTerminated(exit_code=1, container_id="sim://old"))
    waiting = core_v1.ContainerState(waiting=core_v1.ContainerStateWaiting(reason="ImagePullBackOff"))
    return core_v1.PodStatus(
        phase="Running",
        container_statuses=(
            core_v1.ContainerStatus(name="c", state=running, last_state=ended, container_id="sim://new"),
            core_v1.ContainerStatus(name="late", state=waiting),
        ),
    )


@dataclass
class Served:
    """A server that runs. `logs`: what was read of logs: container id and options."""

    port: int
    health_port: int
    authority: KeyPair
    directory: Path
    runtime: StreamingRuntime
    reviewer: Reviewer
    pods: ServedPods
    logs: list[tuple[str, LogOptions]]
    problem: list[str]
    server: KubeletServer

    def tls(self, user: str = "", *groups: str, authority: KeyPair | None = None) -> ssl.SSLContext:
        """Of a client that trusts the server, with a certificate of a user if one is named."""
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        if user:
            pair = sign(authority or self.authority, SystemClock().now(), user, organizations=groups)
            file = self.directory / f"{user}.pem"
            file.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(file)
        return context

    async def ask(
        self, path: str, user: str = "admin", *, method: str = "GET", token: str = "", **headers: str
    ) -> tuple[int, str]:
        """(status, text) of the answer. user: whose certificate is shown; empty for none."""
        sent = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"https://127.0.0.1:{self.port}{path}", ssl=self.tls(user), headers=sent) as answer,
        ):
            return answer.status, await answer.text()


@contextlib.asynccontextmanager
async def served(directory: Path, configuration: Mapping[str, object] | None = None) -> AsyncIterator[Served]:
    """Start a server whose kubelet is configured like this, on loopback."""
    clock = SystemClock()
    authority = make_authority(clock.now())
    pair = sign(authority, clock.now(), "n1", hosts=("127.0.0.1",))
    certificate, client_ca = directory / "server.pem", directory / "ca.pem"
    certificate.write_bytes(pair.certificate + pair.key)
    client_ca.write_bytes(authority.certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    tls.load_verify_locations(client_ca)
    tls.verify_mode = ssl.CERT_OPTIONAL
    node_logs = directory / "logs"
    node_logs.mkdir()
    (node_logs / "messages").write_text("hello\n")
    runtime, reviewer = StreamingRuntime(clock), Reviewer()
    logs: list[tuple[str, LogOptions]] = []
    problem: list[str] = []
    pods = ServedPods(pod("p", namespace="ns", containers=(container("c"), container("late"))), a_status())

    async def read_log(_: core_v1.Pod, name: str, container_id: str, options: LogOptions) -> AsyncIterator[bytes]:
        logs.append((container_id, options))
        yield b"first\n"
        yield b"second\n"

    async def page() -> tuple[bytes, str]:
        return b"a page", "text/plain"

    parts = ServerParts(
        runtime=runtime,
        pods=pods,
        read_log=read_log,
        healthy=lambda: "".join(problem),
        log_directory=node_logs,
        pages={"/metrics": page, "/metrics/cadvisor": page, "/stats/summary": page},
    )
    settings = a_configuration(configuration or {})
    server = KubeletServer(parts, Access(Client(reviewer), settings, "n1", clock), settings, clock)
    try:
        port = await server.start("127.0.0.1", 0, tls)
        health = await server.start_health("127.0.0.1", 0)
        yield Served(port, health, authority, directory, runtime, reviewer, pods, logs, problem, server)
    finally:
        await server.close()


def a_configuration(tree: Mapping[str, object]) -> KubeletConfiguration:
    """A configuration of a file with these fields."""
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return from_tree({**kind, **tree}, "test")


@contextlib.asynccontextmanager
async def streaming_server(answer: Callable[[web.BaseRequest], web.StreamResponse] | None = None) -> AsyncIterator[str]:
    """Where a runtime streams: it echoes in capitals what comes after the upgrade, or answers otherwise. Yields its URL."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if answer is not None:
            return answer(request)
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(message.data.upper())
        return socket

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
