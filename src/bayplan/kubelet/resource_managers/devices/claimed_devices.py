"""What a resource claim gives a container, as the pod resources API shows it."""

from __future__ import annotations

from typing import NamedTuple


class ClaimedDevice(NamedTuple):
    """A device of a claim. cdi_ids: what the runtime calls it. share_id: of a device that several claims share; else empty."""

    driver: str
    pool: str
    name: str
    cdi_ids: tuple[str, ...]
    share_id: str


class ClaimedDevices(NamedTuple):
    """A claim that a container uses, and its devices."""

    claim: str
    namespace: str
    devices: tuple[ClaimedDevice, ...]
