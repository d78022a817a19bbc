"""Changes the limits of a pod that runs: of its cgroup and of its containers, in an order in which no limit is below what it holds."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.allocations import AllocationRecords
from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.core.containers.resources import LimitSettings, container_resources
from bayplan.kubelet.core.resize import (
    RESIZABLE,
    Allocation,
    ContainerUpdate,
    ResizePlan,
    decreasing_memory,
    resources_between,
)
from bayplan.kubelet.core.resources import CgroupResources
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime


class PodLimits(Protocol):
    """The cgroups of pods. Methods raise CgroupError."""

    def resources(self, pod: core_v1.Pod) -> CgroupResources:
        """The limits that a pod's cgroup is to have."""

    def limits(self, pod: core_v1.Pod) -> CgroupResources:
        """What it has of cpu and memory."""

    def memory_usage(self, pod: core_v1.Pod) -> int | None:
        """Bytes that the pod uses, where that is known."""

    def set_resources(self, pod: core_v1.Pod, resources: CgroupResources) -> None:
        """Set some limits."""


class ResizeError(Exception):
    """A resize was not carried out, or not to its end; the text is for the pod's condition. It is tried again."""


class PodResizer:
    """Carries out a `ResizePlan`, and records what containers have got."""

    def __init__(
        self, runtime: Runtime, settings: LimitSettings, cgroups: PodLimits | None, actuated: AllocationRecords
    ) -> None:
        """cgroups: None where pods have none of their own."""
        self._runtime = runtime
        self._settings = settings
        self._cgroups = cgroups
        self._records = actuated

    def actuated(self, pod: core_v1.Pod) -> Allocation:
        """What the containers of a pod have got."""
        return self._records.get(pod.metadata.uid) or Allocation()

    def started(self, pod: core_v1.Pod, container: core_v1.Container) -> None:
        """A container was made with what its spec says."""
        uid = pod.metadata.uid
        if self._records.get(uid) is None:
            self._records.set(uid, Allocation(pod=pod.spec.resources))
        self._records.set_container(uid, container.name, container.resources)

    async def resize(self, pod: core_v1.Pod, plan: ResizePlan) -> None:
        """Bring a pod's limits to what is allocated to it. Raises ResizeError."""
        try:
            await self._check_memory(pod, plan)
            for resource in RESIZABLE:
                if plan.touches(resource):
                    await self._resize(pod, plan, resource)
            if plan.pod:
                known = self.actuated(pod)
                self._records.set(pod.metadata.uid, msgspec.structs.replace(known, pod=pod.spec.resources))
        except (RuntimeRequestError, CgroupError) as error:
            raise ResizeError(str(error)) from error

    async def _resize(self, pod: core_v1.Pod, plan: ResizePlan, resource: str) -> None:
        wanted, grows = self._pod_limit(pod, resource)
        if self._cgroups is not None and wanted is not None and grows:
            self._cgroups.set_resources(pod, wanted)
        for update in plan.updates.get(resource, ()):
            await self._update(pod, update, resource)
        if self._cgroups is not None and wanted is not None and not grows:
            self._cgroups.set_resources(pod, wanted)

    def _pod_limit(self, pod: core_v1.Pod, resource: str) -> tuple[CgroupResources | None, bool]:
        """(what is to be set for the pod itself, whether that is more than it has). A limit that the pod is not to have any more stays."""
        if self._cgroups is None:
            return None, False
        wanted, has = self._cgroups.resources(pod), self._cgroups.limits(pod)
        if resource == "memory":
            return CgroupResources(memory=wanted.memory), _is_more(wanted.memory, has.memory)
        shares = CgroupResources(cpu_shares=wanted.cpu_shares, cpu_quota=wanted.cpu_quota, cpu_period=wanted.cpu_period)
        return shares, _is_more(wanted.cpu_quota, has.cpu_quota)

    async def _update(self, pod: core_v1.Pod, update: ContainerUpdate, resource: str) -> None:
        resources = resources_between(update, resource)
        container: core_v1.Container = msgspec.structs.replace(update.container, resources=resources)
        limits = container_resources(pod, container, self._settings)
        await self._runtime.update_container(update.container_id, limits, {})
        self._records.set_container(pod.metadata.uid, container.name, resources)

    async def _check_memory(self, pod: core_v1.Pod, plan: ResizePlan) -> None:
        """A memory limit below what is in use would have processes killed. Raises ResizeError, CgroupError, RuntimeRequestError."""
        errors = []
        if plan.touches("memory") and self._cgroups is not None:
            wanted, has = self._cgroups.resources(pod).memory, self._cgroups.limits(pod).memory
            used = self._cgroups.memory_usage(pod)
            if wanted and (not has or wanted < has) and used is not None and used >= wanted:
                errors.append(f"attempting to set pod memory limit ({wanted}) below current usage ({used})")
        lower = decreasing_memory(plan.updates.get("memory", ()))
        if lower:
            for stats in await self._runtime.container_stats(pod_uid=pod.metadata.uid):
                limit, used = lower.get(stats.name), stats.memory_usage
                if limit is not None and used is not None and used >= limit:
                    errors.append(
                        f'attempting to set container "{stats.name}" memory limit ({limit}) below current usage ({used})'
                    )
        if errors:
            text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            raise ResizeError(f"cannot decrease memory limits: {text}")


def _is_more(wanted: int | None, has: int | None) -> bool:
    """Whether a limit grows; none (0 or less) is more than any."""
    if wanted is None or has is None:
        return False
    return has > 0 and (wanted <= 0 or wanted > has)
