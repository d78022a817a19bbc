"""Creates, updates, patches, subresources and deletes of one kind."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from bayplan.api.kinds import Kind, Subresource
from tests.differential.api.bodies import OWN_NAMES, Bodies, Tree, name_of, named
from tests.differential.api.steps import Step, patch, some, step

EFFECTIVE = frozenset((
    "apiservices", "customresourcedefinitions", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations", "flowschemas", "prioritylevelconfigurations",
    "servicecidrs",
))  # fmt: skip
"""Kinds whose objects change what becomes of other requests: what chance makes of them is only tried, not kept."""
_WRITE_OPTIONS = {
    "dryRun": ["All", "All", "x", ""],
    "fieldManager": ["m", "", "x" * 129, "é"],
    "fieldValidation": ["Strict", "Warn", "Ignore", "strict", ""],
    "pretty": ["true", "false", "1", ""],
}
_DELETE_OPTIONS = {
    "dryRun": ["All", "All", "x"],
    "gracePeriodSeconds": ["0", "5", "-1", "x", "1.5", ""],
    "propagationPolicy": ["Foreground", "Background", "Orphan", "x", ""],
    "orphanDependents": ["true", "false", "x"],
    "ignoreStoreReadErrorWithClusterBreakingPotential": ["true", "false"],
    "pretty": ["true"],
}
_NO_VALUES: tuple[Any, ...] = (None, [], {}, "", 0, "x", [{}])


def writes(bodies: Bodies, kind: Kind) -> Iterator[Step]:
    """What is done with objects of a kind, one thing after the other."""
    chance, collection = bodies.chance, kind.path("${ns}" if kind.namespaced else "")
    for _ in range(8):
        yield _create(bodies, kind, collection)
    body = bodies.valid(kind, "one")
    if kind.plural in OWN_NAMES:
        return
    body = _with(body, {"labels": {"diff": "${ns}"}})
    path = kind.path("${ns}" if kind.namespaced else "", name_of(kind, "one"))
    yield _put(chance, path, bodies.mixed(kind, "one"), "update of none", {"dryRun": "All"})
    yield step(
        "POST", collection, "create", body, capture={"obj": "", "rv": "/metadata/resourceVersion"}, managedFields=True
    )
    yield step("POST", collection, "create again", body)
    yield step(
        "GET",
        path,
        "get",
        query=some(chance, {"pretty": ["true", "1", "x"], "resourceVersion": ["0", "x", "99999999"]}, 1),
    )
    yield {**_put(chance, path, {"$merge": ["${obj}", {}]}, "update unchanged", {}), "capture": {"obj": ""}}
    tried = {"dryRun": "All"} if kind.plural in EFFECTIVE else {}
    for _ in range(5):
        change = bodies.change(kind)
        if chance.random() < 0.3:
            change = {
                **change,
                "metadata": {
                    **(change.get("metadata") or {}),
                    "resourceVersion": chance.choice((None, "0", "1", "x", "")),
                },
            }
        options = tried or some(chance, _WRITE_OPTIONS, 1)
        yield _put(chance, path, {"$merge": ["${obj}", change]}, "update", options)
        yield step("GET", path, "get", capture={"obj": ""}, managedFields=True)
    yield from _patches(bodies, kind, path, tried)
    yield from _applies(bodies, kind, path, tried)
    for row in kind.subresources:
        yield from _subresource(bodies, kind, path, row)
    yield from _deletes(bodies, kind, collection, path)


def _with(body: Tree, metadata: Tree) -> Tree:
    return {**body, "metadata": {**body["metadata"], **metadata}}


def _create(bodies: Bodies, kind: Kind, collection: str) -> Step:
    body = bodies.mixed(kind, "try")
    options = {**some(bodies.chance, _WRITE_OPTIONS, 2), "dryRun": "All"}
    return step("POST", collection, "create tried", body, query=options, managedFields=bodies.chance.random() < 0.3)


def _put(chance: Random, path: str, body: Any, name: str, query: Tree) -> Step:
    return step("PUT", path, name, body, query=query, managedFields=chance.random() < 0.5)


def _pointer(chance: Random, tree: Any, path: str = "") -> str:
    """A place in a tree, or beside one."""
    if isinstance(tree, dict) and tree and chance.random() < 0.85:
        key = chance.choice(list(tree))
        return _pointer(chance, tree[key], f"{path}/{key.replace('~', '~0').replace('/', '~1')}")
    if isinstance(tree, list) and chance.random() < 0.85:
        at = chance.choice((*range(len(tree)), "-", len(tree), -1))
        inner = tree[at] if isinstance(at, int) and 0 <= at < len(tree) else None
        return _pointer(chance, inner, f"{path}/{at}")
    return path + chance.choice(("", "", "", "", "/nosuch", "/"))


def _operations(bodies: Bodies, kind: Kind) -> Any:
    """A JSON patch."""
    chance, base = bodies.chance, bodies.valid(kind, "one")
    operations: list[Tree] = []
    for _ in range(chance.choice((0, 1, 1, 1, 2))):
        kind_of = chance.choice(("add", "add", "replace", "replace", "remove", "test", "copy", "move", "x"))
        operation: Tree = {"op": kind_of, "path": _pointer(chance, base)}
        if kind_of in ("copy", "move"):
            operation["from"] = _pointer(chance, base)
        elif kind_of != "remove":
            operation["value"] = chance.choice((*_NO_VALUES, "a", 1, True, {"a": "b"}))
        operations.append(operation)
    if operations and chance.random() < 0.15:
        operations[0].pop(chance.choice(list(operations[0])))
    return operations if chance.random() < 0.95 else chance.choice(({}, None, [None], ["x"], "x"))


def _strategic(bodies: Bodies, kind: Kind) -> Tree:
    """A strategic merge patch with directives."""
    change, chance = bodies.change(kind), bodies.chance

    def walk(tree: Any) -> Any:
        if isinstance(tree, dict):
            found = {key: walk(value) for key, value in tree.items()}
            if chance.random() < 0.15:
                found["$patch"] = chance.choice(("replace", "delete", "merge", "x", None))
            if found and chance.random() < 0.1:
                found["$retainKeys"] = chance.choice((list(found), [], "x"))
            lists = [key for key, value in tree.items() if isinstance(value, list)]
            if lists and chance.random() < 0.2:
                key = chance.choice(lists)
                form = chance.choice(("$setElementOrder", "$deleteFromPrimitiveList"))
                found[f"{form}/{key}"] = chance.choice((tree[key], [], None))
            return found
        return [walk(item) for item in tree] if isinstance(tree, list) else tree

    return walk(change)  # type: ignore[no-any-return]


def _patches(bodies: Bodies, kind: Kind, path: str, tried: Tree) -> Iterator[Step]:
    chance = bodies.chance
    for _ in range(3):
        options = tried or some(chance, _WRITE_OPTIONS, 1)
        yield patch(path, "json", _operations(bodies, kind), query=options)
        yield patch(path, "merge", bodies.change(kind), query=options)
        yield patch(path, "strategic", _strategic(bodies, kind), query=options)
        yield step("GET", path, "get", capture={"obj": ""}, managedFields=True)
    yield patch(path, "merge", {"metadata": {"resourceVersion": chance.choice(("1", "${rv}", "", "x"))}}, query=tried)
    yield patch(f"{path}-none", chance.choice(("json", "merge", "strategic")), {"metadata": {"labels": {"a": "b"}}})


def _applies(bodies: Bodies, kind: Kind, path: str, tried: Tree) -> Iterator[Step]:
    chance = bodies.chance
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    for _ in range(5):
        query = {**tried, "fieldManager": chance.choice(("m1", "m1", "m2", "m2", "", "x" * 129))}
        query |= some(chance, {"force": ["true", "true", "false", "x"], "fieldValidation": ["Strict", "Warn"]}, 1)
        body: Tree = {**head, "metadata": {"name": name_of(kind, "one")}}
        change = bodies.change(kind)
        given = change.get("metadata")
        body |= {**change, "metadata": {**(given if isinstance(given, dict) else {}), **body["metadata"]}}
        if chance.random() < 0.1:
            body.pop(chance.choice(("apiVersion", "kind", "metadata")))
        yield patch(path, "apply", body, query=query, managedFields=True)
    created = kind.path("${ns}" if kind.namespaced else "", name_of(kind, "applied"))
    for make in (bodies.valid, bodies.mixed):
        query = {"fieldManager": "m", "dryRun": "All"}
        yield patch(created, "apply", make(kind, "applied"), query=query, managedFields=True)


_ABOUT_PODS = ("attach", "exec", "log", "portforward", "proxy")


def _subresource(bodies: Bodies, kind: Kind, path: str, row: Subresource) -> Iterator[Step]:
    chance, own = bodies.chance, f"{path}/{row.name}"
    name = f"subresource {row.name}"
    if row.name in _ABOUT_PODS:
        yield step(
            "GET",
            own,
            name,
            query=some(chance, {"container": ["c", "x"], "tailLines": ["-1", "x", "3"], "command": ["a"]}, 1),
        )
        return
    for verb in ("get", "patch", "update", "create", "delete"):
        if verb == "get":
            yield step("GET", own, name, query=some(chance, {"pretty": ["true"]}, 1))
        elif verb in ("patch", "update"):
            for _ in range(2):
                change = bodies.change(kind) if row.name != "scale" else _scale(chance)
                if verb == "patch":
                    yield patch(own, chance.choice(("merge", "strategic", "merge")), change, name=f"{name} patch")
                else:
                    base = (
                        {"$merge": ["${obj}", {"metadata": {"resourceVersion": None}}, change]}
                        if row.name != "scale"
                        else change
                    )
                    yield step("PUT", own, f"{name} update", base, query=some(chance, _WRITE_OPTIONS, 1))
        elif verb in row.verbs or chance.random() < 0.1:
            yield step("POST" if verb == "create" else "DELETE", own, f"{name} {verb}", _scale(chance))
    yield patch(
        own,
        "apply",
        {"apiVersion": kind.api_version, "kind": kind.kind, **bodies.change(kind)},
        query={"fieldManager": "s"},
        name=f"{name} apply",
    )


def _scale(chance: Random) -> Tree:
    version = chance.choice(("autoscaling/v1", "autoscaling/v1", "v1", ""))
    spec = chance.choice(({"replicas": 2}, {"replicas": -1}, {"replicas": "x"}, {}, None, {"replicas": 2**31}))
    metadata = chance.choice(({"name": "one"}, {"name": "other"}, {}, {"name": "one", "resourceVersion": "1"}))
    return {"apiVersion": version, "kind": chance.choice(("Scale", "Scale", "x")), "metadata": metadata, "spec": spec}


def _deletes(bodies: Bodies, kind: Kind, collection: str, path: str) -> Iterator[Step]:
    chance = bodies.chance
    for _ in range(3):
        yield step(
            "DELETE",
            path,
            "delete tried",
            _delete_options(chance),
            query={**some(chance, _DELETE_OPTIONS, 2), "dryRun": "All"},
        )
    wrong = {
        "preconditions": chance.choice(
            ({"uid": "00000000-0000-0000-0000-000000000001"}, {"resourceVersion": "1"}, {"uid": ""})
        )
    }
    yield step("DELETE", path, "delete with preconditions", wrong)
    if kind.namespaced:
        labelled = {"labelSelector": chance.choice(("diff=none", "a in (", "diff=${ns}")), "dryRun": "All"}
        yield step("DELETE", collection, "delete collection", query=labelled)
    yield patch(
        path, "merge", {"metadata": {"finalizers": [chance.choice(("example.com/a", "orphan", "foregroundDeletion"))]}}
    )
    yield step(
        "DELETE",
        path,
        "delete",
        _delete_options(chance, whole=True),
        query=some(chance, {"gracePeriodSeconds": ["0", "1"]}, 1),
    )
    yield step("GET", path, "get")
    yield patch(path, "merge", {"metadata": {"labels": {"late": "x"}}})
    yield patch(path, "merge", {"metadata": {"finalizers": None}})
    yield step("DELETE", path, "delete", query={"gracePeriodSeconds": "0"})
    yield step("GET", path, "get")
    yield _put(chance, path, named(kind, bodies.valid(kind, "one"), "one"), "update of none", {"dryRun": "All"})


def _delete_options(chance: Random, *, whole: bool = False) -> Any:
    if whole:
        return chance.choice(
            (
                None,
                {},
                {"propagationPolicy": "Background"},
                {"propagationPolicy": "Foreground"},
                {"propagationPolicy": "Orphan"},
            )
        )
    return chance.choice((
        None, {}, [], {"kind": "DeleteOptions", "apiVersion": "v1"}, {"kind": "DeleteOptions", "apiVersion": "apps/v1"}, {"kind": "Pod", "apiVersion": "v1"},
        {"kind": "DeleteOptions", "apiVersion": "nosuch/v1"}, {"gracePeriodSeconds": -1}, {"gracePeriodSeconds": "x"}, {"propagationPolicy": "x"},
        {"orphanDependents": True, "propagationPolicy": "Orphan"}, {"orphanDependents": True}, {"dryRun": ["x"]}, {"dryRun": ["All"]},
        {"preconditions": {"uid": "x"}}, {"preconditions": {}}, {"preconditions": {"resourceVersion": ""}}, {"nosuch": 1},
    ))  # fmt: skip
