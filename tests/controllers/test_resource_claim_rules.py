from __future__ import annotations

import pytest

from bayplan.api.types import core_v1, meta_v1, resource_v1
from bayplan.controllers.volumes import resource_claim_rules as rules
from bayplan.testing import builders


@pytest.mark.parametrize(
    ("pod", "claim", "base"),
    [
        ("web", "gpu", "web-gpu-"),
        ("p" * 30, "c" * 25, "p" * 30 + "-" + "c" * 25 + "-"),
        ("p" * 30, "c" * 26, "p" * 29 + "-" + "c" * 25),
        ("p" * 63, "c" * 63, "p" * 28 + "-" + "c" * 28),
    ],
)
def test_names_leave_room_for_chance(pod: str, claim: str, base: str) -> None:
    assert rules.generate_name(pod, claim) == base
    assert len(base) <= 58


def consumer(name: str) -> resource_v1.ResourceClaimConsumerReference:
    return resource_v1.ResourceClaimConsumerReference(resource="pods", name=name, uid=name)


def claim(
    *users: str, allocated: bool = True, protected: bool = True, leaving: bool = False
) -> resource_v1.ResourceClaim:
    return resource_v1.ResourceClaim(
        metadata=meta_v1.ObjectMeta(
            name="one",
            namespace="default",
            finalizers=(rules.FINALIZER,) if protected else (),
            deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None,
        ),
        status=resource_v1.ResourceClaimStatus(
            allocation=resource_v1.AllocationResult() if allocated else None,
            reserved_for=tuple(consumer(name) for name in users),
        ),
    )


def test_a_claim_that_is_used_stays_as_it_is() -> None:
    assert rules.clean_up(claim("a"), [consumer("a")], None) == rules.Clean()


def test_one_user_less_keeps_the_allocation() -> None:
    plan = rules.clean_up(claim("a", "b"), [consumer("b")], None)
    assert plan.status is not None
    assert plan.status.allocation is not None
    assert plan.status.reserved_for == (consumer("b"),)
    assert not plan.drop_finalizer


def test_the_last_user_takes_the_allocation_along() -> None:
    plan = rules.clean_up(claim("a"), [], None)
    assert plan.status == resource_v1.ResourceClaimStatus()
    assert plan.drop_finalizer
    assert not plan.delete


def test_an_allocation_of_somebody_without_the_finalizer_is_left_to_him() -> None:
    plan = rules.clean_up(claim("a", protected=False), [], None)
    assert plan.status is not None
    assert plan.status.allocation is not None
    assert not plan.drop_finalizer


def test_a_claim_that_is_being_deleted_and_free_may_go() -> None:
    plan = rules.clean_up(claim(leaving=True), [], None)
    assert plan.status is not None
    assert plan.status.allocation is None
    assert plan.drop_finalizer


def test_an_allocation_nobody_has_reserved_yet_is_not_taken_away() -> None:
    assert rules.clean_up(claim(), [], None) == rules.Clean()


@pytest.mark.parametrize(("phase", "deleted"), [("Running", False), ("Succeeded", True)])
def test_a_generated_claim_goes_with_the_end_of_its_pod(phase: str, deleted: bool) -> None:
    owner = core_v1.Pod(metadata=builders.pod("user").metadata, status=core_v1.PodStatus(phase=phase))
    assert rules.clean_up(claim(allocated=False, protected=False), [], owner).delete is deleted
