"""What a killed containerd has made and not recorded goes; what the next one knows, and what is new, stays."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from bayplan.cluster.real_nodes.node import RealNode
from bayplan.cluster.real_nodes.orphans import (
    Known,
    Remains,
    Shim,
    abandoned_shims,
    end_helpers,
    namespace_files,
    orphaned_addresses,
    orphaned_namespaces,
    orphaned_shims,
    remove_abandoned,
    shim_id,
    shims_of,
)
from bayplan.cluster.real_nodes.settings import RealNodeSettings
from bayplan.kubelet.runtime.cri import CriRuntime
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.types import Container, Sandbox, SandboxConfig
from bayplan.support.clock import SystemClock
from bayplan.support.system.process_ids import ProcessId, process_id, read_pid_file, write_pid_file
from tests.cluster.real_nodes.test_real_nodes import answers, run_pod, running, settings_for, traces
from tests.kubelet.runtime.real_containerd import needs_containerd
from tests.kubelet.waiting import eventually

KNOWN = Known(frozenset(("sandbox", "container")), frozenset((Path("/netns/cni-known"),)), started=100)
REMAINS = Remains(
    frozenset((Path("/netns/cni-known"), Path("/netns/cni-old"))),
    {Path("/10.0.0.2"): "sandbox", Path("/10.0.0.3"): "lost"},
)
TRIES = 8
"""How often containerd is killed to leave an orphan; one to three are enough as a rule."""


def test_shims_are_abandoned_if_they_have_had_no_bundle_for_a_while_and_are_unknown() -> None:
    old, new, known = (Shim(ProcessId(pid, 101), name) for pid, name in ((7, "lost"), (8, "ends"), (9, "sandbox")))
    assert abandoned_shims([old, new, known], [old, known], KNOWN.ids) == [old]


@pytest.mark.parametrize(
    ("shim_of", "started", "is_orphan"),
    [
        pytest.param("lost", 99, True, id="an unknown one of an earlier containerd goes"),
        pytest.param("lost", 100, False, id="one started in the same tick as containerd stays"),
        pytest.param("lost", 101, False, id="an unknown one of this containerd, which makes a pod, stays"),
        pytest.param("sandbox", 99, False, id="that of a known sandbox stays"),
        pytest.param("container", 99, False, id="that of a known container stays"),
    ],
)
def test_shims_are_orphans_if_they_are_old_and_unknown(shim_of: str, started: int, *, is_orphan: bool) -> None:
    shim = Shim(ProcessId(7, started), shim_of)
    assert orphaned_shims([shim], KNOWN) == ([shim] if is_orphan else [])


@pytest.mark.parametrize(
    ("inodes", "used", "orphans"),
    [
        pytest.param({"cni-old": 5}, {4}, ["cni-old"], id="one without a process goes"),
        pytest.param({"cni-old": 0}, {4}, ["cni-old"], id="a file that pins nothing goes"),
        pytest.param({"cni-old": 5}, {4, 5}, [], id="one that a process is in stays"),
        pytest.param({}, {4}, [], id="one that has gone is no orphan"),
        pytest.param({"cni-known": 6}, {4}, [], id="that of a known sandbox stays, also without a process"),
        pytest.param({"cni-new": 7}, {4}, [], id="one that was not there before containerd was started stays"),
    ],
)
def test_network_namespaces_are_orphans_if_they_are_old_unknown_and_empty(
    inodes: dict[str, int], used: set[int], orphans: list[str]
) -> None:
    found = orphaned_namespaces(REMAINS, KNOWN, {Path("/netns", name): each for name, each in inodes.items()}, used)
    assert [each.name for each in found] == orphans


@pytest.mark.parametrize(
    ("now", "orphans"),
    [
        pytest.param({"10.0.0.3": "lost"}, ["10.0.0.3"], id="that of an unknown sandbox goes"),
        pytest.param({"10.0.0.3": "new"}, [], id="one that another sandbox has taken since stays"),
        pytest.param({}, [], id="one that was given back is no orphan"),
        pytest.param({"10.0.0.2": "sandbox"}, [], id="that of a known sandbox stays"),
        pytest.param({"10.0.0.4": "new"}, [], id="one taken since containerd was started stays"),
    ],
)
def test_addresses_are_orphans_if_an_unknown_sandbox_has_them_still(now: dict[str, str], orphans: list[str]) -> None:
    found = orphaned_addresses(REMAINS, KNOWN, {Path("/", name): each for name, each in now.items()})
    assert [each.name for each in found] == orphans


def test_the_id_of_a_shim_is_on_its_command_line() -> None:
    assert (
        shim_id(["/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "abc", "-address", "/s"]) == "abc"
    )
    assert shim_id(["containerd-shim-runc-v2", "-v"]) == ""
    assert shim_id(["containerd-shim-runc-v2", "-id"]) == ""


def test_programs_that_make_pods_end_with_their_containerd(tmp_path: Path) -> None:
    node, other = RealNodeSettings(2, tmp_path, runtime_directory=tmp_path).nodes()

    def process(name: str, *words: str, network: str = "") -> subprocess.Popen[bytes]:
        command = [name, "-c", "import time; time.sleep(60)", *words]
        return subprocess.Popen(command, executable=sys.executable, env={**os.environ, "CNI_NETNS": network})

    shim = "containerd-shim-test"
    ended = [
        process(shim, "-address", f"{node.state}/sock", "-id", "a", "start"),
        process("ptp", network=f"{node.state}/netns/cni-a"),
    ]
    kept = [
        process(shim, "-id", "a", "-address", f"{node.state}/sock"),
        process(shim, "-address", f"{other.state}/sock", "-id", "b", "start"),
        process("ptp", network=f"{other.state}/netns/cni-b"),
    ]
    try:
        asyncio.run(eventually(lambda: all(_has_begun(each.pid) for each in (*ended, *kept)), "all processes"))
        end_helpers(node)
        assert [each.wait(10) for each in ended] == [-signal.SIGKILL] * len(ended)
        assert [each.poll() for each in kept] == [None] * len(kept)
    finally:
        for each in (*ended, *kept):
            each.kill()
            each.wait()


class NoPods:
    """A runtime that lists nothing."""

    async def sandboxes(self) -> list[Sandbox]:
        return []

    async def containers(self) -> list[Container]:
        return []


class Hurried(SystemClock):
    """A clock for whom thirty seconds are none."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0.01)


