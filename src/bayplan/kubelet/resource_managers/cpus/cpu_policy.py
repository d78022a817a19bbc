"""Gives Guaranteed containers with whole CPUs some of their own (the static policy of pkg/kubelet/cm/cpumanager). Pure: it changes the state that it is given.

Reserved CPUs are never given away. All that is not given away is the shared pool, where every other container runs; so the pools change as pods come and go.
With `strict-cpu-reservation` the shared pool has no reserved CPUs either.
"""

from __future__ import annotations

from functools import partial

from bayplan.api.types import core_v1
from bayplan.kubelet.resource_managers.cpus.cpu_assignment import take_packed
from bayplan.kubelet.resource_managers.cpus.cpu_distribution import take_distributed
from bayplan.kubelet.resource_managers.cpus.cpu_options import CpuOptions
from bayplan.kubelet.resource_managers.cpus.cpu_set import NONE, CpuSet, format_cpu_set
from bayplan.kubelet.resource_managers.cpus.cpu_state import CpuState
from bayplan.kubelet.resource_managers.errors import AllocationError, ResourceManagerError, SmtAlignmentError
from bayplan.kubelet.resource_managers.machine_topology import CpuTopology
from bayplan.kubelet.resource_managers.manager_metrics import CONTAINER_SCOPE, UNCORE_CACHE, ManagerMetrics
from bayplan.kubelet.resource_managers.requests import at_most, containers_of, exclusive_cpus, is_init_container
from bayplan.kubelet.resource_managers.topology_hints import Affinities, Hints, NumaNodes, TopologyHint, masks

CPU = "cpu"


