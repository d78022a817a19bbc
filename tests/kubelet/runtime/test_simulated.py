"""The simulated runtime keeps the contract of real ones, in virtual time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any

import pytest

from bayplan.kubelet.runtime.behaviour import Behaviour, Command, Commands, SimulatedImage
from bayplan.kubelet.runtime.errors import (
    NotFoundError,
    RuntimeRequestError,
    RuntimeTimeoutError,
    RuntimeUnavailableError,
    UnsupportedError,
)
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import (
    ContainerConfig,
    ContainerEventType,
    ContainerState,
    ContainerStatus,
    Credentials,
    LinuxResources,
    NamespaceMode,
    Namespaces,
    SandboxConfig,
    SandboxSecurity,
    SandboxState,
)
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run

START = 1_767_323_045.0


def runtime(**options: Any) -> SimulatedRuntime:
    """A runtime on the running loop's time."""
    return SimulatedRuntime(LoopClock(START), SeededRandomness(1), **options)


def now() -> float:
    """Seconds since the test began."""
    return asyncio.get_running_loop().time()


def pod(name: str = "web", **fields: Any) -> SandboxConfig:
    """A sandbox's config; the uid is the name."""
    return SandboxConfig(name, "default", name, 0, name, f"/logs/{name}", **fields)


def container(name: str = "main", image: str = "nginx", attempt: int = 0, **fields: Any) -> ContainerConfig:
    """A container's config."""
    return ContainerConfig(name, attempt, image, image, log_path=f"{name}.log", **fields)


async def started(it: SimulatedRuntime, config: ContainerConfig | None = None, sandbox: str = "") -> tuple[str, str]:
    """(sandbox id, container id) of a container that was started."""
    config = config or container()
    await it.pull_image(config.image, None)
    sandbox = sandbox or await it.run_sandbox(pod())
    container_id = await it.create_container(sandbox, config, pod())
    await it.start_container(container_id)
    return sandbox, container_id


def is_a_runtime(it: Runtime) -> Runtime:
    """mypy checks here that it is one."""
    return it


def check(test: Coroutine[Any, Any, None]) -> None:
    """Run in virtual time."""
    run(test)


def test_container_runs_for_its_time_and_ends_as_its_table_says() -> None:
    async def steps() -> None:
        it = runtime(behaviours={"main": Behaviour(start_seconds=2, run_seconds=30, exit_code=3, message="bye")})
        is_a_runtime(it)
        await it.pull_image("nginx", None)
        assert now() == 0.5
        sandbox = await it.run_sandbox(pod())
        container_id = await it.create_container(sandbox, container(), pod())
        assert (await it.container_status(container_id)).container.state is ContainerState.CREATED
        await it.start_container(container_id)
        assert now() == 2.5
        status = await it.container_status(container_id)
        assert (status.container.state, status.started_at) == (ContainerState.RUNNING, int((START + 2.5) * 1e9))
        await asyncio.sleep(29.9)
        assert (await it.container_status(container_id)).container.state is ContainerState.RUNNING
        await asyncio.sleep(0.2)
        status = await it.container_status(container_id)
        assert (status.container.state, status.exit_code, status.reason, status.message) == (
            ContainerState.EXITED,
            3,
            "Error",
            "bye",
        )
        assert status.finished_at == int((START + 32.5) * 1e9)
        with pytest.raises(RuntimeRequestError, match="CONTAINER_EXITED"):
            await it.start_container(container_id)

    check(steps())


@pytest.mark.parametrize(
    ("behaviour", "grace", "seconds", "exit_code"),
    [
        (Behaviour(stop_seconds=3), 30, 3, 143),
        (Behaviour(stop_seconds=3, stop_exit_code=0), 30, 3, 0),
        (Behaviour(stop_seconds=3), 2, 2, 137),
        (Behaviour(stop_seconds=math.inf), 30, 30, 137),
        (Behaviour(), 0, 0, 137),
        (Behaviour(), 5, 0, 143),
        (Behaviour(stop_seconds=10, run_seconds=4, exit_code=1), 30, 4, 1),
    ],
)
def test_stopping_takes_until_the_end_or_the_grace_period(
    behaviour: Behaviour, grace: int, seconds: float, exit_code: int
) -> None:
    async def steps() -> None:
        it = runtime(behaviours={"nginx": behaviour})
        _, container_id = await started(it)
        before = now()
        await it.stop_container(container_id, grace)
        assert now() - before == pytest.approx(seconds)
        status = await it.container_status(container_id)
        assert (status.container.state, status.exit_code) == (ContainerState.EXITED, exit_code)
        await it.stop_container(container_id, grace)
        await asyncio.sleep(60)
        assert await it.container_status(container_id) == status

    check(steps())


