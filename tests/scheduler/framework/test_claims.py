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
from bayplan.scheduler.framework.claims import FINALIZER, ClaimWriter
from bayplan.scheduler.framework.extension_points import Actions
from bayplan.scheduler.framework.verdicts import ActionError, PluginError
from bayplan.scheduler.snapshot.snapshot import Snapshot
from tests.scheduler.objects import pod
from tests.scheduler.plugins.test_dynamic_resources import allocated, claim


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

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        raise AssertionError("nothing is to be waited for")


FRESH = from_tree(ResourceClaim, claim("c"))
GIVEN = from_tree(ResourceClaim, allocated("c", "a"))
POD = from_tree(Pod, pod("p"))


def with_user(held: ResourceClaim, name: str) -> ResourceClaim:
    user = ResourceClaimConsumerReference(resource="pods", name=name, uid=f"uid-{name}")
    return replace(held, status=replace(held.status, reserved_for=(*held.status.reserved_for, user)))


def write(server: Server, given: ResourceClaim | None) -> ResourceClaim:
    return asyncio.run(ClaimWriter("DynamicResources", Snapshot()).bind(server.held, given, POD, server))


def test_allocation_finalizer_and_user_are_written() -> None:
    written = write(Server(FRESH), GIVEN)
    assert written.metadata.finalizers == (FINALIZER,)
    assert written.status.allocation == GIVEN.status.allocation
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
