"""Definitions that come and go: names, discovery, registration, OpenAPI, the end of their objects."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from pathlib import Path

import msgspec
import pytest

from bayplan.api.types import apiextensions_v1
from bayplan.apiserver.custom_resources.definitions import with_conditions
from bayplan.apiserver.custom_resources.naming import accepted
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from tests.apiserver.custom_resources.things import (
    API_SERVICES,
    DEFINITIONS,
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
from tests.apiserver.serving import client_of, opened

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def names(plural: str = "things", **more: object) -> apiextensions_v1.CustomResourceDefinitionNames:
    given = {"singular": plural[:-1], "kind": plural[:-1].title(), "list_kind": f"{plural[:-1].title()}List", **more}
    return apiextensions_v1.CustomResourceDefinitionNames(plural=plural, **given)  # type: ignore[arg-type]


NOTHING = apiextensions_v1.CustomResourceDefinitionNames()
CONFLICTS: dict[str, tuple[Tree, Tree, str, str]] = {
    "plural": ({"plural": "others"}, {}, "PluralConflict", '"others" is already in use'),
    "singular": ({"singular": "other"}, {}, "SingularConflict", '"other" is already in use'),
    "short name": ({"short_names": ("a", "o")}, {}, "ShortNamesConflict", '"o" is already in use'),
    "two short names": ({"short_names": ("o", "p", "o")}, {}, "ShortNamesConflict", '["o" is already in use, "p" is already in use]'),
    "kind": ({"kind": "Other"}, {}, "KindConflict", '"Other" is already in use'),
    "kind of the list": ({"list_kind": "OtherList"}, {}, "ListKindConflict", '"OtherList" is already in use'),
    "a short name that is a plural": ({"short_names": ("others",)}, {}, "ShortNamesConflict", '"others" is already in use'),
    "the last conflict counts": ({"singular": "other", "kind": "Other"}, {}, "KindConflict", '"Other" is already in use'),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "has", "reason", "message"), CONFLICTS.values(), ids=CONFLICTS.keys())
def test_names_that_somebody_has_are_refused(wanted: Tree, has: Tree, reason: str, message: str) -> None:
    other = names("others", short_names=("o", "p"))
    asked = msgspec.structs.replace(names(), **wanted)
    got, refusal = accepted(asked, NOTHING, [other, NOTHING])
    assert refusal == (reason, message)
    for field in wanted:
        assert getattr(got, field) == getattr(NOTHING, field)
    assert got.plural in ("things", "")


def test_names_of_ones_own_are_kept_but_not_given_another_meaning() -> None:
    mine = names(short_names=("t",), categories=("all",))
    assert accepted(mine, mine, [mine]) == (mine, None)
    more = names(short_names=("t", "u"), categories=("some",))
    assert accepted(more, mine, [mine]) == (more, None)
    twisted = names(singular="t", short_names=("t",))
    assert accepted(twisted, mine, [mine])[1] == ("SingularConflict", '"t" is already in use')


def test_times_of_conditions_stay_while_their_status_does() -> None:
    def made(status: str, time: str, name: str = "A") -> apiextensions_v1.CustomResourceDefinitionCondition:
        return apiextensions_v1.CustomResourceDefinitionCondition(type=name, status=status, last_transition_time=time)

    old = (made("True", "1"), made("False", "1", "B"))
    found = with_conditions(old, made("True", "2"), made("True", "2", "B"), made("True", "2", "C"))
    assert [(one.type, one.status, one.last_transition_time) for one in found] == [
        ("A", "True", "1"), ("B", "True", "2"), ("C", "True", "2"),
    ]  # fmt: skip


def test_a_definition_gets_its_names_when_the_one_that_had_them_goes() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(names={"shortNames": ["th"]}))
        second = definition(kind="Theme", names={"shortNames": ["th"]})
        await door.create(DEFINITIONS, second)
        where = f"{DEFINITIONS}/themes.example.com"

        async def is_refused() -> bool:
            return bool(condition((await door.get(where)).tree, "NamesAccepted")["status"] == "False")

        await eventually(is_refused)
        found = (await door.get(where)).tree
        assert condition(found, "NamesAccepted")["message"] == '"th" is already in use'
        assert condition(found, "Established")["reason"] == "NotAccepted"
        assert (await door.get(path(plural="themes"))).code == 404
        await door.send("DELETE", THINGS)
        await eventually(lambda: door.is_established("themes.example.com"))
        assert (await door.get(path(plural="themes"))).code == 200

    serving(scenario)


def test_a_definition_that_was_never_established_has_nothing_to_wait_for() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(names={"shortNames": ["th"]}))
        second = definition(kind="Theme", names={"shortNames": ["th"]})
        second["metadata"]["finalizers"] = ["example.com/hold"]
        await door.create(DEFINITIONS, second)
        where = f"{DEFINITIONS}/themes.example.com"
        await door.send("DELETE", where)

        async def is_done() -> bool:
            return bool((await door.get(where)).tree["metadata"]["finalizers"] == ["example.com/hold"])

        await eventually(is_done)
        assert condition((await door.get(where)).tree, "Terminating")["reason"] == "NeverEstablished"
        await door.patch(where, {"metadata": {"finalizers": None}})
        assert await door.is_gone(where)

    serving(scenario)


def test_a_definition_waits_for_its_objects() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition())
        for name, finalizers in (("free", []), ("held", ["example.com/hold"])):
            await door.create(path(), thing(name, finalizers=finalizers))
        assert (await door.send("DELETE", THINGS)).code == 200
        await eventually(lambda: door.is_gone(path("free")))
        found = (await door.get(THINGS)).tree
        assert condition(found, "Terminating")["reason"] == "InstanceDeletionInProgress"
        assert "customresourcecleanup.apiextensions.k8s.io" in found["metadata"]["finalizers"]
        refused = await door.send("POST", path(), thing("late"))
        assert (
            refused.code,
            "create not allowed while custom resource definition is terminating" in refused.message,
        ) == (403, True)
        assert (await door.patch(path("held"), {"spec": {"a": "b"}})).code == 200
        await door.patch(path("held"), {"metadata": {"finalizers": None}})
        await eventually(lambda: door.is_gone(THINGS))
        await eventually(lambda: door.is_gone(path()))

    serving(scenario)


def test_a_definition_made_anew_at_once_has_no_objects() -> None:
    async def scenario(door: Door) -> None:
        for turn in range(3):
            field = "abc"[turn]
            schema = structure()
            schema["properties"]["spec"]["properties"] = {field: {"type": "string"}}
            await door.define(definition(version(schema=schema)))
            assert (await door.get(path())).tree["items"] == []
            assert (await door.create(path(), thing(spec={field: "x"})))["spec"] == {field: "x"}
            assert (await door.send("DELETE", THINGS)).code == 200
            await eventually(lambda: door.is_gone(THINGS))

    serving(scenario)


def test_what_the_server_has_of_its_own_stays_what_it_is() -> None:
    async def scenario(door: Door) -> None:
        group = "networking.k8s.io"
        ingresses = f"/apis/{group}/v1/namespaces/default/ingresses"
        spec = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
        ingress = {"apiVersion": f"{group}/v1", "kind": "Ingress", "metadata": {"name": "i"}, "spec": spec}
        made = await door.create(ingresses, ingress)
        for kind, plural in (("Ingress", "ingresses"), ("Widget", "widgets")):
            tree = definition(
                version("v1"), version("v5", storage=False), kind=kind, names={"plural": plural}, group=group
            )
            tree["metadata"] = {
                "name": f"{plural}.{group}",
                "annotations": {"api-approved.kubernetes.io": "https://example.com/1"},
            }
            await door.create(DEFINITIONS, tree)
            await eventually(lambda plural=plural: door.is_established(f"{plural}.{group}"))  # type: ignore[misc]
        await eventually(lambda: _is_there(door, f"/apis/{group}/v5/namespaces/default/widgets"))
        assert (await door.get(f"{ingresses}/i")).tree == made
        assert (await door.get(f"/apis/{group}/v1/namespaces/default/widgets")).code == 404
        assert (await door.get(f"/apis/{group}/v5/namespaces/default/ingresses")).code == 404
        for plural in ("ingresses", "widgets"):
            await door.send("DELETE", f"{DEFINITIONS}/{plural}.{group}")
            await eventually(lambda plural=plural: door.is_gone(f"{DEFINITIONS}/{plural}.{group}"))  # type: ignore[misc]
        assert (await door.get(f"{ingresses}/i")).tree == made

    serving(scenario)


def test_discovery_tells_of_versions_in_the_order_in_which_clients_prefer_them() -> None:
    async def scenario(door: Door) -> None:
        scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
        given = [version(name, storage=name == "v1") for name in ("v1alpha1", "v1", "v2beta1", "v2")]
        given[1]["subresources"] = {"status": {}, "scale": scale}
        given.append(version("v3", storage=False, served=False))
        await door.define(definition(*given, names={"shortNames": ["th"], "categories": ["all"]}))
        group = (await door.get("/apis/example.com")).tree
        assert [one["version"] for one in group["versions"]] == ["v2", "v1", "v2beta1", "v1alpha1"]
        assert group["preferredVersion"]["version"] == "v2"
        listed = [one["name"] for one in (await door.get("/apis")).tree["groups"]]
        assert listed[-1] == "example.com"
        found = (await door.get("/apis/example.com/v1")).tree["resources"]
        assert [(one["name"], one["kind"]) for one in found] == [
            ("things", "Thing"),
            ("things/status", "Thing"),
            ("things/scale", "Scale"),
        ]
        assert (found[0]["shortNames"], found[0]["categories"], found[0]["singularName"]) == (["th"], ["all"], "thing")
        assert set(found[0]["verbs"]) == {
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        }
        assert (await door.get("/apis/example.com/v3")).code == 404
        groups = (await door.get("/apis", Accept=AGGREGATED)).tree["items"]
        (ours,) = [one for one in groups if one["metadata"]["name"] == "example.com"]
        assert [one["version"] for one in ours["versions"]] == ["v2", "v1", "v2beta1", "v1alpha1"]
        (resource,) = ours["versions"][1]["resources"]
        assert [one["subresource"] for one in resource["subresources"]] in (["status", "scale"], ["scale", "status"])
        await door.send("DELETE", THINGS)
        await eventually(lambda: door.is_gone("/apis/example.com"))
        assert "example.com" not in [one["name"] for one in (await door.get("/apis")).tree["groups"]]

    serving(scenario)


def test_what_is_served_is_registered() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1"), version("v2", storage=False, served=False)))
        where = f"{API_SERVICES}/v1.example.com"

        async def is_registered() -> bool:
            return (await door.get(where)).code == 200

        await eventually(is_registered)
        assert (await door.get(where)).tree["spec"]["groupPriorityMinimum"] == 1000
        assert (await door.get(f"{API_SERVICES}/v2.example.com")).code == 404
        await door.send("DELETE", where)
        await eventually(is_registered)
        await door.send("DELETE", THINGS)
        await eventually(lambda: door.is_gone(where))

    serving(scenario)


def test_tables_and_metadata_are_shown_of_objects_lists_and_watches() -> None:
    columns = [{"name": "A", "type": "string", "jsonPath": ".spec.a"}]
    table, partial = "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as={};v=v1;g=meta.k8s.io"

    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1"), version("v2", storage=False, additionalPrinterColumns=columns)))
        await door.create(path(), thing(spec={"a": "b"}))
        for where in (path("x", version="v2"), path(version="v2")):
            shown = (await door.get(where, Accept=table)).tree
            assert [one["name"] for one in shown["columnDefinitions"]] == ["Name", "A"]
            assert shown["rows"][0]["cells"] == ["x", "b"]
        assert [one["name"] for one in (await door.get(path(), Accept=table)).tree["columnDefinitions"]] == [
            "Name",
            "Age",
        ]
        one = (await door.get(path("x"), Accept=partial.format("PartialObjectMetadata"))).tree
        assert (one["kind"], "spec" in one) == ("PartialObjectMetadata", False)
        many = (await door.get(path(), Accept=partial.format("PartialObjectMetadataList"))).tree
        assert (many["kind"], many["items"][0]["metadata"]["name"]) == ("PartialObjectMetadataList", "x")
        async with door.watch(path(version="v2", watch="true"), Accept=table) as following:
            event = await following()
            assert event is not None
            assert event["object"]["rows"][0]["cells"] == ["x", "b"]
        async with door.watch(path(watch="true"), Accept=partial.format("PartialObjectMetadata")) as following:
            event = await following()
            assert event is not None
            assert (event["object"]["kind"], event["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "x")

    serving(scenario)


def test_nothing_is_lost_when_the_server_starts_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        url, clock = f"sqlite:{tmp_path}/objects.db", SystemClock()
        settings = ApiServerSettings()
        tree = definition(version("v1"), version("v2", storage=False, served=False))
        async with opened(open_store(url, clock=clock), settings) as api:
            client = client_of(api)
            await client.raw("POST", DEFINITIONS, {}, json.dumps(tree).encode())
            await eventually(lambda: _knows(api, "v1"))
            made = json.loads(await client.raw("POST", path(), {}, json.dumps(thing(spec={"a": "b"})).encode()))
        caplog.clear()
        async with opened(open_store(url, clock=clock), settings) as api:
            client = client_of(api)
            assert json.loads(await client.raw("GET", path("x"))) == made
            await client.raw("DELETE", path("x"))
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]

    asyncio.run(run())


def test_objects_that_the_store_has_in_an_older_version_are_read_in_that_of_now() -> None:
    async def scenario(door: Door) -> None:
        await door.define(definition(version("v1"), version("v2", storage=False)))
        await door.define(definition(version("v1", storage=False), version("v2")))
        objects = door.server.api.context.objects
        kind = door.server.api.context.kinds.of_resource("example.com", "v2", "things")
        assert kind is not None
        body = b'{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"late","namespace":"default","uid":"u"},"spec":{"a":"b","z":1}}'
        await objects.store.put(kind.storage_key("default", "late"), body)
        await eventually(lambda: _is_there(door, path("late")))
        for name in ("v1", "v2"):
            found = (await door.get(path("late", version=name))).tree
            assert (found["apiVersion"], found["spec"]) == (f"example.com/{name}", {"a": "b"})

    serving(scenario)


async def _knows(api: ApiServer, name: str) -> bool:
    return api.context.kinds.of_resource("example.com", name, "things") is not None


async def _is_there(door: Door, where: str) -> bool:
    return (await door.get(where)).code == 200


def test_definitions_that_went_leave_nothing_behind() -> None:
    async def scenario(door: Door) -> None:
        context = door.server.api.context
        kinds, caches = len(list(context.kinds)), len(context.objects.caches())
        classes: list[weakref.ref[type]] = []
        for turn in range(8):
            name = f"leak{turn}s"
            await door.define(definition(kind=f"Leak{turn}"))
            await door.create(path(plural=name), thing(kind=f"Leak{turn}"))
            await door.get(path(plural=name), Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
            await door.get("/openapi/v2")
            row = context.kinds.of_resource("example.com", "v1", name)
            assert row is not None
            classes.append(weakref.ref(row.type))
            del row
            await door.send("DELETE", f"{DEFINITIONS}/{name}.example.com")
            await eventually(lambda name=name: door.is_gone(path(plural=name)))  # type: ignore[misc]

        async def is_forgotten() -> bool:
            gc.collect()
            return all(one() is None for one in classes)

        await eventually(is_forgotten)
        assert (len(list(context.kinds)), len(context.objects.caches())) == (kinds, caches)

    serving(scenario)


@pytest.mark.parametrize("store", ["memory:", "sqlite:{}/objects.db"])
def test_what_is_established_is_served(store: str, tmp_path: Path) -> None:
    async def run() -> None:
        clock = SystemClock()
        async with opened(open_store(store.format(tmp_path), clock=clock)) as api:
            client = client_of(api)
            for turn in range(5):
                tree = definition(kind=f"Thing{turn}")
                made = json.loads(await client.raw("POST", DEFINITIONS, {}, json.dumps(tree).encode()))
                where = f"{DEFINITIONS}/{made['metadata']['name']}"
                async with asyncio.timeout(10):
                    while condition(json.loads(await client.raw("GET", where)), "Established")["status"] != "True":  # noqa: ASYNC110
                        await asyncio.sleep(0)  # as soon as somebody can know
                obj = json.dumps(thing(kind=f"Thing{turn}")).encode()
                stored = await client.raw("POST", path(plural=f"thing{turn}s"), {}, obj)
                assert json.loads(stored)["metadata"]["uid"]

    asyncio.run(run())


@pytest.mark.parametrize(("status", "kind"), [(0, "number"), ("x", "string"), ([], "array"), (True, "bool")])
def test_a_status_subresource_is_an_object(status: object, kind: str) -> None:
    async def scenario(door: Door) -> None:
        made = definition(version(subresources={"status": status}))
        answer = await door.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made)
        why = f"json: cannot unmarshal {kind} into Go struct field CustomResourceSubresources.spec.versions.subresources.status"
        assert answer.code == 400
        assert f"{why} of type v1.CustomResourceSubresourceStatus" in answer.message

    serving(scenario)


def test_a_status_subresource_has_no_fields() -> None:
    async def scenario(door: Door) -> None:
        made = definition(version(subresources={"status": {"x": 1}}))
        answer = await door.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made)
        assert answer.code == 201
        assert answer.tree["spec"]["versions"][0]["subresources"] == {"status": {}}

    serving(scenario)
