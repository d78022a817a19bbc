"""Flags of the audit log, with kube-apiserver's names, defaults and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from bayplan.cli.output import Failure

if TYPE_CHECKING:
    from bayplan.apiserver.audit.policy import Policy
    from bayplan.apiserver.audit.settings import (
        AuditSettings,
        BatchSettings,
        LogSettings,
        TruncateSettings,
        WebhookSettings,
    )

_MODES: Final = "batch, blocking or blocking-strict (a request that cannot be recorded is refused)"
_BACKENDS: Final = (
    ("log", "blocking", "1", "0s", "false", "0", "0"),
    ("webhook", "batch", "400", "30s", "true", "10", "15"),
)


class _Flag(NamedTuple):
    meaning: str
    default: str = ""


def _flags() -> dict[str, _Flag]:
    found = {
        "--audit-policy-file": _Flag("file that says which requests are put into the audit log, and how much of them"),
        "--audit-log-path": _Flag("file that the audit log is written to; - for standard output"),
        "--audit-log-format": _Flag("json, or legacy for a line of text per event", "json"),
        "--audit-log-maxage": _Flag("days that old files of the audit log are kept, 0 for ever", "366"),
        "--audit-log-maxbackup": _Flag("old files of the audit log that are kept, 0 for all", "100"),
        "--audit-log-maxsize": _Flag("megabytes of a file of the audit log, 0 for no limit", "100"),
        "--audit-log-compress": _Flag("whether old files of the audit log are compressed", "false"),
        "--audit-webhook-config-file": _Flag("kubeconfig of a service that audit events are posted to"),
        "--audit-webhook-initial-backoff": _Flag("how long to wait before events are posted again", "10s"),
        "--audit-webhook-batch-initial-backoff": _Flag("the old name of --audit-webhook-initial-backoff"),
    }
    for name, mode, size, wait, throttle, qps, burst in _BACKENDS:
        found |= {
            f"--audit-{name}-version": _Flag("version of events: audit.k8s.io/v1", "audit.k8s.io/v1"),
            f"--audit-{name}-mode": _Flag(f"whether requests wait until they are recorded: {_MODES}", mode),
            f"--audit-{name}-batch-buffer-size": _Flag("events that may wait in mode batch", "10000"),
            f"--audit-{name}-batch-max-size": _Flag("events of a batch", size),
            f"--audit-{name}-batch-max-wait": _Flag("how long events wait for their batch to be full", wait),
            f"--audit-{name}-batch-throttle-enable": _Flag("whether the number of batches is limited", throttle),
            f"--audit-{name}-batch-throttle-qps": _Flag("batches a second on average", qps),
            f"--audit-{name}-batch-throttle-burst": _Flag("batches at once after a rest", burst),
            f"--audit-{name}-truncate-enabled": _Flag("whether large events lose their objects", "false"),
            f"--audit-{name}-truncate-max-event-size": _Flag("bytes of an event", "102400"),
            f"--audit-{name}-truncate-max-batch-size": _Flag("bytes of a batch", "10485760"),
        }
    return found


_FLAGS: Final = _flags()
AUDIT_FLAGS: Final = {
    name: f"{flag.meaning} (default {flag.default})" if flag.default else flag.meaning for name, flag in _FLAGS.items()
}
"""Name -> meaning."""


def audit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags as options of a command, which gets them as texts, empty unless given."""
    for name, meaning in reversed(AUDIT_FLAGS.items()):
        is_switch = _FLAGS[name].default in ("true", "false")
        more: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if is_switch else {}
        help_text = f"{meaning[:1].upper()}{meaning[1:]}."
        function = click.option(name, default="", metavar="true|false" if is_switch else None, help=help_text, **more)(
            function
        )
    return function


def audit_settings(given: Mapping[str, str]) -> AuditSettings | None:
    """What the flags say, by name; None if none is given. Raises UsageError, Failure."""
    if not any(given.get(name) for name in _FLAGS):
        return None
    from bayplan.apiserver.audit.settings import AuditSettings

    flags = _Given(given)
    policy = flags.text("--audit-policy-file")
    settings = AuditSettings(
        log=_log(flags) if flags.text("--audit-log-path") else None,
        webhook=_webhook(flags) if flags.text("--audit-webhook-config-file") else None,
    )
    return replace(settings, policy=read_policy(Path(policy))) if policy else settings


def read_policy(path: Path) -> Policy:
    """The policy in a file. Raises Failure."""
    from bayplan.apiserver.audit.policy_file import PolicyError, parse_policy

    try:
        return parse_policy(path.read_bytes())
    except OSError as error:
        why = f"open {path}: {(error.strerror or str(error)).lower()}"
        raise Failure(f'loading audit policy file: failed to read file path "{path}": {why}') from error
    except PolicyError as error:
        raise Failure(f"loading audit policy file: {error}: from file {path}") from error


