"""Objects of one side in a form that can be compared with the other side's."""

from __future__ import annotations

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from tests.differential.controllers.playing import Tree

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_CHANCE: Final = (
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9*-])"), "-*"),
    (re.compile(r"-----BEGIN CERTIFICATE.*-----END CERTIFICATE-----\n", re.DOTALL), "<certificate>"),
    (re.compile(r"\b10\.0\.\d+\.\d+\b"), "<cluster ip>"),
    (re.compile(r"\b10\.1\.\d+\.\d+\b"), "<pod ip>"),
    (re.compile(r"^(LS0tLS1|ZXlK)[A-Za-z0-9+/=]{200,}$"), "<certificate or token>"),
)
"""What is made by chance, and what stands for it."""
_ANY_OF_EQUALS: Final = ("nodeName",)
"""Fields in which pods of one owner differ, of which any may go first."""
_MADE_BY_CHANCE: Final = ("nodePort", "healthCheckNodePort", "targetPort", "port")
_GENERATED: Final = re.compile("[bcdfghjklmnpqrstvwxz2456789]{5}")
"""What is appended to a `generateName`."""
_EMPTY_LISTS: Final = ("f:endpoints", "f:ports")
"""Fields that an empty list makes its writer's in JSON, and that protobuf cannot tell."""
_DROPPED: Final = ("resourceVersion", "uid", "selfLink")


class Names:
    """Generated names and uids of one side -> what stands for them, also when their objects are gone."""

    def __init__(self) -> None:
        self._canonical: dict[str, str] = {}
        self._pattern = self._any_of_them()

    def learn(self, objects: Iterable[Tree]) -> None:
        """Take in the names of these objects."""
        found = list(objects)
        for one in found:
            self._canonical |= _hashes(one)
        self._pattern = self._any_of_them()
        names = {}
        for one in found:
            metadata = one["metadata"]
            name = metadata["name"]
            if _GENERATED.fullmatch(name.removeprefix(metadata.get("generateName", name))):
                names[name] = name = f"{self.text(metadata['generateName'])}*"
            names[metadata["uid"]] = f"<uid of {self.text(name)}>"
        self._canonical |= names
        self._pattern = self._any_of_them()

    def _any_of_them(self) -> re.Pattern[str]:
        return re.compile("|".join(sorted(map(re.escape, self._canonical), key=len, reverse=True)) or "$^")

    def text(self, text: str) -> str:
        """A text with times, names and uids in normal form."""
        text = _TIME.sub("<time>", self._pattern.sub(lambda found: self._canonical[found[0]], text))
        for pattern, normal in _CHANCE:
            text = pattern.sub(normal, text)
        return text

    def tree(self, tree: Any) -> Any:
        """The same for all texts of a tree; lists of endpoints and the like, whose order means nothing, are sorted."""
        match tree:
            case dict():
                return {
                    self.text(key): "<number>"
                    if key in _MADE_BY_CHANCE and isinstance(value, int) and value > 10_000
                    else self.tree(value)
                    for key, value in tree.items()
                    if key not in (*_DROPPED, *_ANY_OF_EQUALS, *_EMPTY_LISTS)
                }
            case list():
                items = [self.tree(each) for each in tree]
                if items and all(
                    isinstance(each, dict) and any(key in each for key in ("addresses", "ip", "port")) for each in items
                ):
                    items.sort(key=json.dumps)
                return items
            case str():
                return self.text(tree)
        return tree


def _hashes(one: Tree) -> dict[str, str]:
    """What a ReplicaSet or a ControllerRevision is called after, and what stands for that: the hash of a template differs from Kubernetes' own."""
    metadata = one["metadata"]
    if (name := metadata.get("labels", {}).get("pod-template-hash")) and "template" in one.get("spec", {}):
        template = {**one["spec"]["template"], "metadata": {}}
        return {name: f"<template {_sum(template)}>"}
    if "revision" in one and "data" in one:
        return {metadata["name"].rpartition("-")[2]: f"<revision {_sum(one['data'])}>"}
    return {}


def _sum(tree: Any) -> int:
    return zlib.crc32(json.dumps(tree, sort_keys=True).encode())


def objects(names: Names, kind: str, found: Iterable[Tree]) -> dict[str, list[str]]:
    """Objects of a kind by `namespace/name`, each as the lines of a document; those of one generated name are in the order of these."""
    by_key: dict[str, list[str]] = defaultdict(list)
    for one in found:
        tree = names.tree(one)
        if kind == "Event":
            key, tree = _event(tree)
        else:
            metadata = tree["metadata"]
            if kind == "Namespace" and "deletionTimestamp" in metadata:
                # Kubernetes says that nothing remains as long as there are pods; Bayplan tells how many.
                tree["status"].pop("conditions", None)
            key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        by_key[f"{kind} {key}"].append(json.dumps(tree, indent=1, sort_keys=True))
    return {key: sorted(found) for key, found in by_key.items()}


def _event(tree: Tree) -> tuple[str, Tree]:
    """What an event tells, without how often and when."""
    regarding = tree["involvedObject"]
    key = f"{tree['metadata']['namespace']}/{regarding['kind']}/{regarding.get('name')}"
    regarding.pop("resourceVersion", None)
    kept = ("involvedObject", "reason", "message", "type", "source", "reportingComponent", "action")
    return key, {name: tree[name] for name in kept if name in tree}
