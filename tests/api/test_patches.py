"""JSON, merge and strategic merge patches, with Kubernetes' own departures from the RFCs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bayplan.api.patching.json_patches import (
    MAX_OPERATIONS,
    FailedTest,
    PatchError,
    apply_json_patch,
    apply_merge_patch,
)
from bayplan.api.patching.strategic_leftovers import left_of
from bayplan.api.patching.strategic_patch import apply_strategic_patch
from tests.cpu_time import cpu_time_below

POD = "io.k8s.api.core.v1.Pod"


def containers(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more} for name in names]


def spec(*names: str, **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": containers(*names, **more)}}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param({"op": "add", "path": "/a/x", "value": 1}, {"a": {"x": 1}, "l": [1, 2]}, id="add a member"),
        pytest.param({"op": "add", "path": "/l/-", "value": 3}, {"a": {}, "l": [1, 2, 3]}, id="append"),
        pytest.param({"op": "add", "path": "/l/0", "value": 0}, {"a": {}, "l": [0, 1, 2]}, id="insert"),
        pytest.param({"op": "remove", "path": "/l/-1"}, {"a": {}, "l": [1]}, id="a negative index counts from the end"),
        pytest.param(
            {"op": "replace", "path": "/new", "value": 1},
            {"a": {}, "l": [1, 2], "new": 1},
            id="replace what is missing",
        ),
        pytest.param({"op": "move", "from": "/l", "path": "/m"}, {"a": {}, "m": [1, 2]}, id="move"),
        pytest.param({"op": "copy", "from": "/a", "path": "/b"}, {"a": {}, "l": [1, 2], "b": {}}, id="copy"),
        pytest.param({"op": "test", "path": "/l/1", "value": 2}, {"a": {}, "l": [1, 2]}, id="a test that holds"),
        pytest.param({"op": "add", "path": "/a~1b~0c", "value": 1}, {"a": {}, "l": [1, 2], "a/b~c": 1}, id="escapes"),
    ],
)
def test_json_patch(operation: dict[str, Any], expected: Any) -> None:
    tree = {"a": {}, "l": [1, 2]}
    assert apply_json_patch(tree, [operation]) == expected
    assert tree == {"a": {}, "l": [1, 2]}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nosuch"},
        {"op": "test", "path": "/l/0", "value": 9},
        {"op": "add", "path": "/l/7", "value": 9},
        {"op": "add", "path": "/nosuch/x", "value": 9},
        {"op": "nosuch", "path": "/a"},
        {"op": "add", "path": "a", "value": 9},
        {"op": "add", "path": "", "value": {}},
        {"op": "replace", "path": "", "value": 1},
        {"op": "test", "path": "", "value": {}},
    ],
)
def test_a_json_patch_that_cannot_be_applied(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchError) as caught:
        apply_json_patch({"a": {}, "l": [1, 2]}, [operation])
    assert caught.value.code == 422


@pytest.mark.parametrize(
    ("operation", "detail"),
    [
        ({"op": "foo", "path": "/a"}, "Unexpected kind: foo"),
        (
            {"op": "add", "path": "/n/x", "value": 1},
            'add operation does not apply: doc is missing path: "/n/x": missing value',
        ),
        (
            {"op": "add", "path": "x", "value": 1},
            'add operation does not apply: doc is missing path: "x": missing value',
        ),
        (
            {"op": "add", "path": "/l/x", "value": 1},
            "error in add for path: '/l/x': value was not a proper array index: 'x': "
            'strconv.Atoi: parsing "x": invalid syntax',
        ),
        (
            {"op": "add", "path": "/l/9", "value": 1},
            "error in add for path: '/l/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            {"op": "replace", "path": "/n/x", "value": 1},
            "replace operation does not apply: doc is missing path: /n/x: missing value",
        ),
        (
            {"op": "replace", "path": "/l/9", "value": 1},
            "replace operation does not apply: doc is missing key: /l/9: missing value",
        ),
        (
            {"op": "replace", "path": "", "value": 1},
            "replace operation value must be object or array: %!w(<nil>)",
        ),
        (
            {"op": "remove", "path": "/n"},
            "error in remove for path: '/n': Unable to remove nonexistent key: n: missing value",
        ),
        (
            {"op": "remove", "path": "/l/x"},
            "error in remove for path: '/l/x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            {"op": "test", "path": "/n/x", "value": 1},
            "test operation does not apply: is missing path: /n/x: missing value",
        ),
        (
            {"op": "test", "path": "/l/x", "value": 1},
            "error in test for path: '/l/x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            {"op": "move", "path": "/a"},
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
    ],
)
def test_what_is_wrong_with_an_operation(operation: dict[str, Any], detail: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply_json_patch({"a": {}, "l": [1, 2]}, [operation])
    assert caught.value.detail == detail
    assert not isinstance(caught.value, FailedTest)


@pytest.mark.parametrize("path", ["/a/x", "/l/1", ""])
def test_a_test_that_finds_another_value_fails(path: str) -> None:
    with pytest.raises(FailedTest):
        apply_json_patch({"a": {}, "l": [1, 2]}, [{"op": "test", "path": path, "value": 1}])


def test_a_json_patch_has_a_limit() -> None:
    operation = {"op": "test", "path": "/a", "value": 1}
    with pytest.raises(PatchError) as caught:
        apply_json_patch({"a": 1}, [operation] * (MAX_OPERATIONS + 1))
    assert caught.value.code == 413


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"a": None}, {"b": {"c": 1, "d": 2}}),
        ({"b": {"c": None}}, {"a": 1, "b": {"d": 2}}),
        ({"b": [1]}, {"a": 1, "b": [1]}),
        ({"new": {"x": None, "y": 1}}, {"a": 1, "b": {"c": 1, "d": 2}, "new": {"y": 1}}),
        ({"new": [{"x": None, "y": [{"z": None}]}, None]}, {"a": 1, "b": {"c": 1, "d": 2}, "new": [{"y": [{}]}, None]}),
        ({"a": [{"x": None}]}, {"a": [{}], "b": {"c": 1, "d": 2}}),
        ({"b": [{"x": None}]}, {"a": 1, "b": [{"x": None}]}),
    ],
)
def test_merge_patch(patch: Any, expected: Any) -> None:
    assert apply_merge_patch({"a": 1, "b": {"c": 1, "d": 2}}, patch) == expected


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param(
            spec("b", image="new"), [{"name": "a"}, {"name": "b", "image": "new"}], id="items are merged by their key"
        ),
        pytest.param(
            spec("c"), containers("c", "a", "b"), id="a new item stands before those that the patch does not name"
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
            containers("b"),
            id="an item is deleted by a directive",
        ),
        pytest.param(
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}},
            containers("z"),
            id="the list is replaced by a directive",
        ),
        pytest.param(
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
            containers("b", "a"),
            id="the order is given",
        ),
        pytest.param(
            {"spec": {"$patch": "replace", "containers": containers("z")}}, containers("z"), id="the map is replaced"
        ),
    ],
)
def test_strategic_patch_of_containers(patch: Any, expected: Any) -> None:
    assert apply_strategic_patch(spec("a", "b"), patch, POD)["spec"]["containers"] == expected


def test_a_strategic_patch_of_a_plain_list_replaces_it() -> None:
    tree = {"spec": {"containers": [{"name": "a", "args": ["x", "y"]}]}}
    patched = apply_strategic_patch(tree, {"spec": {"containers": [{"name": "a", "args": ["z"]}]}}, POD)
    assert patched["spec"]["containers"] == [{"name": "a", "args": ["z"]}]


def test_finalizers_are_a_set_from_which_single_ones_are_deleted() -> None:
    tree = {"metadata": {"finalizers": ["a", "b"]}}
    assert sorted(
        apply_strategic_patch(tree, {"metadata": {"finalizers": ["c", "a"]}}, POD)["metadata"]["finalizers"]
    ) == ["a", "b", "c"]
    patched = apply_strategic_patch(tree, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, POD)
    assert patched["metadata"]["finalizers"] == ["b"]


def test_an_operation_without_a_value_sets_null() -> None:
    assert apply_json_patch({"a": 1}, [{"op": "add", "path": "/a"}]) == {"a": None}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"$patch": "replace", "kind": "Pod"}, {"kind": "Pod"}, id="the whole object is replaced"),
        pytest.param({"spec": {"nodeSelector": {"$patch": "delete"}}}, {}, id="a map is emptied by a directive"),
        pytest.param(
            {"metadata": {"labels": {"$patch": "replace", "a": "b"}}},
            None,
            id="a directive about a map that is not there takes the map along",
        ),
        pytest.param({"spec": {"nodeSelector": {"a": None, "b": "c"}}}, {"b": "c"}, id="null removes a key"),
        pytest.param(
            {"spec": {"$retainKeys": ["nodeSelector"], "nodeSelector": {"b": "c"}}},
            {"a": "b", "b": "c"},
            id="what is not retained goes",
        ),
    ],
)
def test_directives_of_maps(patch: Any, expected: Any) -> None:
    tree = {"metadata": {}, "spec": {"nodeSelector": {"a": "b"}, "hostNetwork": True}}
    patched = apply_strategic_patch(tree, patch, POD)
    if "$patch" in patch:
        assert patched == expected
    elif "metadata" in patch:
        assert patched["metadata"].get("labels") == expected
    else:
        assert patched["spec"]["nodeSelector"] == expected
        assert patched["spec"].get("hostNetwork") is (None if "$retainKeys" in patch["spec"] else True)


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (
            {"spec": {"containers": [{"image": "x"}]}},
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            {"spec": {"containers": [{"name": "a", "$patch": "x"}]}},
            500,
            "unknown patch type: x in map: map[$patch:x name:a]",
        ),
        ({"spec": {"$patch": "merge"}}, 500, "unknown patch type: merge in map: map[$patch:merge]"),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "z"}], "containers": [{"name": "y", "image": "i"}]}},
            500,
            "The order in patch list:\n[map[image:i name:y]]\n doesn't match $setElementOrder list:\n[map[name:z]]\n",
        ),
        ({"spec": {"$setElementOrder/containers": "x"}}, 500, "expected a []interface {}, but received a string"),
        ({"spec": {"$setElementOrder": []}}, 400, "invalid patch format of setElementOrder list"),
        ({"spec": {"$deleteFromPrimitiveList": []}}, 400, "invalid patch format of primitive list"),
        ({"spec": {"$retainKeys": "x"}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"$retainKeys": ["x"], "hostNetwork": True}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"containers": ["x"]}}, 500, "list element types are not identical: [[map[name:a]] [x]]"),
        ({"spec": {"containers": [[]]}}, 500, "list element types are not identical: [[map[name:a]] [[]]]"),
        (
            {"spec": {"containers": [{"name": "a", "$patch": "merge"}]}},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
    ],
)
def test_a_strategic_patch_that_cannot_be_merged(patch: Any, code: int, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply_strategic_patch(spec("a"), patch, POD)
    assert (caught.value.code, str(caught.value)) == (code, message)


def _pod_of_many(count: int) -> dict[str, Any]:
    variables = [{"name": f"n{one}", "value": "v"} for one in range(count)]
    return {
        "metadata": {"finalizers": [f"example.com/{one}" for one in range(2 * count)]},
        "spec": {"containers": [{"name": "c", "env": variables}]},
    }


_REPEATED: dict[str, Callable[[int], dict[str, Any]]] = {
    "an item": lambda count: {
        "spec": {"containers": [{"name": "c", "env": [{"name": f"m{one}"}]} for one in range(count)]}
    },
    "an order": lambda count: {
        "spec": {
            "containers": [{"name": "c", **{f"$setElementOrder{one}/env": [{"name": "n1"}] for one in range(count)}}]
        }
    },
    "a deletion": lambda count: {
        "metadata": {f"$deleteFromPrimitiveList{one}/finalizers": [f"example.com/{one}"] for one in range(count)}
    },
}


@pytest.mark.parametrize("patch", _REPEATED.values(), ids=_REPEATED.keys())
def test_changes_of_a_large_list_that_a_patch_repeats_are_bounded(patch: Callable[[int], dict[str, Any]]) -> None:
    with cpu_time_below(2), pytest.raises(PatchError) as refused:
        apply_strategic_patch(_pod_of_many(20_000), patch(50_000), POD)
    assert refused.value.code == 413
    assert str(refused.value).endswith("that a strategic merge patch changes repeatedly is 1000000")
    apply_strategic_patch(_pod_of_many(20_000), patch(10), POD)


def test_an_item_that_a_patch_names_again_is_merged_again() -> None:
    patched = apply_strategic_patch(_pod_of_many(2), _REPEATED["an item"](3), POD)["spec"]["containers"]
    assert [one["name"] for one in patched[0]["env"]] == ["m2", "m1", "m0", "n0", "n1"]
    patched = apply_strategic_patch(_pod_of_many(2), _REPEATED["a deletion"](3), POD)["metadata"]["finalizers"]
    assert patched == ["example.com/3"]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (
            {"spec": {"containers": [{"name": "a", "env": {"$patch": "x"}, "nosuch": []}, {"image": "i"}]}},
            "does not contain declared merge key",
        ),
        (
            {"spec": {"containers": [{"name": "a", "ports": [1]}, {"image": "i"}]}},
            "list element types are not identical",
        ),
        (
            {"spec": {"$setElementOrder/containers": [{"image": "first"}, {"image": "last"}]}},
            "last",
        ),
    ],
    ids=["an item without its key", "what is wrong with an item before it", "the last of an order"],
)
def test_the_first_problem_of_a_strategic_patch_is_told(patch: Any, message: str) -> None:
    tree = spec("a")
    tree["spec"]["containers"][0]["ports"] = [{"containerPort": 1}]
    with pytest.raises(PatchError) as refused:
        apply_strategic_patch(tree, patch, POD)
    assert message in str(refused.value)


def test_what_takes_the_place_of_another_sort_of_value_is_told_without_nulls_and_directives() -> None:
    patch = {"spec": [{"a": None, "b": 1}, {"c": 2, "$patch": None}, {"d": 3, "$patch": "delete"}]}
    assert left_of(patch, {"spec": {"replicas": 1}}, "io.k8s.api.apps.v1.Deployment") == {"spec": [{"b": 1}, {"c": 2}]}
