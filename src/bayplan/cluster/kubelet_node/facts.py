"""What a node's status is made of: the machine, the configuration, and how the kubelet and its runtime are now."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bayplan.api.declared_features import DECLARED
from bayplan.api.quantity import Quantity, parse
from bayplan.api.types.scalars import Quantity as WireQuantity
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.core.eviction import Threshold
from bayplan.kubelet.feature_gates import is_enabled
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.node.machine import Machine, filesystem
from bayplan.kubelet.node.status import DeviceCapacity, NodeFacts, capacity_of
from bayplan.kubelet.node_state import UNHEALTHY_SECONDS
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime


@dataclass(frozen=True, slots=True)
class FactReader:
    """Reads the facts of a node. root: the directory whose file system is the pods' ephemeral storage."""

    machine: Machine
    configuration: KubeletConfiguration
    thresholds: Collection[Threshold]
    hostname: str
    addresses: tuple[str, ...]
    root: Path

    def still(self) -> NodeFacts:
        """The facts that hold as long as the kubelet runs."""
        configuration = self.configuration
        return NodeFacts(
            machine=self.machine,
            hostname=self.hostname,
            addresses=self.addresses,
            port=configuration.port,
            most_pods=configuration.max_pods,
            pods_per_core=configuration.pods_per_core,
            disk=filesystem(self.root).capacity_bytes if configuration.local_storage_capacity_isolation else None,
            most_images=configuration.node_status_max_images,
            features=tuple(each for each in DECLARED if is_enabled(configuration.feature_gates, each)),
        )

    def reserved(self) -> dict[str, WireQuantity]:
        """What pods do not get: for the system, for Kubernetes itself, and what evictions keep free."""
        capacity = {name: parse(amount) for name, amount in capacity_of(self.still()).items()}
        total: dict[str, Quantity] = {}
        for amounts in (self.configuration.system_reserved, self.configuration.kube_reserved):
            for name, amount in amounts.items():
                total[name] = total[name].add(parse(amount)) if name in total else parse(amount)
        for signal, name in (("memory.available", "memory"), ("nodefs.available", "ephemeral-storage")):
            threshold = next((each for each in self.thresholds if each.signal == signal and each.is_hard), None)
            if threshold is not None and name in capacity:
                kept = Quantity(threshold.amount.of(capacity[name].value()))
                total[name] = total[name].add(kept) if name in total else kept
        return {name: str(amount) for name, amount in total.items()}

    def pods_limits(self) -> dict[str, WireQuantity]:
        """What all pods together may use."""
        capacity = capacity_of(self.still())
        if "pods" not in self.configuration.enforce_node_allocatable:
            return capacity
        for amounts in (self.configuration.system_reserved, self.configuration.kube_reserved):
            for name, amount in amounts.items():
                if name in capacity:
                    capacity[name] = str(parse(capacity[name]).sub(parse(amount)))
        return capacity

    async def now(
        self,
        kubelet: Kubelet,
        runtime: Runtime,
        pressures: tuple[str, ...],
        volumes_in_use: Collection[str],
        others: Iterable[str],
    ) -> NodeFacts:
        """All facts, now. others: what else keeps the node from being ready; empty texts say nothing."""
        state = kubelet.node_state
        errors = []
        facts = self.still()
        try:
            async with asyncio.timeout(UNHEALTHY_SECONDS):
                facts = replace(facts, version=await runtime.version(), images=await runtime.images())
        except RuntimeRequestError as error:
            errors.append(f"container runtime is down: {error}")
        except TimeoutError:
            errors.append("container runtime is down")
        errors = [each for each in (state.runtime_error(), state.network_error()) if each] + errors
        if kubelet.lifecycle.unhealthy_for():
            errors.append("PLEG is not healthy: pleg was last seen active too long ago")
        errors += [each for each in others if each]
        return replace(
            facts,
            reserved=self.reserved(),
            runtime=state.runtime_status,
            errors=tuple(dict.fromkeys(errors)),
            pressures=pressures,
            volumes_in_use=tuple(volumes_in_use),
            devices=kubelet.parts.resources.managers.devices.capacity()
            if kubelet.parts.resources
            else DeviceCapacity(),
        )
