"""EndpointSlices: the addresses behind a service, in the new form. What goes where is decided in `endpointslice_rules`."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.controllers import endpointslice_rules as rules
from bayplan.controllers.base import owner_reference
from bayplan.controllers.endpointslice_rules import MANAGED_BY, SERVICE_NAME, Shape
from bayplan.controllers.endpointslice_writes import write_slices
from bayplan.controllers.service_pods import HEADLESS, ServiceController, families_of, ports_of
from bayplan.informers.cache import key_of

MANAGER = "endpointslice-controller.k8s.io"
_ZONE = "topology.kubernetes.io/zone"


class EndpointSliceController(ServiceController):
    """See the module."""

    name = "endpointslice-controller"

    def setup(self) -> None:
        super().setup()
        self.nodes = self.informer(core_v1.Node)
        self.slices = self.informer(discovery_v1.EndpointSlice)
        self.slices.add_index("service", _service_of)
        self.slices.on_change(add=self._slice_touched, update=self._slice_changed, delete=self._slice_touched)
        self.nodes.on_change(update=self._node_changed)
        self._without_node: dict[str, set[str]] = {}
        """Node that the cache lacks -> keys of services with pods on it."""
        self.nodes.on_change(add=self._node_added)

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

    def _node_changed(self, old: core_v1.Node, new: core_v1.Node) -> None:
        """Endpoints show their zone; it hardly ever changes."""
        if old.metadata.labels.get(_ZONE) != new.metadata.labels.get(_ZONE):
            for service in self.services.cache:
                self.queue.add(key_of(service))

    async def reconcile(self, key: str) -> None:
        service: core_v1.Service | None = self.services.cache.by_key(key)
        if (
            service is None
            or not service.spec.selector
            or service.metadata.deletion_timestamp
            or service.spec.type == "ExternalName"
        ):
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
        changes = rules.pack(existing, self._wanted(service), labels, None, limit, make)
        if await write_slices(self.client, changes):
            self.queue.add_rate_limited(key)

    def _wanted(self, service: core_v1.Service) -> dict[Shape, list[discovery_v1.Endpoint]]:
        """Endpoints by shape; an empty shape for each family without any. Pods on nodes that nobody knows are left out, unless all are to be published."""
        families = families_of(service)
        wanted: dict[Shape, list[discovery_v1.Endpoint]] = {}
        for pod in self.selected(service):
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
