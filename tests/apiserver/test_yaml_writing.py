"""Answers in YAML: what `yaml.dump` makes of a tree with texts in go-yaml's styles, at a fraction of its cost and to any depth."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
import yaml

from bayplan.apiserver.yaml.documents import to_json, to_yaml
from tests.cpu_time import cpu_time_below

LETTERS = "ab:#-?!&*%@`'\"{}[]>=|\\,/ \n\tüé😀"
"""Of which no text comes that could be a number or a word of YAML."""
QUOTED = (
    "",
    "<<",
    "yes",
    "null",
    "1:30",
    "2001-01-01",
    "2001-12-14t21:59:43.10-05:00",
    "0x1f",
    "1_000",
    "1e3",
    "1.",
    "+.5",
    "true",
    "Y",
    "-.inf",
    ".nan",
)
OTHERS = (
    "=",
    "-",
    "- a",
    "? b",
    ": ",
    "a:",
    "#x",
    " x",
    "x ",
    "...",
    "---",
    "%a",
    "many words " * 20,
    "two\nlines",
    "two\nlines\n",
    "\n",
    "a" * 200,
)
NUMBERS = (None, True, False, 0, -1, 10**18, 0.5, -0.0, 1e16, 1e300, 5e-324, 1.0)


def _text(chance: random.Random) -> str:
    return "".join(chance.choice(LETTERS) for _ in range(chance.choice((1, 3, 12, 100))))


def _tree(chance: random.Random, depth: int = 0) -> Any:
    sort = chance.random()
    if depth > 5 or sort < 0.5:
        return chance.choice((chance.choice(QUOTED), chance.choice(OTHERS), chance.choice(NUMBERS), _text(chance)))
    if sort < 0.75:
        return {_text(chance): _tree(chance, depth + 1) for _ in range(chance.randrange(5))}
    return [_tree(chance, depth + 1) for _ in range(chance.randrange(5))]


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Makes nodes of a whole tree, then writes these."""


def _represent(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else '"' if text in QUOTED else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent)


@pytest.mark.parametrize("seed", range(20))
def test_trees_are_written_as_by_the_library(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        tree = _tree(chance)
        expected = yaml.dump(tree, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=80)
        assert to_yaml(json.dumps(tree).encode()).decode() == expected


def test_what_is_written_is_read_again() -> None:
    chance = random.Random(0)
    for _ in range(300):
        data = json.dumps(_tree(chance)).encode()
        assert msgspec.json.decode(to_json(to_yaml(data))) == msgspec.json.decode(data)


def test_texts_that_could_be_something_else_are_in_double_quotes() -> None:
    tree = {"b": ["yes", "12", "1:30", "", "a b", "1.2.3"], "a": {"no": None}}
    assert to_yaml(json.dumps(tree).encode()).decode() == (
        'a:\n  "no": null\nb:\n- "yes"\n- "12"\n- "1:30"\n- ""\n- a b\n- 1.2.3\n'
    )


def test_depth_costs_no_stack() -> None:
    assert to_yaml(b"[" * 900 + b"1" + b"]" * 900) == b"- " * 900 + b"1\n"


def test_thousands_of_small_objects_are_written_in_a_moment() -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": str(one)} for one in range(40_000)]
    with cpu_time_below(1.2):
        written = to_yaml(json.dumps({"ownerReferences": owners}).encode())
    assert written.count(b"\n- apiVersion: v1\n  kind: Pod\n  name: p\n  uid: ") == 40_000
