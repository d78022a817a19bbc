"""Regular expressions mean what they mean in Go."""

from __future__ import annotations

import pytest

from bayplan.api.custom_resources.patterns import is_well_formed, matches

FOUND = {
    "found anywhere in the text": ("b", "abc"),
    "a class with a bracket in it": ("[[]", "["),
    "a class that begins with the closing bracket": ("^[]a]+$", "]a"),
    "a class of everything but the closing bracket": ("^[^]]$", "a"),
    "braces that repeat nothing": ("^{a}$", "{a}"),
    "a brace without the smaller number": ("^a{,2}$", "a{,2}"),
    "a number of repetitions": ("^a{2,}$", "aaa"),
    "an escaped underscore": (r"\_", "_"),
    "escaped signs": (r"^\/\<\@$", "/<@"),
    "quoted text": (r"^\Qa.b\E.$", "a.bc"),
    "quoted text to the end": (r"^\Q[x", "[x"),
    "ampersands in a class": ("^[a&&b]$", "&"),
    "a range that begins with a dash": ("^[!--/]$", "-"),
    "a dash behind digits": (r"^[\d-.]$", "-"),
    "a range up to a dash": ("^[+--]$", ","),
    "kinds of letters": (r"^[\p{S}\pL]+$", "☁é"),
    "all but a script": (r"^\p{^Greek}\P{Greek}$", "ab"),
    "an octal character": (r"^\101$", "A"),
    "a hexadecimal character": (r"^\x41\x{42}$", "AB"),
    "a named group": ("^(?P<x>a)(?<y>b)$", "ab"),
    "flags": ("(?i)^abc$", "ABC"),
    "flags of a group": ("^(?i:a)b$", "Ab"),
    "the border of a word": (r"\bcat\b", "a cat é"),
    "a letter of another language is no part of a word": (r"a\b", "aé"),
    "a POSIX class": ("^[[:alpha:]_]+$", "b_"),
    "reluctant repetition": ("^a??b+?$", "b"),
    "nothing or something": ("^(a|)$", ""),
    "what is no digit, in a class": (r"^[^\d\s]\D[\W]$", "aé."),
    "a closing brace": ("}]", "}]"),
}
NOT_FOUND = {
    "digits of other languages": (r"^\d$", "٣"),
    "letters of other languages": (r"^\w$", "é"),
    "letters of other languages, in a class": (r"^[\w]$", "é"),
    "blanks of other languages": (r"^\s$", "\u2003"),
    "a vertical tab is no blank": (r"^\s$", "\v"),
    "a newline before the end": ("^a$", "a\n"),
    "the lower case of a text": ("^a$", "A"),
}
MALFORMED = (
    "(?=a)", r"\Z", r"\1", "a**", "a{1001}", "a{2,1}", "a{2}{3}", "(*)", "*", "[a--b]", "[[:foo:]]", "[z-a]", "(", ")", "\\", "[a", r"\y", "(?x)a", "a|*",
    r"[\b]", r"\p{Nothing}",
)  # fmt: skip


@pytest.mark.parametrize(("pattern", "text"), FOUND.values(), ids=FOUND.keys())
def test_found(pattern: str, text: str) -> None:
    assert is_well_formed(pattern)
    assert matches(text, pattern)


@pytest.mark.parametrize(("pattern", "text"), NOT_FOUND.values(), ids=NOT_FOUND.keys())
def test_not_found(pattern: str, text: str) -> None:
    assert is_well_formed(pattern)
    assert not matches(text, pattern)


@pytest.mark.parametrize("pattern", MALFORMED)
def test_malformed(pattern: str) -> None:
    assert not is_well_formed(pattern)
    assert not matches("a", pattern)


def test_patterns_that_would_take_for_ever_elsewhere_do_not() -> None:
    assert not matches("a" * 5000 + "!", "^(a+)+$")
