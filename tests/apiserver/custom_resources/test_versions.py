"""Several versions of one resource, and definitions that change."""

from __future__ import annotations

from tests.apiserver.custom_resources.things import (
    APPLY,
    OPEN,
    THINGS,
    Door,
    Tree,
    condition,
    definition,
    eventually,
    path,
    serving,
    structure,
    thing,
    version,
)

STRING: Tree = {"type": "string"}


def test_an_object_is_read_and_written_in_all_versions() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1"), version("v2", storage=False)))
        await door.create(path(version="v2"), thing(version="v2", spec={"a": "b"}))
        one, two = (await door.get(path("x"))).tree, (await door.get(path("x", version="v2"))).tree
        assert (one["apiVersion"], two["apiVersion"]) == ("example.com/v1", "example.com/v2")
        assert {**one, "apiVersion": ""} == {**two, "apiVersion": ""}
        changed = await door.patch(path("x", version="v2"), {"spec": {"a": "c"}})
        assert changed.tree["apiVersion"] == "example.com/v2"
        assert (await door.get(path("x"))).tree["spec"] == {"a": "c"}
        listed = (await door.get(path(version="v2"))).tree
        assert (listed["apiVersion"], listed["items"][0]["apiVersion"]) == ("example.com/v2", "example.com/v2")

    serving(scenario)


def test_each_version_has_its_own_schema() -> None:
    first = structure(a=STRING, b=STRING, required=("b",))
    second = structure(a={"type": "string", "default": "two"}, c={"type": "string", "maxLength": 3}, required=("c",))

    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1", schema=first), version("v2", storage=False, schema=second)))
        refused = await door.send("POST", path(version="v2"), thing(version="v2"))
        assert (refused.code, "spec.c: Required value" in refused.message) == (422, True)
        assert "spec.b" not in refused.message
        long = await door.send("POST", path(version="v2"), thing(version="v2", spec={"c": "long"}))
        assert "spec.c: Too long" in long.message
        made = await door.create(path(version="v2"), thing(version="v2", spec={"c": "x", "b": "gone"}))
        assert made["spec"] == {"a": "two"}
        assert (await door.get(path("x"))).tree["spec"] == {"a": "two"}
        assert (await door.patch(path("x"), {"spec": {"a": "one"}})).code == 422
        kept = await door.patch(path("x"), {"spec": {"b": "b"}})
        assert kept.tree["spec"] == {"a": "two", "b": "b"}
        assert (await door.get(path("x", version="v2"))).tree["spec"] == {"a": "two"}

    serving(scenario)


def test_whether_the_status_is_kept_apart_is_said_by_the_version() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1"), version("v2", storage=False, subresources={"status": {}})))
        await door.create(path(), thing("one", status={"a": 1}))
        await door.create(path(version="v2"), thing("two", version="v2", status={"a": 1}))
        assert (await door.get(path("one", version="v2"))).tree["status"] == {"a": 1}
        assert "status" not in (await door.get(path("two"))).tree
        await door.patch(path("one", version="v2"), {"status": {"a": 2}})
        assert (await door.get(path("one"))).tree["status"] == {"a": 1}
        assert (await door.patch(path("one", subresource="status"), {"status": {"a": 3}})).code == 404
        set_by = await door.patch(
            path("one", version="v2", subresource="status"), {"status": {"a": 3}, "spec": {"a": "no"}}
        )
        assert (set_by.tree["status"], set_by.tree["spec"]) == ({"a": 3}, {})
        assert (await door.get(path("one"))).tree["status"] == {"a": 3}

    serving(scenario)


def test_deprecated_versions_are_warned_of() -> None:
    async def scenario(door: Door) -> None:
        old = [version(name, storage=False, deprecated=True) for name in ("v1beta1", "v1alpha1")]
        old[1]["deprecationWarning"] = "please do not"
        await door.define(definition(version("v1"), *old))
        await door.create(path(), thing())
        for name, text in (
            ("v1beta1", "example.com/v1beta1 Thing is deprecated; use example.com/v1 Thing"),
            ("v1alpha1", "please do not"),
        ):
            for where in (path("x", version=name), path(version=name)):
                assert (await door.get(where)).warnings == (f'299 - "{text}"',)
        assert (await door.get(path("x"))).warnings == ()
        await door.define(definition(version("v1", deprecated=True)))
        assert (await door.get(path("x"))).warnings == ('299 - "example.com/v1 Thing is deprecated"',)

    serving(scenario)


