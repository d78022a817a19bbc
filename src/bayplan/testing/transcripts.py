"""Recorded transcripts of an API server as data: templates of requests, normal form of answers, levels of comparison.

A transcript is a list of scenarios, a scenario a list of steps, and a step a request with the answer that was recorded. What differs from run to run
(times, uids, revisions, allocated addresses) is replaced by the same marks on both sides before they are compared. Nothing here does I/O.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_UUID = re.compile(r"\b(?!00000000-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b20(?:2[4-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_AGE = re.compile(r"(?:\d+[smhdy])+")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_ADDRESS_IN_YAML = re.compile(r"(?m)^( *clusterIP: | *clusterIPs:\n *- )(\d{1,3}(?:\.\d{1,3}){3})$")
_JWT = re.compile(r"[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}")
_AGE_COLUMNS = frozenset(("age", "last seen", "first seen", "duration", "last schedule"))
_MARKS = [
    (re.compile(r"(kube-api-access-)[a-z0-9]{5}\b"), r"\1<gen5>"),
    (re.compile(r"\n@@ -.*", re.S), "\n<diff>"),
    (re.compile(r'(Invalid value: )(\{"[A-Z].*?\}|\[\{"[A-Z].*?\}\])(?=: [a-z`A-Z])', re.S), r"\1<struct>"),
    (re.compile(r"(too old resource version: )\d+ \(\d+\)"), r"\1<rv> (<rv>)"),
    (re.compile(r"(Too large resource version: )\d+(, current: )\d+"), r"\1<rv>\2<rv>"),
    (re.compile(r"(ResourceVersion in precondition: )\w*(, ResourceVersion in object meta: )\w*"), r"\1<rv>\2<rv>"),
    (re.compile(r"(ResourceVersion in the precondition \()\w*(\) .*? in record \()\w*\)"), r"\1<rv>\2<rv>)"),
    (re.compile(r'(resourceVersion\\*": ?\\*")\d{2,}'), r"\1<rv>"),  # of an object in a message
    (re.compile(r"\b(kubernetes|version)(/| )v\d+\.\d+\.\d+\S*"), r"\1\2<version>"),
]
_ANY_TEXT = re.compile(r"<struct>|<diff>")


def load(path: Path) -> list[dict[str, Any]]:
    """The scenarios of a transcript file. Raises ValueError for another format."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.get("format") != "kube-api-golden/1":
        raise ValueError(f"{path} is not a transcript")
    scenarios: list[dict[str, Any]] = document["scenarios"]
    return scenarios


def _parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def lookup(tree: Any, pointer: str) -> Any:
    """The value at a JSON pointer, None if there is none; `[key=value]` chooses the item of a list."""
    for part in _parts(pointer):
        if isinstance(tree, dict):
            tree = tree.get(part)
        elif isinstance(tree, list) and part.startswith("["):
            key, _, value = part[1:-1].partition("=")
            tree = next((item for item in tree if isinstance(item, dict) and str(item.get(key)) == value), None)
        elif isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree


def without(tree: Any, parts: Sequence[str]) -> Any:
    """A copy without what the pointer's parts name; `*` stands for every key or index."""
    if not parts:
        return tree
    head, rest = parts[0], parts[1:]
    if isinstance(tree, dict):
        return {
            key: without(item, rest) if key == head or head == "*" else item
            for key, item in tree.items()
            if rest or (key != head and head != "*")
        }
    if isinstance(tree, list):
        touched = range(len(tree)) if head == "*" else [int(head)] if head.isdigit() else []
        return [
            (without(item, rest) if rest else "<ignored>") if at in touched else item for at, item in enumerate(tree)
        ]
    return tree


