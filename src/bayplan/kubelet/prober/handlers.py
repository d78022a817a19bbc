"""What a probe does: run a command, ask over HTTP or gRPC, or open a connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.expansion import expand_command
from bayplan.kubelet.core.plan import Health
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.http_actions import HttpActionError, action_headers, action_url, http_get, resolve_port
from bayplan.kubelet.pods.container_events import ContainerEvents
from bayplan.kubelet.prober.grpc_health import GrpcHealthError, is_serving
from bayplan.kubelet.prober.results import ProbeType
from bayplan.kubelet.runtime.errors import RuntimeRequestError, RuntimeTimeoutError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.support.durations import go_duration

logger = logging.getLogger(__name__)

USER_AGENT = "kube-probe/1.36"
_TRIES = 3
"""How often a probe is tried that could not even be made."""
_MOST_OUTPUT = 10 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one probe found: `passed`, its output, and whether that is worth a warning although it passed."""

    passed: bool
    output: str = ""
    warning: bool = False


class ProbeBrokenError(Exception):
    """The probe itself could not be made; nothing is known about the container."""


class ProbeRunner:
    """Makes probes and records events about those that fail."""

    def __init__(self, runtime: Runtime, events: ContainerEvents) -> None:
        self._runtime = runtime
        self._events = events

    async def probe(
        self,
        probe_type: ProbeType,
        spec: core_v1.Probe,
        pod: core_v1.Pod,
        status: core_v1.PodStatus,
        container: AnyContainer,
        container_id: str,
    ) -> Health | None:
        """The result of one probe; None if it could not be made."""
        try:
            outcome = await self._tried(spec, status, container, container_id)
        except ProbeBrokenError as error:
            text = f"{probe_type.value} probe errored and resulted in unknown state: {error}"
            self._events.warning(pod, container, "Unhealthy", text)
            return None
        if outcome.warning:
            self._events.warning(pod, container, "ProbeWarning", f"{probe_type.value} probe warning: {outcome.output}")
        elif not outcome.passed:
            self._events.warning(pod, container, "Unhealthy", f"{probe_type.value} probe failed: {outcome.output}")
        return Health.SUCCESS if outcome.passed else Health.FAILURE

    async def _tried(
        self, spec: core_v1.Probe, status: core_v1.PodStatus, container: AnyContainer, container_id: str
    ) -> Outcome:
        for _ in range(_TRIES - 1):
            try:
                return await self._once(spec, status, container, container_id)
            except ProbeBrokenError:
                continue
        return await self._once(spec, status, container, container_id)

    async def _once(
        self, spec: core_v1.Probe, status: core_v1.PodStatus, container: AnyContainer, container_id: str
    ) -> Outcome:
        seconds = max(spec.timeout_seconds, 1)
        if spec.exec is not None:
            return await self._exec(spec.exec, container, container_id, seconds)
        if spec.http_get is not None:
            return await _http(spec.http_get, status, container, seconds)
        if spec.tcp_socket is not None:
            return await _tcp(spec.tcp_socket, status, container, seconds)
        if spec.grpc is not None:
            return await _grpc(spec.grpc, status, seconds)
        raise ProbeBrokenError(f"missing probe handler for {container.name}")

    async def _exec(
        self, action: core_v1.ExecAction, container: AnyContainer, container_id: str, seconds: int
    ) -> Outcome:
        command = expand_command(action.command, {each.name: each.value for each in container.env})
        try:
            result = await self._runtime.exec_sync(container_id, command, seconds)
        except RuntimeTimeoutError as error:
            return Outcome(False, f"command timed out: {error}")
        except RuntimeRequestError as error:
            raise ProbeBrokenError(str(error)) from None
        output = (result.stdout + result.stderr)[:_MOST_OUTPUT].decode(errors="replace")
        return Outcome(result.exit_code == 0, output)


async def _http(
    action: core_v1.HTTPGetAction, status: core_v1.PodStatus, container: AnyContainer, seconds: int
) -> Outcome:
    url = _made(lambda: action_url(action, container, status.pod_ip))
    try:
        reply = await http_get(url, action_headers(action, USER_AGENT), seconds)
    except HttpActionError as error:
        return Outcome(False, str(error))
    if 300 <= reply.status < 400:
        return Outcome(True, f"Probe terminated redirects, Response body: {reply.body}", warning=True)
    if 200 <= reply.status < 300:
        return Outcome(True, reply.body)
    return Outcome(False, f"HTTP probe failed with statuscode: {reply.status}")


def _made(make: Callable[[], str]) -> str:
    try:
        return make()
    except ValueError as error:
        raise ProbeBrokenError(str(error)) from None


async def _tcp(
    action: core_v1.TCPSocketAction, status: core_v1.PodStatus, container: AnyContainer, seconds: int
) -> Outcome:
    try:
        port = resolve_port(action.port, container)
    except ValueError as error:
        raise ProbeBrokenError(str(error)) from None
    host = action.host or status.pod_ip
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return Outcome(False, f"dial tcp {address}: i/o timeout")
    except ConnectionRefusedError:
        return Outcome(False, f"dial tcp {address}: connect: connection refused")
    except OSError as error:
        return Outcome(False, f"dial tcp {address}: {error.strerror or error}")
    writer.close()
    return Outcome(True)


async def _grpc(action: core_v1.GRPCAction, status: core_v1.PodStatus, seconds: int) -> Outcome:
    host = f"[{status.pod_ip}]" if ":" in status.pod_ip else status.pod_ip
    try:
        serving = await is_serving(f"{host}:{action.port}", action.service or "", seconds)
    except GrpcHealthError as error:
        return Outcome(False, str(error))
    except TimeoutError:
        return Outcome(False, f"timeout: health rpc did not complete within {go_duration(seconds)}")
    if serving == "SERVING":
        return Outcome(True, "service healthy")
    return Outcome(False, f'service unhealthy (responded with "{serving}")')
