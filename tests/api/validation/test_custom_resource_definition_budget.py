"""The bounds at which rules are too expensive. Factors and bounds are those of `getCostErrorMessage` and `TotalCost` of apiextensions-apiserver."""

from __future__ import annotations

import pytest

from bayplan.api.validation.custom_resource_definitions.budget import Budget


@pytest.mark.parametrize(
    ("cost", "factor"),
    [
        (10_000_001, "1.000000x"),
        (14_900_000, "1.490000x"),
        (15_000_000, "1.5x"),
        (25_000_000, "2.5x"),
        (1_000_000_000, "100.0x"),
        (1_000_000_001, "more than 100x"),
    ],
)
def test_by_how_much_a_rule_is_too_expensive(cost: int, factor: str) -> None:
    [found] = Budget(limits_rules=True).spend("a", cost, "rule")
    assert f"estimated rule cost exceeds budget by factor of {factor} (try" in str(found)


def test_rules_of_a_schema_that_did_not_change_are_not_too_expensive_by_themselves() -> None:
    assert list(Budget(limits_rules=False).spend("a", 10_000_001, "rule")) == []


@pytest.mark.parametrize(("last", "named"), [(0, []), (1, ["big"]), (999_999, ["big"]), (1_000_000, ["big", "last"])])
def test_a_schema_may_cost_a_hundred_millions(last: int, named: list[str]) -> None:
    budget = Budget(limits_rules=False)
    assert list(budget.spend("big", 100_000_000, "rule")) == []
    assert list(budget.spend("last", last, "rule")) == []
    assert [error.field for error in budget.errors("schema")] == ([*named, "schema"] if named else [])


def test_the_four_most_expensive_rules_are_named() -> None:
    budget = Budget(limits_rules=False)
    for millions in (20, 30, 40, 50, 60):
        assert list(budget.spend(f"at {millions}", millions * 1_000_000, "rule")) == []
    assert [error.field for error in budget.errors("schema")] == ["at 60", "at 50", "at 40", "at 30", "schema"]