def only(tree: Any, paths: Sequence[Sequence[str]]) -> Any:
    """A copy with nothing but what the pointers' parts name."""
    if any(not path for path in paths):
        return tree
    if isinstance(tree, dict):
        chosen = {key: [path[1:] for path in paths if path[0] in (key, "*")] for key in tree}
        return {key: only(tree[key], inner) for key, inner in chosen.items() if inner}
    if isinstance(tree, list):
        inner = [path[1:] for path in paths if path[0] == "*"]
        return [only(item, inner) for item in tree] if inner else tree
    return tree


def _merged(base: Any, over: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    result = {key: value for key, value in base.items() if over.get(key, value) is not None}
    return result | {key: _merged(base.get(key), value) for key, value in over.items() if value is not None}


def expand(template: Any, variables: Mapping[str, Any]) -> Any:
    """A request's template with its variables filled in. Unknown variables stay."""
    if isinstance(template, str):
        whole = _VARIABLE.fullmatch(template)
        if whole and whole[1] in variables:
            return variables[whole[1]]
        return _VARIABLE.sub(lambda found: str(variables.get(found[1], found[0])), template)
    if isinstance(template, list):
        return [expand(item, variables) for item in template]
    if not isinstance(template, dict):
        return template
    if "$repeat" in template:
        return template["$repeat"] * int(template["$count"])
    if "$range" in template:
        return [expand(template["$item"], {**variables, "i": str(index)}) for index in range(template["$range"])]
    if "$merge" in template:
        result: Any = {}
        for part in template["$merge"]:
            result = _merged(result, expand(part, variables))
        return result
    return {expand(key, variables): expand(value, variables) for key, value in template.items()}


def literals(steps: Iterable[Mapping[str, Any]]) -> set[Any]:
    """Every text and number that the requests spell out: what the server gives back of them is not marked."""
    found: set[Any] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            found.update(value)
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, str | int):
            found.add(value)

    for step in steps:
        for request in (step.get("request"), *step.get("parallel", ())):
            walk([request.get("body"), request.get("text")] if request else None)
    return found


