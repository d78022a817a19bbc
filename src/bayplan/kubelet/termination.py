"""What containers say at their end: a file that they write, or the last lines of their log (terminationMessagePath, terminationMessagePolicy)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bayplan.kubelet.log_files import parse_line, tail_offset
from bayplan.kubelet.runtime.labels import TERMINATION_PATH, TERMINATION_POLICY
from bayplan.kubelet.runtime.types import ContainerStatus

MOST_MESSAGE = 4096
MOST_FROM_LOG = 2048
MOST_LINES = 80
FALLBACK = "FallbackToLogsOnError"


def explained(status: ContainerStatus) -> ContainerStatus:
    """The status of a container that has ended, with its last words."""
    annotations = status.container.annotations
    message = _from_file(status, annotations.get(TERMINATION_PATH, ""))
    wants_log = annotations.get(TERMINATION_POLICY) == FALLBACK and status.exit_code != 0
    if not message and wants_log and status.reason != "ContainerCannotRun" and status.log_path:
        message = _from_log(Path(status.log_path))
    if not message:
        return status
    return replace(status, message=f"{status.message}: {message}" if status.message else message)


def _from_file(status: ContainerStatus, path: str) -> str:
    if not path:
        return ""
    wanted = path if path.startswith("/") else f"/{path}"
    mount = next((each for each in status.mounts if each.container_path == wanted), None)
    if mount is None:
        return ""
    try:
        with Path(mount.host_path).open("rb") as file:
            file.seek(max(0, Path(mount.host_path).stat().st_size - MOST_MESSAGE))
            return file.read(MOST_MESSAGE).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"Error on reading termination log {mount.host_path}: {error.strerror}"


def _from_log(path: Path) -> str:
    """The last lines of a log."""
    try:
        offset = tail_offset(path, MOST_LINES)
        with path.open("rb") as file:
            file.seek(offset)
            lines = [parse_line(each) for each in file]
    except OSError as error:
        return f"Error reading termination message from logs: {error.strerror}"
    text = b"".join(each.text if each.partial else each.text + b"\n" for each in lines if each is not None)
    return text[-MOST_FROM_LOG:].decode(errors="replace")
