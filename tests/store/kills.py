"""Kills a store under load again and again, and looks for writes that are lost, applied twice or out of order.

    python -m tests.store.kills [KILLS] [SEED]          a cluster (`bayplan up`), writers over HTTP
    python -m tests.store.kills --store [KILLS] [SEED]  the store alone in a process of its own

Several writers increment a few shared counters. A write carries an id of its own, is guarded by the revision that was read,
and adds its id to those that the counter has. After each kill:
  * every id whose write was acknowledged is there, and no id is there twice;
  * the count is the number of ids: no increment was lost between others;
  * every record of the file is intact and no revision is missing; revisions never go back;
  * the counters of earlier rounds are as they were.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from bayplan.client.kubeconfig import load
from bayplan.store.errors import Conflict
from bayplan.store.settings import HistorySettings, SqliteSettings
from bayplan.store.sqlite.copies import check
from bayplan.store.sqlite.store import SqliteStore
from bayplan.support.clock import SystemClock

COUNTERS, WRITERS = 4, 16
START_LIMIT = 60.0
"""Seconds that a start may take."""
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@dataclass
class Tally:
    """What is known over all rounds."""

    kills: int = 0
    acknowledged: int = 0
    revision: int = 0
    kept: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """The counters of earlier rounds."""


def verify(
    tally: Tally, found: dict[str, tuple[int, tuple[str, ...]]], acknowledged: dict[str, list[str]], path: Path
) -> None:
    """Compare what a store has after a kill with what its writers were told. Raises AssertionError."""
    for name, ids in acknowledged.items():
        count, applied = found.get(name, (0, ()))
        assert len(applied) == count, f"{name}: {count} increments by {len(applied)} writes"
        assert len(set(applied)) == len(applied), f"{name}: a write was applied twice"
        lost = set(ids) - set(applied)
        assert not lost, f"{name}: {len(lost)} acknowledged writes are lost, such as {min(lost)}"
        tally.acknowledged += len(ids)
    for name, value in tally.kept.items():
        assert found.get(name) == value, f"{name} of an earlier round has changed"
    tally.kept = found
    tally.kills += 1
    assert path.exists()


def verify_file(tally: Tally, path: Path) -> None:
    """Look at every record of the file that the kill left. Raises AssertionError."""
    report = check(path).report
    assert report.is_intact, "\n".join(report.lines())
    assert report.revision >= tally.revision, f"revision {report.revision} after {tally.revision}"
    tally.revision = report.revision


# The store alone ------------------------------------------------------------------------------------------------------


async def write_until_killed(path: str, prefix: str) -> None:
    """Increment counters for ever; each line on standard output is `counter id` of an acknowledged write."""
    settings = SqliteSettings(
        checkpoint_pages=50, compaction_step=20, compaction_interval=0.01, history=HistorySettings(keep_revisions=300)
    )
    store = SqliteStore(path, clock=SystemClock(), settings=settings)
    await store.open()

    async def write(writer: int) -> None:
        number = 0
        while True:
            name, number = f"/{prefix}/{(writer + number) % COUNTERS}", number + 1
            item = await store.get(name)
            count, ids = json.loads(item.value) if item else (0, [])
            value = json.dumps([count + 1, [*ids, f"{writer}-{number}"]]).encode()
            try:
                await store.put(name, value, guard=item.mod_revision if item else 0)
            except Conflict:
                await asyncio.sleep(0)
                continue
            os.write(1, f"{name} {writer}-{number}\n".encode())

    os.write(1, b"ready\n")
    await asyncio.gather(*[write(writer) for writer in range(WRITERS)])


async def read_counters(path: Path) -> dict[str, tuple[int, tuple[str, ...]]]:
    """All counters of a store."""
    store = SqliteStore(path, clock=SystemClock())
    await store.open()
    try:
        items = (await store.range("/", "0")).items
    finally:
        await store.close()
    return {item.key: (json.loads(item.value)[0], tuple(json.loads(item.value)[1])) for item in items}


def kill_store(path: Path, chance: random.Random, tally: Tally) -> None:
    """One round with the store alone. Raises AssertionError."""
    prefix = f"round-{tally.kills:05d}"
    command = [sys.executable, "-m", "tests.store.kills", "--writer", str(path), prefix]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0.001, 0.15))
        finally:
            process.send_signal(signal.SIGKILL)
        output = process.stdout.read()
    acknowledged: dict[str, list[str]] = {}
    for line in output[: output.rfind(b"\n") + 1].decode().splitlines():
        name, number = line.split()
        acknowledged.setdefault(name, []).append(number)
    verify_file(tally, path)
    verify(tally, asyncio.run(read_counters(path)), acknowledged, path)


# A cluster ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def cluster(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`bayplan up` on a directory, ready for requests; killed, with all its processes, when the context ends."""
    program = str(Path(sys.executable).with_name("bayplan"))
    command = [program, "up", "--nodes", "0", "--port", "0", "--data-dir", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(b"ready"), line
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


class Writers:
    """Writers over HTTP, which note what was acknowledged."""

    def __init__(self, kubeconfig: Path, prefix: str) -> None:
        self._credentials = load(kubeconfig)
        self._prefix = prefix
        self.acknowledged: dict[str, list[str]] = {}

    async def run(self, seconds: float, kill: Any) -> None:
        """Write for so long, kill the server, and end when all writers have noticed."""
        headers = {"Authorization": f"Bearer {self._credentials.token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            writers = [asyncio.create_task(self._write(session, number)) for number in range(WRITERS)]
            await asyncio.sleep(seconds)
            kill()
            await asyncio.wait(writers, timeout=START_LIMIT)
            for writer in writers:
                writer.cancel()
            for writer in writers:
                with contextlib.suppress(aiohttp.ClientError, OSError, asyncio.TimeoutError, asyncio.CancelledError):
                    await writer

    async def _write(self, session: aiohttp.ClientSession, writer: int) -> None:
        number = 0
        while True:
            name, number = f"{self._prefix}-{(writer + number) % COUNTERS}", number + 1
            url, tls = f"{self._credentials.server}{CONFIG_MAPS}", self._credentials.tls
            async with session.get(f"{url}/{name}", ssl=tls or True) as response:
                found = await response.json() if response.status == 200 else None
            if found is None:
                data = {"count": "1", "ids": f"{writer}-{number}"}
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
                request = session.post(url, json=body, ssl=tls or True)
            else:
                ids = f"{found['data']['ids']},{writer}-{number}"
                found["data"] = {"count": str(int(found["data"]["count"]) + 1), "ids": ids}
                request = session.put(f"{url}/{name}", json=found, ssl=tls or True)
            async with request as response:
                await response.read()
                if response.status in (200, 201):
                    self.acknowledged.setdefault(name, []).append(f"{writer}-{number}")
                else:
                    assert response.status == 409, response.status


async def list_counters(kubeconfig: Path) -> dict[str, tuple[int, tuple[str, ...]]]:
    """All counters of a cluster."""
    credentials = load(kubeconfig)
    headers = {"Authorization": f"Bearer {credentials.token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{credentials.server}{CONFIG_MAPS}", ssl=credentials.tls or True) as response,
    ):
        items = (await response.json())["items"]
    counters = [item for item in items if item["metadata"]["name"].startswith("round-")]
    return {
        item["metadata"]["name"]: (int(item["data"]["count"]), tuple(item["data"]["ids"].split(",")))
        for item in counters
    }


def kill_clusters(directory: Path, chance: random.Random, tally: Tally, kills: int) -> Generator[None, None, None]:
    """So many rounds with a cluster; the start of one verifies what the kill before left. Raises AssertionError."""
    kubeconfig, path = directory / "kubeconfig", directory / "store.db"
    acknowledged: dict[str, list[str]] | None = None
    for number in range(kills + 1):
        with cluster(directory) as process:
            if acknowledged is not None:
                verify(tally, asyncio.run(list_counters(kubeconfig)), acknowledged, path)
                yield
            if number == kills:
                return
            writers = Writers(kubeconfig, f"round-{tally.kills:05d}")
            asyncio.run(writers.run(chance.uniform(0.01, 0.6), partial(os.killpg, process.pid, signal.SIGKILL)))
            acknowledged = writers.acknowledged
            process.wait()
        verify_file(tally, path)


def run(kills: int, seed: int, *, is_cluster: bool) -> Tally:
    """So many kills of one store. Raises AssertionError, which names the seed."""
    chance, tally = random.Random(seed), Tally()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name, "data")
        try:
            rounds = kill_clusters(directory, chance, tally, kills) if is_cluster else None
            for _ in range(kills):
                if rounds is not None:
                    next(rounds)
                else:
                    kill_store(directory / "store.db", chance, tally)
                if tally.kills % 50 == 0:
                    spent = time.monotonic() - started
                    print(f"{tally.kills} kills, {tally.acknowledged} acknowledged writes, {spent:.0f} s", flush=True)
            if rounds is not None:
                rounds.close()
        except BaseException:
            print(f"seed {seed}, after {tally.kills} kills", flush=True)
            raise
    return tally


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--writer"]:
        asyncio.run(write_until_killed(arguments[1], arguments[2]))
        return
    is_cluster = arguments[:1] != ["--store"]
    numbers = [int(one) for one in arguments[0 if is_cluster else 1 :]]
    kills, seed = [*numbers, *(1000, 1)[len(numbers) :]]
    print(f"seed {seed}, {kills} kills", flush=True)
    tally = run(kills, seed, is_cluster=is_cluster)
    print(f"{tally.kills} kills, {tally.acknowledged} acknowledged writes, none lost, none applied twice, no gaps")


if __name__ == "__main__":
    main(sys.argv[1:])
