"""The search for devices, compared with trying everything."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.codec import from_tree
from bayplan.api.quantity import parse
from bayplan.api.types.core_v1 import Node
from bayplan.api.types.resource_v1 import CapacityRequestPolicy, DeviceClass, ResourceClaim, ResourceSlice
from bayplan.scheduler.snapshot.allocation import Allocator, Solution
from bayplan.scheduler.snapshot.device_capacity import rounded
from bayplan.scheduler.snapshot.devices import Inventory, Offers
from tests.scheduler.devices import DRIVER, claim, device, device_class, exactly, slice_of
from tests.scheduler.objects import Tree, node

SMALL = f'device.attributes["{DRIVER}"].small'


@dataclass(frozen=True)
class Gadget:
    """A device of a random pool; `share` is what it takes of the pool's counter of 4."""

    name: str
    numa: int
    small: bool
    share: int

    def tree(self) -> Tree:
        made = device(self.name, numa=self.numa, small=self.small)
        used = [{"counterSet": "set", "counters": {"units": {"value": str(self.share)}}}]
        return made | ({"consumesCounters": used} if self.share else {})


@dataclass(frozen=True)
class Want:
    """One request: how many devices, and whether only small ones."""

    count: int
    small: bool


@dataclass(frozen=True)
class Case:
    """A node's devices, a claim's requests, a constraint over all of them, and devices that are taken already."""

    gadgets: tuple[Gadget, ...]
    wants: tuple[Want, ...]
    constraint: str
    taken: frozenset[str]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    gadgets = tuple(
        Gadget(f"g{index}", draw(st.integers(0, 1)), draw(st.booleans()), draw(st.integers(0, 2)))
        for index in range(draw(st.integers(1, 5)))
    )
    constraint = draw(st.sampled_from(("", "matchAttribute", "distinctAttribute")))
    most = 1 if constraint == "distinctAttribute" else 2
    wants = tuple(Want(draw(st.integers(1, most)), draw(st.booleans())) for _ in range(draw(st.integers(1, 3))))
    return Case(gadgets, wants, constraint, frozenset(draw(st.sets(st.sampled_from([g.name for g in gadgets])))))


def is_right(case: Case, picked: tuple[Gadget, ...]) -> bool:
    """Whether devices, in the order of the requests, satisfy everything."""
    if len({gadget.name for gadget in picked}) < len(picked) or case.taken & {gadget.name for gadget in picked}:
        return False
    wanted = [want for want in case.wants for _ in range(want.count)]
    if any(want.small and not gadget.small for want, gadget in zip(wanted, picked, strict=True)):
        return False
    numas = {gadget.numa for gadget in picked}
    if case.constraint == "matchAttribute" and len(numas) > 1:
        return False
    if case.constraint == "distinctAttribute" and len(numas) < len(picked):
        return False
    used = sum(gadget.share for gadget in case.gadgets if gadget.name in case.taken or gadget in picked)
    return used <= 4 or all(gadget.share == 0 for gadget in picked)


def solve(case: Case) -> Solution | None:
    counters = [{"name": "set", "counters": {"units": {"value": "4"}}}]
    devices = [gadget.tree() for gadget in case.gadgets]
    slices = (slice_of("a", *devices, count=2), slice_of("a", count=2, part=1, sharedCounters=counters))
    offered = [from_tree(ResourceSlice, tree) for tree in slices]
    requests = [
        exactly(f"r{index}", *((SMALL,) if want.small else ()), count=want.count)
        for index, want in enumerate(case.wants)
    ]
    constraints = [{case.constraint: f"{DRIVER}/numa"}] if case.constraint else []
    wanted = from_tree(ResourceClaim, claim("c", *requests, constraints=constraints))
    results = [{"request": "x", "driver": DRIVER, "pool": "a", "device": name} for name in sorted(case.taken)]
    other = claim("other") | {"status": {"allocation": {"devices": {"results": results}}}}
    inventory = Inventory(Offers(offered), [from_tree(ResourceClaim, other)])
    classes = {"gpu": from_tree(DeviceClass, device_class())}
    return Allocator(inventory, [wanted], classes, {}).allocate(from_tree(Node, node("a")))


@settings(max_examples=400, deadline=None)
@given(cases())
def test_a_solution_is_found_exactly_if_there_is_one_and_it_is_right(case: Case) -> None:
    """Except that a device which a constraint refuses keeps its counters, as in Kubernetes: a solution may be missed then."""
    count = sum(want.count for want in case.wants)
    possible = any(is_right(case, picked) for picked in itertools.permutations(case.gadgets, count))
    solution = solve(case)
    assert possible or solution is None
    if not case.constraint or not any(gadget.share for gadget in case.gadgets):
        assert (solution is not None) == possible
    if solution is not None:
        by_name = {gadget.name: gadget for gadget in case.gadgets}
        picked = tuple(by_name[choice.offer.id.device] for choice in solution[0])
        assert is_right(case, picked)
        names = Counter(choice.wish.name for choice in solution[0])
        assert names == {f"r{index}": want.count for index, want in enumerate(case.wants)}


def test_of_several_devices_for_one_request_only_the_last_has_to_differ_from_the_next() -> None:
    gadgets = tuple(Gadget(f"g{index}", numa, False, 0) for index, numa in enumerate((0, 1, 0)))
    solution = solve(Case(gadgets, (Want(3, False),), "distinctAttribute", frozenset()))
    assert solution is not None
    assert [choice.offer.id.device for choice in solution[0]] == ["g0", "g1", "g2"]
    assert solve(Case(gadgets, (Want(1, False),) * 3, "distinctAttribute", frozenset())) is None


def test_requested_amounts_are_brought_to_what_the_policy_allows() -> None:
    stepped = from_tree(CapacityRequestPolicy, {"validRange": {"min": "2Gi", "max": "9Gi", "step": "3Gi"}})
    listed = from_tree(CapacityRequestPolicy, {"validValues": ["1Gi", "4Gi"]})
    amounts = {"1Gi": "2Gi", "3Gi": "5Gi", "8Gi": "8Gi", "9Gi": None}
    for asked, given_amount in amounts.items():
        answer = rounded(parse(asked), stepped)
        assert (str(answer) if answer is not None else None) == given_amount
    assert str(rounded(parse("2Gi"), listed)) == "4Gi"
    assert rounded(parse("5Gi"), listed) is None
