"""How deep JSON may be nested."""

from __future__ import annotations

import random

import msgspec
import pytest

from bayplan.api.json.nesting import MAX_DEPTH, is_too_deep
from bayplan.api.json.syntax import large_number


@pytest.mark.parametrize("opened", [b"[", b'{"a":', b'{"}]":', b'["\\"]",', b'["\\\\",'])
def test_the_depth_of_json_is_bounded(opened: bytes) -> None:
    closed = b"]" if opened[:1] == b"[" else b"}"
    for levels in (MAX_DEPTH, MAX_DEPTH + 1):
        data = opened * levels + b"1" + closed * levels
        msgspec.json.decode(data)
        assert is_too_deep(data) is (levels > MAX_DEPTH)


def test_brackets_in_strings_and_beside_one_another_are_no_depth() -> None:
    assert not is_too_deep(msgspec.json.encode(["[" * 1000, {"{" * 1000: '"]' * 500}]))
    assert not is_too_deep(b"[" + b",".join([b'{"a":[]}'] * 1000) + b"]")


def test_the_depth_is_that_of_a_count_bracket_by_bracket() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        text = b"[" * chance.randrange(160) + bytes(chance.choice(b'{}[]"ab') for _ in range(chance.randrange(500)))
        depth = deepest = 0
        for part in text.split(b'"')[::2]:
            for byte in part:
                depth += 1 if byte in b"{[" else -1 if byte in b"}]" else 0
                deepest = max(deepest, depth)
        assert is_too_deep(text) is (deepest > MAX_DEPTH)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"[%b]" % (b"9" * 309), "9" * 309),
        (b"[1,-%b]" % (b"9" * 5000), "-" + "9" * 399),
        (b"[%b]" % (b"9" * 308), ""),
        (b"[0.%b]" % (b"9" * 5000), ""),
        (b"[%be-300]" % (b"9" * 400), ""),
        (b'["%b"]' % (b"9" * 5000), ""),
        (b'["\\"%b"]' % (b"9" * 5000), ""),
    ],
    ids=["just too large", "long", "just fits", "a fraction", "a small exponent", "a text", "a text behind an escape"],
)
def test_numbers_that_fit_no_float_are_found(data: bytes, found: str) -> None:
    assert large_number(data) == found
