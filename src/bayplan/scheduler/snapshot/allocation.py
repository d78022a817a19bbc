"""Structured allocation: devices of one node for the requests of some claims, all or nothing.

Claims, requests and devices are tried in order, and the first solution is taken; what is chosen for one request bears
on the next through constraints, shared counters and the devices themselves, so the search goes back where it has to.
Source of the behaviour: `k8s.io/dynamic-resource-allocation/structured`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bayplan.api.quantity import Quantity, parse
from bayplan.scheduler.snapshot.device_expressions import ExpressionError, attribute_value, compiled, split_name
from bayplan.scheduler.snapshot.devices import (
    ZERO,
    DeviceId,
    Inventory,
    Offer,
    Pool,
    consume,
    has_counters_for,
    release,
)
from bayplan.scheduler.snapshot.taints import NO_EXECUTE, NO_SCHEDULE, TaintKey, tolerates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bayplan.api.types.core_v1 import Node
    from bayplan.api.types.resource_v1 import (
        DeviceClass,
        DeviceConstraint,
        DeviceRequest,
        DeviceSubRequest,
        ExactDeviceRequest,
        ResourceClaim,
    )

MOST_RESULTS: Final = 32
"""Devices that one claim can have."""


class AllocationError(Exception):
    """A claim or class is wrong, so that no node can help."""


class AllocationTimeout(Exception):
    """The search on a node took longer than it may."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One thing asked for: a request, or one of its alternatives (then `name` is `request/alternative`)."""

    name: str
    request: str
    body: ExactDeviceRequest | DeviceSubRequest
    admin_access: bool
    device_class: DeviceClass


@dataclass(frozen=True, slots=True)
class Choice:
    """A device chosen for a wish, with what is taken of its capacity if others may share it."""

    wish: Wish
    offer: Offer
    consumed: Mapping[str, Quantity] | None = None


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


