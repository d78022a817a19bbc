"""Which zone each endpoint is meant for, when a service asks for hints by the zones of nodes. Pure functions.

Zones get endpoints in proportion to the cpu of their nodes; an endpoint serves its own zone unless that one has too many and another too few.

    cpu   a: 6   b: 2       six endpoints, three in each zone
    share a: 3/4 b: 1/4     a should have 4.5, b 1.5: one endpoint of b serves a (4 and 2)

A zone must not have so few that they carry more than a fifth above their fair share; if that cannot be had, there are no hints at all. Slices that do not change
keep the hints that they have, as long as no zone gets too many of them.

Source of the behaviour, of the figures and of the messages: `k8s.io/endpointslice/topologycache`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from bayplan.api.nodes import is_ready_node
from bayplan.api.quantity import milli_value
from bayplan.api.types import core_v1, discovery_v1
from bayplan.controllers.networking.endpointslice_rules import ZONE, Changes, Shape, Slice, identity

ENABLED = "Topology Aware Hints has been enabled"
DISABLED = "Topology Aware Hints has been disabled"
_NO_ZONE = "One or more endpoints do not have a zone specified"
_NODES_UNKNOWN = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
_TOO_FEW = "Insufficient number of endpoints"
_OVERLOAD = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
_OVERLOAD_THRESHOLD = 0.2
"""How much more than its fair share an endpoint may have to carry."""
_NOT_WORKERS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


@dataclass(frozen=True, slots=True)
class _Allotment:
    """How many endpoints a zone should have."""

    desired: float
    maximum: int


@dataclass(frozen=True, slots=True)
class Hinted:
    """What to write of the slices of one address type."""

    create: list[Slice]
    update: list[Slice]
    zones: Mapping[str, int] = field(default_factory=dict)
    """Zone -> endpoints that are meant for it."""
    problem: str = ""
    """Why there are no hints; "" if there are."""


def zone_shares(nodes: Iterable[core_v1.Node]) -> dict[str, float] | None:
    """Zone -> its part of the cpu of all ready workers; None if that cannot be told or there is only one zone."""
    cpu = Counter[str]()
    for node in nodes:
        labels = node.metadata.labels
        if any(name in labels for name in _NOT_WORKERS) or not is_ready_node(node):
            continue
        zone, amount = labels.get(ZONE), milli_value(node.status.allocatable.get("cpu", "0"))
        if not zone or not amount:
            return None
        cpu[zone] += amount
    total = cpu.total()
    return {zone: cpu[zone] / total for zone in sorted(cpu)} if len(cpu) > 1 else None


def is_overloaded(zones: Mapping[str, int], shares: Mapping[str, float] | None) -> bool:
    """Whether hints that were given do not suit the nodes any more: a zone has too few endpoints."""
    if not zones:
        return False
    total = sum(zones.values())
    return not shares or any(zones.get(zone, -1) < _minimum(share * total) for zone, share in shares.items())


def _minimum(desired: float) -> int:
    """The fewest endpoints that a zone may have which should have so many."""
    return math.ceil(desired * (1 / (1 + _OVERLOAD_THRESHOLD)))


def keeping_hints(
    wanted: Mapping[Shape, Sequence[discovery_v1.Endpoint]], existing: Iterable[Slice]
) -> dict[Shape, list[discovery_v1.Endpoint]]:
    """Endpoints with the hints that they have in slices, so that nothing is written only because hints have not been thought about yet."""
    known = {identity(endpoint): endpoint.hints for one in existing for endpoint in one.endpoints}
    return {
        shape: [msgspec.structs.replace(endpoint, hints=known.get(identity(endpoint))) for endpoint in endpoints]
        for shape, endpoints in wanted.items()
    }


def hinted(family: str, changes: Changes, existing: Sequence[Slice], shares: Mapping[str, float] | None) -> Hinted:
    """Give hints to slices of an address type that are written anyway, and to those whose hints are not good enough."""
    result = _hinted(family, changes, existing, shares)
    result.update[:] = [one for one in result.update if one not in existing]
    return result


def _hinted(family: str, changes: Changes, existing: Sequence[Slice], shares: Mapping[str, float] | None) -> Hinted:
    written = {one.metadata.name for one in (*changes.update, *changes.delete)}
    unchanged = [one for one in existing if one.address_type == family and one.metadata.name not in written]
    create = [one for one in changes.create if one.address_type == family]
    update = [one for one in changes.update if one.address_type == family]
    count = sum(_is_ready(endpoint) for one in (*create, *update, *unchanged) for endpoint in one.endpoints)
    allotments, problem = _allot(shares, count)
    if problem:
        return _without_hints(create, update, unchanged, problem)
    kept, good = Counter[str](), []
    for one in unchanged:
        zones = _zones_of(one, kept, allotments)
        if zones is None:
            update.append(one)
        else:
            kept.update(zones)
            good.append(one)
    if any(_is_ready(endpoint) and not endpoint.zone for one in (*create, *update) for endpoint in one.endpoints):
        return _without_hints(create, update, good, _NO_ZONE)
    return _share_out(create, update, kept, allotments)


def _is_ready(endpoint: discovery_v1.Endpoint) -> bool:
    return endpoint.conditions.ready is True


def _allot(shares: Mapping[str, float] | None, count: int) -> tuple[dict[str, _Allotment], str]:
    """How many of so many endpoints each zone should have, or why that cannot be done."""
    if shares is None:
        return {}, _NODES_UNKNOWN
    figures = f"({count} endpoints, {len(shares)} zones)"
    if len(shares) > count:
        return {}, f"{_TOO_FEW} {figures}"
    minimums = {zone: _minimum(share * count) for zone, share in shares.items()}
    spare = count - sum(minimums.values())
    if spare < 0:
        return {}, f"{_OVERLOAD} {figures}"
    return {
        zone: _Allotment(max(shares[zone] * count, minimum), minimum + spare) for zone, minimum in minimums.items()
    }, ""


def _zones_of(one: Slice, others: Mapping[str, int], allotments: Mapping[str, _Allotment]) -> Counter[str] | None:
    """Zone -> endpoints of a slice that are meant for it; None if the slice needs other hints, given what other slices have."""
    zones = Counter[str]()
    for endpoint in one.endpoints:
        if not _is_ready(endpoint):
            continue
        if endpoint.hints is None or not endpoint.hints.for_zones:
            return None
        zones.update(hint.name for hint in endpoint.hints.for_zones)
    fits = all(
        zone in allotments and count + others.get(zone, 0) <= allotments[zone].maximum for zone, count in zones.items()
    )
    return zones if fits else None


def _share_out(
    create: Sequence[Slice], update: Sequence[Slice], kept: Counter[str], allotments: Mapping[str, _Allotment]
) -> Hinted:
    """Mean each endpoint for its own zone, but for those that zones with too many give to zones with too few."""
    zones = kept.copy()
    zones.update(
        endpoint.zone
        for one in (*create, *update)
        for endpoint in one.endpoints
        if _is_ready(endpoint) and endpoint.zone
    )
    giving, receiving = _moves(allotments, zones)

    def hint(endpoint: discovery_v1.Endpoint) -> discovery_v1.Endpoint:
        zone = endpoint.zone
        if not _is_ready(endpoint) or not zone:
            return _hint(endpoint, "")
        if giving[zone] > 0 and receiving.total() > 0:
            other = next(name for name, number in receiving.items() if number > 0)
            giving[zone] -= 1
            receiving[other] -= 1
            zones[zone] -= 1
            zones[other] += 1
            zone = other
        return _hint(endpoint, zone)

    def hint_all(slices: Sequence[Slice]) -> list[Slice]:
        return [
            msgspec.structs.replace(one, endpoints=tuple(hint(endpoint) for endpoint in one.endpoints))
            for one in slices
        ]

    return Hinted(hint_all(create), hint_all(update), zones)


def _moves(allotments: Mapping[str, _Allotment], zones: Mapping[str, int]) -> tuple[Counter[str], Counter[str]]:
    """Zone -> endpoints that it gives to others; zone -> endpoints that it gets."""
    surplus = {zone: zones.get(zone, 0) - one.desired for zone, one in allotments.items()}
    need = {zone: -number for zone, number in surplus.items() if number < 0}
    surplus = {zone: number for zone, number in surplus.items() if number > 0}
    giving, receiving = Counter[str](), Counter[str]()
    while surplus and need:
        giver, taker = max(surplus, key=surplus.__getitem__), max(need, key=need.__getitem__)
        most, least = max(surplus[giver], need[taker]), min(surplus[giver], need[taker])
        if most < 1.0 or least < 0.5:
            break
        giving[giver] += 1
        surplus[giver] -= 1
        receiving[taker] += 1
        need[taker] -= 1
    return giving, receiving


def _hint(endpoint: discovery_v1.Endpoint, zone: str) -> discovery_v1.Endpoint:
    """The endpoint, meant for a zone, or for none in particular ("")."""
    hints = discovery_v1.EndpointHints(for_zones=(discovery_v1.ForZone(name=zone),)) if zone else None
    changed: discovery_v1.Endpoint = msgspec.structs.replace(endpoint, hints=hints)
    return changed


def _without_hints(create: Sequence[Slice], update: Sequence[Slice], others: Sequence[Slice], problem: str) -> Hinted:
    """The slices, and those of the others that have hints, without."""

    def bare(one: Slice) -> Slice:
        endpoints = tuple(_hint(endpoint, "") for endpoint in one.endpoints)
        changed: Slice = msgspec.structs.replace(one, endpoints=endpoints)
        return changed

    told = [one for one in others if any(endpoint.hints is not None for endpoint in one.endpoints)]
    return Hinted([bare(one) for one in create], [bare(one) for one in (*update, *told)], problem=problem)