class Normalizer:
    """Puts marks in the place of what differs from run to run, for one scenario."""

    def __init__(self, namespace: str, given: set[Any]) -> None:
        self.namespace = namespace
        self.given = given
        self.captured: dict[str, str] = {}
        """Captured texts by variable name."""
        self._columns: list[str] = []

    def text(self, text: str) -> str:
        """A text with marks."""
        for name, value in sorted(self.captured.items(), key=lambda item: -len(item[1])):
            if len(value) >= 6 and not value.isdigit():
                text = text.replace(value, f"<var:{name}>")
        text = _UUID.sub("<uid>", text.replace(self.namespace, "<ns>"))
        text = _TIME.sub(self._time, text)
        for pattern, mark in _MARKS:
            text = pattern.sub(mark, text)
        if "Invalid value" in text:
            text = _ADDRESS.sub(lambda found: found[0] if found[0] in self.given else "<ip>", text)
        return "<jwt>" if len(text) > 100 and _JWT.fullmatch(text) else text

    def _time(self, found: re.Match[str]) -> str:
        if found[0] in self.given:
            return found[0]
        return {None: "<time>", 7: "<microtime>"}.get(len(found[1]) if found[1] else None, "<nanotime>")

    def document(self, text: str) -> str:
        """A body that is no JSON."""
        text = re.sub(r'("?resourceVersion"?: ?)"\d+"', r'\1"<rv>"', self.text(text))
        text = re.sub(r"(?m)^( *- )(?:\d+[smhdy])+$", r"\1<age>", text)
        text = _ADDRESS_IN_YAML.sub(lambda found: found[0] if found[2] in self.given else f"{found[1]}<ip>", text)
        return re.sub(r"(?m)^( *)managedFields:\n(?:\1[- ] .*\n)*", "", text)  # as in JSON: what YAML says of them

    def tree(self, value: Any, key: str = "", *, managed_fields: bool = False, ages: bool = True) -> Any:
        """A JSON tree with marks."""
        if isinstance(value, dict):
            return self._object(value, managed_fields, ages)
        if isinstance(value, list):
            return [self.tree(item, key, managed_fields=managed_fields, ages=ages) for item in value]
        if isinstance(value, str):
            return self._leaf(key, value)
        if (
            key in ("nodePort", "healthCheckNodePort")
            and isinstance(value, int)
            and value >= 30000
            and value not in self.given
        ):
            return "<nodePort>"
        return value

    def _object(self, value: dict[str, Any], managed_fields: bool, ages: bool) -> dict[str, Any]:
        if value.get("kind") == "Table" and isinstance(value.get("rows"), list):
            value = self._table(value, ages)
        for name in ("groups", "items"):
            if value.get("kind") in ("APIGroupList", "APIGroupDiscoveryList") and name in value:
                value = {**value, name: [row for row in value[name] if not self._is_foreign(row)]}
        result: dict[str, Any] = {}
        for name, item in value.items():
            if name == "managedFields" and not managed_fields:
                continue
            if name == "managedFields" and isinstance(item, list) and all(isinstance(row, dict) for row in item):
                item = sorted(
                    item,
                    key=lambda row: [row.get(one, "") for one in ("manager", "operation", "subresource", "apiVersion")],
                )
            result[self.text(name)] = self.tree(item, name, managed_fields=managed_fields, ages=ages)
        base, full = value.get("generateName"), value.get("name")
        if (
            base
            and isinstance(full, str)
            and full.startswith(base)
            and len(full) == len(base) + 5
            and full not in self.given
        ):
            result["name"] = self.text(base) + "<gen5>"
        return result

    def _is_foreign(self, row: dict[str, Any]) -> bool:
        group = row.get("name") or row.get("metadata", {}).get("name") or ""
        return group.endswith((".example.com", ".example.org")) and self.namespace not in group

    def _leaf(self, key: str, value: str) -> str:
        if key == "resourceVersion" and value not in ("", "0"):
            return "<rv>"
        if key == "continue" and value:
            return "<continue>"
        if key in ("serverAddress", "storageVersionHash", "hash"):
            return "<server>" if key == "serverAddress" else "<hash>"
        if key == "serverRelativeURL":
            return value.partition("?")[0]
        if key in ("clusterIP", "clusterIPs") and _ADDRESS.fullmatch(value) and value not in self.given:
            return "<ip>"
        return "<jwt>" if key == "token" and len(value) > 100 else self.text(value)

    def _table(self, table: dict[str, Any], ages: bool) -> dict[str, Any]:
        columns = table.get("columnDefinitions") or []
        if columns:
            self._columns = ["age" if column["type"] == "date" else column["name"].lower() for column in columns]
        rows = [
            {**row, "cells": [self._cell(index, cell, ages) for index, cell in enumerate(row["cells"])]}
            for row in table["rows"]
        ]
        return {**table, "rows": rows}

    def _cell(self, index: int, cell: Any, ages: bool) -> Any:
        if not isinstance(cell, str):
            return cell
        column = self._columns[index] if index < len(self._columns) else ""
        if ages and column in _AGE_COLUMNS and _AGE.fullmatch(cell) and (column != "duration" or "d" in cell):
            return "<age>"
        if ages:
            cell = re.sub(r"\((?:\d+[smhdy])+ ago\)", "(<age> ago)", cell)
        if column == "cluster-ip" and _ADDRESS.fullmatch(cell) and cell not in self.given:
            return "<ip>"
        if column == "port(s)":
            return re.sub(
                r":(3[0-2]\d{3})/", lambda port: port[0] if int(port[1]) in self.given else ":<nodePort>/", cell
            )
        return cell


def view(body: Any, wanted: Any) -> Any:
    """What a step compares of a body; errors are always compared whole."""
    if isinstance(body, dict) and body.get("kind") == "Status" and body.get("status") == "Failure":
        return body
    if isinstance(wanted, list):
        for one in wanted:
            body = view(body, one)
        return body
    if isinstance(wanted, dict):
        return _parameter_view(body, *next(iter(wanted.items())))
    return _VIEWS[wanted](body) if wanted else body


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    if isinstance(value, list):
        shapes: list[Any] = []
        for item in map(_shape, value):
            if item not in shapes:
                shapes.append(item)
        return shapes
    return f"<{type(value).__name__}>"