@dataclass(slots=True)
class _Search:
    """The state of the search on one node."""

    node_pools: list[tuple[Pool, list[Offer]]]
    chosen: Solution
    usable: list[Offer]
    """The devices of all pools that are in order."""
    taken: set[DeviceId] = field(default_factory=set)
    consumed: dict[DeviceId, dict[str, Quantity]] = field(default_factory=dict)
    left: dict[tuple[str, str], dict[str, dict[str, Quantity]]] = field(default_factory=dict)
    is_over: Callable[[], bool] | None = None
    """Whether the time for the search is over; None if there is no limit."""


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
        self._needs_devices = any(wishes for claim in self.wishes for wishes in claim)
        self._matches = matches

    def allocate(self, node: Node, is_over: Callable[[], bool] | None = None) -> Solution | None:
        """A solution on a node, None if there is none.

        Raises AllocationError, and AllocationTimeout as soon as `is_over` says so, which is asked before each device.
        """
        inventory = self.inventory
        pools = inventory.offers.for_node(node)
        if not pools and self._needs_devices:
            return None
        usable = [offer for pool, offers in pools if not pool.is_invalid for offer in offers]
        search = _Search(pools, [[] for _ in self.claims], usable, is_over=is_over)
        for pool, _ in search.node_pools:
            left = inventory.counters_left(pool)
            if left:
                search.left[pool.driver, pool.name] = {name: dict(counters) for name, counters in left.items()}
        return search.chosen if self._request(search, 0, 0) else None

    def meets_invalid_pools(self, node: Node) -> bool:
        """Whether devices of the node were left out because their pool is in disorder."""
        return any(pool.is_invalid for pool, _ in self.inventory.offers.for_node(node))

    # The search: each step tries what comes and hands on to the next step

    def _request(self, search: _Search, claim: int, request: int) -> bool:
        if claim == len(self.claims):
            return True
        if request == len(self.wishes[claim]):
            return self._request(search, claim + 1, 0)
        return any(self._wish(search, claim, request, wish) for wish in self.wishes[claim][request])

    def _wish(self, search: _Search, claim: int, request: int, wish: Wish) -> bool:
        def done() -> bool:
            return self._request(search, claim, request + 1)

        if wish.body.allocation_mode == "All":
            return self._all(search, claim, wish, done)
        if len(search.chosen[claim]) + wish.body.count > MOST_RESULTS:
            return False
        return self._exact(search, claim, wish, wish.body.count, done)

    def _exact(
        self, search: _Search, claim: int, wish: Wish, count: int, done: Callable[[], bool], start: int = 0
    ) -> bool:
        """`count` devices from the `start`-th on; their order does not matter, so only one order is tried."""
        if count == 0:
            return done()
        for index in range(start, len(search.usable)):
            offer = search.usable[index]
            if not self._is_selected(claim, wish, offer):
                continue
            choice = self._choose(search, claim, wish, offer)
            if choice is None:
                continue
            after = index if choice.consumed is not None else index + 1
            if self._exact(search, claim, wish, count - 1, done, after):
                return True
            self._give_back(search, claim, choice)
        return False

    def _all(self, search: _Search, claim: int, wish: Wish, done: Callable[[], bool]) -> bool:
        """Every matching device of the node, or nothing."""
        wanted: list[Offer] = []
        for pool, offers in search.node_pools:
            selected = [offer for offer in offers if self._is_selected(claim, wish, offer)]
            if not pool.is_complete:
                where = f"claim {label(self.claims[claim])}, request {wish.name}"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {pool.driver}/{pool.name} is currently being "
                    "updated"
                )
            if selected and pool.is_invalid:
                return False
            wanted += selected
        if not wanted or len(search.chosen[claim]) + len(wanted) > MOST_RESULTS:
            return False
        choices: list[Choice] = []
        for offer in wanted:
            choice = self._choose(search, claim, wish, offer)
            if choice is None:
                break
            choices.append(choice)
        if len(choices) == len(wanted) and done():
            return True
        for choice in reversed(choices):
            self._give_back(search, claim, choice)
        return False

    # One device

    def _is_selected(self, claim: int, wish: Wish, offer: Offer) -> bool:
        """Whether the class's and the request's selectors mean a device. Raises AllocationError."""
        name = wish.device_class.metadata.name
        for index, selector in enumerate(wish.device_class.spec.selectors):
            if selector.cel is not None and not self._matches_text(
                selector.cel.expression, offer, f"class {name}", index
            ):
                return False
        where = f"claim {label(self.claims[claim])}"
        return all(
            selector.cel is None or self._matches_text(selector.cel.expression, offer, where, index)
            for index, selector in enumerate(wish.body.selectors)
        )

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

    def _choose(self, search: _Search, claim: int, wish: Wish, offer: Offer) -> Choice | None:
        """Take a device if nothing speaks against it. Raises AllocationTimeout."""
        if search.is_over is not None and search.is_over():
            raise AllocationTimeout
        device, usage = offer.device, self.inventory.usage
        choice = Choice(wish, offer)
        if not wish.admin_access:
            if offer.id in usage.taken or offer.id in search.taken:
                return None
            if device.allow_multiple_allocations:
                amounts = self._share(search, wish, offer)
                if amounts is None:
                    return None
                choice = Choice(wish, offer, amounts)
            elif wish.body.capacity is not None and not _has_capacity(wish, offer):
                return None
        elif any(one.offer.id == offer.id for one in search.chosen[claim]):
            return None
        if not _tolerates_all(wish, offer):
            return None
        if not self._constraints_hold(search, claim, choice):
            return None
        left = search.left.get(offer.id[:2])
        if not wish.admin_access and device.consumes_counters:
            in_use = offer.id in usage.consumed or offer.id in search.consumed
            if not in_use and not has_counters_for(left or {}, device):
                return None
        self._take(search, claim, choice)
        return choice

    def _share(self, search: _Search, wish: Wish, offer: Offer) -> dict[str, Quantity] | None:
        """What a wish takes of a device that others may use as well; None if too little is left."""
        used = self.inventory.usage.consumed.get(offer.id, {})
        here = search.consumed.get(offer.id, {})
        requested = wish.body.capacity.requests if wish.body.capacity is not None else {}
        amounts: dict[str, Quantity] = {}
        for name, capacity in offer.device.capacity.items():
            total = parse(capacity.value)
            policy = capacity.request_policy
            asked = requested.get(name)
            if asked is not None:
                amount = rounded(parse(asked), policy)
            elif policy is not None and policy.default is not None:
                amount = parse(policy.default)
            else:
                amount = total
            if amount is None or used.get(name, ZERO).add(here.get(name, ZERO)).add(amount) > total:
                return None
            amounts[name] = amount
        return None if any(name not in amounts for name in requested) else amounts

    def _constraints_hold(self, search: _Search, claim: int, choice: Choice) -> bool:
        for constraint in self.claims[claim].spec.devices.constraints:
            if not _concerns(constraint, choice.wish):
                continue
            others = [one for one in search.chosen[claim] if _concerns(constraint, one.wish)]
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            value = _attribute(choice.offer, name)
            if value is None:
                return False
            for one in others:
                if (_attribute(one.offer, name) == value) != (constraint.match_attribute is not None):
                    return False
        return True

    def _take(self, search: _Search, claim: int, choice: Choice) -> None:
        search.chosen[claim].append(choice)
        if choice.wish.admin_access:
            return
        offer = choice.offer
        first = offer.id not in search.consumed and offer.id not in self.inventory.usage.consumed
        if choice.consumed is None:
            search.taken.add(offer.id)
        else:
            shares = search.consumed.setdefault(offer.id, {})
            for name, amount in choice.consumed.items():
                shares[name] = shares.get(name, ZERO).add(amount)
        if first:
            consume(search.left.get(offer.id[:2], {}), offer.device)

    def _give_back(self, search: _Search, claim: int, choice: Choice) -> None:
        search.chosen[claim].remove(choice)
        if choice.wish.admin_access:
            return
        offer = choice.offer
        if choice.consumed is None:
            search.taken.discard(offer.id)
        else:
            shares = search.consumed[offer.id]
            for name, amount in choice.consumed.items():
                shares[name] = shares[name].sub(amount)
            if not any(one.offer.id == offer.id for chosen in search.chosen for one in chosen):
                del search.consumed[offer.id]
        if offer.id not in search.consumed and offer.id not in self.inventory.usage.consumed:
            release(search.left.get(offer.id[:2], {}), offer.device)


