"""Bodies of requests: those that the transcripts create, and what chance makes of them.

A body is spoilt in one place or grafted: it gets a piece of another object of its kind, or of one that has fields of its type by chance. Most bodies stay close
to what a server takes, so that more than the first check of it is reached.
"""

from __future__ import annotations

import copy
import functools
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from bayplan.api.kinds import DEFAULT_KINDS, Kind
from tests.fuzz.nonsense import TEXTS, Nonsense

Tree = dict[str, Any]
GOLDEN = Path(__file__).parents[2] / "golden" / "api"
_REFUSALS = Path(__file__).parents[2] / "apiserver" / "refusals.jsonl"
_LIKELY = (
    *(
        "",
        "a",
        "b",
        "A_B",
        "a.b/c",
        "x" * 64,
        "x" * 260,
        "10m",
        "1.5",
        "-1",
        "1e3",
        "1Gi",
        "0",
        "*",
        "10.0.0.1",
        "fd00::1",
    ),
    *("Always", "Never", "None", "Default", "TCP", "UDP", "In", "Exists", "NoExecute", "Delete", "true", "80", "50%"),
    *("2026-01-01T00:00:00Z", "system:a", "example.com/a", "kubernetes.io/a", " a", "a\n", "é", "YQ==", "YQ"),
)
_NUMBERS = (0, 1, -1, 2, 80, 300, 65536, 2**31 - 1, 2**31, 2**53, 2**63, -(2**63) - 1, 1.5, 1.0, 1e30)
_KEPT = ("apiVersion", "kind", "metadata")
"""Fields of an object that are seldom changed: without them nothing else is looked at."""


def _requests() -> Iterator[Tree]:
    for path in sorted(GOLDEN.glob("*.json")):
        for scenario in json.loads(path.read_text(encoding="utf-8"))["scenarios"]:
            for step in scenario["steps"]:
                request = step.get("request") or {}
                if isinstance(request.get("body"), dict) and request["method"] in ("POST", "PUT"):
                    yield {**request, "taken": (step.get("expect") or {}).get("code") in (None, 200, 201)}
    for line in _REFUSALS.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        yield {"path": case["path"], "body": case["object"], "taken": False}


@functools.cache
def corpus() -> dict[Kind, tuple[list[Tree], list[Tree]]]:
    """For each kind bodies that are taken, and further ones that may not be. Names of objects of the cluster begin with `${ns}`."""
    found: dict[Kind, tuple[list[Tree], list[Tree]]] = defaultdict(lambda: ([], []))
    for request in _requests():
        kind = DEFAULT_KINDS.of_kind(str(request["body"].get("apiVersion")), str(request["body"].get("kind")))
        if kind is None or "$repeat" in (text := json.dumps(request["body"])) or "$range" in text or "$merge" in text:
            continue
        is_taken = (
            request["taken"]
            and request["path"].endswith(f"/{kind.plural}")
            and "name" in (request["body"].get("metadata") or {})
        )
        chosen = found[kind][0 if is_taken else 1]
        if request["body"] not in chosen:
            chosen.append(request["body"])
    return dict(found)


def usable(kind: Kind) -> bool:
    """Whether objects of a kind are kept and the transcripts create one."""
    return kind.is_stored and bool(corpus().get(kind, ([], []))[0])


