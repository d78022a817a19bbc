"""EndpointSlices: the addresses behind a service, in the new form.

What goes where is decided in `endpointslice_rules`, and in `endpointslice_topology` which zone it is meant for if a service wants that by what nodes can do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from bayplan.api.nodes import is_ready_node
from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.controllers.base import owner_reference
from bayplan.controllers.networking import endpointslice_rules as rules
from bayplan.controllers.networking import endpointslice_topology as topology
from bayplan.controllers.networking.endpointslice_rules import MANAGED_BY, SERVICE_NAME, ZONE, Changes, Shape
from bayplan.controllers.networking.endpointslice_writes import write_slices
from bayplan.controllers.networking.service_pods import (
    HEADLESS,
    ServiceController,
    families_of,
    ports_of,
    with_address,
    with_trigger,
)
from bayplan.informers.cache import key_of

MANAGER = "endpointslice-controller.k8s.io"
_NODES = ""
"""Key for a look at services whose hints may not suit the nodes any more."""


class EndpointSliceController(ServiceController):
    """See the module."""

    name = "endpointslice-controller"
    event_source = "endpoint-slice-controller"

    def setup(self) -> None:
        super().setup()
        self.nodes = self.informer(core_v1.Node)
        self.slices = self.informer(discovery_v1.EndpointSlice)
        self.slices.add_index("service", _service_of)
        self.slices.on_change(add=self._slice_touched, update=self._slice_changed, delete=self._slice_touched)
        self.nodes.on_change(update=self._node_changed)
        self._without_node: dict[str, set[str]] = {}
        """Node that the cache lacks -> keys of services with pods on it."""
        self.nodes.on_change(add=self._node_added, delete=lambda node: self._zones_changed())
        self._shares: dict[str, float] | None = None
        """Zone -> its part of all cpu, as of the last look."""
        self._shares_stale = True
        self._hints: dict[str, dict[str, Mapping[str, int]]] = {}
        """Key of a service that has hints by topology -> address type -> zone -> endpoints meant for it."""
        self._hints_told: set[str] = set()
        """Keys of services of which was said that they have hints, and not yet that they have none."""

    def _slice_touched(self, one: discovery_v1.EndpointSlice) -> None:
        for key in _service_of(one):
            self.queue.add(key)

    def _slice_changed(self, old: discovery_v1.EndpointSlice, new: discovery_v1.EndpointSlice) -> None:
        """A slice whose labels say something else now is missed where it was."""
        self._slice_touched(new)
        if old.metadata.labels != new.metadata.labels:
            self._slice_touched(old)

    def _node_added(self, node: core_v1.Node) -> None:
        for key in self._without_node.pop(node.metadata.name, ()):
            self.queue.add(key)
        self._zones_changed()

    def _node_changed(self, old: core_v1.Node, new: core_v1.Node) -> None:
        """Endpoints show their zone; it hardly ever changes."""
        moved = old.metadata.labels.get(ZONE) != new.metadata.labels.get(ZONE)
        if moved or is_ready_node(old) != is_ready_node(new):
            self._zones_changed()
        if moved:
            for service in self.services.cache:
                self.queue.add(key_of(service))

    def _zones_changed(self) -> None:
        """Zones may have other shares now; whoever has hints is looked at if they do not suit any more."""
        self._shares_stale = True
        if self._hints:
            self.queue.add(_NODES)

    def _zone_shares(self) -> dict[str, float] | None:
        if self._shares_stale:
            self._shares, self._shares_stale = topology.zone_shares(self.nodes.cache), False
        return self._shares

    async def reconcile(self, key: str) -> None:
        if key == _NODES:
            shares = self._zone_shares()
            for name, families in self._hints.items():
                if any(topology.is_overloaded(zones, shares) for zones in families.values()):
                    self.queue.add(name)
            return
        service: core_v1.Service | None = self.services.cache.by_key(key)
        if (
            service is None
            or not service.spec.selector
            or service.metadata.deletion_timestamp
            or service.spec.type == "ExternalName"
        ):
            self._hints.pop(key, None)
            self._hints_told.discard(key)
            if service is None:
                self.trigger_times.forget(key)
            return
        existing = [one for one in self.slices.cache.by_index("service", key) if not one.metadata.deletion_timestamp]
        labels = {
            name: value
            for name, value in service.metadata.labels.items()
            if name not in (SERVICE_NAME, MANAGED_BY, HEADLESS)
        }
        labels |= {SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}
        if service.spec.cluster_ip == "None":
            labels[HEADLESS] = ""
        owner = service  # for the closure below

        def make(shape: Shape, taken: Sequence[discovery_v1.EndpointSlice]) -> discovery_v1.EndpointSlice:
            metadata = meta_v1.ObjectMeta(
                name=rules.free_name(owner.metadata.name, owner.metadata.uid, taken),
                generate_name=f"{owner.metadata.name}-",
                namespace=owner.metadata.namespace,
                labels=labels,
                owner_references=(owner_reference("v1", "Service", owner),),
            )
            return discovery_v1.EndpointSlice(metadata=metadata, address_type=shape[0], ports=rules.ports_in(shape))

        limit = self.context.settings.max_endpoints_per_slice
        pods = self.matching(service)
        changed_at = self.trigger_times.trigger(key, service, pods)
        wanted = self._wanted(service, with_address(pods))
        if rules.by_topology(service):
            wanted = topology.keeping_hints(wanted, existing)
        changes = rules.pack(existing, wanted, labels, None, limit, make)
        told = self._hint(service, changes, existing)
        for one in (*changes.create, *changes.update):
            annotations = with_trigger(one.metadata.annotations, changed_at)
            one.metadata = replace(one.metadata, annotations=annotations)  # that of the cache's slice, perhaps
        if await write_slices(self.client, changes):
            self.queue.add_rate_limited(key)
        for kind, reason, message in told:
            self.recorder.event(service, kind, reason, message)

    def _hint(
        self, service: core_v1.Service, changes: Changes, existing: Sequence[discovery_v1.EndpointSlice]
    ) -> list[tuple[str, str, str]]:
        """Put hints into what is written if the service wants them by topology; returns (type, reason, message) of events about it."""
        key, told = key_of(service), []

        def forget(family: str, problem: str) -> None:
            told.append(("Warning", "TopologyAwareHintsDisabled", f"{problem}, addressType: {family}"))
            self._hints.get(key, {}).pop(family, None)
            if not self._hints.get(key):
                self._hints.pop(key, None)
            self._hints_told.discard(key)

        create, update, families = [], [], families_of(service)
        for gone in [family for family in self._hints.get(key, ()) if family not in families]:
            del self._hints[key][gone]
        for family in families:
            if not rules.by_topology(service):
                if key in self._hints_told:
                    forget(family, topology.DISABLED)
                continue
            found = topology.hinted(family, changes, existing, self._zone_shares())
            create += found.create
            update += found.update
            if found.problem:
                forget(family, found.problem)
                continue
            self._hints.setdefault(key, {})[family] = found.zones
            if key not in self._hints_told:
                self._hints_told.add(key)
                told.append(("Normal", "TopologyAwareHintsEnabled", f"{topology.ENABLED}, addressType: {family}"))
        if rules.by_topology(service):
            changes.create, changes.update = create, update
        else:
            self._hints.pop(key, None)
        return told

    def _wanted(
        self, service: core_v1.Service, pods: Sequence[core_v1.Pod]
    ) -> dict[Shape, list[discovery_v1.Endpoint]]:
        """Endpoints by shape; an empty shape for each family without any. Pods on nodes that nobody knows are left out, unless all are to be published."""
        families = families_of(service)
        wanted: dict[Shape, list[discovery_v1.Endpoint]] = {}
        for pod in pods:
            node: core_v1.Node | None = self.nodes.cache.get("", pod.spec.node_name)
            if node is None and pod.spec.node_name:
                self._without_node.setdefault(pod.spec.node_name, set()).add(key_of(service))
                if not service.spec.publish_not_ready_addresses:
                    continue
            for family in families:
                endpoint = rules.endpoint_of(service, pod, node, family)
                if endpoint is not None:
                    wanted.setdefault((family, ports_of(service, pod)), []).append(endpoint)
        for family in families:
            if not any(shape[0] == family for shape in wanted):
                wanted[family, ()] = []
        return wanted


def _service_of(one: discovery_v1.EndpointSlice) -> tuple[str, ...]:
    labels = one.metadata.labels
    if labels.get(MANAGED_BY) != MANAGER or SERVICE_NAME not in labels:
        return ()
    return (f"{one.metadata.namespace}/{labels[SERVICE_NAME]}",)
