"""What drivers say of the health of their devices, kept in a file as long as they say it (pkg/kubelet/cm/dra/healthinfo.go)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bayplan.kubelet.resource_managers.checkpoint import CORRUPT, read_checkpoint, write_checkpoint
from bayplan.kubelet.resource_managers.errors import CheckpointError
from bayplan.support.clock import Clock
from bayplan.support.timestamps import parse_rfc3339, rfc3339

logger = logging.getLogger(__name__)

NAME: Final = "dra_health_state"
HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"
TIMEOUT: Final = 30.0
"""Seconds that a report holds if its driver does not say how long."""
LONGEST_MESSAGE: Final = 1024
"""Bytes of a message; the rest is cut off."""
_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """What a driver has said of a device. updated: unix seconds. timeout: seconds from then on for which it holds."""

    pool: str
    device: str
    health: str = UNKNOWN
    message: str = ""
    timeout: float = TIMEOUT
    updated: float = 0.0

    @property
    def key(self) -> str:
        """The device among those of its driver."""
        return f"{self.pool}/{self.device}"

    def is_stale(self, now: float) -> bool:
        """Whether it was said too long ago."""
        return now - self.updated > self.timeout


class HealthCache:
    """What is known of devices, by driver."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._drivers: dict[str, dict[str, DeviceHealth]] = {}

    def load(self) -> None:
        """Read what an earlier kubelet has left; without it, the health of devices is unknown until their drivers say it."""
        try:
            tree = read_checkpoint(self._file)
            self._drivers = _drivers_of(tree or {})
        except CheckpointError as error:
            logger.error("the health of devices is unknown: %s", error)

    def of(self, driver: str, pool: str, device: str) -> DeviceHealth:
        """What is known of a device now."""
        unknown = DeviceHealth(pool, device)
        found = self._drivers.get(driver, {}).get(unknown.key, unknown)
        return unknown if found.is_stale(self._clock.now()) else found

    def update(self, driver: str, reported: Iterable[DeviceHealth]) -> list[DeviceHealth]:
        """Take in all that a driver says now; the devices of which it is something new, or of which it has said nothing for too long."""
        now, changed = self._clock.now(), []
        known = self._drivers.setdefault(driver, {})
        fresh = {one.key: replace(one, updated=now) for one in reported}
        for key, one in fresh.items():
            before = known.get(key)
            if before is None or replace(before, updated=now) != one:
                changed.append(one)
        for key, one in known.items():
            if key not in fresh and one.health != UNKNOWN and one.is_stale(now):
                fresh[key] = replace(one, health=UNKNOWN, message="", updated=now)
                changed.append(fresh[key])
        known.update(fresh)
        if changed:
            self._save()
        return changed

    def clear(self, driver: str) -> None:
        """Forget what a driver has said, which says no more."""
        if self._drivers.pop(driver, None) is not None:
            self._save()

    def _save(self) -> None:
        try:
            write_checkpoint(self._file, {name: _tree(devices) for name, devices in self._drivers.items()})
        except CheckpointError as error:
            logger.error("the health of devices will be unknown after a restart: %s", error)


def _tree(devices: dict[str, DeviceHealth]) -> dict[str, Any]:
    return {
        "Devices": {
            key: {
                "PoolName": one.pool,
                "DeviceName": one.device,
                "Health": one.health,
                "LastUpdated": rfc3339(one.updated),
                "HealthCheckTimeout": int(one.timeout * _NANOSECONDS),
                "Message": one.message,
            }
            for key, one in devices.items()
        }
    }


def _drivers_of(tree: dict[str, Any]) -> dict[str, dict[str, DeviceHealth]]:
    """Raises CheckpointError."""
    try:
        return {
            driver: {key: _health(one) for key, one in (state["Devices"] or {}).items()}
            for driver, state in tree.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{CORRUPT}: {error}") from error


def _health(tree: dict[str, Any]) -> DeviceHealth:
    return DeviceHealth(
        tree["PoolName"],
        tree["DeviceName"],
        tree["Health"],
        tree.get("Message") or "",
        (tree.get("HealthCheckTimeout") or 0) / _NANOSECONDS or TIMEOUT,
        parse_rfc3339(tree["LastUpdated"]),
    )