def clean(tree: Any) -> Any:
    """A tree that can be sent as JSON in UTF-8."""
    if isinstance(tree, str):
        return tree.encode(errors="replace").decode()
    if isinstance(tree, dict):
        return {clean(key): clean(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [clean(item) for item in tree]
    return int(1e30) if isinstance(tree, int) and not isinstance(tree, bool) and abs(tree) > 1e40 else tree


class Bodies:
    """Makes bodies by chance."""

    def __init__(self, nonsense: Nonsense) -> None:
        self._nonsense = nonsense
        self.chance: Random = nonsense.chance

    def valid(self, kind: Kind, name: str) -> Tree:
        """An object that servers have taken, under another name."""
        body = copy.deepcopy(self.chance.choice(corpus()[kind][0]))
        return named(kind, body, name)

    def mixed(self, kind: Kind, name: str) -> Tree:
        """An object that may be taken or not."""
        taken, further = corpus()[kind]
        body = copy.deepcopy(self.chance.choice(further if further and self.chance.random() < 0.4 else taken))
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            if self.chance.random() < 0.45:
                self._graft(body, self._donor(kind))
            else:
                self.spoil(body)
        if self.chance.random() < 0.9:
            body = named(kind, body, name)
        return clean(body)  # type: ignore[no-any-return]

    def typed(self, kind: Kind) -> Tree | None:
        """An object with fields of its type by chance; None for a kind without a type."""
        return self._nonsense.typed(kind)  # type: ignore[no-any-return]

    def change(self, kind: Kind) -> Tree:
        """A part of an object, to be laid over one: a piece of another object, one value changed."""
        donor = self._donor(kind)
        part = {key: value for key, value in donor.items() if key not in _KEPT}
        if not part or self.chance.random() < 0.3:
            part = {"metadata": self._metadata()}
        else:
            chosen = self.chance.choice(list(part))
            part = {chosen: self._piece(part[chosen])}
        if self.chance.random() < 0.4:
            self.spoil(part)
        return clean(part)  # type: ignore[no-any-return]

    def _metadata(self) -> Tree:
        chance = self.chance
        return chance.choice((
            {"labels": {chance.choice(("a", "b", "a/b", "A_", "x" * 64)): chance.choice(_LIKELY)}},
            {"annotations": {chance.choice(("a", "A/b", "é")): chance.choice(_LIKELY)}},
            {"finalizers": [chance.choice(("a", "example.com/a", "foregroundDeletion", "orphan", ""))]},
            {"ownerReferences": [{"apiVersion": chance.choice(("v1", "", "a/b/c")), "kind": "Pod", "name": "p", "uid": chance.choice(("u", ""))}]},
            {"uid": "00000000-0000-0000-0000-000000000001"},
            {"name": "other"},
            {"namespace": "other"},
            {"generation": 7},
            {"creationTimestamp": "2020-01-01T00:00:00Z"},
            {"deletionTimestamp": "2020-01-01T00:00:00Z"},
            {"generateName": "g-"},
            {"labels": None},
            {"resourceVersion": chance.choice(("", "0", "1", "x"))},
        ))  # fmt: skip

    def _piece(self, value: Any) -> Any:
        """A branch of a tree."""
        if not isinstance(value, dict) or len(value) < 2 or self.chance.random() < 0.3:
            return value
        key = self.chance.choice(list(value))
        return {key: self._piece(value[key])}

    def _donor(self, kind: Kind) -> Tree:
        if self.chance.random() < 0.35:
            typed: Tree = self._nonsense.typed(kind)
            return typed
        taken, further = corpus()[kind]
        return copy.deepcopy(self.chance.choice([*taken, *further]))

    def _graft(self, body: Any, donor: Any) -> None:
        """Give an object a piece of another one, at the same place."""
        while isinstance(body, dict) and isinstance(donor, dict):
            keys = [key for key in donor if key not in _KEPT] or ["metadata"]
            key = self.chance.choice(keys)
            value = donor.get(key)
            here = body.get(key)
            if isinstance(here, list) and isinstance(value, list) and here and value and self.chance.random() < 0.7:
                body, donor = self.chance.choice(here), self.chance.choice(value)
                continue
            if not isinstance(here, dict) or self.chance.random() < 0.25:
                body[key] = value
                return
            body, donor = here, value

    def spoil(self, value: Any) -> None:
        """Change one place of a tree."""
        chance = self.chance
        while isinstance(value, dict | list) and value:
            if isinstance(value, dict):
                keys = [key for key in value if key not in _KEPT or chance.random() < 0.1] or list(value)
                key: Any = chance.choice(keys)
            else:
                key = chance.randrange(len(value))
            inner = value[key]
            if isinstance(inner, dict | list) and inner and chance.random() < 0.8:
                value = inner
                continue
            self._spoil_at(value, key)
            return

    def _spoil_at(self, parent: Any, key: Any) -> None:
        chance, value = self.chance, parent[key]
        kind = chance.random()
        if kind < 0.12:
            del parent[key]
        elif kind < 0.2:
            parent[key] = None
        elif kind < 0.26 and isinstance(parent, dict):
            parent[chance.choice((*TEXTS[:3], "nosuch", str(key).upper()))] = value
        elif kind < 0.34:
            parent[key] = self._nonsense.tree(2)
        elif isinstance(value, list) and value:
            parent[key] = chance.choice(([], [*value, value[0]], value[:-1], {}, value[0]))
        elif isinstance(value, bool):
            parent[key] = chance.choice((not value, not value, "true", 1))
        elif isinstance(value, int | float):
            parent[key] = chance.choice((*_NUMBERS, value + 1, str(value)))
        elif isinstance(value, str):
            parent[key] = chance.choice((*_LIKELY, value.upper(), f"{value}x", value[:-1], 5))
        else:
            parent[key] = chance.choice(({}, [], "", 0, {"a": "b"}))


def named(kind: Kind, body: Tree, name: str) -> Tree:
    """The object under a name; one of the cluster gets its scenario's name before it, unless its own name says what it is."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or "generateName" in metadata or kind.plural in OWN_NAMES:
        return body
    return {**body, "metadata": {**metadata, "name": name_of(kind, name)}}


def name_of(kind: Kind, name: str) -> str:
    """The name of an object in a scenario."""
    return name if kind.namespaced else f"${{ns}}-{name}"


OWN_NAMES = frozenset(("customresourcedefinitions", "apiservices", "ipaddresses"))
"""Kinds whose objects' names follow from what they hold."""
