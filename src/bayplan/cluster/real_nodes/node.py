"""One real node: its containerd, its kubelet, its pod network, service proxy and storage driver, in its network namespace and under its own hostname."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Callable
from pathlib import Path

from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.add_ons import (
    NETWORK_USER,
    PROXY_USER,
    STORAGE_USER,
    driver_command,
    network_command,
    proxy_command,
    storage_command,
)
from bayplan.cluster.real_nodes.cni_results import remove_torn
from bayplan.cluster.real_nodes.commands import run
from bayplan.cluster.real_nodes.containerd import (
    ContainerdSettings,
    containerd_command,
    ensure_sandbox_image,
    hides_unified,
    oci_runtimes,
    snapshotter_for,
    wait_ready,
    write_config,
)
from bayplan.cluster.real_nodes.kubelet_files import ApiAccess, kubelet_command, write_credentials, write_files
from bayplan.cluster.real_nodes.network import inside, make_node_network
from bayplan.cluster.real_nodes.orphans import Remains, end_helpers, read_remains, remove_abandoned, remove_orphans
from bayplan.cluster.real_nodes.processes import SupervisedProcess
from bayplan.cluster.real_nodes.settings import POD_NETWORK, PROXY, STORAGE, NodePlace
from bayplan.kubelet.runtime.cri import CriRuntime
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.network.cni_configuration import FILE as CNI_FILE
from bayplan.support.clock import Clock
from bayplan.support.tasks import Supervisor

logger = logging.getLogger(__name__)

_CONTAINERD_SECONDS = 30.0
"""How long containerd may take to answer."""
_STOP_SECONDS = 10.0
_PODS_SECONDS = 30.0
"""How long the pods of a node may take to end; those that are left then are killed by their cgroups."""


class RealNode:
    """A node at its place. `tasks` watches over its processes. plugins: the directory of the network plugins."""

    def __init__(self, place: NodePlace, plugins: Path, clock: Clock, tasks: Supervisor) -> None:
        self.place = place
        self._clock = clock
        self._tasks = tasks
        place.directory.mkdir(parents=True, exist_ok=True)
        place.state.mkdir(parents=True, exist_ok=True)
        self.containerd = ContainerdSettings(
            directory=place.directory / "containerd",
            state=place.state,
            cni_plugins=plugins,
            cni_config=place.cni_config,
            sandbox_image=place.settings.sandbox_image,
            snapshotter=snapshotter_for(place.directory),
            registry_config=place.settings.registry_config.absolute(),
            oci_runtimes=oci_runtimes(place.settings.oci_runtime),
        )
        self.runtime = CriRuntime(self.containerd.endpoint)
        self._cleaning: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._containerd = self._process(
            "containerd",
            containerd_command(self.containerd),
            self._containerd_ended,
            lambda: end_helpers(place),
        )
        self._kubelet = self._process("kubelet", kubelet_command(place))
        beside = {
            "network": (POD_NETWORK, network_command(place)),
            "proxy": (PROXY, proxy_command(place)),
            "csi-local": (STORAGE, driver_command(place)),
            "csi-controller": (STORAGE, storage_command(place)),
        }
        self._beside = {
            name: self._process(name, command)
            for name, (add_on, command) in beside.items()
            if add_on not in place.settings.without
        }

    def failures(self) -> dict[str, Callable[[], str]]:
        """Why each of its components does not run ("" if it does), by name."""
        name = self.place.name
        parts = {"kubelet": self._kubelet, **self._beside}
        return {f"{part}-{name}": lambda each=each: each.failure for part, each in parts.items()}  # type: ignore[misc]

    def _process(
        self,
        name: str,
        command: tuple[str, ...],
        before_restart: Callable[[], None] = lambda: None,
        after_end: Callable[[], None] = lambda: None,
    ) -> SupervisedProcess:
        place = self.place
        log, pid_file = place.directory / f"{name}.log", place.state / f"{name}.pid"
        return SupervisedProcess(
            f"{name} of {place.name}", inside(place, command), log, pid_file, self._clock, before_restart, after_end
        )

    def _containerd_ended(self) -> None:
        """Note what the ended containerd has left, and remove what the next one does not know of it."""
        if self._cleaning is not None:
            self._cleaning.cancel()  # what it has not removed yet is found again
        try:
            torn = remove_torn(self._clock.now())
            if torn:
                logger.warning(
                    "%s: containerd was killed while it wrote %s", self.place.name, ", ".join(map(str, torn))
                )
            remains = read_remains(self.place)
        except OSError as error:
            logger.error("%s: what a killed containerd has left cannot be read: %s", self.place.name, error)
            return
        self._cleaning = self._tasks.spawn(f"orphans of {self.place.name}", self._remove_orphans(remains))

    async def _remove_orphans(self, remains: Remains) -> None:
        try:
            await remove_orphans(self.place, self.runtime, remains, self._clock)
        except (RealNodeError, RuntimeRequestError, OSError) as error:
            logger.error("%s: orphans of a killed containerd are left: %s", self.place.name, error)

    async def start(self, api: ApiAccess) -> None:
        """Start containerd and the kubelet; returns when containerd answers. Raises RealNodeError."""
        place = self.place
        await make_node_network(place)
        # Mounts that pods make are to be seen by other pods, also where the machine's own root keeps its mounts to itself.
        # And those of a containerd that sees other mounts than the machine, to whoever cleans up.
        for directory in (place.directory, *((place.state,) if hides_unified(self.containerd) else ())):
            await run("mount", "--bind", str(directory), str(directory))
            await run("mount", "--make-rshared", str(directory))
        try:
            write_config(self.containerd)
            if POD_NETWORK in place.settings.without:
                (place.cni_config / CNI_FILE).unlink(missing_ok=True)  # of an earlier run with it
            write_files(place, self.containerd.endpoint, api)
            write_credentials(place.directory, "network.kubeconfig", api, NETWORK_USER)
            write_credentials(place.directory, "proxy.kubeconfig", api, PROXY_USER)
            write_credentials(place.directory, "storage.kubeconfig", api, STORAGE_USER)
        except OSError as error:
            raise RealNodeError(f"{place.directory}: the node's files cannot be written: {error}") from error
        self._containerd.log.unlink(missing_ok=True)
        for each in (self._kubelet, *self._beside.values()):
            each.log.unlink(missing_ok=True)
        self._tasks.spawn(self._containerd.name, self._containerd.run())
        try:
            await wait_ready(self.runtime, self._clock, _CONTAINERD_SECONDS)
            await self._remove_pods()
            await ensure_sandbox_image(self.containerd, self.runtime, self._clock, platform.machine())
        except (RealNodeError, RuntimeRequestError, ValueError) as error:
            raise RealNodeError(f"{place.name}: {error}; its log ends: {self._containerd.last_words()}") from error
        watching = remove_abandoned(place, self.runtime, self._clock)
        self._watching = self._tasks.spawn(f"abandoned shims of {place.name}", watching)
        for each in (self._kubelet, *self._beside.values()):
            self._tasks.spawn(each.name, each.run())

    async def _remove_pods(self) -> None:
        """Remove all pods from containerd, which gives back their networks. Raises RuntimeRequestError."""
        await asyncio.gather(*(self._remove_pod(sandbox.id) for sandbox in await self.runtime.sandboxes()))

    async def _remove_pod(self, sandbox_id: str) -> None:
        await self.runtime.stop_sandbox(sandbox_id)
        await self.runtime.remove_sandbox(sandbox_id)

    async def stop(self) -> None:
        """End the kubelet, then the pods, then containerd and the network. What does not end is left for `remove_leftovers`."""
        await self._kubelet.stop(_STOP_SECONDS)
        for task in (self._cleaning, self._watching):
            if task is not None:
                task.cancel()
        try:
            if self._containerd.pid:
                async with asyncio.timeout(_PODS_SECONDS):
                    await self._remove_pods()
        except (RuntimeRequestError, TimeoutError) as error:
            logger.warning("%s: pods are left to be killed: %s", self.place.name, error or "they take too long")
        await self._containerd.stop(_STOP_SECONDS)
        await asyncio.gather(*(each.stop(_STOP_SECONDS) for each in self._beside.values()))
        await self.runtime.close()
