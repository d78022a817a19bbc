"""Custom resources that a webhook converts between their versions: every verb, in the version that is kept and in the other one."""

from __future__ import annotations

import pytest

from bayplan.apiserver.verbs import read
from tests.apiserver.custom_resources.converters import STRING, TWO, Converter, converting, versions
from tests.apiserver.custom_resources.things import (
    APPLY,
    GROUP,
    JSON,
    THINGS,
    Door,
    Tree,
    definition,
    eventually,
    path,
    structure,
    thing,
)

HERE: Tree = {"hostPort": "localhost:8080"}
THERE: Tree = {"host": "localhost", "port": "8080"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def two(*parts: str, **query: str) -> str:
    """A path of version 2."""
    name, subresource = (*parts, "", "")[:2]
    return path(name, version="v2", subresource=subresource, **query)


def test_an_object_is_read_in_the_version_that_is_asked_for() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        made = await door.create(path(), thing(spec=HERE))
        assert (await door.get(path("x"))).tree == made
        assert converter.asked == []
        found = (await door.get(two("x"))).tree
        assert (found["apiVersion"], found["kind"], found["spec"]) == (f"{GROUP}/v2", "Thing", THERE)
        assert found["metadata"] == made["metadata"]
        [asked] = converter.asked
        [sent] = asked["objects"]
        assert (asked["desiredAPIVersion"], sent["apiVersion"], sent["kind"]) == (f"{GROUP}/v2", f"{GROUP}/v1", "Thing")
        assert sent["spec"] == HERE
        assert "resourceVersion" not in sent["metadata"]
        assert {**sent["metadata"], "resourceVersion": made["metadata"]["resourceVersion"]} == made["metadata"]
        assert converter.paths == ["/convert?timeout=30s"]
        assert converter.reviews[0]["apiVersion"] == "apiextensions.k8s.io/v1"
        assert converter.reviews[0]["kind"] == "ConversionReview"

    converting(scenario)


def test_what_has_been_converted_is_not_asked_for_again_until_it_changes() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing(spec=HERE))
        for _ in range(3):
            assert (await door.get(two("x"))).tree["spec"] == THERE
        assert len(converter.asked) == 1
        await door.patch(path("x"), {"spec": {"hostPort": "other:1"}})
        assert (await door.get(two("x"))).tree["spec"] == {"host": "other", "port": "1"}
        assert len(converter.asked) == 2

    converting(scenario)


def test_a_list_is_converted_by_one_call_and_a_page_as_far_as_it_goes() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        for name in "abcde":
            await door.create(path(), thing(name, spec={"hostPort": f"{name}:1"}))
        page = (await door.get(two(limit="2"))).tree
        assert [(one["apiVersion"], one["spec"]["host"]) for one in page["items"]] == [
            (f"{GROUP}/v2", "a"),
            (f"{GROUP}/v2", "b"),
        ]
        assert page["metadata"]["remainingItemCount"] == 3
        whole = (await door.get(two())).tree
        assert (whole["kind"], whole["apiVersion"]) == ("ThingList", f"{GROUP}/v2")
        assert [one["spec"]["host"] for one in whole["items"]] == list("abcde")
        assert converter.names() == [["a", "b"], ["c", "d", "e"]]
        rest = (await door.get(two(limit="9", **{"continue": page["metadata"]["continue"]}))).tree
        assert [one["spec"]["host"] for one in rest["items"]] == list("cde")
        assert len(converter.asked) == 2
        assert (await door.get(path())).tree["items"][0]["spec"] == {"hostPort": "a:1"}

    converting(scenario)


