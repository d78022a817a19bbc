"""Settings of the audit log. Names follow kube-apiserver's flags."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bayplan.apiserver.audit.policy import Policy

MODES = ("batch", "blocking", "blocking-strict")
FORMATS = ("legacy", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """How mode `batch` collects events."""

    buffer_size: int = 10000
    """Events that may wait; further ones are lost."""
    max_size: int = 400
    """Events that are handed on together at most."""
    max_wait: float = 30.0
    """Seconds after which fewer are handed on."""
    throttle_enable: bool = True
    """Whether the number of batches a second is limited."""
    throttle_qps: float = 10.0
    """Batches a second on average."""
    throttle_burst: int = 15
    """Batches at once after a rest."""


_LOG_BATCH = BatchSettings(max_size=1, max_wait=0.0, throttle_enable=False, throttle_qps=0.0, throttle_burst=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateSettings:
    """What happens to events that are too large."""

    enabled: bool = False
    """Whether they lose their objects."""
    max_event_size: int = 100 * 1024
    """Bytes of an event, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The audit log as a file."""

    path: str
    """The file; `-` for standard output."""
    format: str = "json"
    """`json`, or `legacy` for a line of text per event."""
    mode: str = "blocking"
    """Whether requests wait for the log: `blocking`, `blocking-strict` (what cannot be recorded is refused), `batch`."""
    max_age: int = 366
    """Days that files set aside are kept; 0 for ever."""
    max_backups: int = 100
    """Files set aside that are kept; 0 for all."""
    max_size: int = 100
    """Megabytes from which on the file is set aside; 0 for never."""
    compress: bool = False
    """Whether files set aside are compressed."""
    batch: BatchSettings = field(default_factory=lambda: _LOG_BATCH)
    """For mode `batch`."""
    truncate: TruncateSettings = field(default_factory=TruncateSettings)
    """What happens to events that are too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """The audit log as a service that events are posted to."""

    config_file: Path
    """The kubeconfig that says where it is and how to reach it."""
    mode: str = "batch"
    """Whether requests wait for it: `batch`, `blocking`, `blocking-strict`."""
    initial_backoff: float = 10.0
    """Seconds before what failed is tried again."""
    batch: BatchSettings = field(default_factory=BatchSettings)
    """For mode `batch`."""
    truncate: TruncateSettings = field(default_factory=TruncateSettings)
    """What happens to events that are too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """What is recorded, and where. Without a policy nothing is."""

    policy: Policy | None = None
    """Which requests are recorded, and how much of them."""
    log: LogSettings | None = None
    """The file that events are written to."""
    webhook: WebhookSettings | None = None
    """The service that they are posted to."""