_VIEWS: dict[str, Callable[[Any], Any]] = {
    "keys": lambda body: sorted(body) if isinstance(body, dict) else body,
    "shape": _shape,
    "sort": lambda body: (
        sorted(body, key=lambda item: json.dumps(item, sort_keys=True)) if isinstance(body, list) else body
    ),
    "count": lambda body: len(body.get("items") or ()),
    "names": lambda body: [item["metadata"]["name"] for item in body.get("items") or ()],
}


def _parameter_view(body: Any, name: str, argument: str) -> Any:
    if name == "pluck":
        return lookup(body, argument)
    if name == "each":
        return [lookup(item, argument) for item in body] if isinstance(body, list) else body
    if name == "lines":
        return sorted(line for line in str(body).split("\n") if re.search(argument, line))
    if name == "jwt":
        part = str(lookup(body, argument)).split(".")[1]
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return [item for item in body or () if bool(re.search(argument, str(item))) == (name == "grep")]


def differences(expected: Any, actual: Any, path: str = "", *, subset: bool = False) -> list[str]:
    """One line per difference between two trees in normal form."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = [f"{path}.{key}: missing" for key in expected if key not in actual]
        if not subset:
            found += [f"{path}.{key}: unexpected {actual[key]!r}" for key in actual if key not in expected]
        for key in expected.keys() & actual.keys():
            found += differences(expected[key], actual[key], f"{path}.{key}", subset=subset)
        return found
    if isinstance(expected, list) and isinstance(actual, list):
        found = [] if len(expected) == len(actual) else [f"{path}: {len(actual)} items instead of {len(expected)}"]
        for index, pair in enumerate(zip(expected, actual, strict=False)):
            found += differences(*pair, f"{path}[{index}]", subset=subset)
        return found
    if expected == actual and type(expected) is type(actual):
        return []
    if isinstance(expected, str) and isinstance(actual, str) and _ANY_TEXT.search(expected):
        pattern = ".*".join(map(re.escape, _ANY_TEXT.split(expected)))
        if re.fullmatch(pattern, actual, re.S):
            return []
    return [f"{path}: {actual!r} instead of {expected!r}"]


def compare(step: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    """What differs between a step's recorded outcome and another one, at the step's level of comparison."""
    expected, level = step["expect"], step.get("compare", "exact")
    if "outcome" in expected:
        return differences(expected["outcome"], actual.get("outcome"))
    if "events" in expected:
        found = differences(expected["events"], actual.get("events"), "events", subset=level == "subset")
        closed = expected.get("closed")
        return found if closed in (None, actual.get("closed")) else [*found, f"closed: {actual.get('closed')}"]
    if level == "code":
        return differences(expected["code"], actual["code"], "code")
    if level == "status":
        return differences(_status(expected), _status(actual))
    found = differences(expected["code"], actual["code"], "code")
    wanted = expected.get("headers") or {}
    given = {name: value for name, value in actual["headers"].items() if name in wanted or name == "Warning"}
    found += differences(wanted, given, "headers")
    found += differences(expected.get("body"), actual["body"], "body", subset=level == "subset")
    return found + differences(expected.get("layout"), actual.get("layout"), "layout")


def _status(outcome: Mapping[str, Any]) -> dict[str, Any]:
    body = outcome.get("body")
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return {"code": outcome["code"]}
    causes = (body.get("details") or {}).get("causes") or ()
    return {
        "code": outcome["code"],
        "status": body.get("status"),
        "reason": body.get("reason"),
        "causes": sorted([cause.get("reason", ""), cause.get("field", "")] for cause in causes),
    }