def test_later_starts_behave_as_their_place_in_the_table_says() -> None:
    async def steps() -> None:
        it = runtime(behaviours={"web/main": (Behaviour(run_seconds=1, exit_code=1), Behaviour(run_seconds=1))})
        sandbox = ""
        codes = []
        for attempt in range(3):
            sandbox, container_id = await started(it, container(attempt=attempt), sandbox)
            await asyncio.sleep(2)
            status = await it.container_status(container_id)
            codes.append((status.exit_code, status.reason))
        assert codes == [(1, "Error"), (0, "Completed"), (0, "Completed")]

    check(steps())


def test_what_is_not_in_the_image_does_not_start() -> None:
    async def steps() -> None:
        it = runtime(images=[SimulatedImage("nginx", programs=frozenset({"nginx"}))])
        await it.pull_image("nginx", None)
        sandbox = await it.run_sandbox(pod())
        container_id = await it.create_container(sandbox, container(command=("apache",)), pod())
        with pytest.raises(RuntimeRequestError, match=r'exec: "apache": executable file not found in \$PATH'):
            await it.start_container(container_id)
        status = await it.container_status(container_id)
        assert (status.container.state, status.exit_code, status.reason) == (ContainerState.EXITED, 128, "StartError")
        assert status.started_at == 0
        _, runs = await started(it, container("other", command=("nginx",)), sandbox)
        with pytest.raises(RuntimeRequestError, match='exec: "sh": executable'):
            await it.exec_sync(runs, ["sh"], 1)
        _, own = await started(it, container("own"), sandbox)
        assert (await it.container_status(own)).container.state is ContainerState.RUNNING

    check(steps())


def test_commands_end_as_the_table_says() -> None:
    async def steps() -> None:
        commands: dict[str, Commands] = {
            "check": Command(1, b"no"),
            "check deep": Command(2),
            "hang": Command(seconds=math.inf),
            "warm": lambda seconds: Command(0 if seconds >= 10 else 1),
        }
        it = runtime(behaviours={"main": Behaviour(commands=commands)})
        _, container_id = await started(it)
        assert (await it.exec_sync(container_id, ["check", "-x"], 1)).exit_code == 1
        assert (await it.exec_sync(container_id, ["check", "deep"], 1)).exit_code == 2
        assert (await it.exec_sync(container_id, ["unknown"], 1)).exit_code == 0
        assert (await it.exec_sync(container_id, ["warm"], 1)).exit_code == 1
        await asyncio.sleep(10)
        assert (await it.exec_sync(container_id, ["warm"], 1)).exit_code == 0
        before = now()
        with pytest.raises(RuntimeTimeoutError, match="timeout 4s exceeded"):
            await it.exec_sync(container_id, ["hang"], 4)
        assert now() - before == 4
        await it.stop_container(container_id, 0)
        with pytest.raises(RuntimeRequestError, match="CONTAINER_EXITED"):
            await it.exec_sync(container_id, ["check"], 1)

    check(steps())


def test_images_are_pulled_in_their_time_or_not_at_all() -> None:
    async def steps() -> None:
        big = SimulatedImage("shop/big:2", size=7, pull_seconds=90, user_id=5)
        it = runtime(images=[big], any_image=False)
        secret = Credentials("me", "word")
        reference = await it.pull_image("shop/big:2", secret)
        assert now() == 90
        assert it.pulls == [("shop/big:2", secret)]
        image = await it.image_status("shop/big:2")
        assert image is not None
        assert (image.id, image.size, image.user_id) == (reference, 7, 5)
        assert image.digests[0].startswith("shop/big@sha256:")
        assert await it.image_status(reference) == image
        with pytest.raises(NotFoundError, match='failed to resolve reference "none"'):
            await it.pull_image("none", None)
        assert (await it.image_filesystems())[0][0].used_bytes == 7
        await it.remove_image(reference)
        assert await it.image_status("shop/big:2") is None
        await it.remove_image(reference)
        it.faults.never_pulled.add("shop/big:2")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10_000):
                await it.pull_image("shop/big:2", None)
        it.faults.never_pulled.clear()
        it.faults.disk_full = True
        with pytest.raises(RuntimeRequestError, match="no space left"):
            await it.pull_image("shop/big:2", None)
        with pytest.raises(RuntimeRequestError, match="no space left"):
            await it.run_sandbox(pod())

    check(steps())


