"""Custom resources: definitions with schemas by chance, rules in CEL, several versions, and objects that fit them or not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.differential.api.bodies import Bodies, Tree, clean
from tests.differential.api.schemas import MESSAGES, NAMES, schema_by_chance, sound_leaf, value_of
from tests.differential.api.steps import ACCEPTS, Step, patch, some, step

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUP = "${ns}.example.com"
_RULES = (
    "self.spec.size > 1",
    "!has(self.spec.a) || self.spec.a != 'x'",
    "has(self.spec.nosuch)",
    "self.spec.size == oldSelf.spec.size",
    "self.metadata.name.startsWith('o')",
    "self.spec.items.all(i, i.size > 0)",
    "self.spec.items.exists(i, i == 'a')",
    "self.spec.size",
    "self.spec.size +",
    "self.spec.a.matches('^[a-z]+$')",
    "size(self.spec.b) < 3",
    "self.spec.mode in ['x', 'y']",
    "self.metadata.labels['a'] == 'b'",
    "nosuch(self)",
    "true",
    "false",
    "duration(self.spec.a) > duration('1s')",
    "quantity(self.spec.a).isGreaterThan(quantity('1'))",
    "self.spec.items.map(i, i).size() == self.spec.items.size()",
)


def _definition(chance: Random, plural: str, *, sound: bool) -> Tree:
    """A definition. sound: whether it is one that servers take, most likely."""
    spec = (
        {"type": "object", "properties": {name: sound_leaf(chance, name) for name in NAMES}}
        if sound
        else schema_by_chance(chance)
    )
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}
    schema: Tree = {"type": "object", "properties": {"spec": spec, "status": status}}
    if chance.random() < 0.6:
        rules = _RULES[:5] if sound else _RULES
        schema["x-kubernetes-validations"] = [
            {"rule": chance.choice(rules), **chance.choice(MESSAGES[:2] if sound else MESSAGES)}
        ]
    version: Tree = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if sound or chance.random() < 0.6:
        scale = {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
        version["subresources"] = {"status": {}, "scale": scale}
    version["additionalPrinterColumns"] = [
        {
            "name": "Size",
            "type": chance.choice(("integer", "string", "number", "boolean", "date")),
            "jsonPath": chance.choice((".spec.size", ".spec.nosuch", ".metadata.creationTimestamp")),
        },
        {"name": "A", "type": "string", "jsonPath": ".spec.a", "priority": chance.choice((0, 1))},
    ]
    if chance.random() < 0.4:
        version["selectableFields"] = [{"jsonPath": chance.choice((".spec.a", ".spec.mode"))}]
    versions = [version]
    if chance.random() < 0.6:
        further = copy.deepcopy(version) | {"name": "v1beta1", "storage": False, "served": chance.random() < 0.8}
        further |= some(chance, {"deprecated": [True], "deprecationWarning": ["old"]}, 2)
        versions.append(further)
    names = {
        "plural": plural,
        "kind": plural.capitalize(),
        "singular": plural[:-1],
        "shortNames": chance.choice(([], [plural[:2]])),
        "categories": chance.choice(([], ["all"])),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{_GROUP}"},
        "spec": {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": versions},
    }  # fmt: skip


class _Objects:
    """Objects of one definition."""

    def __init__(self, bodies: Bodies, definition: Tree) -> None:
        self._bodies, self._chance = bodies, bodies.chance
        spec = definition["spec"]
        self._kind, self._plural = spec["names"]["kind"], spec["names"]["plural"]
        self._schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
        self._versions = [version["name"] for version in spec["versions"]]

    def path(self, name: str = "", version: str = "") -> str:
        chosen = version or self._chance.choice(("v1", "v1", *self._versions))
        return f"/apis/{_GROUP}/{chosen}/namespaces/${{ns}}/{self._plural}" + (f"/{name}" if name else "")

    def body(self, path: str, name: str) -> Tree:
        version = path.split("/")[3]
        body: Tree = {"apiVersion": f"{_GROUP}/{version}", "kind": self._kind, "metadata": {"name": name}}
        body["spec"] = value_of(self._chance, self._schema["properties"]["spec"])
        if self._chance.random() < 0.1:
            self._bodies.spoil(body)
        return clean(body)  # type: ignore[no-any-return]


def customs(bodies: Bodies) -> Iterator[Step]:
    """A definition and what is done with its objects."""
    chance = bodies.chance
    yield from _tried_definitions(bodies)
    definition = _definition(chance, "widgets", sound=True)
    own = f"{_DEFINITIONS}/widgets.{_GROUP}"
    yield step("POST", _DEFINITIONS, "create definition", definition)
    established = {
        "until": {"code": 200, "match": {"/status/conditions/[type=Established]/status": "True"}},
        "timeoutSeconds": 20,
    }
    yield step("GET", own, "get definition", retry=established)
    objects = _Objects(bodies, definition)
    served = {"until": {"code": 200}, "timeoutSeconds": 20}
    yield step("GET", objects.path(version="v1"), "custom list", retry=served)
    yield {"sleep": 1.0}
    yield from _creates(chance, objects)
    base = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": definition["spec"]["names"]["kind"],
        "metadata": {"name": "one"},
        "spec": {"size": 2},
    }
    yield step("POST", objects.path(version="v1"), "custom create", base)
    yield from _changes(chance, objects)
    yield from _subresources(chance, objects.path("one", "v1"))
    yield from _lists(chance, objects)
    for path in (f"/apis/{_GROUP}", f"/apis/{_GROUP}/v1", f"/apis/{_GROUP}/v1beta1"):
        yield step("GET", path, "custom discovery")
    yield step("GET", f"/openapi/v3/apis/{_GROUP}/v1", "custom openapi", retry=served)
    yield from _changed_definitions(chance, own)
    yield step(
        "DELETE",
        objects.path(version="v1"),
        "custom delete collection",
        query=some(chance, {"labelSelector": ["a=b"], "dryRun": ["All"]}, 1),
    )


def _tried_definitions(bodies: Bodies) -> Iterator[Step]:
    """Definitions of which some are sound; none is kept."""
    chance = bodies.chance
    for number in range(12):
        tried = _definition(chance, f"tried{number}s", sound=chance.random() < 0.3)
        if chance.random() < 0.4:
            bodies.spoil(tried["spec"])
        yield step(
            "POST",
            _DEFINITIONS,
            "create definition tried",
            clean(tried),
            query={"dryRun": "All", **some(chance, {"fieldValidation": ["Strict"]}, 1)},
        )


def _creates(chance: Random, objects: _Objects) -> Iterator[Step]:
    for number in range(14):
        path = objects.path()
        options = some(
            chance, {"fieldValidation": ["Strict", "Warn", "Ignore"], "dryRun": ["All"], "fieldManager": ["m"]}, 2
        )
        yield step(
            "POST",
            path,
            "custom create",
            objects.body(path, f"o{number}"),
            query=options,
            managedFields=chance.random() < 0.4,
        )


def _changes(chance: Random, objects: _Objects) -> Iterator[Step]:
    """All ways to change the object `one`."""
    for _ in range(12):
        path = objects.path("one")
        options = some(
            chance, {"fieldValidation": ["Strict", "Warn"], "dryRun": ["All"], "fieldManager": ["m1", "m2"]}, 2
        )
        body = objects.body(path, "one")
        form = chance.choice(("merge", "apply", "apply", "put", "json", "strategic"))
        if form == "put":
            yield step("GET", path, "custom get", capture={"obj": ""}, managedFields=True)
            yield step(
                "PUT",
                path,
                "custom update",
                {"$merge": ["${obj}", {"spec": body.get("spec")}]},
                query=options,
                managedFields=True,
            )
        elif form == "apply":
            query = {"fieldManager": "m1", **options, **some(chance, {"force": ["true", "false"]}, 1)}
            yield patch(path, "apply", body, query=query, name="custom patch apply", managedFields=True)
        elif form == "json":
            value: Any = chance.choice((1, "x", None, {}, body.get("spec")))
            operations = [
                {
                    "op": chance.choice(("add", "replace", "remove", "test")),
                    "path": f"/spec/{chance.choice((*NAMES, 'nosuch'))}",
                    "value": value,
                }
            ]
            yield patch(path, "json", operations, query=options, name="custom patch json")
        else:
            yield patch(path, form, {"spec": body.get("spec")}, query=options, name=f"custom patch {form}")


def _subresources(chance: Random, one: str) -> Iterator[Step]:
    """one: the path of an object."""
    for name in ("status", "scale"):
        yield step("GET", f"{one}/{name}", f"custom {name}")
        yield patch(
            f"{one}/{name}",
            "merge",
            {
                "spec": {"size": chance.choice((1, 5, -1, "x")), "replicas": 4},
                "status": {"replicas": 3, "selector": "a=b"},
            },
            name=f"custom {name} patch",
        )
        scale = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "one"},
            "spec": {"replicas": chance.choice((1, -1, 9))},
        }
        yield step("PUT", f"{one}/{name}", f"custom {name} update", scale)


def _lists(chance: Random, objects: _Objects) -> Iterator[Step]:
    for _ in range(8):
        query = some(
            chance,
            {
                "limit": ["1", "2"],
                "fieldSelector": ["metadata.name=one", "spec.a=x", "spec.mode=x"],
                "labelSelector": ["a=b", "!a"],
                "pretty": ["true"],
                "resourceVersion": ["0", "x"],
            },
            2,
        )
        yield step(
            "GET",
            objects.path(chance.choice(("", "", "one"))),
            "custom list",
            query=query,
            headers={"Accept": chance.choice(ACCEPTS)},
        )


def _changed_definitions(chance: Random, own: str) -> Iterator[Step]:
    """own: the path of the definition."""
    yield patch(
        own,
        "merge",
        {
            "spec": {
                "names": {"kind": chance.choice(("Other", "widgets"))},
                **chance.choice(({}, {"scope": "Cluster"}, {"group": "x"})),
            }
        },
        query={"dryRun": "All"},
        name="definition patch",
    )
    yield patch(
        own,
        "json",
        [{"op": "replace", "path": "/spec/versions/0/storage", "value": False}],
        query={"dryRun": "All"},
        name="definition patch",
    )
