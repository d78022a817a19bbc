"""Devices that have to get ready before their pod is bound, and do not."""

from __future__ import annotations

from pathlib import Path

import yaml
from msgspec.structs import replace

from bayplan.api.types.resource_v1 import AllocatedDeviceStatus, ResourceClaim
from bayplan.scheduler.library import typed
from tests.scheduler.devices import DRIVER, claim, device, device_class, slice_of, user
from tests.scheduler.objects import Tree, node
from tests.scheduler.running import World, play

LATE = device("gpu-0") | {"bindsToNode": True, "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
CLUSTER = (node("a"), device_class(), slice_of("a", LATE), claim("c"), user("p", "c"))


async def written(world: World) -> ResourceClaim:
    """The claim once it is allocated."""

    async def allocated() -> ResourceClaim | None:
        found = await world.client.get(ResourceClaim, "c", "default")
        return found if found.status.allocation is not None and found.status.reserved_for else None

    found: ResourceClaim = await world.until(allocated)
    return found


def condition(kind: str) -> Tree:
    return {
        "type": kind,
        "status": "True",
        "reason": "Why",
        "message": "so",
        "lastTransitionTime": "2026-03-01T00:00:00Z",
    }


async def report(world: World, kind: str) -> None:
    """What the driver says of the device."""
    tree = {"driver": DRIVER, "pool": "a", "device": "gpu-0", "conditions": [condition(kind)]}
    shown = typed("ResourceClaim", claim("c") | {"status": {"devices": [tree]}}).status.devices
    devices: tuple[AllocatedDeviceStatus, ...] = shown
    found = await written(world)
    await world.client.update_status(replace(found, status=replace(found.status, devices=devices)))


def test_a_pod_is_bound_when_its_devices_are_ready_and_the_time_of_their_allocation_is_written() -> None:
    async def story(world: World) -> None:
        await world.create(*CLUSTER)
        found = await written(world)
        assert found.status.allocation is not None
        assert found.status.allocation.allocation_timestamp is not None
        assert not (await world.pod("p")).spec.node_name
        await report(world, "ready")
        assert await world.bound("p") == "a"

    play(story)


def test_a_device_that_fails_is_told_and_given_up() -> None:
    async def story(world: World) -> None:
        await world.create(*CLUSTER)
        await report(world, "broken")
        failure = 'running PreBind plugin "DynamicResources": device binding failed: claim=c, reason=Why, message="so"'
        assert await world.refused("p", "device binding failed") == failure
        await world.refused("p", "deallocation of ResourceClaim completed")

    play(story)


def test_a_device_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    args = [{"name": "DynamicResources", "args": {"bindingTimeout": "1s"}}]
    config.write_text(yaml.safe_dump({"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": args}]}))

    async def story(world: World) -> None:
        await world.create(*CLUSTER)
        await world.refused("p", "device binding timeout: context deadline exceeded")
        await world.refused("p", "deallocation of ResourceClaim completed")

    play(story, config=config)
