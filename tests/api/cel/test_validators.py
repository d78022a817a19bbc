"""What is asked of literals whose types fit."""

from __future__ import annotations

import pytest

from bayplan.api.cel.checker import Environment, check
from bayplan.api.cel.types import DYN, INT, STRING, list_of, optional_of, struct
from bayplan.api.cel.validators import validate

ENVIRONMENT = Environment(
    {"any": DYN, "count": INT, "name": STRING, "names": list_of(STRING), "thing": struct("Thing"), "maybe": optional_of(INT)},
    {"Thing": {}},
)  # fmt: skip


def told(source: str) -> list[str]:
    checked = check(source, ENVIRONMENT)
    assert checked.root is not None
    assert not checked.issues
    return [f"{one.offset + 1}: {one.message}" for one in validate(checked.root, checked.types)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("[count, 1]", []),
        ("[?maybe, 1]", []),
        ("[any, 1, 'a']", ["7: expected type 'dyn' but found 'int'"]),
        ("{'a': any, 'b': 1}", ["17: expected type 'dyn' but found 'int'"]),
        ("{any: 1, 'b': 1}", ["10: expected type 'dyn' but found 'string'"]),
        ("{?'a': maybe, 'b': 1}", []),
        ("[1, names]", ["5: expected type 'int' but found 'list(string)'"]),
        ("{'a': 1, 2: 3}", ["10: expected type 'string' but found 'int'"]),
        ("'%d %s'.format([1, 'a'])", []),
        ("['x'].map(x, [any, 1])", ["20: expected type 'dyn' but found 'int'"]),
    ],
)
def test_items_of_literals_are_of_one_type(source: str, expected: list[str]) -> None:
    assert told(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("'%s %d %f %e %b %x %X %o %% %.2f'.format([any, count, any, any, count, name, count, count, any])", []),
        ("'%s'.format([names])", []),
        ("name.format([thing])", []),
        ("'%d'.format(any)", []),
        ("'%d'.format([name])", ["14: error during formatting: decimal clause can only be used on integers, was given string"]),
        ("'%f'.format([count])", ["14: error during formatting: fixed-point clause can only be used on doubles, was given int"]),
        ("'%e'.format([count])", ["14: error during formatting: scientific clause can only be used on doubles, was given int"]),
        ("'%o'.format([name])", ["14: error during formatting: octal clause can only be used on integers, was given string"]),
        ("'%b'.format([name])", ["14: error during formatting: only integers and bools can be formatted as binary, was given string"]),
        (
            "'%x'.format([names])",
            ["14: error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given list"],
        ),
        (
            "'%s'.format([[thing]])",
            [
                "15: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types,"
                " durations, and timestamps, was given Thing"
            ],
        ),
        ("'%s %s'.format([name])", ["15: index 1 out of range"]),
        ("'a'.format([name])", ["11: too many arguments supplied to string.format (expected 0, got 1)"]),
        ("'a%'.format([name])", ["12: unexpected end of string"]),
        ("'%k'.format([name])", ['12: could not parse formatting clause: unrecognized formatting clause "k"']),
        (
            "'%.f'.format([any])",
            [
                "13: could not parse formatting clause: error while parsing precision: error while converting precision to integer:"
                ' strconv.Atoi: parsing "": invalid syntax'
            ],
        ),
        (
            "'%.3'.format([any])",
            ["13: could not parse formatting clause: error while parsing precision: could not find end of precision specifier"],
        ),
    ],
)  # fmt: skip
def test_what_is_formatted_suits_the_text(source: str, expected: list[str]) -> None:
    assert told(source) == expected