def test_sandbox_takes_its_containers_along() -> None:
    async def steps() -> None:
        it = runtime()
        sandbox, container_id = await started(it)
        assert (await it.sandbox_status(sandbox)).ips == ("10.244.0.2",)
        await it.stop_sandbox(sandbox)
        assert (await it.container_status(container_id)).exit_code == 137
        status = await it.sandbox_status(sandbox)
        assert (status.sandbox.state, status.ips) == (SandboxState.NOT_READY, ())
        with pytest.raises(RuntimeRequestError, match="not running"):
            await it.create_container(sandbox, container(), pod())
        await it.remove_sandbox(sandbox)
        assert (await it.sandboxes(), await it.containers()) == ([], [])
        with pytest.raises(NotFoundError):
            await it.container_status(container_id)
        with pytest.raises(NotFoundError):
            await it.sandbox_status(sandbox)
        for gone in (it.stop_sandbox, it.remove_sandbox, it.remove_container):
            await gone("none")

    check(steps())


def test_pod_dies_while_a_container_starts() -> None:
    async def steps() -> None:
        it = runtime(behaviours={"main": Behaviour(start_seconds=10)})
        await it.pull_image("nginx", None)
        sandbox = await it.run_sandbox(pod())
        container_id = await it.create_container(sandbox, container(), pod())
        starting = asyncio.create_task(it.start_container(container_id))
        await asyncio.sleep(1)
        await it.stop_sandbox(sandbox)
        with pytest.raises(RuntimeRequestError, match="not running"):
            await starting
        assert (await it.container_status(container_id)).container.state is ContainerState.CREATED

    check(steps())


def test_addresses_come_from_the_nodes_range_and_are_used_again() -> None:
    async def steps() -> None:
        it = runtime()
        await it.set_pod_cidr("10.1.0.0/29,fd00::/64")
        ids = [await it.run_sandbox(pod(f"p{number}")) for number in range(5)]
        ips = [(await it.sandbox_status(each)).ips[0] for each in ids]
        assert ips == [f"10.1.0.{number}" for number in range(2, 7)]
        with pytest.raises(RuntimeRequestError, match="no IP addresses available"):
            await it.run_sandbox(pod("late"))
        host = SandboxSecurity(namespaces=Namespaces(network=NamespaceMode.NODE))
        node = await it.run_sandbox(pod("node", security=host))
        assert (await it.sandbox_status(node)).ips == ()
        await it.stop_sandbox(ids[3])
        again = await it.run_sandbox(pod("again"))
        assert (await it.sandbox_status(again)).ips == ("10.1.0.5",)

    check(steps())


def test_calls_that_hang_end_at_their_limit_and_hold_up_no_other() -> None:
    async def steps() -> None:
        it = runtime(request_timeout=20)
        _, container_id = await started(it)
        it.faults.hanging.add("containers")
        before = now()
        hanging = asyncio.create_task(it.containers())
        assert (await it.version()).name == "simulated"
        assert now() == before
        with pytest.raises(RuntimeTimeoutError):
            await hanging
        assert now() - before == 20
        it.faults.hanging = {"*"}
        before = now()
        with pytest.raises(RuntimeTimeoutError):
            await it.stop_container(container_id, 30)
        assert now() - before == 50
        it.faults.hanging.clear()
        assert (await it.container_status(container_id)).container.state is ContainerState.RUNNING

    check(steps())


