"""Commands of this machine that answer for simulated containers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from bayplan.kubelet.simulator.answers.local_commands import run_command
from bayplan.kubelet.simulator.answers.objects import LocalTarget
from bayplan.streaming.interface import CommandStreams


@pytest.fixture
def in_background() -> Iterator[None]:
    """As a script starts what it does not wait for: without signals of the keyboard."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_background")
@pytest.mark.parametrize("tty", [False, True])
def test_commands_can_be_interrupted_though_this_process_cannot(tty: bool) -> None:
    command = ["sh", "-c", "kill -INT $$; exit 3"]
    code = asyncio.run(run_command(command, LocalTarget(), CommandStreams(), tty=tty))
    assert code == 128 + signal.SIGINT
