"""Every create and update of the recorded transcripts that concerns one object alone is answered as Kubernetes does."""

from __future__ import annotations

import functools

import pytest

from tests.api.golden_cases import Outcome, loosely_equal, outcomes, shown

NOT_OF_ONE_OBJECT = {
    "defaults-services-a 010": "which address families a cluster has is the allocator's to say",
    "defaults-services-a 019": "addresses are the allocator's",
    "defaults-services-a 022": "addresses are the allocator's",
    "defaults-services-a 023": "node ports are the allocator's",
    "invalid-service-a 027": "the allocator refuses before validation",
    "invalid-service-a 029": "the allocator refuses before validation",
}
"""Cases that more than the strategy decides."""


@functools.cache
def by_scenario() -> dict[str, list[Outcome]]:
    """All compared steps."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes():
        found.setdefault(outcome.scenario, []).append(outcome)
    return found


@pytest.mark.parametrize("scenario", sorted(by_scenario()))
def test_strategies_answer_as_recorded(scenario: str) -> None:
    excused = NOT_OF_ONE_OBJECT.keys()
    different = [
        f"{one.step} {one.name}\n  recorded {shown(one.expected)}\n  given    {shown(one.actual)}"
        for one in by_scenario()[scenario]
        if f"{scenario} {one.step}" not in excused and not loosely_equal(one.expected, one.actual)
    ]
    assert not different, "\n".join(different)
