"""Structured allocation: devices of one node for the requests of some claims, all or nothing.

Claims, requests and devices are tried in order, and the first solution is taken; what is chosen for one request bears
on the next through constraints, shared counters and the devices themselves, so the search goes back where it has to.
Source of the behaviour: `k8s.io/dynamic-resource-allocation/structured`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bayplan.api.quantity import Quantity
from bayplan.scheduler.snapshot.device_capacity import share_of
from bayplan.scheduler.snapshot.device_constraints import constraint_of
from bayplan.scheduler.snapshot.device_expressions import ExpressionError, compiled
from bayplan.scheduler.snapshot.devices import Counters, DeviceId, Inventory, Offer, Pool, add_counters, is_within
from bayplan.scheduler.snapshot.resources import ZERO
from bayplan.scheduler.snapshot.taints import NO_EXECUTE, NO_SCHEDULE, TaintKey, tolerates

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node
    from bayplan.api.types.resource_v1 import (
        Device,
        DeviceClass,
        DeviceRequest,
        DeviceSubRequest,
        ExactDeviceRequest,
        ResourceClaim,
    )

MOST_RESULTS: Final = 32
"""Devices that one claim can have."""


class AllocationError(Exception):
    """A claim, a class or a pool is wrong, so that nothing can be said about the node."""


class AllocationTimeout(Exception):
    """The search on a node took longer than it may."""


class _TooMany(AllocationError):
    """The claim would get more devices than it can have; other alternatives may be smaller."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One thing asked for: a request, or one of its alternatives (then `name` is `request/alternative`)."""

    name: str
    request: str
    body: ExactDeviceRequest | DeviceSubRequest
    admin_access: bool
    device_class: DeviceClass

    @property
    def own_name(self) -> str:
        """The name of the request, or that of the alternative alone."""
        return self.name.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Choice:
    """A device chosen for a wish, with what is taken of its capacity if others may share it."""

    wish: Wish
    offer: Offer
    consumed: Mapping[str, Quantity] | None = None


@dataclass(slots=True)
class _Demand:
    """A wish, on the node in question."""

    wish: Wish
    count: int
    everything: list[Offer] | None = None
    """The devices that are meant by a wish for all."""


Solution = list[list[Choice]]
"""The choices per claim."""


