"""A configuration file that is read again when it changes. What cannot be used is reported and changes nothing."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.support.clock import Clock
from bayplan.support.metrics import Registry

logger = logging.getLogger(__name__)

_LOOKED_AT_EVERY: Final = 10.0
"""Seconds between two looks at a file."""


class ReloadMetrics:
    """How often a file was read again, under kube-apiserver's names."""

    def __init__(self, registry: Registry, prefix: str, server_id_hash: str, now: Callable[[], float]) -> None:
        """prefix: of the names. server_id_hash: stands for the API server in labels."""
        labels = ("status", "apiserver_id_hash")
        self._server = server_id_hash
        self._now = now
        self._total = registry.counter(
            f"{prefix}_automatic_reloads_total", "Times that the configuration was read again.", labels
        )
        self._last = registry.gauge(
            f"{prefix}_automatic_reload_last_timestamp_seconds", "When it was read again last.", labels
        )
        self._info = registry.gauge(
            f"{prefix}_last_config_info",
            "The configuration in force, with its hash as label.",
            ("apiserver_id_hash", "hash"),
        )
        self._hash = ""

    def record(self, *, is_fine: bool) -> None:
        """Count a reload."""
        status = "success" if is_fine else "failure"
        self._total.labels(status, self._server).inc()
        self._last.labels(status, self._server).set(self._now())

    def in_force(self, data: bytes) -> None:
        """Tell which file is in force."""
        if self._hash:
            self._info.remove(self._server, self._hash)
        self._hash = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._info.labels(self._server, self._hash).set(1.0)


class FollowedFile:
    """One file."""

    def __init__(
        self, path: Path, changed: Callable[[bytes], Awaitable[None]], clock: Clock, metrics: ReloadMetrics
    ) -> None:
        """changed: brings another content into force; raises ConfigurationError for one that never will be, TimeoutError or OSError for one that may be later."""
        self._path = path
        self._changed = changed
        self._clock = clock
        self._metrics = metrics
        self._seen = b""

    def read(self) -> bytes:
        """The content to begin with. Raises OSError."""
        self._seen = self._path.read_bytes()
        self._metrics.in_force(self._seen)
        return self._seen

    async def follow(self) -> None:
        """Look at the file now and then."""
        while True:
            await self._clock.sleep(_LOOKED_AT_EVERY)
            await self.look()

    async def look(self) -> bool:
        """Read the file again; whether that brought another content into force."""
        try:
            data = self._path.read_bytes()
            if data == self._seen:
                return False
            await self._changed(data)
        except ConfigurationError as error:
            self._seen = data
            return self._failed(error)
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            return self._failed(error)
        self._seen = data
        self._metrics.in_force(data)
        self._metrics.record(is_fine=True)
        logger.info("%s is in force as it is now", self._path)
        return True

    def _failed(self, error: Exception) -> bool:
        logger.error("%s cannot be used, what was in force stays: %s", self._path, error)
        self._metrics.record(is_fine=False)
        return False
