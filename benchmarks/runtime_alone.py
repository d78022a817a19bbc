"""What the container runtime alone needs for the pods of a kubelet: the same calls, with nobody beside it. The kubelet is held meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import time
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bayplan.api.types import core_v1, meta_v1
from bayplan.cluster.real_nodes.settings import NodePlace
from bayplan.kubelet.core.containers.config import ContainerParts, SandboxParts, container_config, sandbox_config
from bayplan.kubelet.core.containers.resources import LimitSettings, container_resources
from bayplan.kubelet.core.containers.security import NodeSecurity, container_security, sandbox_security
from bayplan.kubelet.runtime.cri import CriRuntime
from bayplan.kubelet.runtime.types import DnsConfig, SandboxConfig
from benchmarks.figures import Figure


async def measure(place: NodePlace, kubelet: int, pod: core_v1.Pod, ones: int, many: int) -> Sequence[Figure]:
    """Start and stop copies of a pod: `ones` one after the other, `many` at once. kubelet: its process id, which renews no lease for that time."""
    runtime = CriRuntime(f"unix://{place.state / 'containerd.sock'}")
    made: list[str] = []
    try:
        with _held(kubelet):
            singles = [
                await _timed(_start(runtime, place, _copy(pod, f"one-{number}"), made)) for number in range(ones)
            ]
            copies = [_copy(pod, f"many-{number}") for number in range(many)]
            came = await _timed(asyncio.gather(*(_start(runtime, place, each, made) for each in copies)))
            went = await _timed(asyncio.gather(*(_end(runtime, each) for each in made)))
    finally:
        await runtime.close()
    median = statistics.median(singles) * 1000
    return [
        Figure("real node", f"the runtime alone: a pod started, median of {ones}", median, "ms"),
        Figure("real node", f"the runtime alone: {many} pods at once, started", many / came, "pods/s"),
        Figure("real node", "the runtime alone: these and the single ones, ended", len(made) / went, "pods/s"),
    ]


@contextlib.contextmanager
def _held(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _copy(pod: core_v1.Pod, name: str) -> core_v1.Pod:
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, namespace="default", uid=f"alone-{name}"), spec=pod.spec)


async def _start(runtime: CriRuntime, place: NodePlace, pod: core_v1.Pod, made: list[str]) -> None:
    """The calls with which a kubelet starts a pod."""
    sandbox = _sandbox(place, pod)
    sandbox_id = await runtime.run_sandbox(sandbox)
    made.append(sandbox_id)
    await runtime.sandbox_status(sandbox_id)
    for container in pod.spec.containers:
        await runtime.image_status(container.image)
        resources = container_resources(pod, container, LimitSettings(memory_capacity=8 << 30))
        given = ContainerParts(
            container.image, 0, (), (), container_security(pod, container, NodeSecurity()), resources
        )
        container_id = await runtime.create_container(sandbox_id, container_config(pod, container, given), sandbox)
        await runtime.start_container(container_id)


def _sandbox(place: NodePlace, pod: core_v1.Pod) -> SandboxConfig:
    """A sandbox for a pod, whose directory for logs is there."""
    parts = SandboxParts(str(place.directory / "logs" / "pods"), "cluster.local", DnsConfig(), sandbox_security(pod))
    sandbox = replace(sandbox_config(pod, 0, parts), cgroup_parent=f"{place.cgroup}/alone")
    Path(sandbox.log_directory).mkdir(parents=True, exist_ok=True)
    return sandbox


async def _end(runtime: CriRuntime, sandbox_id: str) -> None:
    await runtime.stop_sandbox(sandbox_id)
    await runtime.remove_sandbox(sandbox_id)


async def _timed(outcome: Awaitable[object]) -> float:
    """Seconds until something has come."""
    began = time.perf_counter()
    await outcome
    return time.perf_counter() - began
