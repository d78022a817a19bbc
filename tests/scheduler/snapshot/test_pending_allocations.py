"""Allocations that are not written yet: whose they are, and who shares them."""

from __future__ import annotations

from bayplan.api.codec import from_tree
from bayplan.api.types.resource_v1 import ResourceClaim
from bayplan.scheduler.snapshot.pending_allocations import PendingAllocations, identity
from bayplan.scheduler.snapshot.snapshot import Snapshot
from tests.scheduler.devices import allocated, claim

FREE = from_tree(ResourceClaim, claim("c"))
GIVEN = from_tree(ResourceClaim, allocated("c", "a"))
KEY = "uid-c"


def test_a_claim_that_is_shared_is_given_up_when_the_last_of_its_pods_leaves() -> None:
    pending = PendingAllocations()
    pending.open_cycle()
    pending.begin(GIVEN, "g0")
    assert pending.shared(FREE) is GIVEN
    pending.join(GIVEN, "g1")
    assert pending.user_count(FREE) == 2
    assert not pending.leave(KEY, "g0")
    assert dict(pending) == {KEY: GIVEN}
    assert pending.leave(KEY, "g1")
    assert dict(pending) == {}
    assert pending.shared(FREE) is None
    assert not pending.leave(KEY, "g1")


def test_only_what_was_begun_in_the_cycle_is_shared() -> None:
    pending = PendingAllocations()
    pending.begin(GIVEN, "p")
    assert pending.shared(FREE) is None
    pending.open_cycle()
    assert pending.shared(FREE) is None
    assert not pending.close_cycle()


def test_the_end_of_a_cycle_is_news_only_if_something_was_shared() -> None:
    snapshot = Snapshot()
    before = snapshot.structure
    with snapshot.sharing_allocations():
        pass
    assert snapshot.structure == before
    with snapshot.sharing_allocations():
        snapshot.begin_allocation(GIVEN, "g0")
    assert snapshot.structure == before + 2
    assert snapshot.catalog.pending_allocations.shared(FREE) is None


def test_claims_that_no_server_has_seen_are_told_apart_by_name() -> None:
    one, other = claim("c"), claim("d")
    del one["metadata"]["uid"], other["metadata"]["uid"]
    assert [identity(from_tree(ResourceClaim, tree)) for tree in (one, other)] == ["default/c", "default/d"]
