"""How much of a device's capacity a request takes (KEP-5075), by the rules of `k8s.io/dynamic-resource-allocation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bayplan.api.quantity import Quantity, parse
from bayplan.scheduler.snapshot.resources import ZERO

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import CapacityRequestPolicy, CapacityRequirements, Device, DeviceCapacity

NOTHING: Final[Mapping[str, Quantity]] = {}


def rounded(amount: Quantity, policy: CapacityRequestPolicy | None) -> Quantity | None:
    """A requested amount brought to what the policy allows, upwards; None if it allows no such amount."""
    if policy is None:
        return amount
    allowed = policy.valid_range
    if allowed is not None and allowed.min is not None:
        low = parse(allowed.min)
        if amount < low:
            amount = low
        elif allowed.step is not None:
            step, above = parse(allowed.step).value(), amount.value() - low.value()
            amount = Quantity(low.value() - (-above // step) * step, 0, low.format)
    elif policy.valid_values:
        amount = next((value for value in map(parse, policy.valid_values) if amount <= value), amount)
    return amount if _is_allowed(amount, policy) else None


def _is_allowed(amount: Quantity, policy: CapacityRequestPolicy) -> bool:
    allowed = policy.valid_range
    if allowed is None:
        return not policy.valid_values or any(parse(value) == amount for value in policy.valid_values)
    if allowed.max is not None and amount > parse(allowed.max):
        return False
    low = parse(allowed.min).value() if allowed.min is not None else 0
    return allowed.step is None or (amount.value() - low) % parse(allowed.step).value() == 0


def taken_of(capacity: DeviceCapacity, asked: Quantity | None) -> Quantity | None:
    """What is taken of one capacity: what is asked for, or the default, or all of it; None if the policy forbids that."""
    policy = capacity.request_policy
    if asked is not None:
        return rounded(asked, policy)
    if policy is None:
        return parse(capacity.value)
    if policy.default is not None:
        return parse(policy.default)
    whole = parse(capacity.value)
    return whole if _is_allowed(whole, policy) else None


def share_of(
    device: Device,
    wanted: CapacityRequirements | None,
    used: Mapping[str, Quantity] = NOTHING,
    here: Mapping[str, Quantity] = NOTHING,
) -> dict[str, Quantity] | None:
    """What a request takes of each capacity of a device; None if that is more than `used` and `here` leave of it.

    A device that is not shared is asked the same, since it has to be large enough too.
    """
    requests = wanted.requests if wanted is not None else {}
    if any(name not in device.capacity for name in requests):
        return None
    shares: dict[str, Quantity] = {}
    for name, capacity in device.capacity.items():
        asked = requests.get(name)
        amount = taken_of(capacity, parse(asked) if asked is not None else None)
        if amount is None:
            return None
        if used.get(name, ZERO).add(amount).add(here.get(name, ZERO)) > parse(capacity.value):
            return None
        shares[name] = amount
    return shares
