"""Words of expressions."""

from __future__ import annotations

import pytest

from bayplan.api.cel.tokens import string_value, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'a'", "a"),
        ('"it\'s"', "it's"),
        (r"'\u00e9\x41\101\n\t\\\'\?'", "éAA\n\t\\'?"),
        (r"'\U0001F600'", "\U0001f600"),
        (r"r'a\d'", r"a\d"),
        ("'''it's\ntwo lines'''", "it's\ntwo lines"),
        ('R"""a"b"""', 'a"b'),
        ("''", ""),
    ],
)
def test_what_strings_stand_for(text: str, expected: str) -> None:
    assert [one.kind for one in tokens(text)[0]] == ["string", "end"]
    assert string_value(text) == expected


def test_kinds_and_places_of_words() -> None:
    found = [(one.kind, one.text, one.offset) for one in tokens("a.in ?1u:.5e3 // rest\n==b'x' 0x1F intx")[0]]
    assert found == [
        ("name", "a", 0),
        (".", ".", 1),
        ("in", "in", 2),
        ("?", "?", 5),
        ("uint", "1u", 6),
        (":", ":", 8),
        ("double", ".5e3", 9),
        ("==", "==", 22),
        ("bytes", "b'x'", 24),
        ("int", "0x1F", 29),
        ("name", "intx", 34),
        ("end", "<EOF>", 38),
    ]
