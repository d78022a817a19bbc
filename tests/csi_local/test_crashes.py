"""A local driver that is killed: what the next one makes of what it finds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path

import msgspec
import pytest
import yaml

from bayplan.csi import messages as csi
from bayplan.csi.client import CsiClient
from bayplan.csi.errors import CsiError
from bayplan.csi.registration import GET_INFO, registration_socket
from bayplan.csi_local.errors import LocalDriverError
from bayplan.csi_local.operations import Operations
from bayplan.csi_local.records import SnapshotRecord, VolumeRecord
from bayplan.support.clock import SystemClock
from bayplan.support.grpc.calls import Connection
from bayplan.support.randomness import SeededRandomness
from bayplan.support.system.programs import run, succeeds
from tests.csi_local.machine import MI, Machine, clean_up, loops, mounts, needs_images, needs_root, on

BAYPLAN = str(Path(sys.executable).parent / "bayplan")
SOURCE = csi.VolumeContentSource(volume=csi.VolumeSource("pvc-1"))


def put(machine: Machine, record: VolumeRecord | SnapshotRecord) -> Path:
    """Write a record as a driver would."""
    kind = "volume" if isinstance(record, VolumeRecord) else "snapshot"
    directory = machine.data / f"{kind}s" / record.id
    directory.mkdir(parents=True)
    (directory / f"{kind}.json").write_bytes(msgspec.json.encode(record))
    return directory


def test_a_copy_that_was_not_finished_is_made_again(short_path: Path) -> None:
    async def main() -> None:
        machine = Machine(short_path)
        async with machine.driver():
            await machine.make("pvc-1", "directory")
        (machine.data / "volumes" / "pvc-1" / "data" / "file").write_text("content")
        left = put(machine, VolumeRecord(id="pvc-2", kind="directory", size=32 * MI, source="volume/pvc-1"))
        for name in (".unfinished-x", "data"):
            (left / name).mkdir()
            (left / name / "half").write_text("cont")
        async with machine.driver():
            found = await machine.client.list_volumes()
            assert [one.volume.volume_id for one in found if one.volume] == ["pvc-1"]
            with pytest.raises(CsiError, match="NotFound"):
                await machine.stage(csi.Volume(1, "pvc-2"))
            with pytest.raises(CsiError, match="AlreadyExists"):
                await machine.make("pvc-2", "directory")
            await machine.make("pvc-2", "directory", volume_content_source=SOURCE)
        assert sorted(one.name for one in left.iterdir()) == ["data", "volume.json"]
        assert [one.name for one in (left / "data").iterdir()] == ["file"]

    asyncio.run(main())


def test_a_volume_that_was_not_finished_can_be_removed(short_path: Path) -> None:
    async def main() -> None:
        machine = Machine(short_path)
        left = put(machine, VolumeRecord(id="pvc-2", kind="image", size=32 * MI))
        async with machine.driver():
            await machine.delete(csi.Volume(1, "pvc-2"))
        assert not left.exists()

    asyncio.run(main())


def test_what_deletions_have_left_goes_at_the_start(short_path: Path) -> None:
    async def main() -> None:
        machine = Machine(short_path)
        for kind in ("volumes", "snapshots"):
            left = machine.data / kind / ".deleted-x" / "data"
            left.mkdir(parents=True)
            (left / "file").touch()
        async with machine.driver():
            assert [list((machine.data / kind).iterdir()) for kind in ("volumes", "snapshots")] == [[], []]

    asyncio.run(main())


def test_a_record_that_cannot_be_read_is_named(short_path: Path) -> None:
    async def main() -> None:
        machine = Machine(short_path)
        broken = put(machine, VolumeRecord(id="pvc-2", kind="image", size=32 * MI)) / "volume.json"
        broken.write_text("{")
        with pytest.raises(LocalDriverError, match=rf"{broken} cannot be read: .*; move .*/pvc-2 away"):
            async with machine.driver():
                raise AssertionError("it has started")
        long = Machine(short_path / ("x" * 100))
        with pytest.raises(LocalDriverError, match="longer than 107 bytes"):
            async with long.driver():
                raise AssertionError("it has started")

    asyncio.run(main())


@needs_images
def test_a_file_system_that_was_left_frozen_goes_on(short_path: Path) -> None:
    async def main() -> None:
        machine = Machine(short_path)
        async with machine.driver():
            volume = await machine.make("pvc-1", "image")
            target = await machine.use(volume, "a")
        staging = machine.staging("pvc-1")
        await run("fsfreeze", "--freeze", str(staging))
        (machine.data / "volumes" / "pvc-1" / "frozen").write_text(str(staging))
        async with machine.driver():
            assert not await succeeds("fsfreeze", "--unfreeze", str(staging)), "it is frozen still"
            assert not (machine.data / "volumes" / "pvc-1" / "frozen").exists()
            await machine.give_back(volume, target)

    try:
        asyncio.run(main())
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(Machine(short_path).staging("pvc-1"))], stderr=-3, check=False)
        clean_up(short_path)


@needs_images
def test_an_image_without_a_complete_file_system_gets_a_new_one(short_path: Path) -> None:
    async def test(machine: Machine) -> None:
        volume = await machine.make("pvc-1", "image")
        image = machine.data / "volumes" / "pvc-1" / "image"
        with image.open("r+b") as stream:
            stream.seek(1024)
            stream.write(b"\x53\xef" * 512)  # looks like the beginning of one
        target = await machine.use(volume, "a")
        (target / "file").touch()
        assert {each.type for each in mounts(target)} == {"ext4"}
        await machine.give_back(volume, target)

    on(short_path, test)


@needs_root
def test_another_driver_finds_what_is_mounted(short_path: Path) -> None:
    async def main() -> None:
        machine = Machine(short_path)
        async with machine.driver():
            volume = await machine.make("pvc-1", "directory")
            target = await machine.use(volume, "a")
        async with machine.driver():
            assert await machine.publish(volume, "a") == target
            with pytest.raises(CsiError, match="in use"):
                await machine.delete(volume)
            await machine.give_back(volume, target)
            await machine.delete(volume)
        assert mounts(short_path) == []

    asyncio.run(main())


def test_work_goes_on_when_nobody_waits_for_it() -> None:
    async def main() -> None:
        operations, go, done = Operations(), asyncio.Event(), asyncio.Event()

        async def work() -> None:
            await go.wait()
            done.set()

        waiting = asyncio.ensure_future(operations.run(work(), "pvc-1"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(Exception, match="an operation for pvc-1 is under way"):
            await operations.run(work(), "pvc-2", "pvc-1")
        go.set()
        await operations.drain()
        assert done.is_set()
        await operations.run(work(), "pvc-1")

    asyncio.run(main())


class Process:
    """`bayplan csi-local`, to be killed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.command = [BAYPLAN, "csi-local", f"--endpoint=unix://{machine.settings.endpoint}", "--node-id=n1"]
        self.command += [f"--data-dir={machine.data}", f"--plugin-registry={machine.root}/registry"]
        self.running: subprocess.Popen[str] | None = None

    def start(self) -> str:
        self.running = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.running.stdout is not None
        return self.running.stdout.readline()

    def end(self, number: signal.Signals) -> int:
        assert self.running is not None
        self.running.send_signal(number)
        with self.running:
            return self.running.wait(20)

    def kill(self) -> None:
        """End it, if it runs."""
        if self.running is not None and self.running.poll() is None:
            self.end(signal.SIGKILL)


