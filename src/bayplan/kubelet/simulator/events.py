"""What a kubelet would tell about a pod, worked out from the status before and after a step.

Warnings are told by default; the ordinary course of a start only if asked for, since it costs three writes per container. Wording: Kubernetes' kubelet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.annotation_checks import mistakes
from bayplan.kubelet.simulator.containers import LIVE, setting
from bayplan.kubelet.simulator.restarts import CRASH_LOOP

NORMAL, WARNING = "Normal", "Warning"
NONE, WARNINGS, ALL = "none", "warnings", "all"
CHOICES = (NONE, WARNINGS, ALL)


class Told(NamedTuple):
    """One event about a pod."""

    type: str
    reason: str
    message: str


def told(pod: core_v1.Pod, after: core_v1.PodStatus, choice: str) -> list[Told]:
    """Events about a step from a pod's status to the one after it. `choice`: one of `CHOICES`."""
    if choice == NONE:
        return []
    before = {one.name: one for one in (*pod.status.container_statuses, *pod.status.init_container_statuses)}
    found = [
        event
        for one in (*after.init_container_statuses, *after.container_statuses)
        for event in _about(pod, before.get(one.name), one)
    ]
    if after.start_time and not pod.status.start_time:
        found[:0] = (Told(WARNING, "InvalidAnnotation", text) for text in mistakes(pod.metadata.annotations))
    return found if choice == ALL else [one for one in found if one.type == WARNING]


def stopping(pod: core_v1.Pod, choice: str) -> list[Told]:
    """Events about a pod whose containers are being stopped."""
    if choice != ALL:
        return []
    running = [one.name for one in pod.status.container_statuses if one.state.running is not None]
    return [Told(NORMAL, "Killing", f"Stopping container {name}") for name in running]


def _about(pod: core_v1.Pod, before: core_v1.ContainerStatus | None, after: core_v1.ContainerStatus) -> Iterator[Told]:
    waits = after.state.waiting.reason if after.state.waiting is not None else ""
    waited = before.state.waiting.reason if before is not None and before.state.waiting is not None else ""
    ended = after.last_state.terminated or after.state.terminated
    was = (before.last_state.terminated or before.state.terminated) if before is not None else None
    if ended is not None and ended != was:
        if ended.reason == "OOMKilled":
            yield Told(WARNING, "OOMKilling", f"Memory cgroup out of memory: Killed process of container {after.name}")
        elif ended.exit_code == 137 and (setting(pod, LIVE, after.name) or "").lower() == "false":
            yield Told(WARNING, "Unhealthy", "Liveness probe failed: the annotation says so")
            yield Told(NORMAL, "Killing", f"Container {after.name} failed liveness probe, will be restarted")
    if waits == CRASH_LOOP and waited != CRASH_LOOP:
        name = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
        yield Told(WARNING, "BackOff", f"Back-off restarting failed container {after.name} in pod {name}")
    if waits == "ImagePullBackOff" and waited != waits:
        yield Told(WARNING, "Failed", f'Failed to pull image "{after.image}": not found')
        yield Told(WARNING, "Failed", "Error: ImagePullBackOff")
    if after.state.running is not None:
        if before is None or before.state.running != after.state.running:
            yield Told(NORMAL, "Pulled", f'Container image "{after.image}" already present on machine')
            yield Told(NORMAL, "Created", f"Created container: {after.name}")
            yield Told(NORMAL, "Started", f"Started container {after.name}")
        elif before.ready and not after.ready:
            yield Told(WARNING, "Unhealthy", "Readiness probe failed: the annotation says so")
