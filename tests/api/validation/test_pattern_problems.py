"""What Go says of malformed regular expressions (`regexp/syntax`)."""

from __future__ import annotations

import pytest

from bayplan.api.custom_resources.patterns import is_well_formed
from bayplan.api.validation.custom_resource_definitions.patterns import pattern_problem


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("*", "missing argument to repetition operator: `*`"),
        ("(*)", "missing argument to repetition operator: `*`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("**", "missing argument to repetition operator: `*`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{1000}(", "missing closing ): `a{1000}(`"),
        ("a{1001,}", "invalid repeat count: `{1001,}`"),
        ("a{1,1001}", "invalid repeat count: `{1,1001}`"),
        ("a{1,1000}(", "missing closing ): `a{1,1000}(`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("a{2,2}(", "missing closing ): `a{2,2}(`"),
        ("a{2,}(", "missing closing ): `a{2,}(`"),
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("[a", "missing closing ]: `[a`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[a-a](", "missing closing ): `[a-a](`"),
        ("[-a](", "missing closing ): `[-a](`"),
        ("[a-](", "missing closing ): `[a-](`"),
        ("[ab-c](", "missing closing ): `[ab-c](`"),
        ("\\", "trailing backslash at end of expression: ``"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\12(", r"missing closing ): `\12(`"),
        (r"\_(", r"missing closing ): `\_(`"),
        (r"\d(", r"missing closing ): `\d(`"),
        (r"[\y]", r"invalid escape sequence: `\y`"),
        (r"[\d](", r"missing closing ): `[\d](`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<=a)", "invalid or unsupported Perl syntax: `(?<=`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?P<a b>c)", "invalid named capture: `(?P<a b>`"),
        ("(?<a b>c)", "invalid named capture: `(?<a b>`"),
        ("(?P<n>a)(", "missing closing ): `(?P<n>a)(`"),
        ("(?i)(", "missing closing ): `(?i)(`"),
    ],
)
def test_problems(pattern: str, problem: str) -> None:
    assert not is_well_formed(pattern)
    assert pattern_problem(pattern) == f"error parsing regexp: {problem}"