async def use_and_remove(machine: Machine, number: int) -> None:
    """The whole life of a volume and of its copy, in calls that may all have been made before."""
    volume = await machine.make(f"pvc-{number}", "image", 8 * MI)
    target = await machine.use(volume, f"pod-{number}")
    snapshot = await machine.snapshot(volume, f"snap-{number}")
    source = csi.VolumeContentSource(snapshot=csi.SnapshotSource(snapshot.snapshot_id))
    copied = await machine.make(f"copy-{number}", "image", 8 * MI, volume_content_source=source)
    await machine.delete(copied)
    await machine.client.delete_snapshot(csi.SnapshotRequest(snapshot.snapshot_id))
    await machine.give_back(volume, target)
    await machine.delete(volume)


@needs_images
def test_a_driver_that_is_killed_again_and_again_leaves_nothing(short_path: Path) -> None:
    machine = Machine(short_path)
    process, randomness = Process(machine), SeededRandomness(7)

    async def work_and_kill(seconds: float) -> None:
        machine.client = CsiClient(Connection(machine.settings.endpoint), seconds=20.0, clock=SystemClock())
        asyncio.get_running_loop().call_later(seconds, process.end, signal.SIGKILL)
        with contextlib.suppress(CsiError):
            while True:
                await use_and_remove(machine, 1)
        await machine.client.close()

    async def finish() -> None:
        machine.client = CsiClient(Connection(machine.settings.endpoint), seconds=20.0, clock=SystemClock())
        async with asyncio.timeout(60):
            while not await is_done(use_and_remove(machine, 1)):
                pass
        await machine.client.close()

    async def is_done(work: Coroutine[None, None, None]) -> bool:
        """Whether it went well. A program that the killed driver has started may still have the device: callers try again."""
        try:
            await work
        except CsiError as error:
            if error.code != "INTERNAL":
                raise
            return False
        return True

    try:
        for _ in range(6):
            assert process.start().startswith("ready: local.csi.bayplan.dev on node n1")
            asyncio.run(work_and_kill(0.1 + 0.5 * randomness.random()))
        process.start()
        asyncio.run(finish())
        assert process.end(signal.SIGTERM) == 0
        assert (mounts(short_path), loops(short_path)) == ([], [])
        assert [list((machine.data / kind).iterdir()) for kind in ("volumes", "snapshots")] == [[], []]
    finally:
        process.kill()
        clean_up(short_path)


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_making_a_file_system_ends_with_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, program = tmp_path / "held", tmp_path / "mkfs.ext4"
    os.mkfifo(held)
    program.write_text(f"#!/bin/sh\nexec sleep 60 > {held}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    code = "import asyncio, pathlib; from bayplan.csi_local.filesystems import make; asyncio.run(make(pathlib.Path('x'), 'ext4'))"
    driver = subprocess.Popen([sys.executable, "-c", code])
    with held.open("rb") as end:  # opens when the program has, and ends with it
        driver.kill()
        driver.wait(10)
        assert select.select([end], [], [], 10.0)[0], "the program goes on"
        assert end.read() == b""


def test_the_command_registers_with_the_kubelet_until_it_is_told_to_stop(short_path: Path) -> None:
    machine = Machine(short_path)
    process = Process(machine)
    process.start()
    socket = registration_socket(short_path / "registry", "local.csi.bayplan.dev")

    async def ask() -> csi.PluginInfo:
        connection = Connection(socket)
        try:
            found: csi.PluginInfo = await connection.call(GET_INFO, csi.Empty(), csi.PluginInfo, 5.0)
            return found
        finally:
            await connection.close()

    assert asyncio.run(ask()).endpoint == str(machine.settings.endpoint)
    assert process.end(signal.SIGINT) == 0
    assert not socket.exists()
    assert not machine.settings.endpoint.exists()


def test_the_manifests_are_printed() -> None:
    shown = subprocess.run([BAYPLAN, "csi-local", "manifests"], capture_output=True, text=True, check=True).stdout
    kinds = [one["kind"] for one in yaml.safe_load_all(shown)]
    assert kinds == ["CSIDriver", "StorageClass", "StorageClass", "VolumeSnapshotClass"]
    command = [BAYPLAN, "csi-local", "manifests", "--no-snapshots", "--no-default-class", "--driver-name=other"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "VolumeSnapshotClass" not in shown
    assert "is-default-class" not in shown
    assert shown.count("other") == 3
