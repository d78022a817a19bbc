"""Writing claims while others write them, too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from bayplan.api.codec import from_tree
from bayplan.api.types.core_v1 import Pod
from bayplan.api.types.resource_v1 import ResourceClaim, ResourceClaimConsumerReference
from bayplan.scheduler.framework.claims import FINALIZER, ClaimWriter, is_user, other_users
from bayplan.scheduler.framework.extension_points import Actions
from bayplan.scheduler.framework.verdicts import ActionError, PluginError
from bayplan.scheduler.snapshot.pending_allocations import PendingAllocation
from bayplan.scheduler.snapshot.snapshot import Snapshot
from tests.scheduler.devices import allocated, claim
from tests.scheduler.objects import pod


class Server(Actions):
    """One claim, guarded by its version; `meddle` is what somebody else does to it before a write."""

    def __init__(self, held: ResourceClaim, *meddle: Callable[[ResourceClaim], ResourceClaim]) -> None:
        self.held = replace(held, metadata=replace(held.metadata, resource_version="1"))
        self.meddle = list(meddle)
        self.deleted = False

    def _store(self, obj: ResourceClaim) -> ResourceClaim:
        version = str(int(self.held.metadata.resource_version) + 1)
        self.held = replace(obj, metadata=replace(obj.metadata, resource_version=version))
        return self.held

    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        if subresource and self.meddle:
            self._store(self.meddle.pop(0)(self.held))
        if obj.metadata.resource_version != self.held.metadata.resource_version:
            raise ActionError("the object has been modified", 409)
        return self._store(obj)

    async def get(self, cls: type[Any], name: str, namespace: str = "") -> Any:
        return self.held

    async def delete(self, obj: Any) -> None:
        self.deleted = True

    async def bind(self, pod: Any, node_name: str) -> None:
        raise AssertionError("nothing is to be bound")

    async def create(self, obj: Any) -> Any:
        raise AssertionError("nothing is to be created")

    def now(self) -> float:
        return 0.0

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        raise AssertionError("nothing is to be waited for")


FRESH = from_tree(ResourceClaim, claim("c"))
GIVEN = from_tree(ResourceClaim, allocated("c", "a"))
POD = from_tree(Pod, pod("p"))


def with_user(held: ResourceClaim, name: str) -> ResourceClaim:
    user = ResourceClaimConsumerReference(resource="pods", name=name, uid=f"uid-{name}")
    return replace(held, status=replace(held.status, reserved_for=(*held.status.reserved_for, user)))


def write(server: Server, given: ResourceClaim | None) -> ResourceClaim:
    pending = PendingAllocation(given) if given is not None else None
    return asyncio.run(ClaimWriter("DynamicResources", Snapshot()).bind(server.held, pending, POD, server))


def test_allocation_finalizer_and_user_are_written() -> None:
    written = write(Server(FRESH), GIVEN)
    assert written.metadata.finalizers == (FINALIZER,)
    assert written.status.allocation is not None
    assert written.status.allocation.allocation_timestamp == "1970-01-01T00:00:00Z"
    assert replace(written.status.allocation, allocation_timestamp=None) == GIVEN.status.allocation
    assert [user.uid for user in written.status.reserved_for] == ["uid-p"]


def test_users_that_came_meanwhile_are_kept() -> None:
    server = Server(GIVEN, lambda held: with_user(held, "q"), lambda held: with_user(held, "r"))
    written = write(server, None)
    assert [user.name for user in written.status.reserved_for] == ["q", "r", "p"]


@pytest.mark.parametrize(
    ("held", "given", "meddle", "problem"),
    [
        (FRESH, GIVEN, lambda held: replace(held, status=GIVEN.status), "allocated elsewhere"),
        (GIVEN, None, lambda held: replace(held, status=FRESH.status), "deallocated elsewhere"),
        (
            FRESH,
            GIVEN,
            lambda held: replace(held, metadata=replace(held.metadata, deletion_timestamp="2026-01-01T00:00:00Z")),
            "deleted",
        ),
    ],
)
def test_a_claim_that_has_become_another_is_an_error(
    held: ResourceClaim,
    given: ResourceClaim | None,
    meddle: Callable[[ResourceClaim], ResourceClaim],
    problem: str,
) -> None:
    with pytest.raises(PluginError, match=f"claim default/c got {problem} in the meantime"):
        write(Server(held, meddle), given)


def test_a_claim_that_changes_for_ever_is_given_up() -> None:
    always = [lambda held: with_user(held, "x")] * 9
    with pytest.raises(ActionError, match="modified"):
        write(Server(GIVEN, *always), None)


def test_a_deleted_claim_loses_users_and_finalizer_first() -> None:
    server = Server(with_user(replace(GIVEN, metadata=replace(GIVEN.metadata, finalizers=(FINALIZER, "mine"))), "p"))
    asyncio.run(ClaimWriter("DynamicResources", Snapshot()).delete(server.held, server))
    assert server.deleted
    assert (server.held.metadata.finalizers, server.held.status.reserved_for) == (("mine",), ())


class Slow(Server):
    """Every write takes a moment, so that writes that are not put in order meet."""

    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        await asyncio.sleep(0)
        return await super().update(obj, subresource=subresource)


def test_pods_that_share_an_allocation_write_it_once_and_themselves_each_however_many_they_are() -> None:
    async def story() -> ResourceClaim:
        server, snapshot, pending = Slow(FRESH), Snapshot(), PendingAllocation(GIVEN)
        snapshot.put_object("ResourceClaim", server.held)
        writer, claim = ClaimWriter("DynamicResources", snapshot), server.held
        users = [from_tree(Pod, pod(f"p{number}")) for number in range(20)]
        await asyncio.gather(*(writer.bind(claim, pending, one, server) for one in users))
        assert pending.is_written
        await asyncio.gather(*(writer.leave(claim, one, server) for one in users[:-1]))
        return server.held

    held = asyncio.run(story())
    assert held.status.allocation is not None
    assert replace(held.status.allocation, allocation_timestamp=None) == GIVEN.status.allocation
    assert [user.name for user in held.status.reserved_for] == ["p19"]


@pytest.mark.parametrize(
    ("now", "problem"),
    [(FRESH, "deallocated elsewhere"), (from_tree(ResourceClaim, allocated("c", "b")), "allocated elsewhere")],
)
def test_a_shared_allocation_that_has_become_another_is_an_error(now: ResourceClaim, problem: str) -> None:
    pending = PendingAllocation(GIVEN, is_written=True)
    with pytest.raises(PluginError, match=f"claim default/c got {problem} in the meantime"):
        asyncio.run(ClaimWriter("DynamicResources", Snapshot()).bind(now, pending, POD, Server(now)))


def test_a_claim_of_the_same_name_is_not_the_claim() -> None:
    again = replace(FRESH, metadata=replace(FRESH.metadata, uid="another"))
    with pytest.raises(PluginError, match="claim default/c got deleted in the meantime"):
        write(Server(FRESH, lambda held: again), GIVEN)


@pytest.mark.parametrize(
    ("user", "name", "uid", "expected"),
    [
        (("pods", "p", "1"), "p", "1", True),
        (("pods", "p", "1"), "p", "2", False),
        (("pods", "p", ""), "p", "", True),
        (("pods", "p", ""), "q", "", False),
        (("pods", "p", ""), "p", "1", False),
        (("podgroups", "p", ""), "p", "", False),
    ],
)
def test_users_are_told_apart_by_uid_and_without_one_by_name(
    user: tuple[str, str, str], name: str, uid: str, expected: bool
) -> None:
    resource, user_name, user_uid = user
    reference = ResourceClaimConsumerReference(resource=resource, name=user_name, uid=user_uid)
    held = replace(GIVEN, status=replace(GIVEN.status, reserved_for=(reference,)))
    assert is_user(held, name, uid) is expected
    assert other_users(held, name, uid) == (() if expected else (reference,))
