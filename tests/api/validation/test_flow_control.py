"""Flow schemas and priority levels."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api import codec
from bayplan.api.strategies.base import clone
from bayplan.api.strategies.flowcontrol.flowschemas import STRATEGY as SCHEMAS
from bayplan.api.strategies.flowcontrol.prioritylevelconfigurations import STRATEGY as LEVELS
from bayplan.api.types import flowcontrol_v1
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
