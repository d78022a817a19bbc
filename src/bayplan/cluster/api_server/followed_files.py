"""Files that are read again when they change: configurations, certificates, keys."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from bayplan.apiserver.authentication.oidc.metrics import hashed
from bayplan.cluster.errors import ClusterError
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry

logger = logging.getLogger(__name__)

Contents = TypeVar("Contents")
LOOKED_AT_EVERY: Final = 10.0
"""Seconds between two looks at files, by default."""


class ReloadMetrics:
    """How often a file was read again, under kube-apiserver's names."""

    def __init__(self, registry: Registry, prefix: str, server_id: str, now: Callable[[], float]) -> None:
        """prefix: of the names. server_id: names the API server; its hash is a label."""
        labels = ("status", "apiserver_id_hash")
        self._server = hashed(server_id)
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

    def record(self, contents: bytes | None) -> None:
        """Count a reload, which brought these contents into force; None if it failed."""
        status = "success" if contents is not None else "failure"
        self._total.labels(status, self._server).inc()
        self._last.labels(status, self._server).set(self._now())
        if contents is not None:
            self.in_force(contents)

    def in_force(self, data: bytes) -> None:
        """Tell which file is in force."""
        if self._hash:
            self._info.remove(self._server, self._hash)
        self._hash = hashed(data)
        self._info.labels(self._server, self._hash).set(1.0)


class FollowedFiles(Generic[Contents]):
    """Files whose contents are brought into force together. What cannot be used is reported once and changes nothing."""

    def __init__(
        self,
        what: str,
        read: Callable[[], Contents],
        use: Callable[[Contents], Awaitable[None]],
        clock: Clock,
        *,
        every: float = LOOKED_AT_EVERY,
        record: Callable[[Contents | None], None] = lambda contents: None,
    ) -> None:
        """what: the files, for the log. read: their contents, which can be compared; raises OSError. use: brings others into force; raises OSError for contents
        that may be usable later, and another error for those that never will be. record: called with what came into force, or None for what could not."""
        self._what = what
        self._read = read
        self._use = use
        self._clock = clock
        self._every = every
        self._record = record
        self._seen: Contents | None = None

    def begin(self) -> Contents:
        """The contents to begin with. Raises OSError."""
        self._seen = self._read()
        return self._seen

    async def follow(self, changed: Callable[[], Awaitable[None]] | None = None) -> None:
        """Look at the files now and then. changed: called when others have come into force."""
        while True:
            await self._clock.sleep(self._every)
            if await self.look() and changed is not None:
                await changed()

    async def look(self) -> bool:
        """Read the files again; whether that brought others into force."""
        try:
            found = self._read()
            if found == self._seen:
                return False
            await self._use(found)
        except ssl.SSLError as error:  # an OSError that is about the contents
            return self._failed(error, found)
        except OSError as error:
            return self._failed(error, self._seen)
        except (ValueError, ClusterError) as error:
            return self._failed(error, found)
        self._seen = found
        logger.info("%s: what is there now is in force", self._what)
        self._record(found)
        return True

    def _failed(self, error: Exception, seen: Contents | None) -> bool:
        """seen: what is not tried again until it changes."""
        self._seen = seen
        logger.error("%s cannot be used, what was in force stays: %s", self._what, error)
        self._record(None)
        return False
