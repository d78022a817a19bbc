"""Puts the audit log of a cluster's API server together: policy, file, service."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from bayplan.api.errors import ApiError
from bayplan.apiserver.audit.auditor import Auditor
from bayplan.apiserver.audit.backend import Backend, Blocking, Failures, Sink
from bayplan.apiserver.audit.batching import Batching
from bayplan.apiserver.audit.log_backend import Lines, LineWriter, LogSink, Output
from bayplan.apiserver.audit.rotation import RotatingFile
from bayplan.apiserver.audit.settings import AuditSettings, LogSettings, WebhookSettings
from bayplan.apiserver.audit.truncation import Truncating
from bayplan.apiserver.audit.webhook_backend import PostError, WebhookSink
from bayplan.apiserver.server import ApiServer
from bayplan.client.errors import KubeconfigError, TransportError
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load
from bayplan.cluster.errors import ClusterError
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

logger = logging.getLogger(__name__)

_NO_POLICY = "No audit policy file provided, no events will be recorded for %s backend"


class _StandardOutput:
    """See Output."""

    def write(self, data: bytes) -> None:
        """See Output."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def close(self) -> None:
        """It stays open."""


class _KubeconfigPoster:
    """See Poster: posts to the server of a kubeconfig, as the user of that."""

    def __init__(self, path: Path) -> None:
        """Raises KubeconfigError."""
        self._transport = HttpTransport(load(path))

    async def post(self, body: bytes) -> None:
        """See Poster."""
        try:
            await self._transport.request("POST", "", {}, body)
        except (ApiError, TransportError) as error:
            raise PostError(str(error)) from error

    async def close(self) -> None:
        """See Poster."""
        await self._transport.close()


def open_audit_log(
    settings: AuditSettings, api: ApiServer, clock: Clock, randomness: Randomness, lines: Lines | None = None
) -> Auditor | None:
    """The audit log that settings describe; None if nothing is to be recorded. To be called on the event loop. Raises ClusterError.

    lines: what writes the file, if another process does."""
    if settings.policy is None:
        for name, given in (("log", settings.log), ("webhook", settings.webhook)):
            if given is not None:
                logger.info(_NO_POLICY, name)
        if settings.log is not None and lines is None:
            _open_file(settings.log, clock).close()
        return None
    failures = Failures(api.metrics)
    backends: list[Backend] = []
    if settings.log is not None:
        sink = LogSink(lines or log_lines(settings.log, clock), settings.log.format, failures)
        backends.append(_before(sink, settings.log, failures, clock))
    if settings.webhook is not None:
        backends.append(_webhook(settings.webhook, failures, clock, randomness))
    return Auditor(settings.policy, backends, api.context, api.metrics) if backends else None


def log_lines(settings: LogSettings, clock: Clock) -> LineWriter:
    """What writes the log file. To be called on the event loop. Raises ClusterError."""
    return LineWriter(_open_file(settings, clock))


def _open_file(settings: LogSettings, clock: Clock) -> Output:
    """Raises ClusterError."""
    if settings.path == "-":
        return _StandardOutput()
    try:
        return RotatingFile(Path(settings.path), settings, clock.now)
    except OSError as error:
        raise ClusterError(f"ensureLogFile: open {settings.path}: {(error.strerror or str(error)).lower()}") from error


def _webhook(settings: WebhookSettings, failures: Failures, clock: Clock, randomness: Randomness) -> Backend:
    """Raises ClusterError."""
    try:
        poster = _KubeconfigPoster(settings.config_file)
    except KubeconfigError as error:
        raise ClusterError(f"initializing audit webhook: {error}") from error
    sink = WebhookSink(poster, settings.initial_backoff, failures, clock=clock, randomness=randomness)
    return _before(sink, settings, failures, clock, side_by_side=True)


def _before(
    sink: Sink,
    settings: LogSettings | WebhookSettings,
    failures: Failures,
    clock: Clock,
    *,
    side_by_side: bool = False,
) -> Backend:
    """What stands before a sink."""
    backend: Backend = (
        Batching(sink, settings.batch, failures, clock, side_by_side=side_by_side)
        if settings.mode == "batch"
        else Blocking(sink, strict=settings.mode == "blocking-strict")
    )
    truncate = settings.truncate
    return Truncating(backend, truncate.max_event_size, failures) if truncate.enabled else backend
