"""Limits of priority levels: what follows from their objects, and from the demand."""

from __future__ import annotations

import pytest

from bayplan.api.types import flowcontrol_v1 as fc
from bayplan.api.types import meta_v1
from bayplan.apiserver.bootstrap.flow_control_table import flow_schemas, priority_levels
from bayplan.apiserver.flow_control.configuration import Configuration
from bayplan.apiserver.flow_control.demand import Demand
from bayplan.apiserver.flow_control.levels import Level, adjust, config_error
from bayplan.apiserver.flow_control.queues import Flow
from bayplan.apiserver.flow_control.work import ONE_SEAT
from bayplan.apiserver.request_info import parse_request_info
from bayplan.apiserver.requests import User

LISTING = parse_request_info("GET", "/api/v1/namespaces/a/pods", {})
ALICE = User("alice", ("system:authenticated",))
ADMIN = User("admin", ("system:masters", "system:authenticated"))


def level(name: str, shares: int, lendable: int = 0, borrowing: int | None = None) -> fc.PriorityLevelConfiguration:
    limited = fc.LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=shares,
        lendable_percent=lendable,
        borrowing_limit_percent=borrowing,
        limit_response=fc.LimitResponse(
            type="Queue", queuing=fc.QueuingConfiguration(queues=10, hand_size=2, queue_length_limit=10)
        ),
    )
    spec = fc.PriorityLevelConfigurationSpec(type="Limited", limited=limited)
    return fc.PriorityLevelConfiguration(metadata=meta_v1.ObjectMeta(name=name), spec=spec)


def schema(name: str, level_name: str, user: str = "alice") -> fc.FlowSchema:
    subject = fc.Subject(kind="User", user=fc.UserSubject(name=user))
    every = ("*",)
    resources = fc.ResourcePolicyRule(
        verbs=every, api_groups=every, resources=every, namespaces=every, cluster_scope=True
    )
    return fc.FlowSchema(
        metadata=meta_v1.ObjectMeta(name=name, uid=f"uid of {name}"),
        spec=fc.FlowSchemaSpec(
            priority_level_configuration=fc.PriorityLevelConfigurationReference(name=level_name),
            matching_precedence=100,
            distinguisher_method=fc.FlowDistinguisherMethod(type="ByUser"),
            rules=(fc.PolicyRulesWithSubjects(subjects=(subject,), resource_rules=(resources,)),),
        ),
    )


def bootstrapped(limit: int = 600) -> Configuration:
    configuration = Configuration(limit, 0.0)
    configuration.load(priority_levels(), flow_schemas(), 0.0)
    return configuration


def test_the_servers_limit_is_divided_by_shares() -> None:
    levels = bootstrapped().levels
    assert {name: (one.nominal, one.lowest, one.highest, one.most_seats) for name, one in levels.items()} == {
        "exempt": (0, 0, 600, 0),
        "catch-all": (13, 13, 613, 0),
        "system": (74, 50, 674, 12),
        "node-high": (98, 73, 698, 15),
        "leader-election": (25, 25, 625, 4),
        "workload-high": (98, 49, 698, 15),
        "workload-low": (245, 24, 845, 37),
        "global-default": (49, 24, 649, 8),
    }


def test_without_demand_what_is_lent_is_divided_among_all() -> None:
    levels = bootstrapped().levels
    assert sum(one.current for one in levels.values()) == pytest.approx(602, abs=4)
    assert all(one.lowest <= one.current <= one.highest for one in levels.values())
    assert levels["workload-high"].current > levels["workload-high"].nominal * 0.9


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param((50, 67), (33, 50), (16, 8), id="what may be lent is the limit"),
        pytest.param((50, 33), (67, 50), (16, 8), id="what may be borrowed is the limit"),
    ],
)
def test_levels_borrow_from_each_other(
    first: tuple[int, int], second: tuple[int, int], expected: tuple[int, int]
) -> None:
    """kube-apiserver's `borrowing_test.go`: 24 requests at a time of one level, 6 of the other, for 24 seats."""
    configuration = Configuration(24, 0.0)
    made = [level("one", 100, *first), level("two", 100, *second)]
    configuration.load(made, [schema("s1", "one", "u1"), schema("s2", "two", "u2")], 0.0)
    one, two = configuration.levels["one"], configuration.levels["two"]
    assert (one.nominal, two.nominal) == (12, 12)
    for name, count in (("u1", 24), ("u2", 6)):
        found = configuration.classify(LISTING, User(name))
        for _ in range(count):
            found.level.queue_set.start(0.0, ONE_SEAT, found)
    for second_number in range(1, 4):
        configuration.adjust(second_number * 10.0)
    assert (one.current, two.current) == pytest.approx(expected, abs=1)
    assert one.queue_set.limit == one.current


