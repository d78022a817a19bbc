"""Which types fit each other."""

from __future__ import annotations

import pytest

from bayplan.api.cel.types import Type, named_type
from bayplan.api.cel.unification import most_general, substitute, unify


def types(*texts: str) -> list[Type]:
    return [named_type(one) for one in texts]


@pytest.mark.parametrize(
    ("given", "wanted", "stands_for"),
    [
        (("int",), ("int",), {}),
        (("int",), ("uint",), None),
        (("dyn",), ("list(int)",), {}),
        (("list(dyn)",), ("list(int)",), {}),
        (("list(int)",), ("list(string)",), None),
        (("null",), ("timestamp",), {}),
        (("null",), ("Thing",), {}),
        (("net.IP",), ("null",), {}),
        (("null",), ("string",), None),
        (("Thing",), ("Other",), None),
        (("type(int)",), ("type(string)",), {}),
        (("int", "int"), ("A", "A"), {"A": "int"}),
        (("int", "string"), ("A", "A"), None),
        (("int", "dyn"), ("A", "A"), {"A": "dyn"}),
        (("map(string, int)", "string"), ("map(A, B)", "A"), {"A": "string", "B": "int"}),
        (("A", "int"), ("B", "B"), {"A": "int", "B": "A"}),
        (("list(A)",), ("A",), None),
        (("int", "int"), ("int",), None),
    ],
)
def test_what_fits_and_what_parameters_stand_for_then(
    given: tuple[str, ...], wanted: tuple[str, ...], stands_for: dict[str, str] | None
) -> None:
    known: dict[str, Type] = {}
    found = unify(known, types(*given), types(*wanted))
    assert (None if found is None else {name: str(one) for name, one in found.items()}) == stands_for
    assert known == {}


def test_parameters_are_replaced_through_others() -> None:
    known = {"A": named_type("list(B)"), "B": named_type("int")}
    assert str(substitute(known, named_type("map(string, A)"))) == "map(string, list(int))"
    assert str(substitute(known, named_type("list(C)"))) == "list(C)"
    assert str(substitute(known, named_type("list(C)"), unknown_is_dyn=True)) == "list(dyn)"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("list(dyn)", "list(int)", "list(dyn)"),
        ("list(int)", "list(dyn)", "list(dyn)"),
        ("map(string, A)", "map(string, int)", "map(string, A)"),
        ("int", "int", "int"),
    ],
)
def test_the_more_general_of_two_types(one: str, other: str, expected: str) -> None:
    assert str(most_general(named_type(one), named_type(other))) == expected