def test_a_version_in_which_objects_are_kept_need_not_be_served() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1", served=False), version("v2", storage=False)))
        await door.create(path(version="v2"), thing(version="v2", spec={"a": "b"}))
        assert (await door.get(path("x"))).code == 404
        assert (await door.get(path("x", version="v2"))).tree["spec"] == {"a": "b"}
        await door.define(definition(version("v1"), version("v2", storage=False, served=False)))
        assert (await door.get(path("x", version="v2"))).code == 404
        assert (await door.get(path("x"))).tree["spec"] == {"a": "b"}

    serving(scenario)


def test_objects_go_with_a_definition_of_which_nothing_is_served() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        await door.create(path(), thing())
        await door.define(definition(version("v1", served=False)))
        assert (await door.get(path("x"))).code == 404
        await door.send("DELETE", THINGS)
        await eventually(lambda: door.is_gone(THINGS))
        await door.define(definition())
        assert (await door.get(path())).tree["items"] == []

    serving(scenario)


def test_objects_stay_when_they_are_kept_in_another_version() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1"), version("v2", storage=False)))
        made = await door.create(path(), thing(spec={"a": "b"}))
        changed = await door.define(definition(version("v1", storage=False), version("v2")))
        assert changed["status"]["storedVersions"] == ["v1", "v2"]
        assert (await door.get(path("x"))).tree == made
        found = (await door.get(path(version="v2"))).tree
        assert [(one["apiVersion"], one["spec"]) for one in found["items"]] == [("example.com/v2", {"a": "b"})]
        patched = await door.patch(path("x"), {"spec": {"a": "c"}})
        assert (patched.code, patched.tree["metadata"]["generation"]) == (200, 2)
        await door.send("DELETE", path("x"))
        assert (await door.get(path("x", version="v2"))).code == 404

    serving(scenario)


def test_objects_are_read_by_the_schema_of_now() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version(schema=structure(a=STRING, b=STRING))))
        await door.create(path(), thing(spec={"a": "A", "b": "B"}))
        await door.define(
            definition(version(schema=structure(a={"type": "integer"}, c={"type": "string", "default": "C"})))
        )
        assert (await door.get(path("x"))).tree["spec"] == {"a": "A", "c": "C"}
        assert (await door.get(path())).tree["items"][0]["spec"] == {"a": "A", "c": "C"}
        kept = await door.patch(path("x"), {"spec": {"c": "D"}})
        assert (kept.code, kept.tree["spec"]) == (200, {"a": "A", "c": "D"})
        assert (await door.patch(path("x"), {"spec": {"a": "other"}})).code == 422
        await door.define(definition(version(schema=structure(a=STRING, b=STRING))))
        assert (await door.get(path("x"))).tree["spec"] == {"a": "A"}

    serving(scenario)


def test_watches_end_when_the_definition_changes() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1"), version("v2", storage=False)))
        async with door.watch(path(version="v2", watch="true")) as following:
            await door.create(path(), thing())
            event = await following()
            assert event is not None
            assert (event["type"], event["object"]["apiVersion"]) == ("ADDED", "example.com/v2")
            await door.define(definition(version("v1", schema=structure(b=STRING)), version("v2", storage=False)))
            assert await following() is None
        async with door.watch(path(watch="true")) as following:
            event = await following()
            assert event is not None
            assert event["type"] == "ADDED"
            await door.send("DELETE", THINGS)
            event = await following()
            assert event is not None
            assert event["type"] == "DELETED"
            assert await following() is None

    serving(scenario)