class _Given:
    """Values of flags, with their defaults. Its methods raise UsageError."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        """As it stands there."""
        return self._given.get(name) or _FLAGS[name].default

    def number(self, name: str) -> int:
        """A whole number."""
        return int(self._parsed(name, int, "strconv.ParseInt"))

    def fraction(self, name: str) -> float:
        """Any number."""
        return float(self._parsed(name, float, "strconv.ParseFloat"))

    def seconds(self, name: str) -> float:
        """A duration."""
        from bayplan.cli.flags.kube_flags import seconds

        text = self.text(name)
        return 0.0 if text == "0" else seconds(text)

    def switch(self, name: str) -> bool:
        """Yes or no."""
        text = self.text(name)
        if text.lower() in ("true", "t", "1"):
            return True
        if text.lower() in ("false", "f", "0"):
            return False
        raise _invalid(name, text, "strconv.ParseBool")

    def _parsed(self, name: str, read: Callable[[str], float], function: str) -> float:
        text = self.text(name)
        try:
            return read(text)
        except ValueError:
            raise _invalid(name, text, function) from None


def _invalid(name: str, text: str, function: str) -> click.UsageError:
    problem = f'{function}: parsing "{text}": invalid syntax'
    return click.UsageError(f'invalid argument "{text}" for "{name}" flag: {problem}')


def _log(flags: _Given) -> LogSettings:
    from bayplan.apiserver.audit.settings import FORMATS, LogSettings

    mode, batch, truncate = _before(flags, "log")
    settings = LogSettings(
        path=flags.text("--audit-log-path"),
        format=flags.text("--audit-log-format"),
        mode=mode,
        max_age=flags.number("--audit-log-maxage"),
        max_backups=flags.number("--audit-log-maxbackup"),
        max_size=flags.number("--audit-log-maxsize"),
        compress=flags.switch("--audit-log-compress"),
        batch=batch,
        truncate=truncate,
    )
    if settings.format not in FORMATS:
        allowed = ",".join(FORMATS)
        raise click.UsageError(f'invalid audit log format {settings.format}, allowed formats are "{allowed}"')
    for name in ("maxage", "maxbackup", "maxsize"):
        number = flags.number(f"--audit-log-{name}")
        if number < 0:
            raise click.UsageError(f"--audit-log-{name} {number} can't be a negative number")
    return settings


def _webhook(flags: _Given) -> WebhookSettings:
    from bayplan.apiserver.audit.settings import WebhookSettings

    mode, batch, truncate = _before(flags, "webhook")
    old_name = "--audit-webhook-batch-initial-backoff"
    name = old_name if flags.text(old_name) else "--audit-webhook-initial-backoff"
    return WebhookSettings(
        config_file=Path(flags.text("--audit-webhook-config-file")),
        mode=mode,
        initial_backoff=flags.seconds(name),
        batch=batch,
        truncate=truncate,
    )


def _before(flags: _Given, name: str) -> tuple[str, BatchSettings, TruncateSettings]:
    """Mode, batches and sizes of a backend. Raises UsageError."""
    from bayplan.apiserver.audit.settings import MODES, BatchSettings

    mode = flags.text(f"--audit-{name}-mode")
    if mode not in MODES:
        raise click.UsageError(f'invalid audit {name} mode {mode}, allowed modes are "{",".join(MODES)}"')
    prefix = f"--audit-{name}-batch"
    batch = BatchSettings(
        buffer_size=flags.number(f"{prefix}-buffer-size"),
        max_size=flags.number(f"{prefix}-max-size"),
        max_wait=flags.seconds(f"{prefix}-max-wait"),
        throttle_enable=flags.switch(f"{prefix}-throttle-enable"),
        throttle_qps=flags.fraction(f"{prefix}-throttle-qps"),
        throttle_burst=flags.number(f"{prefix}-throttle-burst"),
    )
    if mode == "batch":
        _check_batch(name, batch)
    return mode, batch, _truncate(flags, name)


def _check_batch(name: str, batch: BatchSettings) -> None:
    """Raises UsageError."""
    positive: dict[str, float] = {"buffer size": batch.buffer_size, "max batch size": batch.max_size}
    if batch.throttle_enable:
        positive |= {"throttle QPS": batch.throttle_qps, "throttle burst": batch.throttle_burst}
    for what, number in positive.items():
        if number <= 0:
            raise click.UsageError(f"invalid audit batch {name} {what} {number:g}, must be a positive number")


def _truncate(flags: _Given, name: str) -> TruncateSettings:
    """Raises UsageError."""
    from bayplan.apiserver.audit.settings import TruncateSettings

    version = flags.text(f"--audit-{name}-version")
    prefix = f"--audit-{name}-truncate"
    event, batch = flags.number(f"{prefix}-max-event-size"), flags.number(f"{prefix}-max-batch-size")
    begin = f"invalid audit truncate {name}"
    if event <= 0:
        raise click.UsageError(f"{begin} max event size {event}, must be a positive number")
    if batch < event:
        raise click.UsageError(f"{begin} max batch size {batch}, must be greater than max event size ({event})")
    if version != "audit.k8s.io/v1":
        raise click.UsageError('invalid group version, allowed versions are [{"audit.k8s.io" "v1"}]')
    return TruncateSettings(enabled=flags.switch(f"{prefix}-enabled"), max_event_size=event)