def test_a_list_of_the_past_is_converted() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        made = await door.create(path(), thing(spec=HERE))
        await door.patch(path("x"), {"spec": {"hostPort": "other:1"}})
        past = {"resourceVersion": made["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}
        assert [one["spec"] for one in (await door.get(two(**past))).tree["items"]] == [THERE]

    converting(scenario)


def test_labels_and_fields_are_selected_by_as_the_version_has_them() -> None:
    def labelled(tree: Tree) -> Tree:
        labels = {**tree["metadata"].get("labels", {}), "converted": "yes"}
        return {**tree, "metadata": {**tree["metadata"], "labels": labels}}

    async def scenario(door: Door, converter: Converter) -> None:
        one, other = versions()
        other["selectableFields"] = [{"jsonPath": ".spec.host"}]
        await door.define(definition(one, other, conversion=converter.config()))
        for name in "abc":
            await door.create(path(), thing(name, spec={"hostPort": f"{name}:1"}))
        found = (await door.get(two(fieldSelector="spec.host=b"))).tree
        assert [one["metadata"]["name"] for one in found["items"]] == ["b"]
        refused = await door.get(path(fieldSelector="spec.host=b"))
        assert (refused.code, refused.message) == (400, "field label not supported: spec.host")
        page = (await door.get(two(fieldSelector="spec.host!=b", limit="1"))).tree
        assert [one["metadata"]["name"] for one in page["items"]] == ["a"]
        assert page["metadata"]["continue"]
        converter.spoil_object = labelled
        await door.create(path(), thing("d", spec={"hostPort": "d:1"}))
        found = (await door.get(two(labelSelector="converted=yes"))).tree
        assert [one["metadata"]["name"] for one in found["items"]] == ["d"]
        assert (await door.get(path(labelSelector="converted=yes"))).tree["items"] == []

    converting(scenario, define=False)


def test_a_page_of_what_is_selected_converts_no_more_than_it_has_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_CONVERTED_AT_ONCE", 2)

    async def scenario(door: Door, converter: Converter) -> None:
        for name in "abcdef":
            await door.create(path(), thing(name, spec=HERE, labels={"odd": "yes" if name in "ace" else "no"}))
        page = (await door.get(two(labelSelector="odd=yes", limit="1"))).tree
        assert [one["metadata"]["name"] for one in page["items"]] == ["a"]
        assert converter.names() == [["a", "b"]]

    converting(scenario)


def test_objects_are_written_in_any_version_and_kept_in_one() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        made = await door.create(two(), thing(version="v2", spec=THERE))
        assert (made["apiVersion"], made["spec"]) == (f"{GROUP}/v2", THERE)
        assert [asked["desiredAPIVersion"] for asked in converter.asked] == [f"{GROUP}/v1", f"{GROUP}/v2"]
        found = (await door.get(path("x"))).tree
        assert (found["apiVersion"], found["spec"]) == (f"{GROUP}/v1", HERE)
        assert found["metadata"] == made["metadata"]
        assert len(converter.asked) == 2
        changed = await door.send("PUT", two("x"), {**made, "spec": {"host": "other", "port": "1"}})
        assert (changed.code, changed.tree["apiVersion"], changed.tree["metadata"]["generation"]) == (
            200,
            f"{GROUP}/v2",
            2,
        )
        assert (await door.get(path("x"))).tree["spec"] == {"hostPort": "other:1"}
        merged = await door.patch(two("x"), {"spec": {"port": "2"}})
        assert merged.tree["spec"] == {"host": "other", "port": "2"}
        edited = await door.patch(
            two("x"),
            [{"op": "test", "path": "/spec/host", "value": "other"}, {"op": "remove", "path": "/spec/port"}],
            JSON,
        )
        assert edited.tree["spec"] == {"host": "other", "port": ""}
        assert (await door.get(path("x"))).tree["spec"] == {"hostPort": "other:"}
        stale = await door.send("PUT", two("x"), made)
        assert stale.code == 409

    converting(scenario)


def test_a_version_checks_and_prunes_what_is_written_in_it() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        wrong = await door.send("POST", two(), thing(version="v2", spec={"host": 1}))
        assert (wrong.code, "spec.host: Invalid value" in wrong.message) == (422, True)
        assert converter.asked == []
        converter.spoil_object = lambda tree: {**tree, "spec": {**tree["spec"], "unknown": "x"}}
        made = await door.create(two(), thing(version="v2", spec={**THERE, "hostPort": "gone"}))
        assert made["spec"] == THERE
        assert (await door.get(path("x"))).tree["spec"] == HERE

    converting(scenario)


def test_a_dry_run_converts_as_if_the_object_were_kept() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing(spec=HERE))
        shown = await door.patch(two("x", dryRun="All"), {"spec": {"host": "other"}})
        assert (shown.code, shown.tree["spec"]) == (200, {"host": "other", "port": "8080"})
        made = await door.send("POST", two(dryRun="All"), thing("y", version="v2", spec=THERE))
        assert (made.code, made.tree["spec"], made.tree["apiVersion"]) == (201, THERE, f"{GROUP}/v2")
        assert [asked["desiredAPIVersion"].rpartition("/")[2] for asked in converter.asked[-2:]] == ["v1", "v2"]
        assert (await door.get(path("x"))).tree["spec"] == HERE
        assert (await door.get(path("y"))).code == 404
        converter.fail()
        for answer in (
            await door.send("POST", two(dryRun="All"), thing("z", version="v2", spec=THERE)),
            await door.patch(two("x", dryRun="All"), {"spec": {"host": "third"}}),
        ):
            assert (answer.code, "my custom error" in answer.message) == (500, True)

    converting(scenario)


def test_objects_are_deleted_in_any_version() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing("a", spec=HERE, finalizers=["example.com/wait"]))
        for name in "bcd":
            await door.create(path(), thing(name, spec=HERE))
        going = await door.send("DELETE", two("a"))
        assert (going.code, going.tree["apiVersion"], going.tree["spec"]) == (200, f"{GROUP}/v2", THERE)
        assert going.tree["metadata"]["deletionTimestamp"]
        ended = await door.patch(two("a"), {"metadata": {"finalizers": None}})
        assert (ended.code, ended.tree["spec"]) == (200, THERE)
        assert (await door.get(path("a"))).code == 404
        gone = await door.send("DELETE", two("b"))
        assert (gone.code, gone.tree["kind"], gone.tree["status"]) == (200, "Status", "Success")
        rest = await door.send("DELETE", two())
        assert [(one["metadata"]["name"], one["spec"]) for one in rest.tree["items"]] == [("c", THERE), ("d", THERE)]
        assert (await door.get(path())).tree["items"] == []

    converting(scenario)


