"""Custom resources whose kinds have the names of built-in ones, such as the Node of a storage operator."""

from __future__ import annotations

from bayplan.api.kinds import DEFAULT_KINDS
from tests.apiserver.custom_resources.things import APPLY, OPEN, Door, Tree, definition, path, serving, thing, version


def test_names_of_built_in_kinds_mean_nothing_in_other_groups() -> None:
    rules: Tree = {"type": "array", "items": OPEN}
    open_version = version(schema={"type": "object", "properties": {"rules": rules, "spec": OPEN}})

    async def scenario(door: Door) -> None:
        await door.define(definition(open_version, kind="Role"))
        where = path(plural="roles")
        made = await door.create(where, {**thing(kind="Role", spec={"rules": []}), "rules": []})
        assert (made["rules"], made["spec"]) == ([], {"rules": []})
        assert (await door.get(path("x", plural="roles"))).tree == made
        del made["rules"]
        made["metadata"].pop("managedFields")
        assert "rules" not in (await door.send("PUT", path("x", plural="roles"), made)).tree
        mine = {key: made[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": "x"}, "spec": {"a": "b"}}
        applied = await door.patch(path("x", plural="roles", fieldManager="me"), mine, APPLY)
        assert ("rules" in applied.tree, applied.tree["spec"]) == (False, {"a": "b", "rules": []})

        await door.define(definition(kind="Job"))
        selected = await door.get(path(plural="jobs", fieldSelector="spec.x=y"))
        assert (selected.code, selected.message) == (400, "field label not supported: spec.x")

        await door.define(definition(kind="PriorityClass"))
        await door.create(path(plural="priorityclasss"), thing("system-node-critical", kind="PriorityClass"))
        gone = await door.send("DELETE", path("system-node-critical", plural="priorityclasss"))
        assert gone.code == 200

    serving(scenario)


def test_kinds_of_all_names_that_built_in_ones_have_can_be_written() -> None:
    names = sorted({kind.kind for kind in DEFAULT_KINDS if kind.is_stored})
    metadata = {"creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion", "uid"}

    async def scenario(door: Door) -> None:
        for kind in names:
            where = f"{kind.lower()}s"
            await door.define(definition(kind=kind))
            made = await door.create(path(plural=where), thing(kind=kind, spec={"a": "x"}))
            assert (set(made), set(made["metadata"])) == ({"apiVersion", "kind", "metadata", "spec"}, metadata), kind
            patched = await door.patch(path("x", plural=where), {"spec": {"a": "b"}})
            assert (patched.tree["spec"], patched.tree["metadata"]["generation"]) == ({"a": "b"}, 2), kind
            table = await door.get(path("x", plural=where), Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
            assert [one["name"] for one in table.tree["columnDefinitions"]] == ["Name", "Age"], kind
            gone = await door.send("DELETE", path("x", plural=where))
            assert (gone.code, gone.tree["kind"]) == (200, "Status"), kind

    serving(scenario)
