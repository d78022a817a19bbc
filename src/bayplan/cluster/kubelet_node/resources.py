"""The managers of CPUs, memory and devices of a node on this machine, with the sockets over which device plugins and monitors reach them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from bayplan.api.types import core_v1
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.feature_gates import CPU_QUOTA, RESOURCE_HEALTH, is_enabled
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.resource_managers.container_manager import ContainerManager, NodeView
from bayplan.kubelet.resource_managers.devices.plugin_server import PluginServer
from bayplan.kubelet.resource_managers.machine_topology import MachineTopology
from bayplan.kubelet.resource_managers.make_managers import DEVICE_PLUGINS, Setting, make_managers
from bayplan.kubelet.resource_managers.manager_metrics import ManagerMetrics
from bayplan.kubelet.resource_managers.pod_resources import SOCKET, PodResourcesServer
from bayplan.kubelet.resource_managers.reservations import Reserved
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import ContainerState
from bayplan.support.clock import Clock
from bayplan.support.grpc.calls import LONGEST_SOCKET
from bayplan.support.metrics.instruments import Registry

logger = logging.getLogger(__name__)


class _Server(Protocol):
    socket: Path

    async def start(self) -> None:
        """Listen."""

    async def stop(self) -> None:
        """Listen no longer."""


class NodeResources:
    """See the module. `manager` is what the kubelet uses."""

    def __init__(
        self,
        kubelet: Kubelet,
        runtime: Runtime,
        machine: MachineTopology,
        configuration: KubeletConfiguration,
        reserved: Reserved,
        root: Path,
        clock: Clock,
        registry: Registry,
    ) -> None:
        """reserved: what pods do not get. root: the kubelet's directory. registry: of the kubelet's metrics. Raises ResourceManagerError."""
        metrics = ManagerMetrics(registry)
        gates = configuration.feature_gates
        self._counts_quota = not is_enabled(gates, CPU_QUOTA)
        shows_health = is_enabled(gates, RESOURCE_HEALTH)

        def ran(uid: str, name: str) -> bool:
            latest = kubelet.states.get(uid).latest(name)
            is_running = latest is not None and latest.container.state is ContainerState.RUNNING
            return is_running and not kubelet.pods.ready

        managers = make_managers(Setting(configuration, machine, reserved, root, clock.monotonic, ran, metrics))
        show = kubelet.show if shows_health else lambda uids: None
        self.plugins = PluginServer(root / DEVICE_PLUGINS, managers.devices, show, metrics=metrics)
        self.manager = ContainerManager(
            managers,
            NodeView(
                active=lambda: kubelet.pods.active(),
                state=kubelet.states.get,
                ready=lambda: kubelet.pods.ready,
            ),
            self.plugins.ask,
            runtime,
            clock,
            reconcile_seconds=configuration.cpu_manager_reconcile_period,
            metrics=metrics,
            shows_health=shows_health,
        )
        self.pod_resources = PodResourcesServer(
            root / "pod-resources" / SOCKET, managers, lambda: kubelet.pods.active(), clock
        )

    def has_exclusive_cpus(self, pod: core_v1.Pod, container: str = "") -> bool:
        """Whether a container, or any of the pod, has CPUs of its own and so needs no quota."""
        return not self._counts_quota and self.manager.has_exclusive_cpus(pod, container)

    def tasks(self) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        """What runs as long as the kubelet does."""
        return {
            "cpus": self.manager.run,
            "device plugins": lambda: _serve(self.plugins),
            "pod resources": lambda: _serve(self.pod_resources),
        }


async def _serve(server: _Server) -> None:
    """Listen until cancelled. Raises OSError."""
    if len(os.fsencode(server.socket)) > LONGEST_SOCKET:
        logger.error("nothing listens at %s: a socket's path may have %d bytes", server.socket, LONGEST_SOCKET)
        return
    try:
        await server.start()
        await asyncio.Event().wait()
    finally:
        await server.stop()
