"""Resource names as column numbers, and what a pod requests.

The rules are those of `k8s.io/component-helpers/resource`: containers add up, init containers take the maximum,
restartable init containers (sidecars) count for both, pod-level requests replace the sum, overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.api.quantity import Quantity, parse
from bayplan.support.memory.memo import memoized

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Container, ContainerStatus, PodSpec, PodStatus, ResourceRequirements
    from bayplan.api.types.scalars import Quantity as WireQuantity

CPU: Final = 0
MEMORY: Final = 1
EPHEMERAL_STORAGE: Final = 2
FIXED: Final = ("cpu", "memory", "ephemeral-storage")

DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
ZERO: Final = Quantity(0)
DEFAULT_REQUESTS: Final = {"cpu": parse("100m"), "memory": parse("200Mi")}

Amounts = dict[str, Quantity]
Vector = tuple[tuple[int, int], ...]
"""(column, amount) pairs without zeros; cpu in milli-units, all else in whole units."""


def is_extended_resource(name: str) -> bool:
    """Whether a name is an extended resource (`vendor.example/gpu`)."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_scalar_resource(name: str) -> bool:
    """Whether the scheduler accounts for a resource beyond cpu, memory and ephemeral-storage."""
    return (
        is_extended_resource(name)
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or ("/" in name and "kubernetes.io/" in name)
    )


def amount_of(name: str, quantity: WireQuantity) -> int:
    """A quantity in the unit of its column: milli-units of cpu, whole units of all else."""
    parsed = parse(quantity)
    return parsed.milli_value() if name == "cpu" else parsed.value()


_known_amount: Final = memoized(4096)(amount_of)