def _concerns(constraint: DeviceConstraint, wish: Wish) -> bool:
    return not constraint.requests or wish.name in constraint.requests or wish.request in constraint.requests


def _attribute(offer: Offer, name: str) -> Any:
    """The value of a fully qualified attribute; None if the device does not have it."""
    domain, plain = split_name(name, "")
    attribute = offer.device.attributes.get(name)
    if attribute is None and domain == offer.id.driver:
        attribute = offer.device.attributes.get(plain)
    return attribute_value(attribute) if attribute is not None else None


def _tolerates_all(wish: Wish, offer: Offer) -> bool:
    return all(
        taint.effect not in (NO_SCHEDULE, NO_EXECUTE)
        or any(tolerates(item, TaintKey(taint.key, taint.value, taint.effect)) for item in wish.body.tolerations)
        for taint in offer.device.taints
    )


def _has_capacity(wish: Wish, offer: Offer) -> bool:
    """Whether a device that is taken as a whole is large enough."""
    requests = wish.body.capacity.requests if wish.body.capacity is not None else {}
    capacity = offer.device.capacity
    return all(name in capacity and parse(amount) <= parse(capacity[name].value) for name, amount in requests.items())


def rounded(amount: Quantity, policy: Any) -> Quantity | None:
    """A requested amount brought to what the policy allows, upwards; None if it allows no such amount."""
    if policy is None:
        return amount
    if policy.valid_values:
        return min((value for value in map(parse, policy.valid_values) if value >= amount), default=None)
    allowed = policy.valid_range
    if allowed is None:
        return amount
    low = parse(allowed.min) if allowed.min is not None else ZERO
    amount = max(amount, low)
    if allowed.step is not None:
        step, above = parse(allowed.step).value(), amount.sub(low).value()
        amount = low.add(Quantity(-(-above // step) * step, 0, low.format))
    if allowed.max is not None and amount > parse(allowed.max):
        return None
    return amount
