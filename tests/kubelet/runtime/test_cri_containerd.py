"""The Container Runtime Interface against a real containerd."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bayplan.cluster.real_nodes.settings import RUNC
from bayplan.kubelet.runtime.cri import CriRuntime
from bayplan.kubelet.runtime.errors import NotFoundError, RuntimeRequestError, RuntimeTimeoutError, UnsupportedError
from bayplan.kubelet.runtime.labels import POD_UID
from bayplan.kubelet.runtime.types import (
    ContainerConfig,
    ContainerState,
    ContainerStatus,
    LinuxResources,
    Mount,
    NamespaceMode,
    SandboxConfig,
    SandboxState,
)
from tests.cgroups import cgroups_with
from tests.kubelet.runtime.real_containerd import BUSYBOX, needs_containerd, running_containerd, under_each_oci_runtime
from tests.kubelet.waiting import eventually

pytestmark = needs_containerd


def sandbox_config(uid: str, logs: Path) -> SandboxConfig:
    """A pod of one name per uid."""
    return SandboxConfig(
        name=f"pod-{uid}",
        namespace="default",
        uid=uid,
        attempt=0,
        hostname=f"pod-{uid}",
        log_directory=str(logs),
        labels={POD_UID: uid},
        cgroup_parent=f"/bayplan-cri-test-{uid}",
    )


def container_config(*command: str, name: str = "main", **fields: object) -> ContainerConfig:
    """A busybox that runs a command."""
    return ContainerConfig(
        name=name,
        attempt=0,
        image=BUSYBOX,
        user_image=BUSYBOX,
        command=command,
        log_path=f"{name}.log",
        **fields,  # type: ignore[arg-type]
    )


def is_directory(path: str) -> bool:
    """Whether there is a directory."""
    return Path(path).is_dir()


async def ended(runtime: CriRuntime, container_id: str) -> ContainerStatus:
    """The container's status once it has ended, which must be within ten seconds."""
    async with asyncio.timeout(10):
        while True:
            status = await runtime.container_status(container_id)
            if status.container.state is ContainerState.EXITED:
                return status
            await asyncio.sleep(0.02)


def remove_cgroups() -> None:
    """The pods' cgroups, which no runtime removes. One whose last process has just been killed is busy for a moment."""
    for path in reversed(cgroups_with("/bayplan-cri-test-[^/]*$")):
        for left in reversed(range(50)):
            try:
                path.rmdir()
                break
            except FileNotFoundError:  # another test that runs beside this one was faster
                break
            except OSError as error:
                if error.errno != errno.EBUSY or not left:
                    raise
                time.sleep(0.1)


def with_containerd(
    test: Callable[[CriRuntime, Path], Awaitable[None]], directory: Path, oci_runtime: str = RUNC
) -> None:
    """Run a test's steps against a containerd."""

    async def main() -> None:
        async with running_containerd(oci_runtime) as (runtime, _):
            try:
                await test(runtime, directory)
            finally:
                for sandbox in await runtime.sandboxes():
                    await runtime.stop_sandbox(sandbox.id)
                    await runtime.remove_sandbox(sandbox.id)
                remove_cgroups()

    asyncio.run(main())


@under_each_oci_runtime
def test_pod_runs_is_seen_and_goes(tmp_path: Path, oci_runtime: str) -> None:
    async def steps(runtime: CriRuntime, logs: Path) -> None:
        version = await runtime.version()
        assert (version.name, version.api_version) == ("containerd", "v1")
        status = await runtime.status()
        assert [status.condition(kind) is not None for kind in ("RuntimeReady", "NetworkReady", "Other")] == [
            True,
            True,
            False,
        ]
        config = sandbox_config("a", logs)
        sandbox_id = await runtime.run_sandbox(config)
        shown = await runtime.sandbox_status(sandbox_id)
        assert (shown.sandbox.uid, shown.sandbox.state, shown.network) == ("a", SandboxState.READY, NamespaceMode.POD)
        assert len(shown.ips) == 1
        assert shown.ips[0].startswith("10.211.0.")
        script = "echo out; echo err >&2; cat /data/file; sleep 1000"
        (logs / "file").write_text("mounted\n")
        container_id = await runtime.create_container(
            sandbox_id,
            container_config(
                "sh", "-c", script, mounts=(Mount("/data", str(logs)),), resources=LinuxResources(cpu_shares=512)
            ),
            config,
        )
        assert (await runtime.container_status(container_id)).container.state is ContainerState.CREATED
        await runtime.start_container(container_id)
        running = await runtime.container_status(container_id)
        assert running.container.state is ContainerState.RUNNING
        assert running.started_at >= running.container.created_at > 0
        assert running.exit_code == running.finished_at == 0
        found = await runtime.containers(pod_uid="")
        assert [(each.id, each.sandbox_id, each.name) for each in found] == [(container_id, sandbox_id, "main")]
        assert await runtime.sandboxes(pod_uid="other") == []
        assert [each.id for each in await runtime.sandboxes(pod_uid="a")] == [sandbox_id]
        await eventually(lambda: "mounted" in (logs / "main.log").read_text(), "output")
        lines = [line.split(" ", 1)[1] for line in (logs / "main.log").read_text().splitlines()]
        assert sorted(lines) == ["stderr F err", "stdout F mounted", "stdout F out"]
        (usage,) = await runtime.container_stats()
        assert usage.container_id == container_id
        assert usage.cpu_nanoseconds is not None
        (logs / "main.log").rename(logs / "main.log.1")
        await runtime.reopen_log(container_id)
        assert (logs / "main.log").exists()
        await runtime.stop_container(container_id, 0)
        gone = await ended(runtime, container_id)
        assert (gone.exit_code, gone.finished_at > gone.started_at) == (137, True)
        await runtime.stop_sandbox(sandbox_id)
        assert (await runtime.sandbox_status(sandbox_id)).sandbox.state is SandboxState.NOT_READY
        await runtime.remove_sandbox(sandbox_id)
        assert await runtime.containers() == []
        assert await runtime.sandboxes() == []

    with_containerd(steps, tmp_path, oci_runtime)


