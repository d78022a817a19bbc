"""Rules as a part of what is asked of custom resources."""

from __future__ import annotations

from typing import Any

from bayplan.api.custom_resources.objects import CustomObject, class_of
from bayplan.api.custom_resources.strategy import CustomStrategy, Subresources
from bayplan.api.types import meta_v1

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [{"rule": "self.low <= self.high", "message": "low over high"}],
            "required": ["low"],
            "properties": {
                "low": {"type": "integer"},
                "high": {"type": "integer"},
                "name": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self.startsWith('a')", "message": "m"}],
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"seen": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}},
        },
    },
}


def strategy() -> CustomStrategy:
    return CustomStrategy("example.com/v1", "Thing", SCHEMA, Subresources(status=True), {}, {})


def thing(spec: dict[str, Any], **status: Any) -> CustomObject:
    cls = class_of(None, "Thing", SCHEMA, keeps_unknown_fields=False)
    content = {"spec": spec, **({"status": status} if status else {})}
    return cls("Thing", "example.com/v1", meta_v1.ObjectMeta(name="one"), content)


def test_rules_are_checked_on_creation() -> None:
    [error] = strategy().validate_create(thing({"low": 2, "high": 1}))
    assert str(error) == "spec: Invalid value: low over high"
    assert strategy().validate_create(thing({"low": 1, "high": 1})) == []


def test_rules_are_not_looked_at_while_the_schema_is_not_met() -> None:
    errors = strategy().validate_create(thing({"high": 1, "name": "b"}))
    assert [str(error) for error in errors[1:]] == [
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
        "errors to complete validation"
    ]


def test_unchanged_violations_become_warnings() -> None:
    rules = strategy()
    old, new = thing({"low": 1, "high": 1, "name": "b"}), thing({"low": 1, "high": 2, "name": "b"})
    assert rules.validate_update(new, old) == []
    assert rules.warnings(new, old) == ['spec.name: Invalid value: "b": m']
    assert strategy().warnings(new, old) == ['spec.name: Invalid value: "b": m']
    assert rules.warnings(thing({"low": 1, "high": 1}), old) == []


def test_rules_about_the_status_are_checked_when_it_changes() -> None:
    old, new = thing({"low": 1, "high": 1}, seen=2), thing({"low": 1, "high": 1}, seen=1)
    [error] = strategy().validate_status_update(new, old)
    assert str(error) == "status.seen: Invalid value: 1: failed rule: self >= oldSelf"
    assert strategy().validate_status_update(old, old) == []
