from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.controllers.networking import endpointslice_mirroring as mirroring
from bayplan.controllers.networking import endpointslice_rules as rules
from bayplan.testing.builders import pod, pod_status, service

SHAPE: rules.Shape = ("IPv4", (("http", 80, "TCP", None),))
OTHER: rules.Shape = ("IPv4", (("http", 81, "TCP", None),))
LABELS = {"app": "web"}


def endpoint(number: int, *, ready: bool = True) -> discovery_v1.Endpoint:
    return discovery_v1.Endpoint(
        addresses=(f"10.0.{number // 250}.{number % 250}",),
        conditions=discovery_v1.EndpointConditions(ready=ready),
        target_ref=core_v1.ObjectReference(uid=str(number)),
    )


def make(shape: rules.Shape, taken: Sequence[discovery_v1.EndpointSlice]) -> discovery_v1.EndpointSlice:
    metadata = meta_v1.ObjectMeta(name=rules.free_name("web", "uid", taken), labels=LABELS)
    return discovery_v1.EndpointSlice(metadata=metadata, address_type=shape[0], ports=rules.ports_in(shape))


def slice_of(name: str, numbers: Sequence[int], shape: rules.Shape = SHAPE) -> discovery_v1.EndpointSlice:
    one = make(shape, ())
    one.metadata.name = name
    one.endpoints = tuple(endpoint(number) for number in numbers)
    return one


def shown(slices: Sequence[discovery_v1.EndpointSlice]) -> list[tuple[str, list[int]]]:
    return [
        (one.metadata.name, [int(each.target_ref.uid) for each in one.endpoints if each.target_ref]) for one in slices
    ]


def pack(existing: list[Any], numbers: Sequence[int], limit: int = 3, shape: rules.Shape = SHAPE) -> rules.Changes:
    wanted = {shape: [endpoint(number) for number in numbers]}
    return rules.pack(existing, wanted, LABELS, None, limit, make)


def test_what_is_right_is_not_written() -> None:
    assert pack([slice_of("a", [1, 2])], [2, 1]) == rules.Changes()


def test_the_slice_that_has_to_change_anyway_is_filled_first() -> None:
    changes = pack([slice_of("a", [1, 2, 3]), slice_of("b", [4, 5])], [1, 3, 4, 5, 6])
    assert shown(changes.update) == [("a", [1, 3, 6])]
    assert not changes.create
    assert not changes.delete


def test_a_few_new_endpoints_go_into_the_fullest_slice_with_room() -> None:
    changes = pack([slice_of("a", [1]), slice_of("b", [2, 3])], [1, 2, 3, 4])
    assert shown(changes.update) == [("b", [2, 3, 4])]


def test_endpoints_that_fit_nowhere_get_a_slice_of_their_own() -> None:
    changes = pack([slice_of("a", [1, 2, 3])], [1, 2, 3, 4])
    assert [numbers for _, numbers in shown(changes.create)] == [[4]]
    assert not changes.update


def test_an_endpoint_that_changes_stays_in_its_slice() -> None:
    wanted = {SHAPE: [endpoint(1, ready=False), endpoint(2)]}
    changes = rules.pack([slice_of("a", [1, 2])], wanted, LABELS, None, 3, make)
    assert [each.conditions.ready for each in changes.update[0].endpoints] == [False, True]


def test_a_slice_for_other_ports_is_made_of_one_that_is_not_needed() -> None:
    changes = pack([slice_of("a", [1])], [1], shape=OTHER)
    assert shown(changes.update) == [("a", [1])]
    assert rules.shape_of(changes.update[0]) == OTHER
    assert not changes.create


def test_a_service_without_endpoints_keeps_one_empty_slice() -> None:
    assert shown(rules.pack([], {("IPv4", ()): []}, LABELS, None, 3, make).create)[0][1] == []
    existing = [slice_of("a", [1], ("IPv4", ())), slice_of("b", [2], ("IPv4", ()))]
    changes = rules.pack(existing, {("IPv4", ()): []}, LABELS, None, 3, make)
    assert len(changes.update) == len(changes.delete) == 1


def test_slices_of_a_family_that_is_not_wanted_go() -> None:
    old = slice_of("six", [1], ("IPv6", SHAPE[1]))
    changes = pack([old], [1])
    assert shown(changes.delete) == [("six", [1])]
    assert len(changes.create) == 1


