"""Bodies that cannot be read, or not as what they are said to be: JSON, YAML and protobuf with damage, content types and encodings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import yaml

from bayplan.api.kinds import Kind
from tests.differential.api.bodies import Bodies, name_of
from tests.differential.api.steps import PATCHES, Step, step

_TYPES = (
    *("application/json",) * 6,
    *("application/yaml",) * 4,
    *(
        "",
        "text/plain",
        "application/xml",
        "application/json;charset=utf-8",
        "application/json; ;",
        "application/vnd.kubernetes.protobuf",
        "application/cbor",
    ),
    *(
        "application/JSON",
        "application/x-www-form-urlencoded",
        "*/*",
        "application/json,application/yaml",
        "application/json;v=v1;as=Table",
    ),
)
_PIECES = (
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "null",
    "tru",
    "1e999",
    "-",
    "0x1",
    "\x00",
    "\t",
    "//",
    "'",
    "é",
    "\udcff",
    " ",
    "\n",
    "NaN",
    "01",
    "1.",
    "&a",
    "*a",
    "---\n",
    "!!str ",
    "|",
)
_WHOLE = (
    *(
        "",
        " ",
        "null",
        "[]",
        "{}",
        "1",
        "true",
        '"x"',
        "{",
        "[{}]",
        '{"a":1}{"b":2}',
        '{"a":1} x',
        "{}{}",
        "---",
        "---\n---\n",
        "a",
        "a: b",
        "- a",
        "\ufeff{}",
        "%",
    ),
    *(
        '{"kind":"x"}',
        '{"kind":"Pod"}',
        '{"apiVersion":"v1"}',
        '{"apiVersion":"v1","kind":"Status"}',
        '{"kind":5}',
        '{"apiVersion":"apps/v1","kind":"Nosuch"}',
    ),
    *(
        '{"apiVersion":"a/b/c","kind":"x"}',
        '{"apiVersion":"v1","kind":"List","items":[]}',
        '{"metadata":[]}',
        '{"metadata":null}',
        '{"metadata":{"name":5}}',
    ),
    *(
        '{"a":1,"a":2}',
        '{"metadata":{"name":"a","name":"b"}}',
        '{"metadata":{"labels":{"a":1}}}',
        '{"metadata":{"creationTimestamp":"x"}}',
        "a: 1\na: 2",
        "a: [",
        "\ta: b",
    ),
    *(
        "k0s\x00",
        "k8s\x00",
        "k8s\x00\n\x02\n\x00",
        "a: &x b\nc: *x",
        "a: *x",
        "? a",
        "a: !!binary x",
        "a: 2020-01-01",
        "a: 0o7\nb: 1_000",
        "{a: b}",
        "yes: no",
        "<<: {a: b}",
    ),
)


def broken(bodies: Bodies, kind: Kind, count: int) -> Iterator[Step]:
    """Writes whose bodies are damaged. Nothing is kept of those that can be read."""
    chance, collection = bodies.chance, kind.path("${ns}" if kind.namespaced else "")
    path = kind.path("${ns}" if kind.namespaced else "", name_of(kind, "one"))
    yield step("POST", collection, "create", bodies.valid(kind, "one"))
    for _ in range(count):
        method = chance.choice(("POST", "POST", "PUT", "PATCH", "PATCH", "DELETE"))
        form = (
            chance.choice(tuple(PATCHES.values()))
            if method == "PATCH" and chance.random() < 0.9
            else chance.choice(_TYPES)
        )
        text = _text(bodies, kind, form)
        query = {
            "dryRun": "All",
            **({"fieldValidation": chance.choice(("Strict", "Warn", "Ignore"))} if chance.random() < 0.5 else {}),
        }
        if "apply" in form:
            query["fieldManager"] = "m"
        headers: dict[str, Any] = {"Content-Type": form or None}
        if chance.random() < 0.08:
            headers["Content-Encoding"] = chance.choice(("gzip", "br", "identity", ""))
        if chance.random() < 0.08:
            headers["Accept"] = chance.choice(
                ("application/yaml", "text/html", "application/json;as=Table;v=v1;g=meta.k8s.io")
            )
        family = f"broken {method} {form if len(form) < 60 else ''}"
        yield step(method, collection if method == "POST" else path, family, query=query, headers=headers, text=text)


def _text(bodies: Bodies, kind: Kind, form: str) -> str:
    chance: Random = bodies.chance
    if chance.random() < 0.3:
        return chance.choice(_WHOLE)
    body = bodies.valid(kind, "one") if chance.random() < 0.7 else bodies.mixed(kind, "one")
    if "json-patch" in form:
        return _damaged(chance, json.dumps([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]))
    text = yaml.safe_dump(body) if "yaml" in form and chance.random() < 0.7 else json.dumps(body)
    return _damaged(chance, text)


def _damaged(chance: Random, text: str) -> str:
    for _ in range(chance.choice((1, 1, 1, 2))):
        at = chance.randrange(len(text) + 1)
        if "${ns}" in text[max(0, at - 5) : at + 5]:
            continue
        kind = chance.random()
        if kind < 0.35:
            text = text[:at] + chance.choice(_PIECES) + text[at:]
        elif kind < 0.6:
            text = text[:at] + text[at + 1 :]
        elif kind < 0.7:
            text = text[:at]
        elif kind < 0.85:
            text = text[:at] + chance.choice(_PIECES) + text[at + 1 :]
        else:
            key = chance.choice(("kind", "metadata", "spec", "name", "data"))
            text = text.replace(f'"{key}"', f'"{key}": {{}}, "{key}"', 1)
    return text