def test_status_and_scale_are_those_of_the_version() -> None:
    def scale(field: str) -> Tree:
        return {"status": {}, "scale": {"specReplicasPath": f".spec.{field}", "statusReplicasPath": ".status.n"}}

    async def scenario(door: Door, converter: Converter) -> None:
        one, other = versions()
        one["subresources"], other["subresources"] = scale("n"), scale("replicas")
        await door.define(definition(one, other, conversion=converter.config()))
        await door.create(path(), thing(spec={**HERE, "n": 2}))
        assert (await door.get(two("x", "scale"))).tree["spec"] == {"replicas": 2}
        scaled = await door.patch(two("x", "scale", fieldManager="scaler"), {"spec": {"replicas": 3}})
        assert (scaled.code, scaled.tree["spec"]) == (200, {"replicas": 3})
        assert (await door.get(path("x"))).tree["spec"] == {**HERE, "n": 3}
        given = {**scaled.tree, "spec": {"replicas": 4}}
        assert (await door.send("PUT", two("x", "scale"), given)).code == 200
        told = await door.patch(two("x", "status"), {"status": {"n": 4}, "spec": {"replicas": 9}})
        assert (told.code, told.tree["status"], told.tree["spec"]) == (200, {"n": 4}, {**THERE, "replicas": 4})
        read = (await door.get(two("x", "status"))).tree
        assert (read["apiVersion"], read["status"]) == (f"{GROUP}/v2", {"n": 4})
        replaced = await door.send("PUT", two("x", "status"), {**read, "status": {"n": 5}})
        assert (replaced.code, replaced.tree["status"]) == (200, {"n": 5})
        assert (await door.get(path("x"))).tree["spec"] == {**HERE, "n": 4}

    converting(scenario, define=False)


def test_tables_and_metadata_are_made_of_converted_objects() -> None:
    def annotated(tree: Tree) -> Tree:
        return {**tree, "metadata": {**tree["metadata"], "annotations": {"seen": "in two"}}}

    async def scenario(door: Door, converter: Converter) -> None:
        one, other = versions()
        other["additionalPrinterColumns"] = [{"name": "Host", "type": "string", "jsonPath": ".spec.host"}]
        await door.define(definition(one, other, conversion=converter.config()))
        await door.create(path(), thing(spec=HERE))
        converter.spoil_object = annotated
        for where in (two(), two("x")):
            [row] = (await door.get(where, Accept=TABLE)).tree["rows"]
            assert row["cells"] == ["x", "localhost"]
            assert row["object"]["metadata"]["annotations"] == {"seen": "in two"}
        alone = (await door.get(two("x"), Accept=METADATA)).tree
        [listed] = (await door.get(two(), Accept=METADATA_LIST)).tree["items"]
        assert alone["metadata"]["annotations"] == listed["metadata"]["annotations"] == {"seen": "in two"}
        assert b"host: localhost" in (await door.get(two("x"), Accept="application/yaml")).data

    converting(scenario, define=False)


