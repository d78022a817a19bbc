"""Routes of the kubelet's server, and what each answers."""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec
from aiohttp import web

from bayplan.api.codec import encode
from bayplan.api.pods.container_logs import LogOptions
from bayplan.api.types import core_v1
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.runtime.errors import NotFoundError, RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import ContainerState, SandboxState
from bayplan.kubelet.server.access import Access, AccessDeniedError
from bayplan.kubelet.server.containers import container_named, find_container, log_container_id, running_container_id
from bayplan.kubelet.server.errors import RequestError
from bayplan.kubelet.server.health import health_text
from bayplan.kubelet.server.options import log_options, ports, stream_options
from bayplan.kubelet.server.streams import Streams
from bayplan.support.clock import Clock
from bayplan.support.configuration import to_tree
from bayplan.support.system.port_holders import holder_of

logger = logging.getLogger(__name__)

_Answer = Callable[[web.BaseRequest, list[str]], Awaitable[web.StreamResponse]]
_NOT_FOUND = "404 page not found\n"
_CHECKPOINT_SECONDS = 120.0
_STREAM_SECONDS = 60
"""How long runtimes keep a stream that nobody comes for; after that there is room for another."""
_HEAD_BYTES = (1 << 20) + 4096
"""What Go's HTTP server takes of a request line and of headers: long commands are part of the line."""


class Pods(Protocol):
    """The pods of the node, as the server shows them."""

    def all(self) -> list[core_v1.Pod]:
        """All of them."""

    def by_name(self, namespace: str, name: str) -> core_v1.Pod | None:
        """One, also by the name of its mirror pod."""

    def status(self, pod: core_v1.Pod) -> core_v1.PodStatus:
        """What the kubelet last said of a pod."""


LogReader = Callable[[core_v1.Pod, str, str, LogOptions], AsyncIterator[bytes]]
"""(pod, container's name, container's id, options) -> pieces of the log."""
Page = Callable[[], Awaitable[tuple[bytes, str]]]
"""A page without parameters: (body, content type)."""


@dataclass(slots=True)
class ServerParts:
    """What the server shows."""

    runtime: Runtime
    pods: Pods
    read_log: LogReader
    healthy: Callable[[], str]
    """Why the kubelet is not well; empty if it is."""
    log_directory: Path = Path("/var/log")
    checkpoints: Path = Path("/var/lib/kubelet/checkpoints")
    pages: dict[str, Page] = field(default_factory=dict)
    """Further pages by path, such as /stats/summary and /metrics."""


@dataclass(frozen=True, slots=True)
class _Route:
    """How requests below one path are answered.

    methods: none for any. lengths: how many parts may follow in the path, none for any. is_debug: whether `enableDebuggingHandlers` can switch it off.
    """

    answer: _Answer
    methods: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    is_debug: bool = False


