"""Taints of devices: those in slices, and those that DeviceTaintRules give all devices that they select.

Source of the behaviour: Kubernetes' `dynamic-resource-allocation/resourceslice/tracker` (KEP-5055).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bayplan.api.types import resource_v1, resource_v1alpha3, resource_v1beta2

Rule = resource_v1alpha3.DeviceTaintRule | resource_v1beta2.DeviceTaintRule
_replace = msgspec.structs.replace


def with_rules(item: resource_v1.ResourceSlice, rules: Iterable[Rule]) -> resource_v1.ResourceSlice:
    """A slice whose devices have the taints of rules besides their own; the slice itself if no rule selects any of them."""
    driver, pool = item.spec.driver, item.spec.pool.name
    matching = [rule for rule in rules if _selects_pool(rule, driver, pool)]
    devices: list[resource_v1.Device] = []
    for device in item.spec.devices:
        taints = [_taint_of(rule) for rule in matching if _selects_name(rule, device.name)]
        devices.append(_replace(device, taints=(*device.taints, *taints)) if taints else device)
    if all(new is old for new, old in zip(devices, item.spec.devices, strict=True)):
        return item
    return _replace(item, spec=_replace(item.spec, devices=tuple(devices)))


def slices_with_rules(
    slices: Iterable[resource_v1.ResourceSlice], rules: Sequence[Rule]
) -> Iterable[resource_v1.ResourceSlice]:
    """Slices as rules make them; rules count in the order of their names."""
    if not rules:
        return slices
    ordered = sorted(rules, key=lambda rule: rule.metadata.name)
    return [with_rules(one, ordered) for one in slices]


def rules_of(claim: resource_v1.ResourceClaim, rules: Iterable[Rule]) -> list[Rule]:
    """The rules that select a device which is allocated for a claim."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return [rule for rule in rules if any(selects(rule, one.driver, one.pool, one.device) for one in results)]


def selects(rule: Rule, driver: str, pool: str, device: str) -> bool:
    """Whether a rule selects a device."""
    return _selects_pool(rule, driver, pool) and _selects_name(rule, device)


def _selects_pool(rule: Rule, driver: str, pool: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or (selector.driver in (None, driver) and selector.pool in (None, pool))


def _selects_name(rule: Rule, device: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or selector.device in (None, device)


def _taint_of(rule: Rule) -> resource_v1.DeviceTaint:
    taint = rule.spec.taint
    return resource_v1.DeviceTaint(key=taint.key, value=taint.value, effect=taint.effect, time_added=taint.time_added)
