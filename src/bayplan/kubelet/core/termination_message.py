"""What containers say at their end: a file that they write, or the last lines of their log (terminationMessagePath, terminationMessagePolicy)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bayplan.kubelet.runtime.labels import TERMINATION_PATH, TERMINATION_POLICY
from bayplan.kubelet.runtime.types import ContainerState, ContainerStatus

MOST_FROM_FILE = 4096
"""Bytes of the file: its last ones."""
MOST_FROM_LOG, MOST_LINES = 2048, 80
"""Bytes and lines of the log: its last ones."""
_FALLBACK = "FallbackToLogsOnError"
_NEVER_RAN = "ContainerCannotRun"


@dataclass(frozen=True, slots=True)
class MessageSources:
    """Where to look: `file` first, then `log` if the file says nothing. Empty where there is nothing to look at."""

    file: str = ""
    log: str = ""


def message_sources(status: ContainerStatus) -> MessageSources:
    """Where the last words of a container are; nowhere while it runs."""
    if status.container.state is not ContainerState.EXITED:
        return MessageSources()
    annotations = status.container.annotations
    path = annotations.get(TERMINATION_PATH, "")
    inside = path if path.startswith("/") else f"/{path}"
    file = next((each.host_path for each in status.mounts if path and each.container_path == inside), "")
    falls_back = (
        annotations.get(TERMINATION_POLICY) == _FALLBACK and status.exit_code != 0 and status.reason != _NEVER_RAN
    )
    return MessageSources(file, status.log_path if falls_back else "")


def with_message(status: ContainerStatus, message: str) -> ContainerStatus:
    """The status with what the container said, after what the runtime says."""
    if not message:
        return status
    return replace(status, message=f"{status.message}: {message}" if status.message else message)
