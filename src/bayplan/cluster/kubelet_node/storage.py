"""The volumes of a node on this machine: those that need nothing but the node and the API, and those of storage drivers that register themselves."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from bayplan.api.types import core_v1, storage_v1
from bayplan.client import Client
from bayplan.csi.registration import KIND
from bayplan.informers import InformerFactory
from bayplan.kubelet.csi.attach_limit import AttachLimits
from bayplan.kubelet.csi.drivers import Drivers
from bayplan.kubelet.csi.metrics import call_observer
from bayplan.kubelet.csi.node_info import CsiNodeInfo
from bayplan.kubelet.csi.objects import CsiObjects
from bayplan.kubelet.csi.registration import CsiRegistration
from bayplan.kubelet.csi.volumes import CsiVolumes
from bayplan.kubelet.plugin_watcher import PluginHandler, PluginWatcher
from bayplan.kubelet.volumes.interface import VolumeHost
from bayplan.kubelet.volumes.kinds import VolumeKinds, default_kinds
from bayplan.kubelet.volumes.manager import VolumeManager
from bayplan.support.grpc.calls import Connection
from bayplan.support.metrics.instruments import Registry

_REGISTRY: Final = "plugins_registry"


class NodeStorage:
    """See the module. `volumes` is what the kubelet uses."""

    def __init__(
        self,
        host: VolumeHost,
        client: Client,
        informers: InformerFactory,
        metrics: Registry,
        *,
        node: Callable[[], core_v1.Node | None],
        in_use_changed: Callable[[], None],
    ) -> None:
        """node: this node as the API shows it. in_use_changed: called when the node's status has other volumes in use to show."""
        drivers = Drivers(Connection, host.clock, lambda name: call_observer(metrics, name))
        objects = CsiObjects(client, host.node_name, informers.informer(storage_v1.CSIDriver))
        self._node_info = CsiNodeInfo(client, host.node_name, host.clock)
        self._registration = CsiRegistration(drivers, self._node_info, objects, host.clock)
        self._host = host
        limits = AttachLimits(objects, self._registration.look_again)
        kinds = VolumeKinds((*default_kinds(), CsiVolumes(drivers, objects, limits)))
        self.volumes = VolumeManager(host, kinds, node=node, in_use_changed=in_use_changed)

    def error(self) -> str:
        """Why the node is not ready yet; empty if it is, as far as storage goes."""
        return self._node_info.error

    def tasks(self, plugins: dict[str, PluginHandler]) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        """What runs as long as the kubelet does. plugins: what is done with plugins that are no storage drivers, by their kinds."""
        handlers = {**plugins, KIND: self._registration}
        watcher = PluginWatcher(self._host.root / _REGISTRY, handlers, self._host.clock)
        return {"plugins": watcher.run, "storage drivers": self._registration.run}
