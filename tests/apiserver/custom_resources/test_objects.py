"""Custom objects over HTTP: what can be written and read."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.apiserver.custom_resources.things import (
    APPLY,
    JSON,
    MERGE,
    OPEN,
    STRATEGIC,
    Door,
    Tree,
    definition,
    path,
    serving,
    structure,
    thing,
    version,
)


def test_an_object_is_made_read_changed_and_deleted() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        made = await door.create(path(), thing(spec={"a": "b"}))
        assert made["metadata"]["generation"] == 1
        assert (await door.get(path("x"))).tree == made
        changed = await door.send("PUT", path("x"), {**made, "spec": {"a": "c"}})
        assert (changed.code, changed.tree["metadata"]["generation"], changed.tree["spec"]) == (200, 2, {"a": "c"})
        same = await door.send("PUT", path("x"), changed.tree)
        assert same.tree == changed.tree
        assert (await door.send("DELETE", path("x"))).code == 200
        assert (await door.get(path("x"))).message == 'things.example.com "x" not found'

    serving(scenario)


def test_changes_of_metadata_do_not_count_for_the_generation() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        await door.create(path(), thing())
        labelled = await door.patch(path("x"), {"metadata": {"labels": {"a": "b"}}})
        assert labelled.tree["metadata"]["generation"] == 1
        assert (await door.patch(path("x"), {"status": {"a": 1}})).tree["metadata"]["generation"] == 2

    serving(scenario)


def test_numbers_are_kept_as_they_are_shown() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version(schema=structure(a=OPEN))))
        body = b'{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"x"},"spec":{"a":{"w":1.0,"f":1.5,"b":9223372036854775808}}}'
        answer = await door.send("POST", path(), body)
        assert b'"w":1,' in answer.data
        assert answer.tree["spec"]["a"] == {"w": 1, "f": 1.5, "b": 9223372036854776000}
        assert b'"b":9223372036854776000' in answer.data
        assert b'"b":9223372036854776000' in (await door.get(path("x"))).data
        huge = body.replace(b"1.5", b"9" * 400)
        assert (await door.send("POST", path(), huge)).code == 400

    serving(scenario)


BODIES: dict[str, tuple[Any, int, str]] = {
    "no object": ([], 400, ""),
    "a string": ("x", 400, ""),
    "no JSON": (b"{", 400, ""),
    "nothing": (b"", 400, ""),
    "another kind": (thing(kind="Other"), 422, 'Other.example.com "x" is invalid: kind: Invalid value: "Other": must be Thing'),
    "another version": (thing(version="v2"), 400, "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)"),
    "without a kind": ({"apiVersion": "example.com/v1", "metadata": {"name": "x"}}, 400, "Object 'Kind' is missing"),
    "without a version": (
        {"kind": "Thing", "metadata": {"name": "x"}},
        400,
        "the API version in the data () does not match the expected API version (example.com/v1)",
    ),
    "a kind that is no string": ({**thing(), "kind": 1}, 400, ""),
    "without a name": ({**thing(), "metadata": {}}, 422, "name or generateName is required"),
    "without metadata": ({"apiVersion": "example.com/v1", "kind": "Thing"}, 422, "name or generateName is required"),
    "null metadata": ({**thing(), "metadata": None}, 422, "name or generateName is required"),
    "metadata that are none": ({**thing(), "metadata": []}, 400, "cannot unmarshal array into Go value of type v1.ObjectMeta"),
    "a label that is no string": (thing(labels={"a": 1}), 400, "cannot unmarshal number into Go struct field ObjectMeta.labels of type"),
    "a malformed time": (thing(creationTimestamp="yesterday"), 400, "parsing time"),
    "a malformed name": (thing("X_y"), 422, "a lowercase RFC 1123 subdomain must consist of"),
    "a malformed label": (thing(labels={"-": ""}), 422, "metadata.labels: Invalid value"),
    "another namespace": (thing(namespace="other"), 400, "the namespace of the provided object does not match the namespace sent on the request"),
    "a revision": (thing(resourceVersion="5"), 500, "resourceVersion should not be set on objects to be created"),
    "a value of another type": (thing(spec={"n": "1"}), 422, 'spec.n: Invalid value: "string": spec.n in body must be of type integer: "string"'),
}  # fmt: skip


def test_bodies_that_are_no_such_objects_are_refused() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        for case, (body, code, text) in BODIES.items():
            answer = await door.send("POST", path(), body)
            assert (case, answer.code) == (case, code), answer.data
            assert text in answer.message, (case, answer.message)
        assert (await door.get(path())).tree["items"] == []

    serving(scenario)


def test_updates_of_other_objects_are_refused() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        made = await door.create(path(), thing())
        other = {**made, "metadata": {**made["metadata"], "name": "y"}}
        answer = await door.send("PUT", path("x"), other)
        assert (answer.code, answer.message) == (
            400,
            "the name of the object (y) does not match the name on the URL (x)",
        )
        loose = {**made, "metadata": {"name": "x"}}
        answer = await door.send("PUT", path("x"), loose)
        assert answer.code == 422
        assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message
        old = {**made, "metadata": {**made["metadata"], "resourceVersion": "1"}}
        assert (await door.send("PUT", path("x"), old)).code == 409
        assert (
            await door.send("PUT", path("absent"), {**made, "metadata": {"name": "absent", "resourceVersion": "1"}})
        ).code == 404
        stranger = {**made, "metadata": {**made["metadata"], "uid": "5"}}
        assert (await door.send("PUT", path("x"), stranger)).code == 409

    serving(scenario)


def test_unknown_and_repeated_fields_are_warned_of_refused_or_ignored() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        body = b'{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"x","foo":1},"spec":{"a":"1","a":"2","z":1},"other":{}}'
        strict = await door.send("POST", path(fieldValidation="Strict"), body)
        assert strict.code == 400
        for text in (
            'duplicate field "spec.a"',
            'unknown field "metadata.foo"',
            'unknown field "other"',
            'unknown field "spec.z"',
        ):
            assert text in strict.message
        warned = await door.send("POST", path(fieldValidation="Warn", dryRun="All"), body)
        assert warned.code == 201
        assert len(warned.warnings) == 4
        silent = await door.send("POST", path(fieldValidation="Ignore"), body)
        assert (silent.code, silent.warnings, silent.tree["spec"]) == (201, (), {"a": "2"})
        assert "other" not in silent.tree
        patched = await door.patch(path("x", fieldValidation="Strict"), {"spec": {"z": 1}})
        assert patched.code == 422
        assert (
            'unknown field \\"spec.z\\"' in patched.message.replace("\\\\", "\\")
            or 'unknown field "spec.z"' in patched.message
        )
        assert (await door.patch(path("x"), {"spec": {"z": 1}})).warnings == ('299 - "unknown field \\"spec.z\\""',)
        applied = {**thing(), "spec": {"z": 1}}
        refused = await door.patch(path("x", fieldManager="m", fieldValidation="Strict"), applied, APPLY)
        assert (refused.code, "spec.z" in refused.message) == (500, True)

    serving(scenario)


def test_defaults_are_filled_in_and_nulls_left_out() -> None:
    schema = structure(
        a={"type": "string", "default": "A"},
        b={"type": "object", "properties": {"c": {"type": "integer", "default": 3}}},
        n={"type": "string", "nullable": True},
    )
    schema["properties"]["spec"]["default"] = {}

    async def scenario(door: Door) -> None:
        await door.define(definition(version(schema=schema)))
        bare = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
        assert (await door.create(path(), bare))["spec"] == {"a": "A"}
        made = await door.create(path(), thing("y", spec={"a": None, "b": {"c": None}, "n": None}))
        assert made["spec"] == {"a": "A", "b": {"c": 3}, "n": None}
        patched = await door.patch(path("y"), {"spec": {"a": None, "b": None}})
        assert patched.tree["spec"] == {"a": "A", "n": None} or patched.tree["spec"] == {"a": "A"}

    serving(scenario)


def test_patches() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        await door.create(path(), thing(spec={"a": "b"}))
        merged = await door.patch(path("x"), {"spec": {"n": 1}}, MERGE)
        assert (merged.code, merged.tree["spec"]) == (200, {"a": "b", "n": 1})
        operations = [{"op": "test", "path": "/spec/n", "value": 1}, {"op": "remove", "path": "/spec/a"}]
        assert (await door.patch(path("x"), operations, JSON)).tree["spec"] == {"n": 1}
        strategic = await door.patch(path("x"), {"spec": {"n": 2}}, STRATEGIC)
        assert strategic.code == 415
        for body, media_type in (
            ({"metadata": None}, MERGE),
            ({"metadata": 5}, MERGE),
            ([], MERGE),
            ("x", MERGE),
            ({"spec": None}, MERGE),
            ([{"op": "remove", "path": ""}], JSON),
        ):
            answer = await door.patch(path("x"), body, media_type)
            assert answer.code < 500, (body, answer.data)
        renamed = await door.patch(path("x"), {"metadata": {"name": "y"}})
        assert (renamed.code, renamed.message) == (
            400,
            "the name of the object (y) does not match the name on the URL (x)",
        )
        assert (await door.patch(path("absent"), {"spec": {}})).code == 404
        wrong = await door.patch(path("x"), {"spec": {"n": "x"}})
        assert wrong.code == 422
        other = await door.patch(path("x"), {"kind": "Other"})
        assert (other.code, 'kind: Invalid value: "Other": must be Thing' in other.message) == (422, True)

    serving(scenario)


def test_a_dry_run_keeps_nothing() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        assert (await door.send("POST", path(dryRun="All"), thing())).code == 201
        assert (await door.get(path("x"))).code == 404
        made = await door.create(path(), thing())
        for method, where in (
            ("PUT", path("x", dryRun="All")),
            ("DELETE", path("x", dryRun="All")),
            ("DELETE", path(dryRun="All")),
        ):
            answer = await door.send(method, where, {**made, "spec": {"a": "z"}} if method == "PUT" else None)
            assert answer.code == 200
        assert (await door.patch(path("x", dryRun="All"), {"spec": {"n": 5}})).tree["spec"] == {"n": 5}
        assert (await door.get(path("x"))).tree == made

    serving(scenario)


def test_names_are_generated() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"generateName": "t-"}}
        names = [(await door.create(path(), body))["metadata"]["name"] for _ in range(3)]
        assert len(set(names)) == 3
        assert all(name.startswith("t-") and len(name) == 7 for name in names)

    serving(scenario)


def test_collections_are_deleted_and_finalizers_waited_for() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        for name in ("a", "b"):
            await door.create(path(), thing(name, labels={"name": name}))
        await door.create(path(), thing("held", finalizers=["example.com/hold"]))
        gone = await door.send("DELETE", path(labelSelector="name=a"))
        assert (gone.code, [one["metadata"]["name"] for one in gone.tree["items"]]) == (200, ["a"])
        assert (await door.send("DELETE", path())).code == 200
        (left,) = (await door.get(path())).tree["items"]
        assert left["metadata"]["name"] == "held"
        assert left["metadata"]["deletionTimestamp"]
        assert left["metadata"]["generation"] == 2
        more = await door.patch(path("held"), {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
        assert more.code == 422
        assert (await door.patch(path("held"), {"metadata": {"finalizers": None}})).code == 200
        assert (await door.get(path("held"))).code == 404

    serving(scenario)


def test_finalizers_without_a_domain_are_warned_of() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        answer = await door.send("POST", path(), thing(finalizers=["hold"]))
        assert answer.code == 201
        assert "prefer a domain-qualified finalizer name" in answer.warnings[0]

    serving(scenario)


def test_objects_of_the_whole_cluster() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(namespaced=False))
        made = await door.create(path(namespace=""), thing(namespace="ignored"))
        assert "namespace" not in made["metadata"]
        assert (await door.get(path("x", namespace=""))).tree == made
        assert (await door.get(path("x"))).code == 404
        assert (await door.send("POST", path(), thing("y"))).code == 404

    serving(scenario)


def test_objects_of_namespaces_are_listed_across_them_and_made_in_one() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        await door.create(path(), thing())
        await door.create(path(namespace="kube-system"), thing())
        found = (await door.get(path(namespace=""))).tree
        assert (found["kind"], found["apiVersion"]) == ("ThingList", "example.com/v1")
        assert [one["metadata"]["namespace"] for one in found["items"]] == ["default", "kube-system"]
        assert {one["kind"] for one in found["items"]} == {"Thing"}
        assert (await door.send("POST", path(namespace=""), thing("y"))).code in (404, 405)
        assert (await door.send("POST", path(namespace="absent"), thing("y"))).code == 404
        page = (await door.get(path(namespace="", limit="1"))).tree
        rest = (await door.get(path(namespace="", limit="1", **{"continue": page["metadata"]["continue"]}))).tree
        assert [one["metadata"]["namespace"] for one in (*page["items"], *rest["items"])] == ["default", "kube-system"]

    serving(scenario)


def test_objects_may_be_as_large_as_a_request() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        assert (await door.send("POST", path(), thing("large", spec={"a": "x" * 1_400_000}))).code == 201
        over = await door.send("POST", path(), thing("larger", spec={"a": "x" * 1_600_000}))
        assert (over.code, over.message) == (500, "etcdserver: request is too large")
        far = await door.send("POST", path(), thing("largest", spec={"a": "x" * 4_000_000}))
        assert far.code == 413
        assert [one["metadata"]["name"] for one in (await door.get(path())).tree["items"]] == ["large"]

    serving(scenario)


def test_embedded_objects_are_brought_into_form_or_refused() -> None:
    template = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}

    async def scenario(door: Door) -> None:
        await door.define(definition(version(schema=structure(t=template))))
        pod: Tree = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "labels": {}, "foo": 1},
            "x": {"y": None},
        }
        answer = await door.send("POST", path(), thing(spec={"t": pod}))
        assert answer.tree["spec"]["t"] == {**pod, "metadata": {"name": "p"}}
        assert answer.warnings == ('299 - "unknown field \\"spec.t.metadata.foo\\""',)
        wrong = await door.send("POST", path(), thing("y", spec={"t": {**pod, "metadata": "none"}}))
        assert wrong.code == 400
        assert "spec.t.metadata: Invalid value" in wrong.message
        assert (await door.patch(path("x"), {"spec": {"t": {"kind": 1}}})).code == 422
        missing = await door.send("POST", path(), thing("y", spec={"t": {"kind": "Pod"}}))
        assert (missing.code, "spec.t.apiVersion: Required value" in missing.message) == (422, True)

    serving(scenario)


def test_yaml_goes_in_and_comes_out_and_protobuf_does_not() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version(schema=structure(a={"type": "string"}, size={"type": "integer"}))))
        text = b'apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\nspec:\n  a: "1"\n  size: 5\n'
        made = await door.send("POST", path(), text, Content_Type="application/yaml", Accept="application/yaml")
        assert (made.code, yaml.safe_load(made.data)["spec"]) == (201, {"a": "1", "size": 5})
        listed = await door.get(path(), Accept="application/yaml")
        assert yaml.safe_load(listed.data)["items"][0]["spec"] == {"a": "1", "size": 5}
        protobuf = "application/vnd.kubernetes.protobuf"
        for where in (path("x"), path()):
            assert (await door.get(where, Accept=protobuf)).code == 406
            either = await door.get(where, Accept=f"{protobuf},application/json")
            assert either.code in (200, 406)
        sent = await door.send("POST", path(), b"k8s\x00\x0a", Content_Type=protobuf)
        assert sent.code in (400, 415)
        assert (await door.send("POST", path(), b"x", Content_Type="text/plain")).code == 415

    serving(scenario)


@pytest.mark.parametrize("namespaced", [True, False])
def test_nobody_may_do_anything_without_being_allowed_to(namespaced: bool) -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(namespaced=namespaced))
        where = path(namespace="default" if namespaced else "")
        answer = await door.get(where, **door.server.headers("alice"))
        assert (answer.code, answer.tree["details"]["group"]) == (403, "example.com")

    serving(scenario)
