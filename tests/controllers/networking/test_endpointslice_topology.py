"""Which zones endpoints are meant for when a service asks for hints by topology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.controllers.networking import endpointslice_rules as rules
from bayplan.controllers.networking import endpointslice_topology as topology
from bayplan.testing.builders import node, pod, pod_status, service

ZONE = "topology.kubernetes.io/zone"
SHARES = {"a": 0.5, "b": 0.5}


def machine(name: str, zone: str, cpu: str = "4", ready: str = "True", **labels: str) -> core_v1.Node:
    return node(name, cpu=cpu, conditions={"Ready": ready}, meta={"labels": {ZONE: zone, **labels} if zone else labels})


def endpoint(number: int, zone: str, hint: str = "", *, ready: bool = True) -> discovery_v1.Endpoint:
    return discovery_v1.Endpoint(
        addresses=(f"10.0.0.{number}",),
        conditions=discovery_v1.EndpointConditions(ready=ready),
        zone=zone or None,
        hints=discovery_v1.EndpointHints(for_zones=(discovery_v1.ForZone(name=hint),)) if hint else None,
    )


def slice_of(name: str, *endpoints: discovery_v1.Endpoint, family: str = "IPv4") -> discovery_v1.EndpointSlice:
    return discovery_v1.EndpointSlice(
        metadata=meta_v1.ObjectMeta(name=name), address_type=family, endpoints=endpoints, ports=()
    )


def in_zones(zones: str, hints: str = "") -> list[discovery_v1.Endpoint]:
    """One endpoint for each letter, with the hint at the same place; a dot is none."""
    given = hints or "." * len(zones)
    return [
        endpoint(number, zone.strip("."), hint.strip("."))
        for number, (zone, hint) in enumerate(zip(zones, given, strict=True))
    ]


def hints(slices: Sequence[discovery_v1.EndpointSlice]) -> str:
    """One letter for each endpoint."""
    return "".join(
        each.hints.for_zones[0].name if each.hints is not None else "." for one in slices for each in one.endpoints
    )


def created(zones: str, shares: dict[str, float] | None) -> topology.Hinted:
    return topology.hinted("IPv4", rules.Changes(create=[slice_of("new", *in_zones(zones))]), [], shares)


@pytest.mark.parametrize(
    ("nodes", "shares"),
    [
        pytest.param((machine("1", "a", "6"), machine("2", "b", "2")), {"a": 0.75, "b": 0.25}, id="by cpu"),
        pytest.param((machine("1", "a"), machine("2", "a")), None, id="one zone is none"),
        pytest.param((machine("1", "a"), machine("2", "b"), machine("3", "")), None, id="a node without zone"),
        pytest.param((machine("1", "a"), machine("2", "b"), machine("3", "b", "0")), None, id="a node without cpu"),
        pytest.param((machine("1", "a"), machine("2", "b", ready="False")), None, id="only ready nodes count"),
        pytest.param(
            (machine("1", "a"), machine("2", "b"), machine("3", "", **{"node-role.kubernetes.io/control-plane": ""})),
            SHARES,
            id="the control plane does not count",
        ),
        pytest.param((), None, id="no node"),
    ],
)
def test_zones_share_by_the_cpu_of_their_workers(
    nodes: Sequence[core_v1.Node], shares: dict[str, float] | None
) -> None:
    assert topology.zone_shares(nodes) == shares


def test_endpoints_serve_their_own_zone() -> None:
    found = created("abab", SHARES)
    assert (hints(found.create), found.problem) == ("abab", "")
    assert found.zones == {"a": 2, "b": 2}


def test_a_zone_with_too_many_gives_to_one_with_too_few() -> None:
    found = created("aaabbb", {"a": 0.75, "b": 0.25})
    assert Counter(hints(found.create)) == {"a": 4, "b": 2}
    assert hints(found.create)[:3] == "aaa"
    assert found.zones == {"a": 4, "b": 2}


def test_a_zone_without_endpoints_of_its_own_is_served_by_others() -> None:
    assert Counter(hints(created("aaaa", SHARES).create)) == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("zones", "shares", "problem"),
    [
        pytest.param(
            "ab",
            None,
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes",
            id="nodes",
        ),
        pytest.param("a", SHARES, "Insufficient number of endpoints (1 endpoints, 2 zones)", id="too few"),
        pytest.param(
            "abb",
            SHARES,
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
            " (3 endpoints, 2 zones)",
            id="overload",
        ),
        pytest.param("ab.b", SHARES, "One or more endpoints do not have a zone specified", id="no zone"),
    ],
)
def test_without_a_fair_allotment_there_are_no_hints(zones: str, shares: dict[str, float] | None, problem: str) -> None:
    known = slice_of("known", endpoint(9, "a", "a", ready=False))
    found = topology.hinted("IPv4", rules.Changes(create=[slice_of("new", *in_zones(zones))]), [known], shares)
    assert found.problem == problem
    assert found.zones == {}
    assert hints([*found.create, *found.update]) == "." * (len(zones) + 1)
    assert [one.metadata.name for one in found.update] == ["known"]


def test_a_slice_with_good_hints_is_not_written() -> None:
    found = topology.hinted("IPv4", rules.Changes(), [slice_of("known", *in_zones("abab", "abba"))], SHARES)
    assert (found.create, found.update) == ([], [])
    assert found.zones == {"a": 2, "b": 2}


def test_new_endpoints_make_up_for_what_unchanged_slices_lack() -> None:
    known = slice_of("known", *in_zones("aa", "aa"))
    new = slice_of("new", endpoint(8, "a"), endpoint(9, "a"))
    found = topology.hinted("IPv4", rules.Changes(create=[new]), [known], SHARES)
    assert (hints(found.create), found.update) == ("bb", [])


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("ab..", id="endpoints without hints"),
        pytest.param("abac", id="a zone that is none any more"),
        pytest.param("aaaa", id="too many for one zone"),
    ],
)
def test_a_slice_whose_hints_are_not_good_enough_gets_others(given: str) -> None:
    found = topology.hinted("IPv4", rules.Changes(), [slice_of("known", *in_zones("abab", given))], SHARES)
    assert hints(found.update) == "abab"


def test_an_endpoint_of_a_zone_without_nodes_is_written_once() -> None:
    first = created("abababc", SHARES)
    assert "c" in hints(first.create)
    assert topology.hinted("IPv4", rules.Changes(), first.create, SHARES).update == []


def test_only_ready_endpoints_have_hints_and_count() -> None:
    known = slice_of("known", *in_zones("ab"), endpoint(7, "a", "a", ready=False))
    found = topology.hinted("IPv4", rules.Changes(update=[known]), [], SHARES)
    assert hints(found.update) == "ab."


def test_each_address_type_is_on_its_own() -> None:
    four, six = slice_of("four", *in_zones("ab")), slice_of("six", *in_zones("aa"), family="IPv6")
    found = topology.hinted("IPv6", rules.Changes(create=[four, six]), [], SHARES)
    assert [one.metadata.name for one in found.create] == ["six"]
    assert Counter(hints(found.create)) == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("zones", "shares", "overloaded"),
    [
        pytest.param({"a": 2, "b": 2}, SHARES, False, id="fair"),
        pytest.param({"a": 3, "b": 1}, SHARES, True, id="a zone has too few"),
        pytest.param({"a": 2, "b": 2}, {**SHARES, "c": 0.1}, True, id="a new zone"),
        pytest.param({"a": 2, "b": 2}, None, True, id="nothing is known of nodes"),
        pytest.param({}, None, False, id="there were no hints"),
    ],
)
def test_hints_are_overloaded_when_a_zone_has_too_few(
    zones: dict[str, int], shares: dict[str, float] | None, overloaded: bool
) -> None:
    assert topology.is_overloaded(zones, shares) is overloaded


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({"service.kubernetes.io/topology-mode": "Auto"}, True),
        ({"service.kubernetes.io/topology-mode": "auto"}, True),
        ({"service.kubernetes.io/topology-mode": "Other"}, False),
        ({"service.kubernetes.io/topology-aware-hints": "auto"}, True),
        (
            {
                "service.kubernetes.io/topology-mode": "Auto",
                "service.kubernetes.io/topology-aware-hints": "Disabled",
            },
            False,
        ),
        ({}, False),
    ],
)
def test_annotations_ask_for_hints(annotations: dict[str, str], wanted: bool) -> None:
    one = service("web")
    one.metadata.annotations = annotations
    assert rules.by_topology(one) is wanted


def test_the_annotation_comes_before_the_traffic_distribution() -> None:
    one = service("web")
    one.spec.traffic_distribution = "PreferClose"
    status = pod_status(ip="10.0.0.1")
    where = machine("n", "a")
    plain = rules.endpoint_of(one, pod("p", node_name="n", status=status), where, "IPv4")
    one.metadata.annotations = {"service.kubernetes.io/topology-mode": "Auto"}
    by_topology = rules.endpoint_of(one, pod("p", node_name="n", status=status), where, "IPv4")
    assert plain is not None
    assert by_topology is not None
    assert (plain.hints is None, by_topology.hints) == (False, None)


def test_hints_in_slices_are_kept_until_they_are_thought_about() -> None:
    shape: rules.Shape = ("IPv4", ())
    kept = topology.keeping_hints({shape: in_zones("ab")}, [slice_of("known", *in_zones("ab", "ba"))])
    assert [each.hints.for_zones[0].name for each in kept[shape] if each.hints is not None] == ["b", "a"]