class KubeletServer:
    """Serves HTTPS with authentication, and plain health checks on a port of their own."""

    def __init__(self, parts: ServerParts, access: Access, configuration: KubeletConfiguration, clock: Clock) -> None:
        self._parts = parts
        self._access = access
        self._configuration = configuration
        self._clock = clock
        self._streams = Streams(clock)
        self._runners: list[web.ServerRunner] = []
        streaming = ("GET", "POST")
        self._routes = {
            "pods": _Route(self._pods, ("GET",), (0,)),
            "runningpods": _Route(self._running_pods, ("GET",), (0,), is_debug=True),
            "containerLogs": _Route(self._logs, ("GET",), (3,), is_debug=True),
            "exec": _Route(self._exec, streaming, (3, 4), is_debug=True),
            "attach": _Route(self._attach, streaming, (3, 4), is_debug=True),
            "portForward": _Route(self._port_forward, streaming, (2, 3), is_debug=True),
            "run": _Route(self._run, ("POST",), (3, 4), is_debug=True),
            "configz": _Route(self._configz, lengths=(0,)),
            "healthz": _Route(self._healthz),
            "logs": _Route(self._node_logs, is_debug=True),
            "checkpoint": _Route(self._checkpoint, ("POST",), (3,)),
        }

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        """Listen; the port, which is chosen if `port` is 0. Raises OSError."""
        most = _HEAD_BYTES
        server = web.Server(self._handle, access_log=None, max_line_size=most, max_field_size=most, max_headers=most)
        return await self._listen(server, host, port, tls)

    async def start_health(self, host: str, port: int) -> int:
        """Listen for health checks of the node itself. Raises OSError."""
        return await self._listen(web.Server(self._plain_health, access_log=None), host, port, None)

    async def _listen(self, server: web.Server, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        runner = web.ServerRunner(server, shutdown_timeout=2.0)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            holder = holder_of(port)
            raise OSError(error.errno, f"port {port} is taken{f' by {holder}' if holder else ''}") from error
        listening: int = runner.addresses[0][1]
        return listening

    async def close(self) -> None:
        """Stop listening and end what is open."""
        await asyncio.gather(*(each.cleanup() for each in self._runners))
        await self._streams.close()

    async def _plain_health(self, request: web.BaseRequest) -> web.StreamResponse:
        root, *rest = _parts(request)
        if root != "healthz":
            return web.Response(status=404, text=_NOT_FOUND)
        try:
            return await self._healthz(request, rest)
        except RequestError as error:
            return web.Response(status=error.status, text=str(error))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            await self._access.check(request)
            page = self._parts.pages.get(request.path.rstrip("/"))
            if page is not None:
                body, kind = await page()
                return web.Response(body=body, headers={"Content-Type": kind})
            return await self._answer(request, *_parts(request))
        except (AccessDeniedError, RequestError) as error:
            return web.Response(status=error.status, text=str(error))
        except RuntimeRequestError as error:
            return web.Response(status=500, text=error.rpc_text)

    async def _answer(self, request: web.BaseRequest, root: str, *path: str) -> web.StreamResponse:
        route = self._routes.get(root)
        has_debugging = self._configuration.enable_debugging_handlers
        if route is None or (root == "configz" and not has_debugging):
            raise RequestError(404, _NOT_FOUND)
        if route.is_debug and not has_debugging:
            raise RequestError(405, "Debug endpoints are disabled.\n")
        if route.lengths and len(path) not in route.lengths:
            raise RequestError(404, "404: Page Not Found")
        if route.methods and request.method not in route.methods:
            allowed = {"Allow": ", ".join(route.methods)}
            return web.Response(status=405, text="405: Method Not Allowed", headers=allowed)
        return await route.answer(request, list(path))

    async def _pods(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        shown = [_shown(each, self._parts.pods.status(each)) for each in self._parts.pods.all()]
        return _json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": shown})

    async def _running_pods(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        """Pods of which something runs, as the runtime knows them: names and images, and nothing of their specifications."""
        items: dict[str, dict[str, Any]] = {}
        sandboxes = await self._parts.runtime.sandboxes()
        containers = await self._parts.runtime.containers()
        for sandbox in sandboxes:
            running = [
                {"name": each.name, "image": each.image, "resources": {}}
                for each in containers
                if each.sandbox_id == sandbox.id and each.state is ContainerState.RUNNING
            ]
            if sandbox.state is SandboxState.READY or running:
                metadata = {"name": sandbox.name, "namespace": sandbox.namespace, "uid": sandbox.uid}
                item = items.setdefault(sandbox.uid, {"metadata": metadata, "spec": {"containers": []}, "status": {}})
                item["spec"]["containers"] += running
        return _json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(items.values())})

    async def _configz(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        return _json({"kubeletconfig": to_tree(self._configuration)})

    async def _healthz(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        problems = {"ping": "", "log": "", "syncloop": self._parts.healthy()}
        return web.Response(text=health_text("/".join(path), problems, verbose="verbose" in request.query))

    async def _logs(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        options = log_options(request.query, self._clock.now())
        pod = self._pod(path[0], path[1], missing=f'pod "{path[1]}" does not exist')
        container = find_container(pod, path[2])
        status = self._parts.pods.status(pod)
        container_id = log_container_id(pod.metadata.name, status, container.name, previous=options.previous)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            async for piece in self._parts.read_log(pod, container.name, container_id, options):
                await response.write(piece)
            await response.write_eof()
        except ConnectionError:
            logger.debug("the client of a log has gone")
        return response

    def _pod(self, namespace: str, name: str, missing: str = "pod does not exist") -> core_v1.Pod:
        pod = self._parts.pods.by_name(namespace, name)
        if pod is None:
            raise RequestError(404, missing)
        return pod

    def _target(self, path: list[str]) -> tuple[core_v1.Pod, str]:
        """(pod, container) of `NAMESPACE/POD[/UID]/CONTAINER`. Raises RequestError."""
        pod = self._pod(path[0], path[1])
        if len(path) == 4 and pod.metadata.uid != path[2]:
            raise RequestError(404, "pod not found")
        return pod, path[-1]

    async def _exec(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        wanted = stream_options(request.query)
        pod, name = self._target(path)
        command = request.query.getall("command", [])
        container_id = running_container_id(self._parts.pods.status(pod), name)
        url = self._parts.runtime.exec_url(
            container_id, command, stdin=wanted.stdin, stdout=wanted.stdout, stderr=wanted.stderr, tty=wanted.tty
        )
        return await self._stream(request, url)

    async def _attach(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        wanted = stream_options(request.query)
        pod, name = self._target(path)
        container_id = running_container_id(self._parts.pods.status(pod), name)
        tty = find_container(pod, name).tty  # what the container has counts, not what the client believes
        url = self._parts.runtime.attach_url(
            container_id, stdin=wanted.stdin, stdout=wanted.stdout, stderr=wanted.stderr and not tty, tty=tty
        )
        return await self._stream(request, url)

    async def _stream(self, request: web.BaseRequest, url: Awaitable[str]) -> web.StreamResponse:
        """Carry a connection to where the runtime serves it. Raises RequestError for what the runtime refuses (streaming.WriteError)."""
        try:
            return await self._streams.serve(request, await url)
        except NotFoundError as error:
            raise RequestError(404, error.rpc_text) from error
        except RuntimeRequestError as error:
            if error.code != "RESOURCE_EXHAUSTED":
                raise
            headers = {"Retry-After": str(_STREAM_SECONDS)}
            return web.Response(status=429, text=error.rpc_text, headers=headers)

    async def _port_forward(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        wanted = ports(request.query)
        pod = self._pod(path[0], path[1])
        if len(path) == 3 and pod.metadata.uid != path[2]:
            raise RequestError(404, "pod not found")
        sandboxes = await self._parts.runtime.sandboxes(pod_uid=pod.metadata.uid)
        newest = max(sandboxes, key=lambda each: each.created_at, default=None)
        if newest is None:
            raise RequestError(500, f"failed to find sandboxID for pod {pod.metadata.name}")
        return await self._stream(request, self._parts.runtime.port_forward_url(newest.id, wanted))

    async def _run(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        pod, name = self._target(path)
        command = request.query.get("cmd", "").split(" ")
        container_id = running_container_id(self._parts.pods.status(pod), name)
        result = await self._parts.runtime.exec_sync(container_id, command, 0)
        if result.exit_code:
            output = (result.stdout + result.stderr).decode(errors="replace")
            text = f"command '{' '.join(command)}' exited with {result.exit_code}: {output}"
            raise RequestError(500, text)
        return web.Response(body=result.stdout + result.stderr, headers={"Content-Type": "application/json"})

    async def _checkpoint(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        pod = self._pod(path[0], path[1])
        if container_named(pod, path[2]) is None:
            raise RequestError(404, f"container {path[2]} does not exist")
        text = request.query.get("timeout", "")
        if text and not text.isdecimal():
            raise RequestError(404, "cannot parse value of timeout parameter")
        container_id = running_container_id(self._parts.pods.status(pod), path[2])
        stamp = int(self._clock.now())
        self._parts.checkpoints.mkdir(parents=True, exist_ok=True)
        file = self._parts.checkpoints / f"checkpoint-{path[1]}_{path[0]}-{path[2]}-{stamp}.tar"
        try:
            await self._parts.runtime.checkpoint_container(container_id, str(file), float(text or _CHECKPOINT_SECONDS))
        except RuntimeRequestError as error:
            raise RequestError(500, f"checkpointing of {'/'.join(path)} failed ({error})") from error
        return _json({"items": [str(file)]})

    async def _node_logs(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        if not self._configuration.enable_system_log_handler:
            raise RequestError(405, "logs endpoint is disabled.\n")
        root = self._parts.log_directory.resolve()
        file = root.joinpath(*path).resolve()
        if not file.is_relative_to(root):
            raise RequestError(404, _NOT_FOUND)
        if file.is_dir():
            names = sorted(f"{each.name}/" if each.is_dir() else each.name for each in file.iterdir())
            links = "".join(f'<a href="{name}">{name}</a>\n' for name in names)
            return web.Response(text=f"<pre>\n{links}</pre>\n", content_type="text/html")
        if not file.is_file():
            raise RequestError(404, _NOT_FOUND)
        return web.FileResponse(file)


def _parts(request: web.BaseRequest) -> list[str]:
    """The parts of a request's path, at least one."""
    return [part for part in request.path.split("/") if part] or [""]


def _json(tree: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(tree), headers={"Content-Type": "application/json"})


def _shown(pod: core_v1.Pod, status: core_v1.PodStatus) -> msgspec.Raw:
    return msgspec.Raw(encode(msgspec.structs.replace(pod, status=status)))
