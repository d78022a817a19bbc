"""What is said of text that is no JSON."""

from __future__ import annotations

import json
import random

import pytest

from bayplan.api.json.syntax import repaired, syntax_problem

END = "unexpected end of JSON input"


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b' {"a": [1, -2.5e+3, {"b": null}], "c": {}} ',
        b"[[]]",
        b'"x\\u00e9\\n"',
        b"0",
        b"true",
        b"\t\r\n1",
    ],
)
def test_nothing_is_wrong_with_json(text: bytes) -> None:
    assert syntax_problem(text) == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", END),
        (b"  ", END),
        (b"{", END),
        (b'{"a":', END),
        (b"[1", END),
        (b"nul", "invalid character ' ' in literal null (expecting 'l')"),
        (b"1.", "invalid character ' ' after decimal point in numeric literal"),
        (b'"\\', "invalid character ' ' in string escape code"),
        (b'"x', END),
        (b"x: y", "invalid character 'x' looking for beginning of value"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"{'a':1}", r"invalid character '\'' looking for beginning of object key string"),
        (b"{1:2}", "invalid character '1' looking for beginning of object key string"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"{} {}", "invalid character '{' after top-level value"),
        (b"01", "invalid character '1' after top-level value"),
        (b"- a", "invalid character ' ' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b"trve", "invalid character 'v' in literal true (expecting 'u')"),
        (b'"a\nb"', r"invalid character '\n' in string literal"),
        (rb'"\x"', "invalid character 'x' in string escape code"),
        (rb'"\u12g4"', r"invalid character 'g' in \u hexadecimal character escape"),
        (b"\x00", r"invalid character '\x00' looking for beginning of value"),
        (b"\x81", r"invalid character '\u0081' looking for beginning of value"),
    ],
)
def test_what_is_wrong_is_said_as_go_says_it(text: bytes, problem: str) -> None:
    assert syntax_problem(text) == problem


def test_texts_that_are_no_unicode_are_replaced() -> None:
    assert repaired(rb'{"a": "x\ud800"}').decode() == '{"a": "x\ufffd"}'
    assert repaired(b'["\xff"]').decode() == '["\ufffd"]'


PIECES = (
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    '"',
    "\\",
    "u",
    "0",
    "1",
    "-",
    ".",
    "e",
    "true",
    "null",
    " ",
    "\t",
    "\n",
    "\x00",
    "\x0b",
    "\x7f",
    "\xa0",
    "\ufeff",
    "/",
    "\\ud8",
)
DOCUMENTS = ('{"a":[1,2.5e3,"x\\n"],"b":{"c":null}}', "[]", '""', '{"a":"\\ud800\\udc00"}', "-0.0", ' {"a" : 1 } \n')


def test_nothing_is_wrong_with_what_another_reader_takes_and_only_with_that() -> None:
    chance, taken = random.Random(1), 0
    for _ in range(20_000):
        text = chance.choice(DOCUMENTS)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(PIECES) + text[at + chance.randrange(2) :]
        try:
            json.loads(text)
            is_json = True
        except ValueError:
            is_json = False
        taken += is_json
        assert (not syntax_problem(text.encode())) is is_json, text
    assert 500 < taken < 5_000
