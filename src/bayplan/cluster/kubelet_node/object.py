"""The node in the API: registered, kept up to date, alive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bayplan.cluster.kubelet_node.options import NodeOptions
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.node.heartbeat import NodeHeartbeat, NodeLease
from bayplan.kubelet.node.registration import initial_node, register
from bayplan.kubelet.node.status import NodeFacts
from bayplan.kubelet.pods.container_events import NORMAL
from bayplan.kubelet.runtime.interface import Runtime


class NodeObject:
    """See the module."""

    def __init__(
        self,
        kubelet: Kubelet,
        runtime: Runtime,
        options: NodeOptions,
        architecture: str,
        facts: Callable[[], Awaitable[NodeFacts]],
    ) -> None:
        configuration = kubelet.configuration
        self._kubelet = kubelet
        self._options = options
        self._architecture = architecture
        self._heartbeat = NodeHeartbeat(
            kubelet.client,
            options.name,
            kubelet.node,
            facts,
            kubelet.events,
            kubelet.clock,
            update_seconds=configuration.update_seconds(),
            report_seconds=configuration.report_seconds(),
            pod_cidr_changed=runtime.set_pod_cidr,
        )
        self._lease = NodeLease(
            kubelet.client,
            options.name,
            kubelet.node,
            kubelet.clock,
            kubelet.randomness,
            duration_seconds=configuration.node_lease_duration_seconds,
        )

    async def report(self) -> None:
        """Write the status now, if it has changed. Raises ApiError, TransportError, OSError, RuntimeRequestError."""
        await self._heartbeat.look()

    def hurry(self) -> None:
        """Write the status soon: it has changed, and somebody waits for it."""
        self._heartbeat.hurry()

    async def renew_lease(self) -> None:
        """Renew the node's lease until cancelled."""
        await self._lease.run()

    async def run(self) -> None:
        """Register the node and write its status, until cancelled."""
        kubelet, options = self._kubelet, self._options
        configuration = kubelet.configuration
        if configuration.register_node:
            node = initial_node(
                options.name,
                options.hostname,
                self._architecture,
                labels=options.labels,
                taints=configuration.register_with_taints,
                provider_id=configuration.provider_id,
                attach_by_controller=configuration.enable_controller_attach_detach,
            )
            await register(kubelet.client, node, kubelet.clock)
        kubelet.node_state.host_ips = options.addresses[:2]
        while (registered := kubelet.node()) is None:
            await kubelet.clock.sleep(0.05)
        kubelet.events.node(registered, NORMAL, "Starting", "Starting kubelet.")
        await self._heartbeat.run()