def test_late_answers_come_after_what_was_asked_for_has_happened() -> None:
    async def steps() -> None:
        it = runtime(request_timeout=20)
        await it.pull_image("nginx", None)
        it.faults.late["run_sandbox"] = 5
        before = now()
        await it.run_sandbox(pod())
        assert now() - before == 5
        it.faults.late["run_sandbox"] = 500
        with pytest.raises(RuntimeTimeoutError):
            await it.run_sandbox(pod("two"))
        assert [each.name for each in await it.sandboxes()] == ["web", "two"]
        it.faults.errors["run_sandbox"] = RuntimeRequestError("no")
        with pytest.raises(RuntimeRequestError, match=r"^no$"):
            await it.run_sandbox(pod("three"))

    check(steps())


def test_containers_outlive_a_restart_and_calls_do_not() -> None:
    async def steps() -> None:
        it = runtime(behaviours={"main": Behaviour(run_seconds=100, stop_seconds=50)})
        _, container_id = await started(it)
        stopping = asyncio.create_task(it.stop_container(container_id, 60))
        pulling = asyncio.create_task(it.pull_image("other", None))
        events = it.events()
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.1)
        it.stop_answering()
        for broken in (stopping, pulling, waiting):
            with pytest.raises(RuntimeUnavailableError):
                await broken
        with pytest.raises(RuntimeUnavailableError):
            await it.containers()
        it.start_answering()
        assert (await it.container_status(container_id)).container.state is ContainerState.RUNNING
        assert await it.image_status("other") is None
        await asyncio.sleep(60)  # the signal was sent all the same
        assert (await it.container_status(container_id)).exit_code == 143

    check(steps())


def test_events_are_told_once_unless_they_are_lost() -> None:
    async def steps() -> None:
        it = runtime(behaviours={"main": Behaviour(run_seconds=5)})
        stream = it.events()
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one reader"):
            await anext(it.events())
        sandbox, container_id = await started(it)
        told = [await first, *[await anext(stream) for _ in range(4)]]
        assert [(each.type, each.container_id) for each in told] == [
            (ContainerEventType.CREATED, sandbox),
            (ContainerEventType.STARTED, sandbox),
            (ContainerEventType.CREATED, container_id),
            (ContainerEventType.STARTED, container_id),
            (ContainerEventType.STOPPED, container_id),
        ]
        assert {each.pod_uid for each in told} == {"web"}
        it.faults.loses_events = True
        await it.remove_container(container_id)
        it.faults.loses_events = False
        await it.remove_sandbox(sandbox)
        assert (await anext(stream)).container_id == sandbox
        await stream.aclose()  # type: ignore[attr-defined]
        with pytest.raises(UnsupportedError):
            await anext(runtime(tells_events=False).events())

    check(steps())


def test_reboot_ends_everything() -> None:
    async def steps() -> None:
        it = runtime()
        sandbox, container_id = await started(it)
        it.reboot()
        assert (await it.sandbox_status(sandbox)).sandbox.state is SandboxState.NOT_READY
        status: ContainerStatus = await it.container_status(container_id)
        assert (status.container.state, status.exit_code) == (ContainerState.EXITED, 255)

    check(steps())


def test_usage_resources_and_ends_from_outside() -> None:
    async def steps() -> None:
        it = runtime(behaviours={"main": Behaviour(cpu_cores=0.5, memory_bytes=1000)})
        _, container_id = await started(it)
        await asyncio.sleep(10)
        (stats,) = await it.container_stats()
        assert stats.cpu_nanoseconds == pytest.approx(5e9)
        assert stats.memory_working_set == 1000
        await it.update_container(container_id, LinuxResources(memory_limit=7), {})
        assert (await it.container_status(container_id)).resources == LinuxResources(memory_limit=7)
        it.end_container(container_id, 137, "OOMKilled")
        assert (await it.container_status(container_id)).reason == "OOMKilled"
        assert await it.container_stats() == []
        with pytest.raises(UnsupportedError):
            await it.exec_url(container_id, ["sh"], stdin=True, stdout=True, stderr=True, tty=True)
        with pytest.raises(RuntimeRequestError, match="CONTAINER_EXITED"):
            await it.reopen_log(container_id)

    check(steps())


def test_equal_seeds_give_equal_ids() -> None:
    async def steps() -> None:
        one, two = runtime(), runtime()
        ids = [await one.run_sandbox(pod()), await one.run_sandbox(pod())]
        assert len(set(ids)) == 2
        assert [await two.run_sandbox(pod()), await two.run_sandbox(pod())] == ids

    check(steps())