def test_objects_that_are_kept_in_an_older_version_are_converted_when_they_are_read() -> None:
    """As `should be able to convert a non homogeneous list of CRs` of Kubernetes' e2e tests has it."""

    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing("one", spec=HERE))
        changed = await door.define(definition(*versions(storage="v2"), conversion=converter.config()))
        assert changed["status"]["storedVersions"] == ["v1", "v2"]
        await door.create(path(), thing("two", spec=HERE))
        converter.asked.clear()
        for where, spec in ((two(), THERE), (path(), HERE)):
            assert [one["spec"] for one in (await door.get(where)).tree["items"]] == [spec, spec]
        assert converter.names() == [["one"]]  # the other one was converted when it was made
        same = (await door.get(two("one"))).tree
        rewritten = await door.send("PUT", two("one"), same)
        assert rewritten.tree["metadata"]["resourceVersion"] != same["metadata"]["resourceVersion"]
        converter.asked.clear()
        assert (await door.get(two("one"))).tree["spec"] == THERE
        assert converter.asked == []
        again = await door.send("PUT", two("one"), rewritten.tree)
        assert again.tree["metadata"]["resourceVersion"] == rewritten.tree["metadata"]["resourceVersion"]
        await door.send("DELETE", THINGS)
        await eventually(lambda: door.is_gone(THINGS))

    converting(scenario)


def test_a_webhook_speaks_the_first_version_of_reviews_that_is_known() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.define(definition(*versions(), conversion=converter.config("v9", "v1beta1", "v1")))
        await door.create(path(), thing(spec=HERE))
        assert (await door.get(two("x"))).tree["spec"] == THERE
        assert [one["apiVersion"] for one in converter.reviews] == ["apiextensions.k8s.io/v1beta1"]

    converting(scenario, define=False)


def test_managers_own_fields_in_their_versions() -> None:
    async def owners(door: Door, where: str) -> dict[str, tuple[str, Tree]]:
        entries = (await door.get(where)).tree["metadata"]["managedFields"]
        return {one["manager"]: (one["apiVersion"], one["fieldsV1"]) for one in entries}

    async def scenario(door: Door, converter: Converter) -> None:
        await door.patch(path("x", fieldManager="one"), thing(spec={**HERE, "n": 1}), APPLY)
        conflict = await door.patch(
            two("x", fieldManager="two"), thing(version="v2", spec={"host": "other", "port": "8080"}), APPLY
        )
        assert (conflict.code, conflict.message) == (
            409,
            'Apply failed with 1 conflict: conflict with "one": .spec.hostPort',
        )
        taken = await door.patch(
            two("x", fieldManager="two", force="true"),
            thing(version="v2", spec={"host": "other", "port": "8080"}),
            APPLY,
        )
        assert (taken.code, taken.tree["spec"]) == (200, {"host": "other", "port": "8080", "replicas": 1})
        assert await owners(door, path("x")) == {
            "one": (f"{GROUP}/v1", {"f:spec": {"f:n": {}}}),
            "two": (f"{GROUP}/v2", {"f:spec": {"f:host": {}, "f:port": {}}}),
        }
        await door.patch(two("x", fieldManager="three"), {"spec": {"replicas": 2}})
        assert await owners(door, two("x")) == {
            "two": (f"{GROUP}/v2", {"f:spec": {"f:host": {}, "f:port": {}}}),
            "three": (f"{GROUP}/v2", {"f:spec": {"f:replicas": {}}}),
        }
        left = await door.patch(two("x", fieldManager="two"), thing(version="v2", spec={"host": "other"}), APPLY)
        assert left.tree["spec"] == {"host": "other", "port": "", "replicas": 2}

    converting(scenario)


def test_objects_are_read_by_the_schema_of_now_before_they_are_converted() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing(spec=HERE))
        filled = structure(hostPort=STRING, n={"type": "integer", "default": 4})
        await door.define(definition(*versions(schemas=(filled, TWO)), conversion=converter.config()))
        assert (await door.get(path("x"))).tree["spec"] == {**HERE, "n": 4}
        assert (await door.get(two("x"))).tree["spec"] == {**THERE, "replicas": 4}

    converting(scenario)


def test_a_definition_may_begin_and_cease_to_ask_a_webhook() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.define(definition(*versions()))
        await door.create(path(), thing(spec=HERE))
        assert (await door.get(two("x"))).tree["spec"] == {}
        for storage in ("v1", "v2"):
            await door.define(definition(*versions(storage=storage), conversion=converter.config()))
            assert (await door.get(two("x"))).tree["spec"] == THERE
        await door.define(definition(*versions(storage="v2"), conversion={"strategy": "None"}))
        assert (await door.get(two("x"))).tree["spec"] == {}
        await door.define(definition(*versions(storage="v2"), conversion=converter.config()))
        assert (await door.get(two("x"))).tree["spec"] == THERE

    converting(scenario, define=False)
