"""Quantities: exact, and written as Kubernetes writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.quantity import PATTERN_MESSAGE, Quantity, canonical, milli_value, parse, value


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1000m", "1"),
        ("1024Ki", "1Mi"),
        ("0.5", "500m"),
        ("1e3", "1e3"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("100e2", "10e3"),
        ("1000Ki", "1000Ki"),
        ("12e6", "12e6"),
        ("-5", "-5"),
        ("0", "0"),
        ("0Gi", "0"),
        ("1.0", "1"),
        ("1E", "1E"),
        ("5E3", "5E3"),
        ("1.500", "1.500"),
        ("+5", "+5"),
        ("007", "007"),
        ("1.000", "1"),
        ("1025Mi", "1025Mi"),
        (" 1 ", "1"),
        (".", "0"),
        ("Ki", "0"),
        ("1e19", "10e18"),
        ("9999999999999999999999", "9999999999999999999999"),
        ("1e-999999999", "1e-9"),
        ("0.1n", "1n"),
        (2, "2"),
        (0.1, "100m"),
    ],
)
def test_is_written_canonically(text: str | float, written: str) -> None:
    assert canonical(text) == written


@pytest.mark.parametrize("text", ["", "1x", "abc", "1.2.3", "1Kx", "1 2"])
def test_what_is_no_quantity_is_refused_in_kubernetes_words(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match") as caught:
        parse(text)
    assert str(caught.value) == PATTERN_MESSAGE


def test_an_unknown_suffix_has_its_own_message() -> None:
    with pytest.raises(ValueError, match="unable to parse quantity's suffix"):
        parse("1e")


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [("100m", 1, 100), ("1.0001", 2, 1001), ("-1.5", -2, -1500), ("2Ki", 2048, 2048000), ("1n", 1, 1)],
)
def test_values_are_rounded_away_from_zero(text: str, whole: int, milli: int) -> None:
    assert (value(text), milli_value(text)) == (whole, milli)


def test_sums_are_exact() -> None:
    total = Quantity(0)
    for _ in range(10):
        total = total.add(parse("0.1"))
    assert total == parse("1")
    assert str(total) == "1"
    assert str(parse("1Gi").sub(parse("1Mi"))) == "1023Mi"


def test_equal_amounts_are_equal_whatever_their_spelling() -> None:
    assert parse("1") == parse("1000m")
    assert hash(parse("1k")) == hash(parse("1e3"))
    assert parse("1Ki") > parse("1k")


@given(st.integers(-(10**15), 10**15), st.sampled_from(["", "m", "k", "Ki", "Mi", "e3", "u"]))
def test_the_canonical_text_means_the_same_amount(number: int, suffix: str) -> None:
    parsed = parse(f"{number}{suffix}")
    assert parse(str(parsed)) == parsed
    assert str(parse(str(parsed))) == str(parsed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1" * 5000, "9223372036854775807"),
        ("-" + "1" * 5000, "-9223372036854775807"),
        ("1" + "0" * 5000 + "e-5000", "1"),
        ("1" + "0" * 5000 + "1e-5001", "1000000001e-9"),
        ("0." + "0" * 5000 + "1", "1n"),
        ("1e-1000000", "1e-9"),
    ],
)
def test_of_very_many_digits_the_first_count(text: str, expected: str) -> None:
    assert canonical(text) == expected


@pytest.mark.parametrize("exponent", ["9" * 5000, "9223372036854775808"])
def test_exponents_beyond_64_bits_are_refused(exponent: str) -> None:
    with pytest.raises(ValueError, match="unable to parse quantity's suffix"):
        canonical(f"1e{exponent}")
