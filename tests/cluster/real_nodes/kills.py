"""Kills the kubelet and containerd of a real node again and again while containers end, and looks for ends that are lost, wrong or told twice.

    python -m tests.cluster.real_nodes.kills [CONTAINERS] [SEED]

Every container notes on the node that it has run, lives for a random while and ends with a random code. When all have ended:
  * each pod's status has the code with which its container ended, and nothing else after that;
  * no container has run twice;
  * what a killed runtime has not seen to its end has failed, with a reason that says so (LOST): a start that was under way when the kubelet or containerd
    was killed goes with it, and containerd does not remember every end that it misses. Those are counted;
  * when the pods are deleted, no cgroup, mount, shim, network namespace, address or directory of them is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load
from bayplan.cluster.real_nodes.orphans import namespace_files, shims_of
from bayplan.cluster.real_nodes.settings import NodePlace, RealNodeSettings
from bayplan.support.system.process_ids import read_pid_file
from tests.cgroups import cgroups_with
from tests.cluster.real_nodes.images import give_image
from tests.integration.conftest import BAYPLAN
from tests.kubelet.runtime.real_containerd import BUSYBOX
from tests.kubelet.waiting import eventually

AT_ONCE = 40
"""Pods that the node has at the same time."""
_NAMESPACE = "default"
_LIMIT = 300.0
"""Seconds within which a pod must have ended, or be gone."""
ENDS_BETWEEN = 5
"""Containers that end properly between two kills: on a busy machine starts would otherwise be killed before any is done."""
_LONGEST_PAUSE = 60.0
"""Seconds after which the next kill comes although fewer have ended."""
_LAST_LINES = 200
"""Lines of the cluster's log that are shown when something is wrong."""
VICTIMS = ("kubelet", "containerd")
LOST = ("StartError", "Unknown", "ContainerStatusUnknown")
"""Reasons of ends that nobody has seen."""
INIT_FAILED = 1
"""The code of a container whose runtime was killed before it could run anything in it."""


@dataclass
class Tally:
    """What is known of all containers."""

    wanted: dict[str, int] = field(default_factory=dict)
    """Pod -> the code with which its container ends."""
    told: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Pod -> every (code, reason) that its status has had, one after the other."""
    kills: Counter[str] = field(default_factory=Counter)
    gone: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced by another one, with each change of a pod."""

    def see(self, kind: str, pod: core_v1.Pod) -> None:
        """A pod has changed."""
        self.changed.set()
        self.changed = asyncio.Event()
        name = pod.metadata.name
        if kind == "DELETED":
            self.gone.add(name)
        for status in pod.status.container_statuses:
            ended = status.state.terminated
            if ended is not None:
                told = self.told.setdefault(name, [])
                if told[-1:] != [(ended.exit_code, ended.reason)]:
                    told.append((ended.exit_code, ended.reason))

    @property
    def ended(self) -> int:
        """How many containers were seen to their end."""
        return sum(1 for ends in self.told.values() if ends[-1][1] not in LOST)

    def has_ended(self, count: int) -> bool:
        """Whether so many were."""
        return self.ended >= count

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = _LIMIT) -> None:
        """Return when a condition about what is known holds. Fails after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await self.changed.wait()
        except TimeoutError:
            raise AssertionError(f"after {seconds:g} s there is still not: {what}") from None

    def lost(self) -> Counter[str]:
        """How many containers a kill kept from being seen to their end, by what their status says."""
        return Counter(ends[-1][1] for ends in self.told.values() if ends[-1][1] in LOST)

    def problems(self, shared: Path) -> list[str]:
        """All that is not as it should be. shared: where containers note that they have run."""
        found = []
        for name, code in self.wanted.items():
            runs = len((shared / name).read_text().splitlines()) if (shared / name).exists() else 0
            told = self.told.get(name, [])
            seen = [each for each in told if each[1] not in LOST]
            codes = {code} if runs else {INIT_FAILED}
            if runs > 1 or not told or (seen and (told[-1] not in seen or {each for each, _ in seen} - codes)):
                found.append(f"{name} has run {runs} times, ended with {code}, its status says {told}")
        return found


def a_pod(name: str, node: str, shared: Path, seconds: float, code: int) -> core_v1.Pod:
    """A pod whose container notes that it runs, waits and ends."""
    script = f"echo run >> /shared/{name}; sleep {seconds:.2f}; exit {code}"
    container = core_v1.Container(
        name="main",
        image=BUSYBOX,
        command=("sh", "-c", script),
        volume_mounts=(core_v1.VolumeMount(name="shared", mount_path="/shared"),),
    )
    volume = core_v1.Volume(name="shared", host_path=core_v1.HostPathVolumeSource(path=str(shared)))
    spec = core_v1.PodSpec(containers=(container,), volumes=(volume,), node_name=node, restart_policy="Never")
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, namespace=_NAMESPACE), spec=spec)


async def kill_now_and_then(
    place: NodePlace, tally: Tally, chance: random.Random, seconds: tuple[float, float]
) -> None:
    """Kill one of both after random times in which some containers ended, until cancelled."""
    while True:
        enough = tally.ended + ENDS_BETWEEN
        await asyncio.sleep(chance.uniform(*seconds))
        with contextlib.suppress(AssertionError):
            await tally.until(functools.partial(tally.has_ended, enough), "ends between two kills", _LONGEST_PAUSE)
        victim = chance.choice(VICTIMS)
        found = read_pid_file(place.state / f"{victim}.pid")
        if found is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)
                tally.kills[victim] += 1


async def follow(client: Client, tally: Tally) -> None:
    """Note what the API says of the pods, until cancelled; a watch that ends is taken up where it ended."""
    version = ""
    while True:
        async for event in await client.watch(core_v1.Pod, _NAMESPACE, resource_version=version):
            tally.see(event.type, event.object)
            version = event.object.metadata.resource_version


async def run_all(
    client: Client, place: NodePlace, tally: Tally, chance: random.Random, shared: Path, count: int
) -> None:
    """Create the pods, so many at a time, and delete each when it has ended."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        name, code = f"p-{number}", chance.randrange(256)
        seconds = chance.uniform(0, 3)
        async with room:
            tally.wanted[name] = code
            await client.create(a_pod(name, place.name, shared, seconds, code))
            await tally.until(lambda: name in tally.told, f"the end of {name}")
            await client.delete(core_v1.Pod, name, _NAMESPACE)
            await tally.until(lambda: name in tally.gone, f"{name} gone")

    await asyncio.gather(*(one(number) for number in range(count)))