@under_each_oci_runtime
def test_commands_tell_how_they_end(tmp_path: Path, oci_runtime: str) -> None:
    async def steps(runtime: CriRuntime, logs: Path) -> None:
        config = sandbox_config("b", logs)
        sandbox_id = await runtime.run_sandbox(config)
        container_id = await runtime.create_container(sandbox_id, container_config("sleep", "1000"), config)
        await runtime.start_container(container_id)
        result = await runtime.exec_sync(container_id, ["sh", "-c", "echo yes; echo no >&2; exit 3"], 10)
        assert (result.stdout, result.stderr, result.exit_code) == (b"yes\n", b"no\n", 3)
        with pytest.raises(RuntimeTimeoutError):
            await runtime.exec_sync(container_id, ["sleep", "1000"], 1)
        with pytest.raises(RuntimeRequestError, match="no-such-command"):
            await runtime.exec_sync(container_id, ["no-such-command"], 10)
        assert (
            await runtime.exec_url(container_id, ["sh"], stdin=True, stdout=True, stderr=False, tty=True)
        ).startswith("http://127.0.0.1:")
        assert (await runtime.attach_url(container_id, stdin=False, stdout=True, stderr=True, tty=False)).startswith(
            "http://127.0.0.1:"
        )
        assert (await runtime.port_forward_url(sandbox_id, [80])).startswith("http://127.0.0.1:")
        await runtime.update_container(container_id, LinuxResources(cpu_shares=256, memory_limit=64 << 20), {})
        broken = await runtime.create_container(sandbox_id, container_config("/nothing", name="broken"), config)
        with pytest.raises(RuntimeRequestError, match="/nothing"):
            await runtime.start_container(broken)
        assert (await runtime.container_status(broken)).exit_code == 128
        short = await runtime.create_container(sandbox_id, container_config("sh", "-c", "exit 7", name="short"), config)
        await runtime.start_container(short)
        status = await ended(runtime, short)
        assert (status.exit_code, status.reason) == (7, "Error")
        await runtime.remove_container(short)
        with pytest.raises(NotFoundError):
            await runtime.container_status(short)

    with_containerd(steps, tmp_path, oci_runtime)


def test_what_is_not_there_is_named_or_gone_already(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, logs: Path) -> None:
        await runtime.stop_container("none", 0)
        await runtime.remove_container("none")
        await runtime.stop_sandbox("none")
        await runtime.remove_sandbox("none")
        await runtime.remove_image("registry.test/none:1")
        with pytest.raises(NotFoundError, match="not found"):
            await runtime.sandbox_status("none")
        with pytest.raises(NotFoundError, match="none"):
            await runtime.start_container("none")
        assert await runtime.image_status("registry.test/none:1") is None
        image = await runtime.image_status(BUSYBOX)
        assert image is not None
        assert image.tags == (BUSYBOX,)
        assert image.size > 100_000
        assert {tag for each in await runtime.images() for tag in each.tags} >= {BUSYBOX}
        filesystems, _ = await runtime.image_filesystems()
        assert is_directory(filesystems[0].mountpoint)
        if (await runtime.version()).version.startswith("1.6."):  # it has neither
            with pytest.raises(UnsupportedError):
                await runtime.cgroup_driver()
            with pytest.raises(UnsupportedError):
                await anext(runtime.events())
        else:
            assert await runtime.cgroup_driver() == "cgroupfs"

    with_containerd(steps, tmp_path)
