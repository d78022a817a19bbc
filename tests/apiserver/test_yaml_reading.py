"""YAML documents: what they mean is what go-yaml makes of them, and what they cost is bounded."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from bayplan.apiserver.yaml.documents import problem_text, repeated_keys, to_json
from bayplan.apiserver.yaml.scalars import BINARY, YamlProblem, resolve
from tests.cpu_time import cpu_time_below


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[y, No, ~, '', yes please, 'on']", [True, False, None, "", "yes please", "on"]),
        ("[0x1F, 010, 0o17, 0b11, -0b11, 1_000, +12, 08, 1:30]", [31, 8, 15, 3, -3, 1000, 12, 8, "1:30"]),
        ("[1e3, .5, 1., 1e400, 1.5e-3, 99999999999999999999]", [1000, 0.5, 1, "1e400", 0.0015, 100000000000000000000]),
        ("[2001-01-01, !!timestamp 2001-01-01, !!str 12, !!float 3, !!int 0x10]", ["2001-01-01"] * 2 + ["12", 3, 16]),
        ("[!!binary aGk=, !custom {a: 1}, !!set {a, b}, !!python/name:os.system x]", ["hi", {"a": 1}, {"a": None, "b": None}, "x"]),
        ("{1: a, 1.5: b, true: c, 1e6: d, 0x10: e}", {"1": "a", "1.5": "b", "true": "c", "1e+06": "d", "16": "e"}),
        ("a: &x {k: 1}\nb: *x\nc: [*x, &x 2, *x]", {"a": {"k": 1}, "b": {"k": 1}, "c": [{"k": 1}, 2, 2]}),
        ("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3\nc:\n  <<: [{m: 1}, {m: 2, p: 3}]", {"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 3}, "c": {"m": 1, "p": 3}}),
        ("'<<': 1", {"<<": 1}),
        ("a: \"it\\'s\"\nb: 'x'\nc: d\\'e\nf: |\n  \\'", {"a": "it's", "b": "x", "c": "d\\'e", "f": "\\'"}),
        ("a: \"b\\\\/c\"\nb: a\\/b\nc: '\\/'", {"a": "b\\/c", "b": "a\\/b", "c": "\\/"}),
        ("first\n---\nsecond", "first"),
        ("", None),
    ],
)  # fmt: skip
def test_documents_mean_what_go_yaml_makes_of_them(text: str, expected: object) -> None:
    assert msgspec.json.decode(to_json(text.encode())) == expected
    assert msgspec.json.decode(to_json(b"\xff\xfe" + text.encode("utf-16-le"))) == expected


BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%b]\n" % (name, name, b",".join([b"*%c" % (name - 1)] * 9)) for name in b"bcdefghij"
)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(BOMB, "yaml: document contains excessive aliasing", id="an alias bomb"),
        pytest.param(
            b"a: &a " + b"x" * 100_000 + b"\nb: [" + b"*a," * 1000 + b"]",
            "yaml: document contains excessive aliasing",
            id="aliases of a long text",
        ),
        pytest.param(b"a: &a [*a]", "yaml: anchor 'a' value contains itself", id="an alias of itself"),
        pytest.param(b"a: *b", "yaml: unknown anchor 'b' referenced", id="an alias of nothing"),
        pytest.param(b"[" * 1_500_000, "yaml: exceeded max depth of 128", id="nested lists"),
        pytest.param(b"- " * 1_500_000, "yaml: exceeded max depth of 128", id="nested lists in lines"),
        pytest.param(b"{a: " * 700_000, "yaml: exceeded max depth of 128", id="nested maps"),
        pytest.param(
            b"a: &a " + b"[" * 100 + b"]" * 100 + b"\nb: " + b"[" * 100 + b"*a" + b"]" * 100,
            "yaml: line 2: exceeded max depth of 128",
            id="an alias at depth",
        ),
        pytest.param(b"[" + b"a," * 1_000_000 + b"]", "yaml: exceeded max node count of 500000", id="many values"),
        pytest.param(
            b"".join(b"%%TAG !a%d! tag:x\n" % number for number in range(100_000)) + b"--- a",
            "yaml: exceeded max tag directives of 100",
            id="many tag directives",
        ),
        pytest.param(b"<<: 3", "yaml: map merge requires map or sequence of maps as the value", id="a merge of a number"),
        pytest.param(b"[a]: b", 'yaml: invalid map key: []interface {}{"a"}', id="a list as key"),
        pytest.param(b"a: !!int b", "yaml: cannot decode !!str `b` as a !!int", id="a wrong tag"),
        pytest.param(b"a: .inf", "json: unsupported value: +Inf", id="infinity"),
        pytest.param(b"~: [1, b]", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: []interface {}{1, "b"}', id="null as key"),
        pytest.param(b"a: .inf\n~: b", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "b"', id="a key before a number"),
        pytest.param(b"a: .inf\n~: b\n<<: 3", "yaml: map merge requires map or sequence of maps as the value", id="a merge before a key"),
        pytest.param(b"a: .inf\n[b]: c\nd: [", "yaml: line 3: did not find expected node content", id="syntax before anything"),
        pytest.param(b'a: "b\\/c"', "yaml: found unknown escape character", id="an escaped slash"),
        pytest.param(b'a: "b\n\n  c\\\\\\/d"', "yaml: line 3: found unknown escape character", id="an escaped slash further down"),
        pytest.param(b"~: b\n" * 200_000, 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "b"', id="many nulls as keys"),
    ],
)  # fmt: skip
def test_what_costs_too_much_or_means_nothing_is_refused_at_once(data: bytes, problem: str) -> None:
    with cpu_time_below(4), pytest.raises(yaml.YAMLError) as caught:
        to_json(data)
    assert problem_text(caught.value) == problem


def test_names_stand_in_order() -> None:
    assert to_json(b"b: {d: 1e30, c: 2}\na: 1.0\n1: x") == b'{"1":"x","a":1,"b":{"c":2,"d":1e+30}}'


def test_long_numbers_are_text_and_cost_nothing() -> None:
    assert msgspec.json.decode(to_json(b"[%b, 0x%b]" % (b"1" * 100_000, b"f" * 100_000))) == [
        "1" * 100_000,
        "0x" + "f" * 100_000,
    ]


def test_repeated_keys_are_told_with_their_lines() -> None:
    text = b'a: 1\na: 2\n1: 3\n1: 4\n"1": 5\nb:\n  c: {d: 1, d: 2}\n'
    lines = ['line 2: key "a"', "line 4: key 1", 'line 7: key "d"']
    assert repeated_keys(text) == "\n".join(
        ["yaml: unmarshal errors:", *(f"  {one} already set in map" for one in lines)]
    )


@pytest.mark.parametrize("text", ["é", "a", "a-b="])
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(YamlProblem, match="!!binary value contains invalid base64 data"):
        resolve(text, BINARY, is_plain=True)
