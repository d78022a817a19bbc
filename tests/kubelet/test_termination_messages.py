"""What a container says at its end is in its pod's status."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bayplan.kubelet.pods.termination_messages import TerminationMessages
from bayplan.kubelet.runtime.types import Container, ContainerState, ContainerStatus, Mount
from bayplan.support.blocking import at_once
from bayplan.support.virtual_time import run

FALLBACK = "FallbackToLogsOnError"


def ended(
    top: Path,
    *,
    path: str = "/dev/termination-log",
    policy: str = "File",
    exit_code: int = 1,
    reason: str = "Error",
    message: str = "",
    state: ContainerState = ContainerState.EXITED,
) -> ContainerStatus:
    annotations = {
        "io.kubernetes.container.terminationMessagePath": path,
        "io.kubernetes.container.terminationMessagePolicy": policy,
    }
    container = Container("c", "s", "main", 0, "app:1", "app:1", state, 0, annotations=annotations)
    return ContainerStatus(
        container,
        exit_code=exit_code,
        reason=reason,
        message=message,
        log_path=str(top / "0.log"),
        mounts=(Mount("/data", "/elsewhere"), Mount("/dev/termination-log", str(top / "message"))),
    )


def said(status: ContainerStatus) -> str:
    return run(TerminationMessages(at_once).explain(status)).message


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "message").write_text("from the file")
    (tmp_path / "0.log").write_text("2026-01-02T03:04:05Z stdout F from the log\n")
    return tmp_path


def test_the_file_is_read(top: Path) -> None:
    assert said(ended(top)) == "from the file"
    assert said(ended(top, exit_code=0)) == "from the file"
    assert said(ended(top, path="dev/termination-log")) == "from the file"


def test_what_the_runtime_says_comes_first(top: Path) -> None:
    assert said(ended(top, message="OOM")) == "OOM: from the file"


def test_another_path_has_no_message(top: Path) -> None:
    assert said(ended(top, path="/other")) == ""
    assert said(ended(top, path="")) == ""


def test_a_container_that_runs_has_not_said_its_last(top: Path) -> None:
    assert said(ended(top, state=ContainerState.RUNNING, policy=FALLBACK)) == ""


def test_the_log_is_read_if_the_file_says_nothing(top: Path) -> None:
    assert said(ended(top, policy=FALLBACK)) == "from the file"
    (top / "message").write_text("")
    assert said(ended(top, policy=FALLBACK)) == "from the log\n"
    (top / "message").unlink()
    assert said(ended(top, policy=FALLBACK)) == "from the log\n"


@pytest.mark.parametrize(
    ("policy", "exit_code", "reason"),
    [("File", 1, "Error"), (FALLBACK, 0, "Completed"), (FALLBACK, 128, "ContainerCannotRun")],
)
def test_the_log_is_read_only_after_an_error_and_if_that_is_wanted(
    top: Path, policy: str, exit_code: int, reason: str
) -> None:
    (top / "message").unlink()
    assert said(ended(top, policy=policy, exit_code=exit_code, reason=reason)) == ""


def test_messages_are_the_last_that_was_said_up_to_a_limit(top: Path) -> None:
    (top / "message").write_text("a" * 5000 + "z")
    message = said(ended(top))
    assert (len(message), message[-1]) == (4096, "z")
    (top / "message").unlink()
    (top / "0.log").write_text("".join(f"2026-01-02T03:04:05Z stderr F {number}\n" for number in range(200)))
    assert said(ended(top, policy=FALLBACK)) == "".join(f"{number}\n" for number in range(120, 200))
    (top / "0.log").write_text(f"2026-01-02T03:04:05Z stderr F {'x' * 3000}z\n")
    message = said(ended(top, policy=FALLBACK))
    assert (len(message), message[-2:]) == (2048, "z\n")


def test_what_is_no_text_is_shown_as_well_as_it_can_be(top: Path) -> None:
    (top / "message").write_bytes(b"a\xffb")
    assert said(ended(top)) == "a\ufffdb"


def test_what_cannot_be_read_is_said(top: Path) -> None:
    path = top / "message"
    path.unlink()
    os.mkfifo(path)
    assert said(ended(top)) == f"Error on reading termination log {path}: not a regular file"
    path.unlink()
    path.symlink_to(path)
    assert said(ended(top)) == f"Error on reading termination log {path}: too many levels of symbolic links"
    path.unlink()
    (top / "0.log").unlink()
    text = "Error on reading termination message from logs: no such file or directory"
    assert said(ended(top, policy=FALLBACK)) == text
