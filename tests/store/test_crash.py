"""What a SQLite store acknowledged is there after `kill -9` at any moment."""

from __future__ import annotations

import asyncio
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bayplan.store.errors import StoreLocked
from bayplan.store.interface import Event
from bayplan.store.sqlite.store import SqliteStore
from bayplan.testing.clock import ManualClock
from bayplan.testing.store_conformance import Recorder

WRITER = Path(__file__).with_name("crash_writer.py")
KILLS = 60
WRITERS = 16


def start_writer(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(WRITER), str(path), str(WRITERS)], stdout=subprocess.PIPE, bufsize=0)


def read_until(process: subprocess.Popen[bytes], deadline: float, wanted: int) -> bytes:
    """Output of the process until `deadline` (monotonic) or until it has that many bytes."""
    assert process.stdout is not None
    output = b""
    while len(output) < wanted and (left := deadline - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        part = os.read(process.stdout.fileno(), 65536)
        if not part:
            break
        output += part
    return output


def kill_while_writing(path: Path, chance: random.Random) -> list[tuple[str, int]]:
    """Let a process write, kill it at a random moment, return the acknowledged (key, revision)."""
    with start_writer(path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        output = read_until(process, time.monotonic() + chance.uniform(0.001, 0.12), 1 << 30)
        process.send_signal(signal.SIGKILL)
        output += process.stdout.read()
    whole_lines = output[: output.rfind(b"\n") + 1].decode()
    return [(key, int(revision)) for key, revision in (line.split() for line in whole_lines.splitlines())]


async def history(path: Path) -> tuple[int, int, list[Event]]:
    """Revision, compacted revision and all events that the store still has."""
    store = SqliteStore(path, clock=ManualClock())
    await store.open()
    recorder = Recorder()
    await store.watch("", store.compacted_revision, recorder)
    listed = {item.key: item for item in (await store.range("", "~")).items}
    for event in recorder.events:
        if event.key in listed and listed[event.key].mod_revision == event.revision:
            assert listed[event.key].value == event.value
    result = store.revision, store.compacted_revision, recorder.events
    await store.close()
    return result


def test_acknowledged_writes_survive_kill_nine(tmp_path: Path) -> None:
    """Over many kills of one database: every acknowledged revision exists with its key, in order, none twice, no
    gap."""
    chance = random.Random(20260102)
    path = tmp_path / "store.db"
    acknowledged_total = last = 0
    seen: dict[int, str] = {}
    for _ in range(KILLS):
        acknowledged = kill_while_writing(path, chance)
        acknowledged_total += len(acknowledged)
        revision, compacted, events = asyncio.run(history(path))
        revisions = [event.revision for event in events]
        assert revisions == list(range(max(compacted, 1), revision + 1))
        assert revision >= last
        keys = {event.revision: event.key for event in events}
        for key, written in acknowledged:
            assert last < written <= revision, f"{key} was given revision {written} twice or lost it"
            if written >= compacted:
                assert keys[written] == key
        assert len({written for _, written in acknowledged}) == len(acknowledged)
        for written in keys.keys() & seen.keys():
            assert keys[written] == seen[written], "a kill changed history"
        seen, last = keys, revision
    assert acknowledged_total > KILLS * 10


def test_the_lock_goes_with_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with start_writer(path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

        async def try_open() -> None:
            store = SqliteStore(path, clock=ManualClock())
            try:
                await store.open()
            finally:
                await store.close()

        with pytest.raises(StoreLocked, match=rf"{path} is in use by process {process.pid}"):
            asyncio.run(try_open())
        process.kill()
        process.wait()
        asyncio.run(try_open())