class StaticCpuPolicy:
    """See the module."""

    def __init__(
        self,
        topology: CpuTopology,
        state: CpuState,
        affinities: Affinities,
        options: CpuOptions = CpuOptions(),
        *,
        reserved: CpuSet = NONE,
        reserved_number: int = 0,
        metrics: ManagerMetrics | None = None,
    ) -> None:
        """reserved: CPUs that are never given away; without them, `reserved_number` of the lowest cores. Raises ResourceManagerError."""
        self._topology = topology
        self._state = state
        self._affinities = affinities
        self._options = options
        self._metrics = metrics if metrics is not None else ManagerMetrics()
        self._reusable: dict[str, CpuSet] = {}
        """Pod uid -> CPUs of its init containers, which those after them may have."""
        self.reserved = reserved or self._lowest(reserved_number)
        if len(self.reserved) != reserved_number:
            raise ResourceManagerError(
                f"[cpumanager] unable to reserve the required amount of CPUs (size of {format_cpu_set(self.reserved)} did not equal "
                f"{reserved_number})"
            )
        unknown = self.reserved - topology.all()
        if unknown:
            text = f"unknown CPU ID: {min(unknown)}"
            raise ResourceManagerError(
                f"[cpumanager] unable to build the reserved physical CPUs from the reserved set: {text}"
            )
        self._reserved_cores = topology.in_cores(topology.cpus[cpu].core for cpu in self.reserved)

    def _lowest(self, number: int) -> CpuSet:
        try:
            return self._take(self._topology.all(), number)
        except AllocationError:
            return NONE

    def start(self) -> None:
        """Make the shared pool, or check what a checkpoint says of it. Raises ResourceManagerError."""
        self._start_pool()
        self._show()

    def _show(self) -> None:
        """Have the metrics tell the state."""
        topology, metrics = self._topology, self._metrics
        metrics.shared_pool.set_function(lambda: 1000.0 * len(self._free()))
        metrics.exclusive_cpus.set_function(partial(self._given, topology.all()))
        for node in topology.numa_nodes:
            given = partial(self._given, topology.in_numa_nodes((node,)))
            metrics.cpus_per_numa_node.labels(str(node)).set_function(given)

    def _given(self, cpus: CpuSet) -> float:
        """How many of some CPUs containers have for themselves."""
        return float(len(self._state.assigned() & cpus))

    def _start_pool(self) -> None:
        state = self._state
        if state.shared:
            self._check()
            return
        if state.assignments:
            raise ResourceManagerError("default cpuset cannot be empty")
        state.shared = self._topology.all()
        if self._options.strict_reservation:
            state.shared -= self.reserved
        state.save()

    def _check(self) -> None:
        state, shared = self._state, self._state.shared
        both = self.reserved & shared
        if self._options.strict_reservation and both:
            raise ResourceManagerError(
                f'some of strictly reserved cpus: "{format_cpu_set(both)}" are present in defaultCpuSet: "{format_cpu_set(shared)}"'
            )
        if not self._options.strict_reservation and both != self.reserved:
            raise ResourceManagerError(
                f'not all reserved cpus: "{format_cpu_set(self.reserved)}" are present in defaultCpuSet: "{format_cpu_set(shared)}"'
            )
        for uid, containers in state.assignments.items():
            for name, cpus in containers.items():
                if cpus & shared:
                    raise ResourceManagerError(
                        f'pod: {uid}, container: {name} cpuset: "{format_cpu_set(cpus)}" overlaps with default cpuset '
                        f'"{format_cpu_set(shared)}"'
                    )
        known, available = shared | state.assigned(), self._topology.all()
        if self._options.strict_reservation:
            known |= self.reserved  # which are in no pool, but on the machine
        if known != available:
            raise ResourceManagerError(
                f'current set of available CPUs "{format_cpu_set(available)}" doesn\'t match with CPUs in state '
                f'"{format_cpu_set(known)}"'
            )

    def allocatable(self) -> CpuSet:
        """CPUs that containers may have for themselves."""
        return self._topology.all() - self.reserved

    def allocate(self, pod: core_v1.Pod, container: core_v1.Container) -> None:
        """Give a container its CPUs, if it is to have some. Raises AllocationError."""
        number = exclusive_cpus(pod, container)
        if number:
            with self._metrics.pinning_cpus(full_cores=self._options.full_cores):
                self._allocate(pod, container, number)

    def _allocate(self, pod: core_v1.Pod, container: core_v1.Container, number: int) -> None:
        self._check_cores(number)
        uid, name = pod.metadata.uid, container.name
        cpus = self._state.get(uid, name)
        if cpus is None:
            affinity = self._affinities.affinity(uid, name).affinity
            cpus = self._choose(number, affinity, self._reusable.get(uid, NONE))
            self._state.shared -= cpus
            self._state.set(uid, name, cpus)
            self._state.save()
            if len({self._topology.cpus[cpu].uncore_cache for cpu in cpus}) == 1:
                self._metrics.aligned(CONTAINER_SCOPE, UNCORE_CACHE)
        reusable = self._reusable.get(uid, NONE)
        self._reusable[uid] = reusable | cpus if is_init_container(pod, name) else reusable - cpus

    def _check_cores(self, number: int) -> None:
        if not self._options.full_cores:
            return
        size = self._topology.cpus_per_core()
        if number % size:
            raise SmtAlignmentError(f"SMT Alignment Error: requested {number} cpus not multiple cpus per core = {size}")
        free = len(self._state.shared - self._reserved_cores)
        if number > free:
            raise SmtAlignmentError(
                f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {free}, requested CPUs = {number}, "
                f"CPUs per core = {size}"
            )

    def _choose(self, number: int, affinity: NumaNodes | None, reusable: CpuSet) -> CpuSet:
        """CPUs of the affinity first, then others. Raises AllocationError."""
        free = self._state.shared - self.reserved | reusable
        chosen = NONE
        if affinity is not None:
            aligned = free & self._aligned(affinity)
            chosen = self._take(aligned, min(number, len(aligned)))
        return chosen | self._take(free - chosen, number - len(chosen))

    def _aligned(self, affinity: NumaNodes) -> CpuSet:
        if self._options.by_socket:
            return self._topology.in_sockets(self._topology.sockets_of_numa_nodes(affinity))
        return self._topology.in_numa_nodes(affinity)

    def _take(self, available: CpuSet, number: int) -> CpuSet:
        options, topology = self._options, self._topology
        if options.across_numa:
            size = topology.cpus_per_core() if options.full_cores else 1
            return take_distributed(topology, available, number, size, spread=options.across_cores)
        return take_packed(
            topology, available, number, spread=options.across_cores, by_uncore_cache=options.by_uncore_cache
        )

    def forget_reusable(self, uid: str) -> None:
        """The pod has been admitted or not: none of its containers comes any more."""
        self._reusable.pop(uid, None)

    def remove(self, uid: str, container: str) -> None:
        """Take a container's CPUs back, except those that other containers of its pod have got from it."""
        cpus = self._state.remove(uid, container)
        if cpus is None:
            return
        siblings = self._state.assignments.get(uid, {}).values()
        self._state.shared |= cpus.difference(*siblings)
        self._state.save()

    def hints(self, pod: core_v1.Pod, container: core_v1.Container) -> Hints:
        """From where a container's CPUs can come."""
        number = exclusive_cpus(pod, container)
        if not number:
            return {}
        cpus = self._state.get(pod.metadata.uid, container.name)
        if cpus is not None:
            return {CPU: self._hints(cpus, NONE, number) if len(cpus) == number else ()}
        return {CPU: self._hints(self._free(), self._reusable.get(pod.metadata.uid, NONE), number)}

    def pod_hints(self, pod: core_v1.Pod) -> Hints:
        """From where the CPUs of all containers of a pod can come."""
        number = at_most(pod, lambda container: {CPU: exclusive_cpus(pod, container)}).get(CPU, 0)
        if not number:
            return {}
        assigned: CpuSet = NONE
        for container in containers_of(pod):
            cpus = self._state.get(pod.metadata.uid, container.name)
            if cpus is not None and len(cpus) != exclusive_cpus(pod, container):
                return {CPU: ()}
            assigned |= cpus or NONE
        if len(assigned) == number:
            return {CPU: self._hints(assigned, NONE, number)}
        reusable = self._reusable.get(pod.metadata.uid, NONE) | assigned
        return {CPU: self._hints(self._free(), reusable, number)}

    def _free(self) -> CpuSet:
        return self._state.shared - self.reserved

    def _hints(self, available: CpuSet, reusable: CpuSet, number: int) -> tuple[TopologyHint, ...]:
        """All sets of NUMA nodes that have enough CPUs and all reusable ones; preferred are those as small as an empty machine would allow."""
        topology = self._topology
        nodes = topology.numa_nodes
        smallest = len(nodes)
        found = []
        reused = {topology.cpus[cpu].numa_node for cpu in reusable}
        for mask in masks(sorted(nodes)):
            cpus = topology.in_numa_nodes(mask)
            if len(cpus) >= number:
                smallest = min(smallest, len(mask))
            if reused <= mask and len(reusable) + len(available & cpus) >= number:
                found.append(mask)
        return tuple(TopologyHint(mask, self._is_preferred(mask, smallest)) for mask in found)

    def _is_preferred(self, mask: NumaNodes, smallest: int) -> bool:
        per_socket = len(self._topology.numa_nodes) // len(self._topology.sockets)
        if self._options.by_socket and per_socket:
            sockets = -(-smallest // per_socket)
            if len(self._topology.sockets_of_numa_nodes(mask)) == sockets:
                return True
        return len(mask) == smallest
