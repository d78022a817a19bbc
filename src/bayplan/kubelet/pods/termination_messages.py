"""Reads what containers say at their end (getTerminationMessage in pkg/kubelet/kuberuntime)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bayplan.kubelet.core.termination_message import (
    MOST_FROM_FILE,
    MOST_FROM_LOG,
    MOST_LINES,
    message_sources,
    with_message,
)
from bayplan.kubelet.logs.files import last_text
from bayplan.kubelet.runtime.types import ContainerStatus
from bayplan.support.blocking import Blocking


class TerminationMessages:
    """Adds the last words of containers to their statuses."""

    def __init__(self, blocking: Blocking) -> None:
        self._blocking = blocking

    async def explain(self, status: ContainerStatus) -> ContainerStatus:
        """The status of a container with what it said at its end; unchanged while it runs."""
        sources = message_sources(status)
        if not sources.file and not sources.log:
            return status

        def read() -> str:
            message = _from_file(sources.file) if sources.file else ""
            return message or (_from_log(sources.log) if sources.log else "")

        return with_message(status, await self._blocking(read))


def _from_file(path: str) -> str:
    """The end of a file; empty if it is not there. Containers may have put anything at its place, so nothing is waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return _failure(path, error)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return f"Error on reading termination log {path}: not a regular file"
        return os.pread(descriptor, MOST_FROM_FILE, max(0, found.st_size - MOST_FROM_FILE)).decode(errors="replace")
    except OSError as error:
        return _failure(path, error)
    finally:
        os.close(descriptor)


def _failure(path: str, error: OSError) -> str:
    return f"Error on reading termination log {path}: {(error.strerror or '').lower()}"


def _from_log(path: str) -> str:
    try:
        return last_text(Path(path), lines=MOST_LINES, most=MOST_FROM_LOG).decode(errors="replace")
    except OSError as error:
        return f"Error on reading termination message from logs: {(error.strerror or '').lower()}"
