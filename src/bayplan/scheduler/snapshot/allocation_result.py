"""What an allocation writes into a claim's status: the devices, their configuration, and where they can be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bayplan.api.types.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from bayplan.api.types.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from bayplan.scheduler.snapshot.allocation import Choice, Wish

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node
    from bayplan.api.types.resource_v1 import DeviceClass, ResourceClaim


def result_of(
    claim: ResourceClaim, choices: Sequence[Choice], node: Node, share_id: Callable[[], str]
) -> AllocationResult:
    """What is written into the claim's status. `share_id` makes names for shares of devices."""
    results = tuple(
        DeviceRequestAllocationResult(
            request=choice.wish.name,
            driver=choice.offer.id.driver,
            pool=choice.offer.id.pool,
            device=choice.offer.id.device,
            admin_access=True if choice.wish.admin_access else None,
            tolerations=choice.wish.body.tolerations,
            binding_conditions=choice.offer.device.binding_conditions,
            binding_failure_conditions=choice.offer.device.binding_failure_conditions,
            share_id=share_id() if choice.consumed is not None else None,
            consumed_capacity={name: str(amount) for name, amount in (choice.consumed or {}).items()},
        )
        for choice in choices
    )
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=_configuration(claim, choices)),
        node_selector=_node_selector(choices, node),
    )


def _configuration(claim: ResourceClaim, choices: Sequence[Choice]) -> tuple[DeviceAllocationConfiguration, ...]:
    """The classes' configuration, then the claim's; without requests where it is for all of them."""
    requests = claim.spec.devices.requests
    wishes: dict[str, Wish] = {}
    for choice in choices:
        wishes.setdefault(choice.wish.name, choice.wish)
    by_class: dict[str, tuple[DeviceClass, list[str]]] = {}
    for wish in wishes.values():
        by_class.setdefault(wish.device_class.metadata.name, (wish.device_class, []))[1].append(wish.name)
    found = [("FromClass", tuple(names), item.opaque) for one, names in by_class.values() for item in one.spec.config]
    chosen = set(wishes) | {wish.request for wish in wishes.values()}
    found += [
        ("FromClaim", item.requests, item.opaque)
        for item in claim.spec.devices.config
        if not item.requests or chosen.intersection(item.requests)
    ]
    return tuple(
        DeviceAllocationConfiguration(
            source=source, requests=() if len(names) == len(requests) else names, opaque=opaque
        )
        for source, names, opaque in found
    )


def _node_selector(choices: Sequence[Choice], node: Node) -> NodeSelector | None:
    """Where the devices can be used; None for everywhere."""
    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for choice in choices:
        spec, device = choice.offer.slice.spec, choice.offer.device
        owner = device if spec.per_device_node_selection else spec
        if owner.node_name or device.binds_to_node:
            name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node.metadata.name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))
        if owner.node_selector is not None:
            for term in owner.node_selector.node_selector_terms[:1]:
                expressions += [item for item in term.match_expressions if item not in expressions]
                fields += [item for item in term.match_fields if item not in fields]
    if not expressions and not fields:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))
