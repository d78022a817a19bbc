"""Chooses devices for a container, with what its plugin prefers (devicesToAllocate in pkg/kubelet/cm/devicemanager).

Devices of init containers come first, then those near to the NUMA nodes that were decided, of which the plugin may prefer some, then others, then those that are
nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import dataclass

from bayplan.kubelet.resource_managers.devices.device_calls import PluginCall, PluginReply, PreferredAllocation
from bayplan.kubelet.resource_managers.devices.device_hints import Devices, by_affinity
from bayplan.kubelet.resource_managers.errors import AllocationError, PluginError
from bayplan.kubelet.resource_managers.topology_hints import NumaNodes


@dataclass(frozen=True, slots=True)
class Selection:
    """How many devices of a resource are to be chosen, and from which. asks_plugin: whether the plugin wants to say what it prefers."""

    resource: str
    number: int
    devices: Devices
    available: frozenset[str]
    reusable: frozenset[str]
    affinity: NumaNodes | None
    asks_plugin: bool = False


def select(wanted: Selection, reserved: set[str]) -> Generator[PluginCall, PluginReply, frozenset[str]]:
    """The devices. reserved: gets each of them as soon as it is chosen, so that nobody else takes it while the plugin is asked. Raises AllocationError."""
    chosen: set[str] = set()

    def take(devices: Collection[str]) -> bool:
        """Whether there are enough now."""
        missing = wanted.number - len(chosen)
        some = sorted(set(devices) - chosen)[:missing]
        chosen.update(some)
        reserved.update(some)
        return len(chosen) == wanted.number

    if take(wanted.reusable):
        return frozenset(chosen)
    available = wanted.available - chosen
    missing = wanted.number - len(chosen)
    if len(available) < missing:
        raise AllocationError(
            f"requested number of devices unavailable for {wanted.resource}. Requested: {missing}, Available: {len(available)}"
        )
    near, elsewhere, nowhere = by_affinity(wanted.devices, available, wanted.affinity)
    if missing < len(near):
        preferred = yield from _preferred(wanted, near | chosen, chosen)
        if not take(preferred & near):
            take(near)
        return frozenset(chosen)
    if take(near):
        return frozenset(chosen)
    preferred = yield from _preferred(wanted, available | chosen, chosen)
    for devices in (preferred & available, elsewhere, nowhere):
        if take(devices):
            break
    return frozenset(chosen)


def _preferred(
    wanted: Selection, available: Collection[str], chosen: Collection[str]
) -> Generator[PluginCall, PluginReply, frozenset[str]]:
    if not wanted.asks_plugin:
        return frozenset()
    try:
        reply = yield PreferredAllocation(
            wanted.resource, tuple(sorted(available)), tuple(sorted(chosen)), wanted.number
        )
    except PluginError as error:
        raise AllocationError(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from error
    return frozenset(reply) if isinstance(reply, tuple) else frozenset()