def test_a_shim_whose_bundle_is_gone_and_that_nobody_knows_is_killed(tmp_path: Path) -> None:
    (node,) = RealNodeSettings(1, tmp_path, runtime_directory=tmp_path).nodes()
    node.state.mkdir(parents=True)
    own = process_id(os.getpid())
    assert own is not None
    write_pid_file(node.state / "containerd.pid", own)

    def shim(name: str) -> subprocess.Popen[bytes]:
        bundle = tmp_path / name
        bundle.mkdir()
        program = "import time; open('begun', 'w').close(); time.sleep(60)"
        words = ["containerd-shim-test", "-c", program, "-id", name, "-address", f"{node.state}/s"]
        return subprocess.Popen(words, executable=sys.executable, cwd=bundle)

    async def watch() -> None:
        watching = asyncio.ensure_future(remove_abandoned(node, cast("CriRuntime", NoPods()), Hurried()))
        await eventually(lambda: lost.poll() is not None, "the end of the shim")
        watching.cancel()

    lost, kept = shim("lost"), shim("kept")
    try:
        asyncio.run(eventually(lambda: len(list(tmp_path.glob("*/begun"))) == 2, "both processes"))
        shutil.rmtree(tmp_path / "lost")
        asyncio.run(watch())
        assert (lost.wait(10), kept.poll()) == (-signal.SIGKILL, None)
    finally:
        for each in (lost, kept):
            each.kill()
            each.wait()


def _has_begun(pid: int) -> bool:
    """Whether a process has its own command line already, and not that of who started it."""
    return b"time.sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()


async def make_orphan(node: RealNode) -> list[Shim]:
    """Kill containerd while it makes sandboxes, until shims are left of sandboxes that the next one has removed; returns these."""
    for number in range(TRIES):
        made = await kill_while_making(node, f"{number}-")
        await eventually(lambda: answers_with_list(node), "containerd", 20)
        for sandbox in await node.runtime.sandboxes():  # what a kubelet does with them
            if sandbox.name.startswith(f"{number}-"):
                await node.runtime.stop_sandbox(sandbox.id)
                await node.runtime.remove_sandbox(sandbox.id)
        if lost := [each for each in made if process_id(each.process.pid) == each.process]:
            return lost
    pytest.fail(f"{TRIES} kills have left no orphan")


async def kill_while_making(node: RealNode, name: str) -> list[Shim]:
    """Kill containerd as soon as one of several sandboxes has a shim; returns the new shims."""
    before = {each.id for each in shims_of(node.place)}
    making = [asyncio.create_task(node.runtime.run_sandbox(a_sandbox(node, f"{name}{each}"))) for each in range(6)]

    def made() -> list[Shim]:
        return [each for each in shims_of(node.place) if each.id not in before]

    await eventually(lambda: bool(made()), "a new shim", 20)
    containerd = read_pid_file(node.place.state / "containerd.pid")
    assert containerd is not None
    os.kill(containerd.pid, signal.SIGKILL)
    outcomes = await asyncio.gather(*making, return_exceptions=True)
    assert any(isinstance(each, RuntimeRequestError) for each in outcomes)
    return made()


def a_sandbox(node: RealNode, name: str) -> SandboxConfig:
    """A sandbox of a pod of this name."""
    logs = str(node.place.directory / "logs" / name)
    return SandboxConfig(name, "default", name, 0, name, logs, cgroup_parent=f"{node.place.cgroup}/pod{name}")


async def answers_with_list(node: RealNode) -> bool:
    """Whether containerd has read what it had recorded."""
    if not await answers(node):
        return False
    try:
        await node.runtime.sandboxes()
    except RuntimeRequestError:
        return False
    return True


@needs_containerd
@pytest.mark.skipif(shutil.which("nsenter") is None, reason="needs util-linux")
@pytest.mark.xdist_group("real nodes")
def test_orphans_of_a_killed_containerd_go_and_its_pods_stay(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, 1)

    async def steps() -> None:
        async with running(settings) as (_, nodes):
            (node,) = nodes.nodes
            _, container_id = await run_pod(node, "sleep", "1000")
            lost = await make_orphan(node)

            async def is_clean() -> bool:
                known = {each.id for each in await node.runtime.sandboxes()}
                return {each.id for each in shims_of(node.place)} <= known

            await eventually(is_clean, "no shims but those that containerd knows", 20)
            assert all(process_id(each.process.pid) != each.process for each in lost)
            namespaces = {
                Path(await node.runtime.sandbox_network_namespace(each.id)) for each in await node.runtime.sandboxes()
            }
            await eventually(lambda: set(namespace_files(node.place)) <= namespaces, "no namespaces but theirs", 20)
            result = await node.runtime.exec_sync(container_id, ["echo", "still here"], 10)
            assert result.stdout == b"still here\n"

    asyncio.run(steps())
    assert traces(settings) == []