def left_behind(place: NodePlace) -> list[str]:
    """What there is of pods on a node without pods."""
    cgroups = [str(path) for path in cgroups_with(f"{place.cgroup}/(.*/)?pod[^/]*$")]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    pods = place.directory / "kubelet" / "pods"
    found = [*cgroups, *(line for line in mounts if f"{pods}/" in line)]
    found += [str(path) for path in pods.iterdir()] if pods.exists() else []
    found += [str(path) for path in namespace_files(place)]
    found += [str(path) for path in (place.state / "addresses").glob("*/*.*.*.*")]
    return [*found, *(f"shim {each.process.pid} of {each.id}" for each in shims_of(place))]


async def _is_ready(client: Client) -> bool:
    nodes = (await client.list(core_v1.Node)).items
    accounts = (await client.list(core_v1.ServiceAccount, _NAMESPACE)).items
    conditions = [each for node in nodes for each in node.status.conditions if each.type == "Ready"]
    return bool(accounts) and [each.status for each in conditions] == ["True"]


async def play(
    kubeconfig: Path, place: NodePlace, shared: Path, count: int, seed: int, seconds: tuple[float, float]
) -> Tally:
    """Run so many containers, with random times from `seconds` between two kills. Fails where something is wrong."""
    client, tally, chance = Client(HttpTransport(load(kubeconfig))), Tally(), random.Random(seed)
    tasks: list[asyncio.Task[None]] = []
    try:
        await eventually(lambda: _is_ready(client), "the node is ready", 60)
        tasks.append(asyncio.create_task(follow(client, tally)))
        tasks.append(asyncio.create_task(kill_now_and_then(place, tally, chance, seconds)))
        await run_all(client, place, tally, chance, shared, count)
        problems = tally.problems(shared)
        assert not problems, f"{len(problems)} problems, kills {dict(tally.kills)}: " + "; ".join(problems[:20])
        tasks[1].cancel()
        try:
            await eventually(lambda: not left_behind(place), "a clean node", 120)
        except AssertionError as error:
            raise AssertionError(f"{error}; left are {left_behind(place)[:20]}") from None
        return tally
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


def run(directory: Path, count: int, seed: int, seconds: tuple[float, float] = (4.0, 16.0)) -> Tally:
    """Start a cluster with one real node below a directory, run and kill, and stop it."""
    place = RealNodeSettings(1, directory / "data" / "real-nodes").nodes()[0]
    shared = directory / "shared"
    shared.mkdir()
    data = str(directory / "data")
    options = ("--data-dir", data, "--nodes", "0", "--real-nodes", "1", "--no-real-node-outbound", "--port", "0")
    # A file, since nobody would read a pipe, and a full one would stop the cluster.
    with (directory / "up.log").open("w+b") as log:
        process = subprocess.Popen([BAYPLAN, "up", *options], stdout=log, stderr=subprocess.STDOUT)
        try:
            asyncio.run(eventually(functools.partial(_is_up, Path(log.name)), "the cluster is up", 60))
            give_image(place)
            return asyncio.run(play(directory / "data" / "kubeconfig", place, shared, count, seed, seconds))
        except AssertionError:
            sys.stderr.write("".join(Path(log.name).read_text().splitlines(keepends=True)[-_LAST_LINES:]))
            raise
        finally:
            process.terminate()
            assert process.wait(60) == 0


def _is_up(log: Path) -> bool:
    return any(line.startswith("ready") for line in log.read_text().splitlines())


def main() -> int:
    """As the module says."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    print(f"{count} containers, seed {seed}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bp") as directory:
        tally = run(Path(directory), count, seed)
    kills = ", ".join(f"{tally.kills[each]} of {each}" for each in VICTIMS)
    seconds = time.monotonic() - started
    lost = dict(tally.lost())
    print(
        f"{len(tally.wanted)} containers have ended in {seconds:.0f} s, with kills: {kills}; not seen to their end: {lost}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
