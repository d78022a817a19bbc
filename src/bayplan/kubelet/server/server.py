"""Routes of the kubelet's server, and what each answers."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec
from aiohttp import web

from bayplan.api.codec import encode
from bayplan.api.types import core_v1
from bayplan.kubelet.configuration import KubeletConfiguration, to_tree
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.server.access import Access, AccessDeniedError
from bayplan.kubelet.server.containers import LogOptions, find_container, log_container_id, running_container_id
from bayplan.kubelet.server.errors import RequestError
from bayplan.kubelet.server.streams import Streams
from bayplan.support.clock import Clock
from bayplan.support.timestamps import parse_rfc3339

logger = logging.getLogger(__name__)

_PAGE = Callable[[web.BaseRequest, list[str]], Awaitable[web.StreamResponse]]
_CHECKPOINT_SECONDS = 120.0


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


class KubeletServer:
    """Serves HTTPS with authentication, and plain health checks on a port of their own."""

    def __init__(self, parts: ServerParts, access: Access, configuration: KubeletConfiguration, clock: Clock) -> None:
        self._parts = parts
        self._access = access
        self._configuration = configuration
        self._clock = clock
        self._streams = Streams(clock)
        self._runners: list[web.ServerRunner] = []
        self._routes: dict[str, _PAGE] = {
            "pods": self._pods,
            "runningpods": self._running_pods,
            "containerLogs": self._logs,
            "exec": self._exec,
            "attach": self._attach,
            "portForward": self._port_forward,
            "run": self._run,
            "configz": self._configz,
            "healthz": self._healthz,
            "logs": self._node_logs,
            "checkpoint": self._checkpoint,
        }

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        """Listen; the port, which is chosen if `port` is 0. Raises OSError."""
        return await self._listen(web.Server(self._handle, access_log=None), host, port, tls)

    async def start_health(self, host: str, port: int) -> int:
        """Listen for health checks of the node itself. Raises OSError."""
        return await self._listen(web.Server(self._plain_health, access_log=None), host, port, None)

    async def _listen(self, server: web.Server, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        runner = web.ServerRunner(server)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, host, port, ssl_context=tls, shutdown_timeout=2.0)
        await site.start()
        listening: int = runner.addresses[0][1]
        return listening

    async def close(self) -> None:
        """Stop listening and end what is open."""
        await asyncio.gather(*(each.cleanup() for each in self._runners))
        await self._streams.close()

    async def _plain_health(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith("/healthz"):
            return await self._healthz(request, [])
        return web.Response(status=404, text="404 page not found\n")

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            await self._access.check(request)
            page = self._parts.pages.get(request.path.rstrip("/"))
            if page is not None:
                body, kind = await page()
                return web.Response(body=body, headers={"Content-Type": kind})
            root, *rest = [part for part in request.path.split("/") if part] or [""]
            route = self._routes.get(root)
            if route is None:
                raise RequestError(404, "404 page not found\n")
            return await route(request, rest)
        except (AccessDeniedError, RequestError) as error:
            return web.Response(status=error.status, text=str(error))
        except RuntimeRequestError as error:
            return web.Response(status=500, text=f"rpc error: code = {error.code} desc = {error}")

    async def _pods(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        shown = [_shown(each, self._parts.pods.status(each)) for each in self._parts.pods.all()]
        return _json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": shown})

    async def _running_pods(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        sandboxes = await self._parts.runtime.sandboxes()
        items = [
            {"metadata": {"name": each.name, "namespace": each.namespace, "uid": each.uid}, "spec": {}, "status": {}}
            for each in sandboxes
        ]
        return _json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})

    async def _configz(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        return _json({"kubeletconfig": to_tree(self._configuration)})

    async def _healthz(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        problem = self._parts.healthy()
        return web.Response(status=500 if problem else 200, text=problem or "ok")

    async def _logs(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        if request.method != "GET" or len(path) != 3:
            raise RequestError(404, "404 page not found\n")
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
        if len(path) not in (3, 4):
            raise RequestError(404, "404 page not found\n")
        pod = self._pod(path[0], path[1])
        if len(path) == 4 and pod.metadata.uid != path[2]:
            raise RequestError(404, "pod not found")
        return pod, path[-1]

    async def _exec(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        pod, name = self._target(path)
        stdin, stdout, stderr, tty = _streams(request)
        command = request.query.getall("command", [])
        container_id = running_container_id(self._parts.pods.status(pod), name)
        url = await self._parts.runtime.exec_url(
            container_id, command, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty
        )
        return await self._streams.serve(request, url)

    async def _attach(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        pod, name = self._target(path)
        stdin, stdout, stderr, _ = _streams(request)
        tty = find_container(pod, name).tty  # what the container has counts, not what the client believes
        container_id = running_container_id(self._parts.pods.status(pod), name)
        url = await self._parts.runtime.attach_url(
            container_id, stdin=stdin, stdout=stdout, stderr=stderr and not tty, tty=tty
        )
        return await self._streams.serve(request, url)

    async def _port_forward(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        if len(path) not in (2, 3):
            raise RequestError(404, "404 page not found\n")
        pod = self._pod(path[0], path[1])
        if len(path) == 3 and pod.metadata.uid != path[2]:
            raise RequestError(404, "pod not found")
        sandboxes = await self._parts.runtime.sandboxes(pod_uid=pod.metadata.uid)
        newest = max(sandboxes, key=lambda each: each.created_at, default=None)
        if newest is None:
            raise RequestError(500, f"failed to find sandboxID for pod {pod.metadata.name}")
        url = await self._parts.runtime.port_forward_url(newest.id, _ports(request))
        return await self._streams.serve(request, url)

    async def _run(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        if request.method != "POST":
            raise RequestError(405, "Method Not Allowed")
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
        if request.method != "POST" or len(path) != 3:
            raise RequestError(404, "404 page not found\n")
        pod = self._pod(path[0], path[1])
        find_container(pod, path[2])
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
        if not self._configuration.enable_system_log_handler or not self._configuration.enable_debugging_handlers:
            raise RequestError(405, "logs endpoint is disabled.")
        root = self._parts.log_directory.resolve()
        file = root.joinpath(*path).resolve()
        if not file.is_relative_to(root):
            raise RequestError(404, "404 page not found\n")
        if file.is_dir():
            names = sorted(f"{each.name}/" if each.is_dir() else each.name for each in file.iterdir())
            links = "".join(f'<a href="{name}">{name}</a>\n' for name in names)
            return web.Response(text=f"<pre>\n{links}</pre>\n", content_type="text/html")
        if not file.is_file():
            raise RequestError(404, "404 page not found\n")
        return web.FileResponse(file)


def _json(tree: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(tree), headers={"Content-Type": "application/json"})


def _shown(pod: core_v1.Pod, status: core_v1.PodStatus) -> msgspec.Raw:
    return msgspec.Raw(encode(msgspec.structs.replace(pod, status=status)))


def _is_set(request: web.BaseRequest, *names: str) -> bool:
    return any(request.query.get(name, "") in ("1", "true") for name in names)


def _streams(request: web.BaseRequest) -> tuple[bool, bool, bool, bool]:
    """(stdin, stdout, stderr, tty) as asked for. Raises RequestError."""
    stdin, stdout = _is_set(request, "input", "stdin"), _is_set(request, "output", "stdout")
    tty = _is_set(request, "tty")
    stderr = _is_set(request, "error", "stderr") and not tty
    if not (stdin or stdout or stderr):
        raise RequestError(400, "you must specify at least 1 of stdin, stdout, stderr")
    return stdin, stdout, stderr, tty


def _ports(request: web.BaseRequest) -> list[int]:
    """The ports that a WebSocket client names; others name them within the connection. Raises RequestError."""
    ports = []
    for text in ",".join(request.query.getall("port", [])).split(","):
        if not text:
            continue
        if not text.isdecimal() or not 0 < int(text) < 65536:
            raise RequestError(400, f'port "{text}" must be > 0 and <= 65535')
        ports.append(int(text))
    return ports


def log_options(query: Any, now: float) -> LogOptions:
    """PodLogOptions of a query. now: Unix time. Raises RequestError."""
    values = dict(query)
    tail = values.get("tail") or values.get("tailLines") or ""
    tail = "" if tail == "all" else tail
    try:
        since = parse_rfc3339(values["sinceTime"]) if values.get("sinceTime") else None
        if values.get("sinceSeconds"):
            since = now - int(values["sinceSeconds"])
        options = LogOptions(
            follow=_truth(values.get("follow", "")),
            previous=_truth(values.get("previous", "")),
            timestamps=_truth(values.get("timestamps", "")),
            since=since,
            tail_lines=int(tail) if tail else None,
            limit_bytes=int(values["limitBytes"]) if values.get("limitBytes") else None,
            stream=values.get("stream") or "All",
        )
    except ValueError:
        raise RequestError(400, '{"message": "Unable to decode query."}') from None
    if (options.tail_lines or 0) < 0 or (options.limit_bytes is not None and options.limit_bytes < 1):
        raise RequestError(422, '{"message": "Invalid request."}')
    if options.stream not in ("All", "Stdout", "Stderr"):
        raise RequestError(422, '{"message": "Invalid request."}')
    return options


def _truth(text: str) -> bool:
    return text.lower() in ("1", "true", "t")
