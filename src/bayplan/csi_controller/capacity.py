"""How much room there is for volumes of each class in each part of the cluster, told by CSIStorageCapacity objects, by which the scheduler chooses nodes.

Source of the behaviour: external-provisioner `pkg/capacity`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from bayplan.api.errors import ApiError
from bayplan.api.quantity import binary
from bayplan.api.types import apps_v1, batch_v1, core_v1, meta_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi.errors import CsiError
from bayplan.csi_controller import capabilities as uses
from bayplan.csi_controller.errors import RequestError
from bayplan.csi_controller.provision_rules import DELAYED
from bayplan.csi_controller.topology import Term, term_of, topology_keys
from bayplan.csi_controller.worker import Worker

logger = logging.getLogger(__name__)

DRIVER_LABEL: Final = "csi.storage.k8s.io/drivername"
MANAGER_LABEL: Final = "csi.storage.k8s.io/managed-by"
_EVERYWHERE: Final[Term] = ()
_SYNC: Final = "all"
_OWNERS: Final[Mapping[str, type[Any]]] = {
    "ReplicaSet": apps_v1.ReplicaSet,
    "Deployment": apps_v1.Deployment,
    "StatefulSet": apps_v1.StatefulSet,
    "DaemonSet": apps_v1.DaemonSet,
    "Job": batch_v1.Job,
}


class CapacityPublisher(Worker):
    """See the module. There is one key: everything is looked at together, when something changes and every now and then."""

    name = "csistoragecapacity"

    def setup(self) -> None:
        self.classes = self.informer(storage_v1.StorageClass)
        self.csi_nodes = self.informer(storage_v1.CSINode)
        self.nodes = self.informer(core_v1.Node)
        self.volumes = self.informer(core_v1.PersistentVolume)
        self._owner: meta_v1.OwnerReference | None = None
        for informer in (self.classes, self.csi_nodes):
            informer.on_change(
                add=lambda obj: self.queue.add(_SYNC),
                update=lambda old, new: self.queue.add(_SYNC),
                delete=lambda obj: self.queue.add(_SYNC),
            )
        self.volumes.on_change(add=self._volume_touched, delete=self._volume_touched)
        self._objects = self.context.metrics.gauge(
            "csistoragecapacities_desired_current", "Number of CSIStorageCapacity objects that exist and are needed."
        ).labels()

    def _volume_touched(self, volume: core_v1.PersistentVolume) -> None:
        if volume.spec.csi is not None and volume.spec.csi.driver == self.driver.name:
            self.queue.add(_SYNC)

    @property
    def _labels(self) -> dict[str, str]:
        manager = "external-provisioner"
        if self.settings.node_deployment:
            manager = f"{manager}-{self.settings.node_name}"
        return {DRIVER_LABEL: self.driver.name, MANAGER_LABEL: manager}

    async def reconcile(self, key: str) -> None:
        if self._owner is None and self.settings.pod_name and self.settings.capacity_ownerref_level >= 0:
            self._owner = await self._find_owner()
        try:
            await self._sync()
        finally:
            self.queue.add_after(_SYNC, self.settings.capacity_poll_interval)

    async def _sync(self) -> None:
        selector = ",".join(f"{key}={value}" for key, value in self._labels.items())
        listed = await self.client.list(storage_v1.CSIStorageCapacity, self.settings.namespace, label_selector=selector)
        known: dict[tuple[str, Term], storage_v1.CSIStorageCapacity] = {}
        extra = []
        for one in listed.items:
            place = (one.storage_class_name, term_of_selector(one.node_topology))
            extra += [one] if place in known else []
            known.setdefault(place, one)
        wanted = {(each.metadata.name, segment): each for each in self._published() for segment in self._segments()}
        for place, one in known.items():
            if place not in wanted:
                extra.append(one)
        for one in extra:
            await self._delete(one)
        for place, storage_class in wanted.items():
            await self._publish(place[1], storage_class, known.get(place))
        self._objects.set(len(wanted))

    def _published(self) -> list[storage_v1.StorageClass]:
        both = self.settings.capacity_for_immediate_binding
        return [
            one
            for one in self.classes.cache
            if one.provisioner == self.driver.name and (both or one.volume_binding_mode == DELAYED)
        ]

    def _segments(self) -> list[Term]:
        """The parts of the cluster in which the driver is."""
        if not self.driver.has_topology:
            return [_EVERYWHERE]
        if self.settings.node_deployment:
            return [tuple(sorted(self.context.segments.items()))]
        found = set()
        for one in self.csi_nodes.cache:
            node = self.nodes.cache.get("", one.metadata.name)
            keys = topology_keys(one, self.driver.name)
            if node is not None and keys:
                found.add(term_of(node.metadata.labels, keys))
        return sorted(found - {_EVERYWHERE})

    async def _publish(
        self, segment: Term, storage_class: storage_v1.StorageClass, known: storage_v1.CSIStorageCapacity | None
    ) -> None:
        try:
            room = await self._room(segment, storage_class)
        except (CsiError, RequestError) as error:
            logger.warning("capacity for %s in %s: %s", storage_class.metadata.name, dict(segment), error)
            return
        largest = binary(room.maximum_volume_size) if room.maximum_volume_size else None
        amount = binary(room.available_capacity)
        owners = (self._owner,) if self._owner is not None else ()
        if known is None:
            await self.client.create(
                storage_v1.CSIStorageCapacity(
                    metadata=meta_v1.ObjectMeta(
                        generate_name="csisc-",
                        namespace=self.settings.namespace,
                        labels=self._labels,
                        owner_references=owners,
                    ),
                    node_topology=meta_v1.LabelSelector(match_labels=dict(segment)),
                    storage_class_name=storage_class.metadata.name,
                    capacity=amount,
                    maximum_volume_size=largest,
                )
            )
        elif (known.capacity, known.maximum_volume_size, known.metadata.owner_references) != (amount, largest, owners):
            metadata = replace(known.metadata, owner_references=owners)
            await self.client.update(replace(known, metadata=metadata, capacity=amount, maximum_volume_size=largest))

    async def _room(self, segment: Term, storage_class: storage_v1.StorageClass) -> csi.GetCapacityResponse:
        parameters = uses.driver_parameters(storage_class.parameters)
        topology = csi.Topology(dict(segment)) if segment else None
        return await self.csi.get_capacity(csi.GetCapacityRequest((), parameters, topology))

    async def _delete(self, one: storage_v1.CSIStorageCapacity) -> None:
        try:
            metadata = one.metadata
            await self.client.delete(storage_v1.CSIStorageCapacity, metadata.name, metadata.namespace, uid=metadata.uid)
        except ApiError as error:
            if error.code != 404:
                raise

    async def _find_owner(self) -> meta_v1.OwnerReference:
        """The object with which capacities go: the pod of this process, or what owns it, so many levels up."""
        pod: Any = await self.client.get(core_v1.Pod, self.settings.pod_name, self.settings.namespace)
        found, kind, version = pod, "Pod", "v1"
        for _ in range(self.settings.capacity_ownerref_level):
            reference = _controller(found.metadata.owner_references)
            if reference is None or reference.kind not in _OWNERS:
                break
            kind, version = reference.kind, reference.api_version
            found = await self.client.get(_OWNERS[kind], reference.name, self.settings.namespace)
        return meta_v1.OwnerReference(
            api_version=version, kind=kind, name=found.metadata.name, uid=found.metadata.uid, controller=True
        )


def _controller(references: Iterable[meta_v1.OwnerReference]) -> meta_v1.OwnerReference | None:
    return next((one for one in references if one.controller), None)


def term_of_selector(selector: meta_v1.LabelSelector | None) -> Term:
    """The part of the cluster that a CSIStorageCapacity is about."""
    labels = selector.match_labels if selector is not None else {}
    return term_of(labels, labels)