@given(
    st.lists(st.lists(st.integers(0, 40), max_size=4, unique=True), max_size=6),
    st.lists(st.integers(0, 40), max_size=25, unique=True),
)
def test_every_wanted_endpoint_is_in_exactly_one_slice_and_a_second_look_changes_nothing(
    before: list[list[int]], numbers: list[int]
) -> None:
    used: set[int] = set()
    existing = []
    for index, content in enumerate(before):
        mine = [number for number in content if number not in used]
        used.update(mine)
        existing.append(slice_of(f"s{index}", mine))
    changes = pack(existing, numbers, 4)
    after = {one.metadata.name: one for one in existing}
    after |= {one.metadata.name: one for one in (*changes.update, *changes.create)}
    for one in changes.delete:
        del after[one.metadata.name]
    found = [number for _, content in shown(list(after.values())) for number in content]
    assert sorted(found) == sorted(numbers)
    assert all(len(one.endpoints) <= 4 for one in after.values())
    assert pack(list(after.values()), numbers, 4) == rules.Changes()


def zones(one: discovery_v1.EndpointHints | None) -> tuple[list[str], list[str]] | None:
    return None if one is None else ([each.name for each in one.for_zones], [each.name for each in one.for_nodes])


@pytest.mark.parametrize(
    ("distribution", "zone", "expected"),
    [
        (None, "a", None),
        ("PreferClose", "a", (["a"], [])),
        ("PreferSameZone", "a", (["a"], [])),
        ("PreferSameNode", "a", (["a"], ["n"])),
        ("PreferClose", None, None),
    ],
)
def test_hints_follow_the_traffic_distribution(distribution: str | None, zone: str | None, expected: object) -> None:
    assert zones(rules.hints_for(distribution, zone, "n")) == expected


def test_an_endpoint_that_is_not_ready_is_meant_for_nobody() -> None:
    one = service("web")
    one.spec.traffic_distribution = "PreferClose"
    node = from_tree(core_v1.Node, {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "a"}}})
    made = rules.endpoint_of(one, pod("p", status=pod_status(ready=False, ip="10.0.0.1"), node_name="n"), node, "IPv4")
    assert made is not None
    assert made.hints is None
    assert made.zone == "a"


def test_addresses_of_both_families_are_told_apart() -> None:
    both = pod("p", status=pod_status(ip="10.0.0.1"), node_name="n")
    both.status.pod_ips = (core_v1.PodIP(ip="10.0.0.1"), core_v1.PodIP(ip="fd00::1"))
    found = [rules.endpoint_of(service("web"), both, None, family) for family in ("IPv4", "IPv6")]
    assert [one.addresses for one in found if one] == [("10.0.0.1",), ("fd00::1",)]


def endpoints(**subset: Any) -> core_v1.Endpoints:
    return from_tree(core_v1.Endpoints, {"metadata": {"name": "e"}, "subsets": [subset]})


def test_mirrored_addresses_are_counted_checked_and_split_by_family() -> None:
    one = endpoints(
        addresses=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}, {"ip": "nonsense"}],
        notReadyAddresses=[{"ip": "10.0.0.2"}, {"ip": "10.0.0.3"}],
        ports=[{"name": "http", "port": 80}],
    )
    wanted, invalid, beyond = mirroring.mirrored(one, 3)
    ready = {
        shape[0]: [(each.addresses[0], each.conditions.ready) for each in listed] for shape, listed in wanted.items()
    }
    assert ready == {"IPv4": [("10.0.0.1", True), ("10.0.0.2", False)], "IPv6": [("fd00::1", True)]}
    assert (invalid, beyond) == (1, 1)


@pytest.mark.parametrize(
    ("labels", "annotations", "selector", "expected"),
    [
        ({}, {}, {}, True),
        ({mirroring.SKIP: "true"}, {}, {}, False),
        ({}, {"control-plane.alpha.kubernetes.io/leader": "x"}, {}, False),
        ({}, {}, {"app": "web"}, False),
    ],
)
def test_which_endpoints_are_mirrored(
    labels: dict[str, str], annotations: dict[str, str], selector: dict[str, str], expected: bool
) -> None:
    one = from_tree(core_v1.Endpoints, {"metadata": {"name": "e", "labels": labels, "annotations": annotations}})
    assert mirroring.is_to_be_mirrored(one, service("e", select=selector)) is expected
    assert not mirroring.is_to_be_mirrored(one, None)
