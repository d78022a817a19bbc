"""Field errors in Kubernetes' words."""

from __future__ import annotations

from bayplan.api.errors import MAX_ERROR_BYTES, Deferred, invalid, invalid_object, show_value, too_many, unsupported
from bayplan.api.types import core_v1
from bayplan.api.validation.go_structs import go_struct


def test_too_many_says_how_many_there_are() -> None:
    assert str(too_many("spec.rules", 21, 20)) == "spec.rules: Too many: 21: must have at most 20 items"


def test_the_supported_values_keep_their_order() -> None:
    assert unsupported("a", "x", ("b", "a")).body == 'Unsupported value: "x": supported values: "b", "a"'


def test_maps_are_sorted_and_structs_keep_their_order() -> None:
    assert show_value({"b": 1, "a": {"d": 1, "c": 2}}) == '{"a":{"c":2,"d":1},"b":1}'
    assert show_value(go_struct(core_v1.Taint(key="k", effect="NoSchedule"))) == (
        '{"Key":"k","Value":"","Effect":"NoSchedule","TimeAdded":null}'
    )


def test_equal_objects_of_a_list_are_shown_as_each_alone() -> None:
    taints = [core_v1.Taint(key=f"k{one % 3}", effect="NoSchedule", value="<") for one in range(7)]
    expected = ",".join(show_value(go_struct(taint)) for taint in taints)
    assert show_value(go_struct(tuple(taints))) == f"[{expected}]"
    assert show_value(go_struct([*taints, "text", None, []])) == f'[{expected},"text",null,null]'


def test_values_are_worked_out_for_errors_that_are_told() -> None:
    made: list[str] = []

    def make(name: str, length: int) -> Deferred:
        def work() -> str:
            made.append(name)
            return name * length

        return Deferred(work)

    errors = [invalid("f", make("a", 3), "no"), invalid("f", make("b", MAX_ERROR_BYTES // 2), "no")]
    errors += [invalid("f", make("c", 1), "no"), invalid("f", make("d", 1), "no")]
    status = invalid_object("Pod", "", "p", errors).status
    assert status.details is not None
    assert [cause.message[:19] for cause in status.details.causes] == ['Invalid value: "aaa']
    assert status.message == 'Pod "p" is invalid: [f: Invalid value: "aaa": no, and 3 more]'
    assert made == ["a", "b"]
    status = invalid_object("Pod", "", "p", errors[1:]).status
    assert status.message.endswith(": no, and 2 more]")
    assert made == ["a", "b", "b"]


def test_values_are_shown_as_go_prints_them() -> None:
    assert [show_value(one) for one in (None, True, 3, 3.0, 1e6, 0.5)] == ["null", "true", "3", "3", "1e+06", "0.5"]
    assert show_value('a\x01"') == r'"a\x01\""'
    assert show_value({"a": "<b>"}) == r'{"a":"\u003cb\u003e"}'
    assert unsupported("a", "x", ('b"',)).body == r'Unsupported value: "x": supported values: "b\""'