def test_a_server_that_calls_no_webhooks_converts_by_none() -> None:
    webhook = {"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]}

    async def scenario(door: Door) -> None:
        conversion = {"strategy": "Webhook", "webhook": webhook}
        await door.define(definition(version("v1"), version("v2", storage=False), conversion=conversion))
        made = await door.create(path(), thing())
        assert (await door.get(path("x"))).tree == made
        for where in (path("x", version="v2"), path(version="v2")):
            answer = await door.get(where)
            assert (answer.code, answer.message.endswith(": this server calls none")) == (500, True)
        assert (await door.send("POST", path(version="v2"), thing("y", version="v2"))).code == 500

    serving(scenario)


def test_fields_belong_to_managers_in_all_versions() -> None:
    async def scenario(door: Door) -> None:
        await door.define(
            definition(
                version("v1", schema=structure(a=STRING, b=STRING)),
                version("v2", storage=False, schema=structure(a=STRING)),
            )
        )
        await door.patch(path("x", fieldManager="one"), thing(spec={"a": "1", "b": "1"}), APPLY)
        conflict = await door.patch(
            path("x", version="v2", fieldManager="two"), thing(version="v2", spec={"a": "2"}), APPLY
        )
        assert (conflict.code, 'conflict with "one": .spec.a' in conflict.message) == (409, True)
        forced = await door.patch(
            path("x", version="v2", fieldManager="two", force="true"), thing(version="v2", spec={"a": "2"}), APPLY
        )
        owned = {
            (one["manager"], one["apiVersion"]): one["fieldsV1"]["f:spec"]
            for one in forced.tree["metadata"]["managedFields"]
            if "f:spec" in one["fieldsV1"]
        }
        assert owned[("two", "example.com/v2")] == {"f:a": {}}
        again = await door.patch(path("x", fieldManager="one"), thing(spec={"b": "2"}), APPLY)
        assert (again.code, again.tree["spec"]["a"]) == (200, "2")
        gone = await door.patch(path("x", version="v2", fieldManager="two"), thing(version="v2", spec={}), APPLY)
        assert (gone.code, "a" in gone.tree.get("spec", {})) == (200, False)

    serving(scenario)


def test_fields_for_selection_are_those_of_the_version() -> None:
    by_a, by_n = [{"jsonPath": ".spec.a"}], [{"jsonPath": ".spec.n"}]

    async def scenario(door: Door) -> None:
        await door.define(
            definition(
                version("v1", schema=structure(a=STRING, n={"type": "integer"}, b=STRING), selectableFields=by_a),
                version("v2", storage=False, selectableFields=by_n),
            )
        )
        await door.create(path(), thing("one", spec={"a": "A", "n": 1}))
        await door.create(path(), thing("two", spec={"a": "B", "n": 2}))

        async def names(where: str) -> list[str]:
            return [one["metadata"]["name"] for one in (await door.get(where)).tree["items"]]

        assert await names(path(fieldSelector="spec.a=A")) == ["one"]
        assert await names(path(version="v2", fieldSelector="spec.n=2,metadata.name!=one")) == ["two"]
        assert await names(path(fieldSelector="metadata.namespace=default,spec.a!=A")) == ["two"]
        refused = await door.get(path(fieldSelector="spec.n=2"))
        assert (refused.code, refused.message) == (400, "field label not supported: spec.n")
        async with door.watch(path(version="v2", watch="true", fieldSelector="spec.n=2")) as following:
            event = await following()
            assert event is not None
            assert event["object"]["metadata"]["name"] == "two"
            await door.patch(path("one"), {"spec": {"n": 2}})
            event = await following()
            assert event is not None
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "one")
            await door.patch(path("two"), {"spec": {"n": 3}})
            event = await following()
            assert event is not None
            assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "two")

    serving(scenario)


def test_subresources_are_those_of_the_version() -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.selector"}

    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1", subresources={"scale": scale}), version("v2", storage=False)))
        await door.create(path(), thing(spec={"n": 2}, status={"n": 1, "selector": "a=b"}))
        found = (await door.get(path("x", subresource="scale"))).tree
        assert (found["kind"], found["spec"], found["status"]) == (
            "Scale",
            {"replicas": 2},
            {"replicas": 1, "selector": "a=b"},
        )
        found["spec"]["replicas"] = 5
        changed = await door.send("PUT", path("x", subresource="scale"), found)
        assert (changed.code, changed.tree["spec"]) == (200, {"replicas": 5})
        assert (await door.get(path("x", version="v2"))).tree["spec"] == {"n": 5}
        assert (await door.patch(path("x", subresource="scale"), {"spec": {"replicas": -1}})).code == 422
        assert (await door.get(path("x", version="v2", subresource="scale"))).code == 404
        assert (await door.get(path("x", subresource="status"))).code == 404
        await door.patch(path("x"), {"spec": {"n": None}})
        missing = await door.get(path("x", subresource="scale"))
        assert (missing.code, missing.message.partition(": ")[2]) == (
            500,
            'the spec replicas field ".spec.n" does not exist',
        )
        assert (await door.patch(path("x", subresource="scale"), {})).code == 400
        assert (await door.patch(path("x", subresource="scale"), {"spec": {"replicas": 3}})).code == 200
        assert (await door.get(path("x"))).tree["spec"] == {"n": 3}

    serving(scenario)


