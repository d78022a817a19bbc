"""What changed between two objects is the same whether structs are compared or the JSON trees they stand for."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import msgspec
import pytest

from bayplan.api.codec import decode, encode, to_tree
from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.api.managedfields.compare import Comparison, compare
from bayplan.api.managedfields.fieldset import union
from bayplan.api.managedfields.typed import TypedError
from bayplan.api.schema import definition_of
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.managed_fields.diff import compare_objects, fields_of, type_of
from bayplan.apiserver.managed_fields.object_parts import METADATA, parts_of
from tests.api.random_objects import Objects

KINDS = [kind for kind in DEFAULT_KINDS if kind.type is not None and kind.is_stored]
OWNED = {part.wire for part in parts_of(meta_v1.ObjectMeta, METADATA)}


def changed(tree: Any, other: Any, chance: random.Random) -> Any:
    """A tree with some of its parts, at any depth, as in another one."""
    if isinstance(tree, list) and isinstance(other, list) and chance.random() < 0.7:
        mixed = [same_item(one, changed(one, another, chance)) for one, another in zip(tree, other, strict=False)]
        rest = tree[len(other) :] or other[len(tree) :]
        return mixed + (rest if chance.random() < 0.5 else [])
    if not isinstance(tree, dict) or not isinstance(other, dict):
        return other if chance.random() < 0.5 else tree
    made = {}
    for name in dict.fromkeys((*tree, *other)):
        draw = chance.random()
        if name in tree and name in other and draw < 0.7:
            made[name] = changed(tree[name], other[name], chance)
        elif name in tree and draw < 0.9:
            made[name] = tree[name]
        elif name in other:
            made[name] = other[name]
    return made


def same_item(item: Any, changed_item: Any) -> Any:
    """A changed item of a list that is still the same one: what tells items apart stays as it was."""
    if not isinstance(item, dict) or not isinstance(changed_item, dict):
        return changed_item
    return {**changed_item, **{name: item[name] for name in ("ip", "key", "name", "type", "uid") if name in item}}


def of_trees(old: Any, new: Any) -> Comparison:
    """The comparison by the JSON of two objects."""
    cls: Any = type(new)
    return compare(owned_tree(old), owned_tree(new), type_of(cls))


def owned_tree(obj: Any) -> Any:
    """The JSON of an object, as far as somebody can own it."""
    tree = {name: value for name, value in to_tree(obj).items() if name not in ("kind", "apiVersion")}
    tree["metadata"] = {name: value for name, value in tree["metadata"].items() if name in OWNED}
    return tree


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}/{kind.kind}")
def test_structs_and_trees_differ_in_the_same_fields(kind: Kind) -> None:
    definition = definition_of(kind.type)
    compared = 0
    for seed in range(12):
        chance = random.Random(seed)
        tree = Objects(seed).tree(definition)
        tree.setdefault("metadata", {})
        old = decode(kind.type, encode(tree))
        new = decode(kind.type, encode(changed(tree, Objects(seed + 1000).tree(definition), chance)))
        with contextlib.suppress(TypedError):  # chance has made a list whose items lack their keys
            assert compare_objects(old, new) == of_trees(old, new)
            compared += 1
    assert compared


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}/{kind.kind}")
def test_new_objects_set_what_makes_them_differ_from_empty_ones(kind: Kind) -> None:
    listed = 0
    for seed in range(12):
        new = decode(kind.type, encode(Objects(seed).tree(definition_of(kind.type))))
        new.metadata.deletion_grace_period_seconds = new.metadata.deletion_grace_period_seconds or None
        try:
            removed, modified, added = of_trees(kind.type(), new)
            below, fields = fields_of(new)
        except TypedError:
            continue  # chance has made a list whose items lack their keys
        expected = union(modified, added)
        nodes = {key: known.node for key, known in fields.items()}
        if below:
            nodes["f:metadata"] = {key: known.node for key, known in below.items()}
        assert (removed, nodes) == ({}, expected)
        for key, known in {**below, **fields}.items():
            assert msgspec.json.decode(b"{%b}" % known.stored) == {key: known.node}
        listed += 1
    assert listed


def pod_tree(chance: random.Random) -> dict[str, Any]:
    """A pod as kubelets and users write it: lists whose items names tell apart, which come, go and change."""

    def some(*names: str) -> list[str]:
        return chance.sample(names, chance.randint(0, len(names)))

    statuses = [
        {"name": name, "restartCount": chance.randint(0, 1), "ready": chance.random() < 0.5, "image": "", "imageID": ""}
        | chance.choice(({}, {"state": {"running": {}}}, {"state": {"waiting": {"reason": chance.choice("ab")}}}))
        | chance.choice(({}, {"resources": {"requests": {"cpu": chance.choice("12")}}}, {"started": True}))
        for name in some("a", "b")
    ]
    conditions = [
        {"type": name, "status": chance.choice(("True", "False"))}
        | chance.choice(({}, {"message": chance.choice("xy")}, {"lastTransitionTime": "2026-01-01T00:00:00Z"}))
        for name in some("Ready", "Initialized", "PodScheduled")
    ]
    containers = [
        {"name": name, "image": chance.choice("pq")}
        | chance.choice(({}, {"env": [{"name": one, "value": chance.choice("uv")} for one in some("A", "B")]}))
        | chance.choice(({}, {"ports": [{"containerPort": int(one)} for one in some("80", "81")]}))
        for name in some("a", "b", "c") or ["a"]
    ]
    return {
        "metadata": {
            "name": "p",
            "ownerReferences": [{"uid": uid, "name": chance.choice("mn")} for uid in some("1", "2")],
        },
        "spec": {"containers": containers, "tolerations": [{"key": one} for one in some("k", "l")]},
        "status": {
            "conditions": conditions,
            "containerStatuses": statuses,
            "podIPs": [{"ip": one} for one in some("1.1.1.1", "::1")],
        },
    }


def test_items_of_lists_differ_as_their_trees_do() -> None:
    chance = random.Random(7)
    for _ in range(500):
        old, new = (decode(core_v1.Pod, encode(pod_tree(chance))) for _ in range(2))
        assert compare_objects(old, new) == of_trees(old, new)
