"""How the node is, as far as its pods depend on it: runtime, network, addresses."""

from __future__ import annotations

import logging
from collections.abc import Callable

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import NodeOffer
from bayplan.kubelet.core.containers.states import StatusFacts
from bayplan.kubelet.core.pod_status import Failure, PodFacts
from bayplan.kubelet.pods.deadlines import deadline_failure
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import LinuxResources, RuntimeStatus
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
UNREADY_CHECK_SECONDS = 0.25
"""How often a runtime is asked that is not ready, so that its node waits no longer than it must."""
UNHEALTHY_SECONDS = 30.0
"""How long a runtime may not answer before the node is not ready."""


class NodeState:
    """Implements `NodeCondition`: follows the runtime's status, and knows the node's addresses."""

    def __init__(
        self,
        runtime: Runtime,
        node: Callable[[], core_v1.Node | None],
        status_of: Callable[[str], core_v1.PodStatus | None],
        cgroup: Callable[[core_v1.Pod], LinuxResources | None],
        clock: Clock,
    ) -> None:
        """node: the node as the API shows it. status_of: pod uid -> what the kubelet last said of the pod. cgroup: the limits that a pod's own cgroup has."""
        self._runtime = runtime
        self._node = node
        self._status_of = status_of
        self._cgroup = cgroup
        self._clock = clock
        self._answered_at = float("-inf")
        self._error = "container runtime status check may not have completed yet"
        self.runtime_name = ""
        self.runtime_status = RuntimeStatus()
        self.host_ips: tuple[str, ...] = ()

    async def run(self) -> None:
        """Ask the runtime every five seconds, sooner while it is not ready, until cancelled."""
        while True:
            await self.check()
            ready = not self._error and not self.network_error()
            await self._clock.sleep(CHECK_SECONDS if ready else UNREADY_CHECK_SECONDS)

    async def check(self) -> None:
        """Ask the runtime once."""
        try:
            if not self.runtime_name:
                self.runtime_name = (await self._runtime.version()).name
            self.runtime_status = await self._runtime.status()
        except RuntimeRequestError as error:
            self._error = f"container runtime is down: {error}"
            return
        self._answered_at = self._clock.monotonic()
        ready = self.runtime_status.condition("RuntimeReady")
        if ready is None or not ready.status:
            reason = f"{ready.reason}: {ready.message}" if ready is not None else "no condition RuntimeReady"
            self._error = f"container runtime not ready: RuntimeReady={reason}"
        else:
            self._error = ""

    def runtime_error(self) -> str:
        """Why the runtime cannot run pods; empty if it can."""
        if self._clock.monotonic() - self._answered_at > UNHEALTHY_SECONDS:
            return self._error or "container runtime is down"  # without an error it still owes an answer
        ready = self.runtime_status.condition("RuntimeReady")
        return self._error if ready is not None and not ready.status else ""

    def network_error(self) -> str:
        """See NodeCondition."""
        ready = self.runtime_status.condition("NetworkReady")
        if ready is None or ready.status:
            return ""
        return f"container runtime network not ready: NetworkReady=false reason:{ready.reason} message:{ready.message}"

    def eviction(self, pod: core_v1.Pod) -> Failure | None:
        """See NodeCondition."""
        status = self._status_of(pod.metadata.uid) or pod.status
        return deadline_failure(pod, status.start_time, self._clock.now())

    def facts(self, pod: core_v1.Pod) -> PodFacts:
        """See NodeCondition."""
        handler = next((each for each in self.runtime_status.handlers if not each.name), None)
        containers = StatusFacts(
            runtime=self.runtime_name or "containerd",
            recursive_read_only=handler is not None and handler.recursive_read_only_mounts,
        )
        runs = pod.status.phase == "Running"
        return PodFacts(
            host_ips=self.host_ips,
            containers=containers,
            shows_resources=True,
            cgroup=self._cgroup(pod) if runs else None,
        )

    def offer(self) -> NodeOffer:
        """What admission may use of the node."""
        node = self._node() or core_v1.Node()
        return NodeOffer(node, supplemental_groups_policy=self.runtime_status.supplemental_groups_policy)