def test_managers_of_replicas_are_those_of_the_version_through_which_they_scale() -> None:
    schema = structure(n={"type": "integer"}, o={"type": "integer"})

    def scale(field: str) -> Tree:
        return {"scale": {"specReplicasPath": f".spec.{field}", "statusReplicasPath": ".status.n"}}

    async def owned(door: Door) -> dict[str, tuple[str, Tree]]:
        entries = (await door.get(path("x"))).tree["metadata"]["managedFields"]
        return {one["manager"]: (one["apiVersion"].rpartition("/")[2], one["fieldsV1"]) for one in entries}

    async def scenario(door: Door) -> None:
        two = version("v2", storage=False, schema=schema, subresources=scale("o"))
        await door.define(definition(version("v1", schema=schema, subresources=scale("n")), two))
        await door.create(path(fieldManager="maker"), thing(spec={"n": 2}))
        for one in ("v1", "v2"):
            way = path("x", version=one, subresource="scale", fieldManager="scaler")
            assert (await door.patch(way, {"spec": {"replicas": 4}})).code == 200
            field = {"v1": "f:n", "v2": "f:o"}[one]
            assert (await owned(door))["scaler"] == (one, {"f:spec": {field: {}}})
        replaced = {"metadata": {"name": "x"}, "spec": {"replicas": 5}}
        assert (await door.send("PUT", path("x", version="v2", subresource="scale"), replaced)).code == 200
        assert "scaler" not in await owned(door)

    serving(scenario)


def test_a_scale_of_a_custom_resource_cannot_be_applied() -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}

    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1", subresources={"scale": scale})))
        await door.create(path(), thing(spec={"n": 2}))
        wanted = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "x", "namespace": "default"},
            "spec": {"replicas": 3},
        }
        way = path("x", subresource="scale", fieldManager="me", force="true")
        refused = await door.patch(way, wanted, "application/apply-patch+yaml")
        assert (refused.code, refused.message) == (
            500,
            "failed to convert new object (default/x; autoscaling/v1, Kind=Scale) to proper version: "
            "request to convert CR to an invalid group/version: autoscaling/v1",
        )
        strategic = await door.patch(way, wanted, "application/strategic-merge-patch+json")
        assert (strategic.code, strategic.message) == (
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )

    serving(scenario)


def test_who_sets_the_status_is_recorded_apart() -> None:
    async def scenario(door: Door) -> None:
        await door.define(
            definition(
                version(
                    subresources={"status": {}}, schema={"type": "object", "properties": {"spec": OPEN, "status": OPEN}}
                )
            )
        )
        await door.create(path(fieldManager="maker"), thing(spec={"a": 1}))
        answer = await door.patch(
            path("x", subresource="status", fieldManager="watcher"),
            {"status": {"ready": True}, "metadata": {"labels": {"a": "b"}}},
        )
        assert "labels" not in answer.tree["metadata"]
        assert answer.tree["metadata"]["generation"] == 1
        owned = {
            (one["manager"], one.get("subresource", "")): one["fieldsV1"]
            for one in answer.tree["metadata"]["managedFields"]
        }
        assert owned == {
            ("maker", ""): {"f:spec": {".": {}, "f:a": {}}},
            ("watcher", "status"): {"f:status": {".": {}, "f:ready": {}}},
        }

    serving(scenario)


def test_a_definition_says_in_which_versions_objects_were_kept() -> None:
    async def scenario(door: Door) -> None:
        made = await door.define(definition())
        assert made["status"]["storedVersions"] == ["v1"]
        assert condition(made, "Established")["status"] == "True"
        assert (await door.get(THINGS)).tree == made

    serving(scenario)