class ResourceTable:
    """Resource name <-> column number. Columns 0, 1, 2 are cpu, memory and ephemeral-storage; others as they appear."""

    __slots__ = ("_columns", "names")

    def __init__(self) -> None:
        self.names: list[str] = list(FIXED)
        self._columns = {name: column for column, name in enumerate(FIXED)}

    def __len__(self) -> int:
        return len(self.names)

    def column(self, name: str) -> int:
        """The column of a resource, made if it is new."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = len(self.names)
            self.names.append(name)
        return column

    def find(self, name: str) -> int | None:
        """The column of a resource, None if no object has named it yet."""
        return self._columns.get(name)

    def vector(self, amounts: Mapping[str, Quantity]) -> Vector:
        """What the scheduler counts of some amounts, as (column, amount) pairs, sorted by column."""
        return self.vector_of(_counted(amounts))

    def vector_of(self, counted: Mapping[str, int]) -> Vector:
        """`vector` of amounts in the units of their columns."""
        pairs = [
            (self.column(name), amount)
            for name, amount in counted.items()
            if amount and (name in FIXED or is_scalar_resource(name))
        ]
        return tuple(sorted(pairs))


def _amounts(wire: Mapping[str, WireQuantity]) -> Amounts:
    return {name: parse(quantity) for name, quantity in wire.items()}


def _add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        known = total.get(name)
        total[name] = quantity if known is None else known.add(quantity)


def _maximum(total: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, quantity in other.items():
        known = total.get(name)
        if known is None or known < quantity:
            total[name] = quantity


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def has_pod_level_requests(spec: PodSpec) -> bool:
    """Whether requests stand on the pod itself."""
    return spec.resources is not None and any(_is_pod_level(name) for name in spec.resources.requests)


def _is_resize_infeasible(status: PodStatus) -> bool:
    pending = next((c for c in status.conditions if c.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def _statuses(spec: PodSpec, status: PodStatus) -> dict[str, ContainerStatus]:
    """Statuses that tell of resources, of containers that can be resized: init containers that end cannot."""
    found = {item.name: item for item in (*status.container_statuses, *status.init_container_statuses)}
    for container in spec.init_containers:
        if container.restart_policy != "Always":
            found.pop(container.name, None)
    return {name: item for name, item in found.items() if item.resources is not None}


def is_resized(spec: PodSpec, status: PodStatus) -> bool:
    """Whether kubelet reported other resources than the spec asks for, which then count besides it (in-place resize)."""
    if status.resources is not None:
        return True
    wanted: dict[str, Mapping[str, str | int | float]] | None = None
    for item in (*status.container_statuses, *status.init_container_statuses):
        if item.resources is None:
            continue
        if wanted is None:
            wanted = {one.name: one.resources.requests for one in (*spec.containers, *spec.init_containers)}
        requests = wanted.get(item.name)
        if item.resources.requests != requests or (item.allocated_resources and item.allocated_resources != requests):
            return True
    return False


def _has_one_container(spec: PodSpec) -> bool:
    """Whether a pod takes what its only container does."""
    return len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or spec.resources)


def pod_requests(
    spec: PodSpec,
    status: PodStatus | None = None,
    defaults: Mapping[str, Quantity] | None = None,
    *,
    pod_level: bool = True,
) -> Amounts:
    """What a pod requests in all.

    `status`: also count what kubelet allocated and applied. `defaults`: what a container counts for if it says nothing.
    `pod_level`: let requests on the pod itself replace the sum of its containers.
    """
    if status is None and _has_one_container(spec):
        amounts = _amounts(spec.containers[0].resources.requests)
        for name, quantity in (defaults or {}).items():
            amounts.setdefault(name, quantity)
        return amounts
    statuses = _statuses(spec, status) if status is not None else {}
    infeasible = status is not None and bool(statuses) and _is_resize_infeasible(status)

    def of(container: Container) -> Amounts:
        amounts = _amounts(container.resources.requests)
        reported = statuses.get(container.name)
        if reported is not None and reported.resources is not None:
            if infeasible:
                amounts = {}
            _maximum(amounts, _amounts(reported.resources.requests))
            _maximum(amounts, _amounts(reported.allocated_resources))
        for name, quantity in (defaults or {}).items():
            amounts.setdefault(name, quantity)
        return amounts

    total = _containers(spec, of)
    if pod_level and spec.resources is not None:
        total |= _pod_level_amounts(spec.resources, status)
    _add(total, _amounts(spec.overhead))
    return total


def _containers(spec: PodSpec, of: Callable[[Container], Amounts]) -> Amounts:
    """Sum over containers and sidecars, or the largest init step if that is more."""
    total: Amounts = {}
    sidecars: Amounts = {}
    initial: Amounts = {}
    for container in spec.containers:
        _add(total, of(container))
    for container in spec.init_containers:
        amounts = of(container)
        if container.restart_policy == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = sidecars
        else:
            _add(amounts, sidecars)
        _maximum(initial, amounts)
    _maximum(total, initial)
    return total


def _pod_level_amounts(resources: ResourceRequirements, status: PodStatus | None) -> Amounts:
    """Requests on the pod itself; while it is being resized, the largest of what is wanted, allocated and applied.

    Only resources that the spec names count, whatever the status tells of.
    """
    wanted = {name: quantity for name, quantity in _amounts(resources.requests).items() if _is_pod_level(name)}
    if status is None or status.resources is None:
        return wanted
    amounts = {} if _is_resize_infeasible(status) else dict(wanted)
    _maximum(amounts, _amounts(status.resources.requests))
    _maximum(amounts, _amounts(status.allocated_resources))
    return {name: amounts.get(name, ZERO) for name in wanted}


class Accounted(NamedTuple):
    """What a pod takes on a node. cpu in milli-units, all else in whole units."""

    requests: Vector
    nonzero_cpu: int
    nonzero_memory: int
    """With defaults for containers that say nothing."""


class PodAmounts(NamedTuple):
    """What a pod requests, by resource name; cpu in milli-units, all else in whole units."""

    requested: dict[str, int]
    filled: dict[str, int]
    """What its containers request, with defaults of cpu and memory for those that say nothing; requests on the pod itself do not count."""


def accounted(spec: PodSpec, status: PodStatus | None, table: ResourceTable) -> Accounted:
    """What a pod on a node takes: requests, and milli-cpu and memory with defaults for containers that say nothing."""
    requests = pod_requests(spec, status)
    return _accounted(spec, status, requests, table, None)


def amounts_of(spec: PodSpec, table: ResourceTable) -> tuple[PodAmounts, Accounted]:
    """What a pod that is not resized requests, and what it takes on a node."""
    if _has_one_container(spec) and spec.containers[0].resources.requests.keys() >= DEFAULT_REQUESTS.keys():
        wire = spec.containers[0].resources.requests
        requested = {name: _known_amount(name, quantity) for name, quantity in wire.items()}
        taken = Accounted(table.vector_of(requested), requested["cpu"], requested["memory"])
        return PodAmounts(requested, requested), taken
    requests = pod_requests(spec)
    requested = _counted(requests)
    filled = pod_requests(spec, None, DEFAULT_REQUESTS, pod_level=False)
    amounts = PodAmounts(requested, _counted(filled))
    return amounts, _accounted(spec, None, requests, table, None if has_pod_level_requests(spec) else filled)


def _accounted(
    spec: PodSpec, status: PodStatus | None, requests: Amounts, table: ResourceTable, filled: Amounts | None
) -> Accounted:
    if filled is None:
        missing = dict(DEFAULT_REQUESTS)
        if has_pod_level_requests(spec):
            missing = {name: quantity for name, quantity in missing.items() if name not in requests}
        filled = pod_requests(spec, status, missing) if missing else requests
    cpu, memory = filled.get("cpu"), filled.get("memory")
    return Accounted(table.vector(requests), cpu.milli_value() if cpu else 0, memory.value() if memory else 0)


def _counted(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: quantity.milli_value() if name == "cpu" else quantity.value() for name, quantity in amounts.items()}