def test_a_level_that_uses_its_own_seats_does_not_lend_them() -> None:
    configuration = bootstrapped()
    found = configuration.classify(LISTING, ALICE)
    default = configuration.levels["global-default"]
    assert found.level is default
    for _ in range(200):
        default.queue_set.start(0.0, ONE_SEAT, found)
    configuration.adjust(10.0)
    assert default.current >= default.nominal
    assert default.demand.highest == 200


def test_demand_rises_at_once_and_falls_slowly() -> None:
    demand = Demand()
    demand.update({4: 5.0, 0: 5.0}, 4)
    assert (demand.average, demand.deviation, demand.highest, demand.smoothed) == (2.0, 2.0, 4, 4.0)
    demand.update({0: 10.0}, 0)
    assert demand.smoothed == pytest.approx(4.0 * 0.977)
    demand.update({}, 7)
    assert (demand.highest, demand.average) == (7, 0.0)


def test_exempt_requests_take_seats_from_what_is_divided() -> None:
    levels = [Level(config, 0.0) for config in (level("one", 10, 50), level("two", 10, 50))]
    exempt = Level(Configuration(10, 0.0).levels["exempt"].config, 0.0)
    for one in (*levels, exempt):
        one.configure(one.config, 0.0)
        one.divide(20, 20)
    found = Flow(exempt.flow_counts("exempt"))
    for _ in range(12):
        exempt.queue_set.start(0.0, ONE_SEAT, found)
    assert adjust([*levels, exempt], 10.0) == 0.0
    assert exempt.current == 12
    assert [one.current for one in levels] == [5, 5]


def test_a_schema_without_its_level_takes_nothing() -> None:
    configuration = bootstrapped()
    configuration.load(priority_levels(), [*flow_schemas(), schema("mine", "missing")], 0.0)
    assert configuration.classify(LISTING, ALICE).schema_name == "global-default"
    configuration.load([*priority_levels(), level("missing", 10)], [*flow_schemas(), schema("mine", "missing")], 0.0)
    found = configuration.classify(LISTING, ALICE)
    assert (found.schema_name, found.level.name, found.distinguisher) == ("mine", "missing", "alice")
    assert found.identity.headers["X-Kubernetes-Pf-Flowschema-Uid"] == "uid of mine"


def test_with_no_objects_at_all_there_are_two_levels() -> None:
    configuration = Configuration(600, 0.0)
    assert configuration.classify(LISTING, ALICE).level.name == "catch-all"
    assert configuration.classify(LISTING, ADMIN).level.name == "exempt"
    assert configuration.classify(LISTING, User("x")).schema_name == "catch-all"
    assert configuration.levels["catch-all"].current == 600


def test_a_level_whose_object_is_gone_ends_with_its_last_request() -> None:
    configuration = Configuration(600, 0.0)
    configuration.load([level("mine", 10)], [schema("s", "mine")], 0.0)
    found = configuration.classify(LISTING, ALICE)
    ticket = found.level.queue_set.start(1.0, ONE_SEAT, found)
    configuration.load([], [schema("s", "mine")], 2.0)
    assert configuration.levels["mine"].is_quiescing
    assert configuration.classify(LISTING, ALICE).level.name == "catch-all"
    configuration.forget_idle(2.0)
    assert "mine" in configuration.levels
    found.level.queue_set.finish(3.0, ticket)
    configuration.forget_idle(3.0)
    assert "mine" not in configuration.levels


def test_a_level_that_comes_back_keeps_its_requests() -> None:
    configuration = Configuration(600, 0.0)
    configuration.load([level("mine", 10)], [schema("s", "mine")], 0.0)
    found = configuration.classify(LISTING, ALICE)
    found.level.queue_set.start(1.0, ONE_SEAT, found)
    configuration.load([], [], 2.0)
    configuration.load([level("mine", 20)], [schema("s", "mine")], 3.0)
    again = configuration.levels["mine"]
    assert again is found.level
    assert (again.is_quiescing, again.queue_set.executing) == (False, 1)


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("mine", {}, ""),
        ("mine", {"type": "Exempt"}, "broken union structure at the top, for Limited"),
        ("mine", {"limited": None}, "broken union structure at the top, for Limited"),
        ("mine", {"exempt": fc.ExemptPriorityLevelConfiguration()}, "broken union structure at the top, for Exempt"),
        ("exempt", {}, "non-alignment between name and type"),
    ],
)
def test_objects_that_make_no_level_are_ignored(name: str, change: dict[str, object], error: str) -> None:
    config = level(name, 10)
    for field, value in change.items():
        setattr(config.spec, field, value)
    assert config_error(config) == error
    configuration = Configuration(600, 0.0)
    configuration.load([config], [schema("s", name)], 0.0)
    assert configuration.classify(LISTING, ALICE).level.name == (
        "mine" if not error else "exempt" if name == "exempt" else "catch-all"
    )


def test_only_so_many_sorts_of_requests_are_remembered() -> None:
    configuration = bootstrapped()
    for number in range(10_000):
        configuration.classify(LISTING, User(f"user-{number}", ("system:authenticated",)))
    assert len(configuration._known) <= 4096
