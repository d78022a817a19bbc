"""Flow schemas and priority levels."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api import codec
from bayplan.api.strategies.base import clone
from bayplan.api.strategies.flowcontrol.flowschemas import STRATEGY as SCHEMAS
from bayplan.api.strategies.flowcontrol.prioritylevelconfigurations import STRATEGY as LEVELS
from bayplan.api.types import flowcontrol_v1, meta_v1
from bayplan.apiserver.bootstrap.flow_control_table import flow_schemas, priority_levels
from tests.api.validation.pods import told


def test_what_the_server_publishes_is_valid_and_the_mandatory_ones_are_fixed() -> None:
    for schema in flow_schemas():
        assert told(SCHEMAS.validate(schema)) == []
    for level in priority_levels():
        assert told(LEVELS.validate(level)) == []


def test_mandatory_objects_cannot_be_changed() -> None:
    schema = clone(next(one for one in flow_schemas() if one.metadata.name == "catch-all"))
    schema.spec = msgspec.structs.replace(schema.spec, matching_precedence=9999)
    assert told(SCHEMAS.validate(schema)) == ["spec INVALID"]
    level = clone(next(one for one in priority_levels() if one.metadata.name == "catch-all"))
    level.spec.limited.lendable_percent = 5
    assert told(LEVELS.validate(level)) == ["spec INVALID"]
    exempt = clone(next(one for one in priority_levels() if one.metadata.name == "exempt"))
    exempt.spec.exempt.lendable_percent = 5
    assert told(LEVELS.validate(exempt)) == []


def rule(**more: Any) -> dict[str, Any]:
    resource = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"], **more}
    return {"subjects": [{"kind": "User", "user": {"name": "u"}}], "resourceRules": [resource]}


def urls(*paths: str, verbs: tuple[str, ...] = ("get",)) -> dict[str, Any]:
    return {
        "subjects": [{"kind": "User", "user": {"name": "u"}}],
        "nonResourceRules": [{"verbs": list(verbs), "nonResourceURLs": list(paths)}],
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (rule(), []),
        (rule(namespaces=["*", "a"]), ["spec.rules[0].resourceRules[0].namespaces INVALID"]),
        (rule(namespaces=["A"]), ["spec.rules[0].resourceRules[0].namespaces[0] INVALID"]),
        (rule(verbs=["post"]), ["spec.rules[0].resourceRules[0].verbs NOT_SUPPORTED"]),
        (rule(verbs=["*"]), []),
        (urls("*"), []),
        (urls("*", "/a"), ["spec.rules[0].nonResourceRules[0].nonResourceURLs INVALID"]),
        (urls("/a/*", "/"), []),
        (urls("/a*"), ["spec.rules[0].nonResourceRules[0].nonResourceURLs[0] INVALID"]),
    ],
)
def test_rules_of_schemas(given: dict[str, Any], expected: list[str]) -> None:
    tree = {"metadata": {"name": "s"}, "spec": {"priorityLevelConfiguration": {"name": "l"}, "rules": [given]}}
    schema = codec.from_tree(flowcontrol_v1.FlowSchema, tree)
    SCHEMAS.default(schema)
    assert told(SCHEMAS.validate(schema)) == expected


def test_a_hand_is_dealt_from_sixty_bits() -> None:
    def level(queues: int, hand: int) -> list[str]:
        queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 5}
        limited = {"limitResponse": {"type": "Queue", "queuing": queuing}}
        tree = {"metadata": {"name": "l"}, "spec": {"type": "Limited", "limited": limited}}
        made = codec.from_tree(flowcontrol_v1.PriorityLevelConfiguration, tree)
        LEVELS.default(made)
        return told(LEVELS.validate(made))

    assert level(64, 10) == []
    assert level(64, 11) == ["spec.limited.limitResponse.queuing.handSize INVALID"]


@pytest.mark.parametrize(("precedence", "wrong"), [(-1, 1), (0, 1), (2, 0), (10000, 0), (10001, 1)])
def test_precedence_is_positive_and_10000_at_most(precedence: int, wrong: int) -> None:
    made = flowcontrol_v1.FlowSchema(spec=flowcontrol_v1.FlowSchemaSpec(matching_precedence=precedence))
    fields = [error.field for error in SCHEMAS.validate(made)]
    assert fields.count("spec.matchingPrecedence") == wrong


@pytest.mark.parametrize(
    ("limit", "queues", "hand", "wrong"),
    [
        (1, 1, 1, []),
        (0, 1, 1, ["queueLengthLimit"]),
        (1, 0, 1, ["queues", "handSize"]),
        (1, 1, 0, ["handSize"]),
        (1, 0, 0, ["queues", "handSize"]),
        (-1, -1, -1, ["queueLengthLimit", "queues", "handSize"]),
        (1, 10_000_000, 2, []),
        (1, 10_000_001, 1, ["queues"]),
        (1, 2, 3, ["handSize"]),
        (1, 1024, 6, []),
        (1, 1024, 7, ["handSize"]),
    ],
)
def test_queues_and_hands(limit: int, queues: int, hand: int, wrong: list[str]) -> None:
    queuing = flowcontrol_v1.QueuingConfiguration(queue_length_limit=limit, queues=queues, hand_size=hand)
    response = flowcontrol_v1.LimitResponse(type="Queue", queuing=queuing)
    limited = flowcontrol_v1.LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=1, lendable_percent=0, limit_response=response
    )
    made = flowcontrol_v1.PriorityLevelConfiguration(
        metadata=meta_v1.ObjectMeta(name="p"),
        spec=flowcontrol_v1.PriorityLevelConfigurationSpec(type="Limited", limited=limited),
    )
    fields = [error.field.rpartition(".")[2] for error in LEVELS.validate(made)]
    assert fields == wrong


@pytest.mark.parametrize(("shares", "percent", "expected"), [(None, None, (0, 0)), (3, None, (3, 0)), (0, 4, (0, 4))])
def test_exempt_levels_have_no_shares_unless_they_say_otherwise(
    shares: int | None, percent: int | None, expected: tuple[int, int]
) -> None:
    exempt = flowcontrol_v1.ExemptPriorityLevelConfiguration(
        nominal_concurrency_shares=shares, lendable_percent=percent
    )
    made = flowcontrol_v1.PriorityLevelConfiguration(
        spec=flowcontrol_v1.PriorityLevelConfigurationSpec(type="Exempt", exempt=exempt)
    )
    LEVELS.default(made)
    assert (exempt.nominal_concurrency_shares, exempt.lendable_percent) == expected
