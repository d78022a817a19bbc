"""What the mutations of a policy make of an object."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.cel.values import from_json
from bayplan.api.managedfields.typed import type_of_definition
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.apiserver.policies.mutations import CompiledMutations, MutationError, Tree

POD: Tree = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "web", "labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "x"}], "nodeSelector": {"n": "1"}},
}
TYPE = type_of_definition("io.k8s.api.core.v1.Pod")


def mutated(expression: str, *, is_patch: bool) -> Tree:
    mutation = (
        types.Mutation(patch_type="JSONPatch", json_patch=types.JSONPatch(expression=expression))
        if is_patch
        else types.Mutation(
            patch_type="ApplyConfiguration", apply_configuration=types.ApplyConfiguration(expression=expression)
        )
    )
    policy = CompiledMutations(types.MutatingAdmissionPolicySpec(mutations=(mutation,)))
    return policy.mutated(0, POD, TYPE, {"object": from_json(POD), "params": None})


def problem(expression: str, *, is_patch: bool) -> str:
    with pytest.raises(MutationError) as failed:
        mutated(expression, is_patch=is_patch)
    return str(failed.value)


def test_patches_are_applied_in_order() -> None:
    expression = """[
        JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("x/y"), value: "z"},
        JSONPatch{op: "replace", path: "/spec/containers/0/image", value: object.spec.containers[0].image + ":1"},
        JSONPatch{op: "copy", from: "/metadata/name", path: "/metadata/labels/name"},
        JSONPatch{op: "add", path: "/spec/tolerations", value: [Object.spec.tolerations{key: "k", tolerationSeconds: 5}]},
        JSONPatch{op: "add", path: "/metadata/annotations", value: {"n": string(1), "b": "t"}}
    ]"""
    found = mutated(expression, is_patch=True)
    assert found["metadata"]["labels"] == {"a": "b", "x/y": "z", "name": "web"}
    assert found["metadata"]["annotations"] == {"n": "1", "b": "t"}
    assert found["spec"]["containers"] == [{"name": "c", "image": "x:1"}]
    assert found["spec"]["tolerations"] == [{"key": "k", "tolerationSeconds": 5}]
    assert "annotations" not in POD["metadata"]


def test_a_test_that_fails_leaves_the_object_as_it_is() -> None:
    patch = '[JSONPatch{op: "remove", path: "/spec"}, JSONPatch{op: "test", path: "/metadata/name", value: "other"}]'
    assert mutated(patch, is_patch=True) == POD


def test_a_test_of_what_is_not_there_is_an_error() -> None:
    patch = '[JSONPatch{op: "test", path: "/spec/containers/9/name", value: "c"}]'
    text = "JSON Patch: test operation does not apply: is missing path: /spec/containers/9/name: missing value"
    assert problem(patch, is_patch=True) == text


def test_patches_that_cannot_be_applied_are_errors() -> None:
    assert problem('[JSONPatch{op: "remove", path: "/nope"}]', is_patch=True).startswith("JSON Patch: ")
    text = "expression '[JSONPatch{op: \"add\", path: object.nope}]' resulted in error: no such key: nope"
    assert problem('[JSONPatch{op: "add", path: object.nope}]', is_patch=True) == text


def test_configurations_are_merged_by_keys() -> None:
    expression = """Object{
        metadata: Object.metadata{labels: {"c": "d"}},
        spec: Object.spec{
            containers: [Object.spec.containers{name: "c", imagePullPolicy: "Always"}, Object.spec.containers{name: "s", image: "y"}],
            ?hostname: optional.none()
        }
    }"""
    found = mutated(expression, is_patch=False)
    assert found["metadata"]["labels"] == {"a": "b", "c": "d"}
    assert found["spec"]["containers"] == [
        {"name": "c", "image": "x", "imagePullPolicy": "Always"},
        {"name": "s", "image": "y"},
    ]
    assert "hostname" not in found["spec"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            'Object{spec: Object.spec{nodeSelector: {"n": "2"}}}',
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector",
        ),
        (
            "Object{spec: Object.spec{containers: [Object.spec.wrong{name: 'c'}]}}",
            'type mismatch: unexpected type name "Object.spec.wrong", expected "Object.spec.containers", which matches field name '
            "path from root Object type",
        ),
    ],
)
def test_configurations_that_are_refused(expression: str, expected: str) -> None:
    assert problem(expression, is_patch=False) == expected


def test_fields_that_nobody_knows_are_refused() -> None:
    found = problem("Object{spec: Object.spec{nope: 1}}", is_patch=False)
    assert found.startswith("error applying patch: failed to convert patch object to typed object: ")


def test_what_costs_too_much_is_refused() -> None:
    costly: Any = "Object{metadata: Object.metadata{name: string(lists.range(2000000).size())}}"
    assert problem(costly, is_patch=False).endswith("operation cancelled: actual cost limit exceeded")
