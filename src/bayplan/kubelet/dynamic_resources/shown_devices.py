"""How the devices of claims are shown: their health in the status of a container, and what monitors are told. Functions of data."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bayplan.api.types import core_v1
from bayplan.kubelet.dynamic_resources.claims import ClaimState, PreparedDevice
from bayplan.kubelet.dynamic_resources.health import DeviceHealth
from bayplan.kubelet.resource_managers.devices.claimed_devices import ClaimedDevice, ClaimedDevices

HealthOf = Callable[[str, str, str], DeviceHealth]
"""Driver, pool and device -> what is known of it."""


def health_statuses(
    claims: Iterable[tuple[str, str, ClaimState]], health: HealthOf, *, with_messages: bool = True
) -> tuple[core_v1.ResourceStatus, ...]:
    """The health of what a container uses, but for extended resources, as Kubernetes shows it. Devices of one id are shown once.

    claims: (entry of the pod or empty for extended resources, request or empty for all, claim).
    """
    found = []
    for entry, request, claim in claims:
        if not entry:
            continue
        devices: dict[str, core_v1.ResourceHealth] = {}
        for driver, prepared in claim.drivers.items():
            for one in prepared:
                if _is_of(one, request):
                    name = one.cdi_ids[0] if one.cdi_ids else f"{driver}/{one.pool}/{one.name}"
                    known = health(driver, one.pool, one.name)
                    message = (known.message or None) if with_messages else None
                    shown = core_v1.ResourceHealth(resource_id=name, health=known.health, message=message)
                    devices.setdefault(name, shown)
        if devices:
            name = f"claim:{entry}/{request}" if request else f"claim:{entry}"
            found.append(core_v1.ResourceStatus(name=name, resources=tuple(devices.values())))
    return tuple(found)


def _is_of(device: PreparedDevice, request: str) -> bool:
    """Whether a device is for a request, which may name one of its alternatives: `gpu/large`."""
    return not request or not device.request_names or request.partition("/")[0] in device.request_names


def claimed_devices(claims: Iterable[tuple[str, str, ClaimState]]) -> list[ClaimedDevices]:
    """What a container uses as monitors see it: each claim whole, and once."""
    return [_claimed(claim) for claim in {claim.uid: claim for _, _, claim in claims}.values()]


def _claimed(claim: ClaimState) -> ClaimedDevices:
    devices = (
        ClaimedDevice(driver, one.pool, one.name, one.cdi_ids, one.share_id)
        for driver, prepared in claim.drivers.items()
        for one in prepared
    )
    return ClaimedDevices(claim.name, claim.namespace, tuple(devices))
