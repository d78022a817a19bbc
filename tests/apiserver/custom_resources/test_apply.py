"""Server-side apply of custom objects: lists and maps as the schema says."""

from __future__ import annotations

from typing import Any

from tests.apiserver.custom_resources.things import (
    APPLY,
    OPEN,
    Answer,
    Door,
    Tree,
    definition,
    path,
    serving,
    structure,
    thing,
    version,
)

ITEMS = {
    "type": "object",
    "required": ["k"],
    "properties": {"k": {"type": "string"}, "p": {"type": "string", "default": "TCP"}, "v": {"type": "string"}},
}  # fmt: skip
KEYED = {"type": "array", "items": ITEMS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"]}
SINGLE = {**KEYED, "x-kubernetes-list-map-keys": ["k"]}
SET = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
PLAIN = {"type": "array", "items": {"type": "string"}}
ATOMIC = {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}}
MAP = {"type": "object", "additionalProperties": {"type": "string"}}
SCHEMA = structure(keyed=KEYED, single=SINGLE, some=SET, plain=PLAIN, atomic=ATOMIC, map=MAP, open=OPEN)


async def apply(door: Door, manager: str, *, force: str = "false", **spec: Any) -> Answer:
    """Apply an object with this spec."""
    return await door.patch(path("x", fieldManager=manager, force=force), thing(spec=spec), APPLY)


def applying(test: Any) -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version(schema=SCHEMA)))
        await test(door)

    serving(scenario)


def test_managers_share_lists_under_keys_sets_and_maps() -> None:
    async def scenario(door: Door) -> None:
        made = await apply(door, "one", keyed=[{"k": "a", "v": "1"}], some=["a"], map={"a": "1"}, open={"a": {"x": 1}})
        assert made.code == 201
        assert made.tree["spec"]["keyed"] == [{"k": "a", "p": "TCP", "v": "1"}]
        both = await apply(
            door, "two", keyed=[{"k": "a", "p": "UDP", "v": "2"}], some=["b"], map={"b": "2"}, open={"a": {"y": 2}}
        )
        assert both.tree["spec"] == {
            "keyed": [{"k": "a", "p": "TCP", "v": "1"}, {"k": "a", "p": "UDP", "v": "2"}],
            "some": ["a", "b"],
            "map": {"a": "1", "b": "2"},
            "open": {"a": {"x": 1, "y": 2}},
        }
        left = await apply(door, "one", keyed=[], some=[], map={})
        assert left.tree["spec"]["keyed"] == [{"k": "a", "p": "UDP", "v": "2"}]
        assert (left.tree["spec"]["some"], left.tree["spec"]["map"]) == (["b"], {"b": "2"})
        assert left.tree["spec"]["open"] == {"a": {"y": 2}}

    applying(scenario)


def test_other_lists_and_atomic_maps_belong_to_one() -> None:
    async def scenario(door: Door) -> None:
        await apply(door, "one", plain=["a"], atomic={"a": "1"})
        for spec, field in (({"plain": ["b"]}, ".spec.plain"), ({"atomic": {"b": "2"}}, ".spec.atomic")):
            refused = await apply(door, "two", **spec)
            assert refused.code == 409
            (cause,) = refused.tree["details"]["causes"]
            assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", field)
        forced = await apply(door, "two", force="true", plain=["b"], atomic={"b": "2"})
        assert forced.tree["spec"] == {"plain": ["b"], "atomic": {"b": "2"}}

    applying(scenario)


def test_conflicts_name_the_item() -> None:
    async def scenario(door: Door) -> None:
        await apply(door, "one", keyed=[{"k": "a", "v": "1"}])
        refused = await apply(door, "two", keyed=[{"k": "a", "v": "2"}])
        (cause,) = refused.tree["details"]["causes"]
        assert cause["field"] == '.spec.keyed[k="a",p="TCP"].v'

    applying(scenario)


def test_what_does_not_fit_the_schema_is_refused() -> None:
    async def scenario(door: Door) -> None:
        cases: tuple[tuple[Tree, str], ...] = (
            ({"single": [{"v": "1"}]}, "omits all key fields"),
            ({"keyed": [{"k": "a"}, {"k": "a"}]}, "duplicate entries for key"),
            ({"unknown": 1}, ".spec.unknown: field not declared in schema"),
            ({"map": []}, ".spec.map: expected map, got"),
        )
        for spec, text in cases:
            answer = await apply(door, "one", **spec)
            assert (answer.code, text in answer.message) == (500, True), answer.message
        assert (await door.get(path("x"))).code == 404
        refused = await door.send("POST", path(fieldManager="one"), thing("y", spec={"keyed": [{"v": "1"}]}))
        assert (refused.code, "spec.keyed[0].k: Required value" in refused.message) == (422, True)

    applying(scenario)


def test_an_apply_needs_a_name_for_its_manager_and_the_type_of_the_object() -> None:
    async def scenario(door: Door) -> None:
        nameless = await door.patch(path("x"), thing(), APPLY)
        assert (nameless.code, "fieldManager: Required value" in nameless.message) == (422, True)
        untyped = {"metadata": {"name": "x"}}
        assert (await door.patch(path("x", fieldManager="one"), untyped, APPLY)).code == 400
        dry = await door.patch(path("x", fieldManager="one", dryRun="All"), thing(), APPLY)
        assert dry.code == 201
        assert (await door.get(path("x"))).code == 404

    applying(scenario)


def test_minus_zero_is_zero_as_in_yaml() -> None:
    async def test(door: Door) -> None:
        await door.define(definition(version(schema=SCHEMA)))
        given = thing(spec={"open": {"n": -0.0, "more": [-0.0, -0.5]}})
        answer = await door.patch(path("x", fieldManager="a", dryRun="All"), given, APPLY)
        assert str(answer.tree["spec"]["open"]) == "{'more': [0, -0.5], 'n': 0}"

    serving(test)