def label(claim: ResourceClaim) -> str:
    """`namespace/name`."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def alternatives(request: DeviceRequest, classes: Mapping[str, DeviceClass]) -> list[Wish]:
    """The wishes of which one has to come true, best first. KeyError for an unknown class."""
    exact = request.exactly
    if exact is not None:
        admin = bool(exact.admin_access)
        return [Wish(request.name, request.name, exact, admin, classes[exact.device_class_name])]
    return [
        Wish(f"{request.name}/{item.name}", request.name, item, False, classes[item.device_class_name])
        for item in request.first_available
    ]


class Allocator:
    """Allocates devices for some claims, on whatever node is asked about."""

    def __init__(
        self,
        inventory: Inventory,
        claims: Sequence[ResourceClaim],
        classes: Mapping[str, DeviceClass],
        matches: dict[tuple[str, DeviceId], tuple[Any, bool]],
    ) -> None:
        """`matches` remembers which devices match which expressions, across allocators."""
        self.inventory = inventory
        self.claims = claims
        self.wishes = [[alternatives(request, classes) for request in claim.spec.devices.requests] for claim in claims]
        self._matches = matches

    def allocate(self, node: Node, is_over: Callable[[], bool] | None = None) -> Solution | None:
        """A solution on a node, None if there is none.

        Raises AllocationError, and AllocationTimeout as soon as `is_over` says so, which is asked at each step.
        """
        search = _Search(self, node, self.inventory.offers.for_node(node), is_over)
        search.prepare()
        return search.chosen if search.request(0, 0) else None

    def meets_invalid_pools(self, node: Node) -> bool:
        """Whether devices of the node were left out because their pool is in disorder."""
        return any(pool.is_invalid for pool in self.inventory.offers.for_node(node))

    def is_selected(self, claim: int, wish: Wish, offer: Offer, node: Node) -> bool:
        """Whether the class's and the request's selectors mean a device that the node can use. Raises AllocationError."""
        name = wish.device_class.metadata.name
        for index, selector in enumerate(wish.device_class.spec.selectors):
            if selector.cel is not None and not self._matches_text(
                selector.cel.expression, offer, f"class {name}", index
            ):
                return False
        where = f"claim {label(self.claims[claim])}"
        for index, selector in enumerate(wish.body.selectors):
            if selector.cel is not None and not self._matches_text(selector.cel.expression, offer, where, index):
                return False
        return not offer.slice.spec.per_device_node_selection or self.inventory.offers.is_for(node, offer.device)

    def _matches_text(self, text: str, offer: Offer, where: str, index: int) -> bool:
        known = self._matches.get((text, offer.id))
        if known is not None and known[0] is offer.device:
            return known[1]
        try:
            expression = compiled(text)
        except ExpressionError as error:
            raise AllocationError(f"{where}: selector #{index}: CEL compile error: {error}") from error
        try:
            answer = expression.matches(offer.id.driver, offer.device)
        except ExpressionError as error:
            raise AllocationError(f"{where}: selector #{index}: CEL runtime error: {error}") from error
        self._matches[text, offer.id] = (offer.device, answer)
        return answer


class _Search:
    """The search on one node. Each step tries what comes and hands on to the next step.

    It fails where kube-scheduler's does, also where that leaves a solution out: what a device takes of its pool's
    counters stays taken for the rest of the search if a taint or a constraint then speaks against the device.
    """

    def __init__(self, allocator: Allocator, node: Node, pools: list[Pool], is_over: Callable[[], bool] | None) -> None:
        self.allocator = allocator
        self.usage = allocator.inventory.usage
        self.node = node
        self.pools = pools
        self.is_over = is_over
        self.chosen: Solution = [[] for _ in allocator.claims]
        self.offers = [offer for pool in pools for offer in pool.offers]
        """The devices of all pools that are in order."""
        self.pool_of: dict[tuple[str, str], Pool] = {pool.id: pool for pool in pools}
        self.demands: list[list[list[_Demand]]] = []
        """Per claim, request and alternative."""
        self.constraints = [[constraint_of(one) for one in c.spec.devices.constraints] for c in allocator.claims]
        self.taken: dict[DeviceId, set[int]] = {}
        """Indexes of the claims that take a device as a whole."""
        self.shares: dict[DeviceId, dict[str, Quantity]] = {}
        self.counters: dict[str, Counters] = {}
        """Pool name -> counters that the devices take."""

    # Before the search

    def prepare(self) -> None:
        """Find out how many devices are asked for. Raises AllocationError."""
        for claim, requests in enumerate(self.allocator.wishes):
            self.demands.append([[self._demand(claim, wish) for wish in wishes] for wishes in requests])
            fewest = sum(min(demand.count for demand in demands) for demands in self.demands[claim])
            if fewest > MOST_RESULTS:
                raise AllocationError(
                    f"claim {label(self.allocator.claims[claim])}: number of requested devices {fewest} exceeds the "
                    f"claim limit of {MOST_RESULTS}"
                )

    def _demand(self, claim: int, wish: Wish) -> _Demand:
        if wish.body.allocation_mode != "All":
            return _Demand(wish, wish.body.count)
        found: list[Offer] = []
        for pool in self.pools:
            if pool.is_incomplete or pool.is_invalid:
                where = f"claim {label(self.allocator.claims[claim])}, request {wish.own_name}"
                state = "being updated" if pool.is_incomplete else "invalid"
                name = f"{pool.id.driver}/{pool.id.name}"
                raise AllocationError(f"{where}: asks for all devices, but resource pool {name} is currently {state}")
            found += [
                offer
                for offer in pool.offers
                if self._is_selected(claim, wish, offer) and self._share(wish, offer) is not None
            ]
        return _Demand(wish, len(found), found)

    # The search

    def request(self, claim: int, request: int) -> bool:
        """Satisfy everything from a request on. Raises AllocationError, AllocationTimeout."""
        self._look_at_the_time()
        if claim == len(self.demands):
            return True
        if request == len(self.demands[claim]):
            try:
                return self.request(claim + 1, 0)
            except _TooMany:
                return False
        demands = self.demands[claim][request]
        if demands[0].wish.name == demands[0].wish.request:
            return self._devices(claim, request, demands[0], 0, 0)
        return self._any_of(claim, request, demands)

    def _any_of(self, claim: int, request: int, demands: list[_Demand]) -> bool:
        all_too_large = True
        for demand in demands:
            try:
                if self._devices(claim, request, demand, 0, 0):
                    return True
            except _TooMany:
                continue
            all_too_large = False
        if all_too_large:
            raise _TooMany("allocation max size exceeded")
        return False

    def _devices(self, claim: int, request: int, demand: _Demand, index: int, start: int) -> bool:
        """The devices of a wish from the `index`-th on; exact counts look at offers from the `start`-th on only."""
        self._look_at_the_time()
        if demand.everything is not None and not demand.everything:
            return False
        if index >= demand.count:
            return self.request(claim, request + 1)
        if len(self.chosen[claim]) + demand.count - index > MOST_RESULTS:
            raise _TooMany("allocation max size exceeded")
        if demand.everything is not None:
            offer = demand.everything[index]
            undo = self._take(claim, demand.wish, offer, must=True)
            return undo is not None and self._go_on(undo, claim, request, demand, index + 1, start)
        for position in range(start, len(self.offers)):
            offer = self.offers[position]
            if not self._is_usable(claim, demand.wish, offer):
                continue
            undo = self._take(claim, demand.wish, offer)
            if undo is not None and self._go_on(undo, claim, request, demand, index + 1, position + 1):
                return True
        return False

    def _go_on(
        self, undo: Callable[[], None], claim: int, request: int, demand: _Demand, index: int, start: int
    ) -> bool:
        done = False
        try:
            done = self._devices(claim, request, demand, index, start)
        finally:
            if not done:
                undo()
        return done

    def _look_at_the_time(self) -> None:
        if self.is_over is not None and self.is_over():
            raise AllocationTimeout

    # One device

    def _is_selected(self, claim: int, wish: Wish, offer: Offer) -> bool:
        return self.allocator.is_selected(claim, wish, offer, self.node)

    def _is_usable(self, claim: int, wish: Wish, offer: Offer) -> bool:
        """Whether a device is free, meant and large enough."""
        if self._is_in_use(claim, wish, offer):
            return False
        return self._is_selected(claim, wish, offer) and self._share(wish, offer) is not None

    def _is_in_use(self, claim: int, wish: Wish, offer: Offer) -> bool:
        """Administrators may have any device, once per claim; others one that nobody has alone."""
        users = self.taken.get(offer.id)
        if wish.admin_access:
            return users is not None and claim in users
        return bool(users) or offer.id in self.usage.taken

    def _share(self, wish: Wish, offer: Offer) -> dict[str, Quantity] | None:
        used, here = self.usage.consumed.get(offer.id, {}), self.shares.get(offer.id, {})
        return share_of(offer.device, wish.body.capacity, used, here)

    def _take(self, claim: int, wish: Wish, offer: Offer, *, must: bool = False) -> Callable[[], None] | None:
        """Take a device if nothing speaks against it; returns how to give it back.

        `must`: raise AllocationError if constraints are what speaks against it.
        """
        if self._is_in_use(claim, wish, offer) or not self._take_counters(offer) or not _tolerates_all(wish, offer):
            return None
        if not self._add_to_constraints(claim, wish, offer):
            if must:
                raise AllocationError(
                    f"claim {label(self.allocator.claims[claim])}, request {wish.own_name}: cannot add device "
                    f"{'/'.join(offer.id)} because a claim constraint would not be satisfied"
                )
            return None
        is_shared = bool(offer.device.allow_multiple_allocations)
        if not is_shared:
            self.taken.setdefault(offer.id, set()).add(claim)
        share = self._share(wish, offer)
        if share is None:
            return None
        if is_shared:
            here = self.shares.setdefault(offer.id, {})
            for name, amount in share.items():
                here[name] = here.get(name, ZERO).add(amount)
        self.chosen[claim].append(Choice(wish, offer, share if is_shared else None))
        return lambda: self._give_back(claim, wish, offer, share)

    def _give_back(self, claim: int, wish: Wish, offer: Offer, share: dict[str, Quantity]) -> None:
        self.chosen[claim].pop()
        for constraint in self.constraints[claim]:
            constraint.remove(wish.request, wish.name)
        if not offer.device.allow_multiple_allocations:
            self.taken[offer.id].discard(claim)
            add_counters(self._counters_of(offer), offer.device, -1)
            return
        if share:
            here = self.shares[offer.id]
            for name, amount in share.items():
                here[name] = here[name].sub(amount)
            if all(amount.is_zero() for amount in here.values()):
                del self.shares[offer.id]

    def _add_to_constraints(self, claim: int, wish: Wish, offer: Offer) -> bool:
        constraints = self.constraints[claim]
        for index, constraint in enumerate(constraints):
            if not constraint.add(wish.request, wish.name, offer):
                for before in constraints[:index]:
                    before.remove(wish.request, wish.name)
                return False
        return True

    def _take_counters(self, offer: Offer) -> bool:
        """Take a device's share of its pool's counters, unless shares of the device are in use already."""
        device: Device = offer.device
        if not device.consumes_counters:
            return True
        if device.allow_multiple_allocations and (offer.id in self.usage.consumed or offer.id in self.shares):
            return True
        used = self._counters_of(offer)
        add_counters(used, device, 1)
        pool = self.pool_of[offer.id[:2]]
        if is_within(used, self.allocator.inventory.counters_left(pool)):
            return True
        add_counters(used, device, -1)
        return False

    def _counters_of(self, offer: Offer) -> Counters:
        return self.counters.setdefault(offer.id.pool, {})


def _tolerates_all(wish: Wish, offer: Offer) -> bool:
    return all(
        taint.effect not in (NO_SCHEDULE, NO_EXECUTE)
        or any(tolerates(item, TaintKey(taint.key, taint.value, taint.effect)) for item in wish.body.tolerations)
        for taint in offer.device.taints
    )
