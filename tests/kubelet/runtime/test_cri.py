"""The Container Runtime Interface against a server that hangs, dies, and answers what real ones seldom do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from cri_api.v1 import api_pb2 as wire

from bayplan.kubelet.runtime.cri import CriRuntime
from bayplan.kubelet.runtime.errors import (
    NotFoundError,
    RuntimeRequestError,
    RuntimeTimeoutError,
    RuntimeUnavailableError,
    UnsupportedError,
)
from bayplan.kubelet.runtime.labels import POD_UID
from bayplan.kubelet.runtime.types import (
    ContainerConfig,
    ContainerEventType,
    ContainerSecurity,
    ContainerUser,
    Credentials,
    Device,
    DnsConfig,
    IdMapping,
    ImageMount,
    LinuxResources,
    Mount,
    MountPropagation,
    NamespaceMode,
    Namespaces,
    PortMapping,
    SandboxConfig,
    SandboxSecurity,
    SecurityProfile,
    SeLinuxOptions,
    UserNamespace,
)
from tests.kubelet.runtime.fake_cri import FakeCri, fake_cri
from tests.kubelet.waiting import eventually
from tests.support.late_socket import late_socket

SANDBOX = SandboxConfig("web", "shop", "uid-1", 2, "web", "/var/log/pods/web")


def with_fake(tmp_path: Path, steps: Callable[[CriRuntime, FakeCri], Awaitable[None]], seconds: float = 20) -> None:
    """Run steps against a fake server. seconds: the client's time limit."""

    async def main() -> None:
        socket = str(tmp_path / "cri.sock")
        async with fake_cri(socket) as server:
            runtime = CriRuntime(f"unix://{socket}", request_timeout=seconds)
            try:
                await steps(runtime, server)
            finally:
                await runtime.close()

    asyncio.run(main())


async def answers(runtime: CriRuntime) -> bool:
    """Whether there is a runtime."""
    try:
        await runtime.version()
    except RuntimeUnavailableError:
        return False
    return True


def test_call_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.hangs.add("ListContainers")
        waiting = [asyncio.create_task(runtime.containers()) for _ in range(150)]
        server.answers["Version"] = wire.VersionResponse(
            runtime_name="fake", runtime_version="9", runtime_api_version="v1"
        )
        version = await runtime.version()
        assert (version.name, version.version) == ("fake", "9")
        assert not any(task.done() for task in waiting)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in results} == {RuntimeTimeoutError}

    with_fake(tmp_path, steps, seconds=1.0)


def test_calls_that_take_long_get_the_time_they_need(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.answers["RunPodSandbox"] = wire.RunPodSandboxResponse(pod_sandbox_id="s")
        server.answers["PullImage"] = wire.PullImageResponse(image_ref="sha256:1")
        await runtime.run_sandbox(SANDBOX)
        await runtime.stop_container("c", 300)
        await runtime.exec_sync("c", ["true"], 0)
        await runtime.pull_image("busybox", None)
        await runtime.containers()
        limits = {
            name: None if left is None or left > 1e6 else round(left / 10) * 10
            for name, left in server.deadlines.items()
        }
        assert limits == {
            "RunPodSandbox": 40,
            "StopContainer": 320,
            "ExecSync": None,
            "PullImage": None,
            "ListContainers": 20,
        }
        await runtime.exec_sync("c", ["true"], 0.3)  # 0 would mean no limit
        assert server.requests[-1][1].timeout == 1
        assert 20 < (server.deadlines["ExecSync"] or 0) < 23

    with_fake(tmp_path, steps)


@pytest.mark.parametrize(
    ("code", "expected", "shown"),
    [
        (grpc.StatusCode.NOT_FOUND, NotFoundError, "rpc error: code = NotFound desc = what it said"),
        (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            RuntimeTimeoutError,
            "rpc error: code = DeadlineExceeded desc = what it said",
        ),
        (grpc.StatusCode.UNAVAILABLE, RuntimeUnavailableError, "rpc error: code = Unavailable desc = what it said"),
        (grpc.StatusCode.UNIMPLEMENTED, UnsupportedError, "rpc error: code = Unimplemented desc = what it said"),
        (grpc.StatusCode.UNKNOWN, RuntimeRequestError, "rpc error: code = Unknown desc = what it said"),
        (grpc.StatusCode.CANCELLED, RuntimeRequestError, "rpc error: code = Canceled desc = what it said"),
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            RuntimeRequestError,
            "rpc error: code = ResourceExhausted desc = what it said",
        ),
    ],
)
def test_failures_keep_the_runtimes_words(
    tmp_path: Path, code: grpc.StatusCode, expected: type[RuntimeRequestError], shown: str
) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.errors["StartContainer"] = (code, "what it said")
        with pytest.raises(RuntimeRequestError) as caught:
            await runtime.start_container("c")
        assert type(caught.value) is expected
        assert str(caught.value) == "what it said"
        assert caught.value.rpc_text == shown

    with_fake(tmp_path, steps)


def test_stopping_and_removing_what_is_gone_succeeds(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        gone = (grpc.StatusCode.NOT_FOUND, "gone")
        for name in ("StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer", "RemoveImage"):
            server.errors[name] = gone
        await runtime.stop_sandbox("s")
        await runtime.remove_sandbox("s")
        await runtime.stop_container("c", 1)
        await runtime.remove_container("c")
        await runtime.remove_image("i")
        server.errors["RemoveContainer"] = (grpc.StatusCode.UNKNOWN, "busy")
        with pytest.raises(RuntimeRequestError, match="busy"):
            await runtime.remove_container("c")

    with_fake(tmp_path, steps)


def test_runtime_that_dies_is_found_again(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        await runtime.version()
        server.hangs.add("PullImage")
        pull = asyncio.create_task(runtime.pull_image("busybox", None))
        await eventually(lambda: any(name == "PullImage" for name, _ in server.requests), "a pull")
        await server.stop()
        with pytest.raises((RuntimeUnavailableError, RuntimeRequestError)):
            await pull
        with pytest.raises(RuntimeUnavailableError):
            await runtime.version()
        await server.start(str(tmp_path / "cri.sock"))
        await eventually(lambda: answers(runtime), "a server again")

    with_fake(tmp_path, steps)


def test_a_busy_runtime_that_is_slow_to_take_a_connection_is_waited_for(tmp_path: Path) -> None:
    async def steps() -> None:
        async with fake_cri(str(tmp_path / "cri.sock")), late_socket(tmp_path / "late.sock", tmp_path / "cri.sock"):
            runtime = CriRuntime(f"unix://{tmp_path / 'late.sock'}", request_timeout=20)
            try:
                await runtime.version()
            finally:
                await runtime.close()

    asyncio.run(steps())


def test_no_runtime_is_unavailable(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = CriRuntime(str(tmp_path / "nothing.sock"))
        with pytest.raises(RuntimeUnavailableError, match=r"nothing\.sock"):
            await runtime.version()
        await runtime.close()

    asyncio.run(main())
    with pytest.raises(ValueError, match="tcp://"):
        CriRuntime("tcp://127.0.0.1:1")


def test_answer_without_an_id_is_a_failure(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        with pytest.raises(RuntimeRequestError, match="no sandbox id"):
            await runtime.run_sandbox(SANDBOX)

    with_fake(tmp_path, steps)


def test_events_come_until_the_stream_breaks(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.events = [
            wire.ContainerEventResponse(
                container_id="c",
                container_event_type=wire.CONTAINER_STOPPED_EVENT,
                created_at=5,
                pod_sandbox_status=wire.PodSandboxStatus(metadata=wire.PodSandboxMetadata(uid="u")),
            )
        ]
        stream = runtime.events()
        event = await anext(stream)
        assert (event.type, event.container_id, event.timestamp, event.pod_uid) == (
            ContainerEventType.STOPPED,
            "c",
            5,
            "u",
        )
        with pytest.raises(RuntimeError, match="one reader"):
            await anext(runtime.events())
        await server.stop()
        with pytest.raises(RuntimeRequestError):
            await anext(stream)
        server.stream_error = (grpc.StatusCode.UNIMPLEMENTED, "no events")
        server.events = []
        await server.start(str(tmp_path / "cri.sock"))
        await eventually(lambda: answers(runtime), "a server again")
        with pytest.raises(UnsupportedError, match="no events"):
            await anext(runtime.events())

    with_fake(tmp_path, steps)


# Fields that containerd 1.6 does not know are looked at with these.
SANDBOX = SandboxConfig(
    "web",
    "shop",
    "uid-1",
    2,
    "host",
    "/logs",
    dns=DnsConfig(("10.0.0.10",), ("svc",), ("ndots:5",)),
    port_mappings=(PortMapping("UDP", 53, 5353, "127.0.0.1"),),
    labels={"a": "b"},
    annotations={"c": "d"},
    cgroup_parent="/kubepods/pod1",
    security=SandboxSecurity(
        namespaces=Namespaces(
            NamespaceMode.NODE,
            NamespaceMode.POD,
            NamespaceMode.NODE,
            users=UserNamespace(NamespaceMode.POD, (IdMapping(65536, 0, 65536),), (IdMapping(131072, 0, 65536),)),
        ),
        run_as_user=0,
        run_as_group=7,
        supplemental_groups=(5, 6),
        supplemental_groups_policy="Strict",
        privileged=True,
        read_only_root=True,
        seccomp=SecurityProfile("Localhost", "my.json"),
        apparmor=SecurityProfile("Unconfined"),
        selinux=SeLinuxOptions("u", "r", "t", "l"),
    ),
    sysctls={"net.core.somaxconn": "1"},
    overhead=LinuxResources(cpu_shares=2),
    resources=LinuxResources(memory_limit=3),
)
CONTAINER = ContainerConfig(
    "main",
    3,
    "sha256:1",
    "nginx",
    ("run",),
    ("-x",),
    "/work",
    (("A", "1"), ("A", "2")),
    (
        Mount("/data", "/host", True, True, True, MountPropagation.BIDIRECTIONAL),
        Mount("/image", image=ImageMount("img", "sub")),
    ),
    (Device("/dev/c", "/dev/h", "r"),),
    ("vendor.com/gpu=0",),
    {"l": "1"},
    {"an": "2"},
    "main/3.log",
    True,
    True,
    True,
    LinuxResources(1, 2, 3, 4, 5, 6, "0-1", "0", {"2MB": 7}, {"memory.high": "8"}),
    ContainerSecurity(
        namespaces=Namespaces(pid=NamespaceMode.TARGET, target_id="t"),
        capabilities_add=("NET_ADMIN",),
        capabilities_drop=("ALL",),
        run_as_username="web",
        no_new_privileges=True,
        masked_paths=("/m",),
        read_only_paths=("/r",),
    ),
    "SIGUSR1",
)


def sent(directory: Path) -> Any:
    """The request that creates CONTAINER in SANDBOX, as the runtime gets it."""

    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.answers["CreateContainer"] = wire.CreateContainerResponse(container_id="c")
        await runtime.create_container("s", CONTAINER, SANDBOX)
        requests.extend(server.requests)

    requests: list[tuple[str, Any]] = []
    with_fake(directory, steps)
    ((_, request),) = requests
    return request


def test_sandbox_config_arrives_whole(tmp_path: Path) -> None:
    shown = sent(tmp_path).sandbox_config
    assert (shown.metadata.name, shown.metadata.namespace, shown.metadata.uid, shown.metadata.attempt) == (
        "web",
        "shop",
        "uid-1",
        2,
    )
    assert (list(shown.dns_config.servers), list(shown.dns_config.searches), list(shown.dns_config.options)) == (
        ["10.0.0.10"],
        ["svc"],
        ["ndots:5"],
    )
    (port,) = shown.port_mappings
    assert (port.protocol, port.container_port, port.host_port, port.host_ip) == (wire.UDP, 53, 5353, "127.0.0.1")
    assert (shown.hostname, shown.log_directory, dict(shown.labels), dict(shown.annotations)) == (
        "host",
        "/logs",
        {"a": "b"},
        {"c": "d"},
    )
    assert (shown.linux.cgroup_parent, dict(shown.linux.sysctls)) == ("/kubepods/pod1", {"net.core.somaxconn": "1"})
    assert (shown.linux.overhead.cpu_shares, shown.linux.resources.memory_limit_in_bytes) == (2, 3)


def test_security_of_a_sandbox_arrives_whole(tmp_path: Path) -> None:
    security = sent(tmp_path).sandbox_config.linux.security_context
    options = security.namespace_options
    assert (options.network, options.pid, options.ipc) == (wire.NODE, wire.POD, wire.NODE)
    assert [
        (each.host_id, each.container_id, each.length)
        for each in (*options.userns_options.uids, *options.userns_options.gids)
    ] == [
        (65536, 0, 65536),
        (131072, 0, 65536),
    ]
    assert security.HasField("run_as_user")
    assert (security.run_as_user.value, security.run_as_group.value, list(security.supplemental_groups)) == (
        0,
        7,
        [5, 6],
    )
    assert (security.supplemental_groups_policy, security.privileged, security.readonly_rootfs) == (
        wire.Strict,
        True,
        True,
    )
    assert (security.seccomp.profile_type, security.seccomp.localhost_ref) == (
        wire.SecurityProfile.Localhost,
        "my.json",
    )
    assert security.apparmor.profile_type == wire.SecurityProfile.Unconfined
    assert (security.selinux_options.user, security.selinux_options.level) == ("u", "l")


def test_container_config_arrives_whole(tmp_path: Path) -> None:
    config = sent(tmp_path).config
    assert (
        config.metadata.name,
        config.metadata.attempt,
        config.image.image,
        config.image.user_specified_image,
    ) == ("main", 3, "sha256:1", "nginx")
    assert (list(config.command), list(config.args), config.working_dir) == (["run"], ["-x"], "/work")
    assert [(each.key, each.value) for each in config.envs] == [("A", "1"), ("A", "2")]


def test_a_variable_that_is_no_text_is_a_failure_that_does_not_tell_it(tmp_path: Path) -> None:
    config = replace(CONTAINER, environment=(("KEY", "hidden\udcff"),))

    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        with pytest.raises(RuntimeRequestError) as caught:
            await runtime.create_container("s", config, SANDBOX)
        assert caught.value.rpc_text == (
            "rpc error: code = Internal desc = grpc: error while marshaling: string field contains invalid UTF-8"
        )
        assert server.requests == []

    with_fake(tmp_path, steps)


def test_mounts_and_devices_of_a_container_arrive_whole(tmp_path: Path) -> None:
    config = sent(tmp_path).config
    first, second = config.mounts
    assert (
        first.container_path,
        first.host_path,
        first.readonly,
        first.recursive_read_only,
        first.selinux_relabel,
        first.propagation,
    ) == (
        "/data",
        "/host",
        True,
        True,
        True,
        wire.PROPAGATION_BIDIRECTIONAL,
    )
    assert (second.image.image, second.image_sub_path, first.HasField("image")) == ("img", "sub", False)
    assert [(each.container_path, each.host_path, each.permissions) for each in config.devices] == [
        ("/dev/c", "/dev/h", "r")
    ]
    assert [each.name for each in config.CDI_devices] == ["vendor.com/gpu=0"]
    assert (config.log_path, config.stdin, config.stdin_once, config.tty, config.stop_signal) == (
        "main/3.log",
        True,
        True,
        True,
        wire.SIGUSR1,
    )


def test_resources_of_a_container_arrive_whole(tmp_path: Path) -> None:
    limits = sent(tmp_path).config.linux.resources
    assert (
        limits.cpu_period,
        limits.cpu_quota,
        limits.cpu_shares,
        limits.memory_limit_in_bytes,
        limits.memory_swap_limit_in_bytes,
    ) == (1, 2, 3, 4, 5)
    assert (limits.oom_score_adj, limits.cpuset_cpus, limits.cpuset_mems, dict(limits.unified)) == (
        6,
        "0-1",
        "0",
        {"memory.high": "8"},
    )
    assert [(each.page_size, each.limit) for each in limits.hugepage_limits] == [("2MB", 7)]


def test_security_of_a_container_arrives_whole(tmp_path: Path) -> None:
    own = sent(tmp_path).config.linux.security_context
    assert (own.namespace_options.pid, own.namespace_options.target_id) == (wire.TARGET, "t")
    assert (list(own.capabilities.add_capabilities), list(own.capabilities.drop_capabilities)) == (
        ["NET_ADMIN"],
        ["ALL"],
    )
    assert (own.HasField("run_as_user"), own.run_as_username, own.no_new_privs) == (False, "web", True)
    assert (list(own.masked_paths), list(own.readonly_paths)) == (["/m"], ["/r"])


def test_status_of_the_runtime_is_read_whole(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.answers["Status"] = wire.StatusResponse(
            status=wire.RuntimeStatus(conditions=[wire.RuntimeCondition(type="NetworkReady", reason="r", message="m")]),
            runtime_handlers=[
                wire.RuntimeHandler(
                    name="kata",
                    features=wire.RuntimeHandlerFeatures(recursive_read_only_mounts=True, user_namespaces=True),
                )
            ],
            features=wire.RuntimeFeatures(supplemental_groups_policy=True),
        )
        status = await runtime.status()
        condition = status.condition("NetworkReady")
        assert condition is not None
        assert (condition.status, condition.reason, condition.message) == (False, "r", "m")
        (handler,) = status.handlers
        assert (handler.name, handler.recursive_read_only_mounts, handler.user_namespaces) == ("kata", True, True)
        assert status.supplemental_groups_policy

    with_fake(tmp_path, steps)


def test_status_of_a_sandbox_is_read_whole(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.answers["PodSandboxStatus"] = wire.PodSandboxStatusResponse(
            status=wire.PodSandboxStatus(
                id="s",
                state=wire.SANDBOX_NOTREADY,
                network=wire.PodSandboxNetworkStatus(ip="10.0.0.1", additional_ips=[wire.PodIP(ip="fd00::1")]),
                linux=wire.LinuxPodSandboxStatus(
                    namespaces=wire.Namespace(
                        options=wire.NamespaceOption(
                            network=wire.NODE,
                            userns_options=wire.UserNamespace(
                                mode=wire.POD, uids=[wire.IDMapping(host_id=1, length=2)]
                            ),
                        )
                    )
                ),
            )
        )
        sandbox = await runtime.sandbox_status("s")
        assert (sandbox.ips, sandbox.network) == (("10.0.0.1", "fd00::1"), NamespaceMode.NODE)
        assert sandbox.users is not None
        assert sandbox.users.uids == (IdMapping(1, 0, 2),)

    with_fake(tmp_path, steps)


def test_status_of_a_container_is_read_whole(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.answers["ContainerStatus"] = wire.ContainerStatusResponse(
            status=wire.ContainerStatus(
                id="c",
                state=wire.CONTAINER_EXITED,
                exit_code=137,
                reason="OOMKilled",
                finished_at=9,
                image=wire.ImageSpec(image="nginx:1"),
                image_ref="nginx@sha256:2",
                image_id="sha256:1",
                log_path="/l",
                mounts=[wire.Mount(container_path="/i", image=wire.ImageSpec(image="img"), image_sub_path="sub")],
                resources=wire.ContainerResources(linux=wire.LinuxContainerResources(cpu_quota=5, unified={"a": "b"})),
                user=wire.ContainerUser(linux=wire.LinuxContainerUser(uid=1, gid=2, supplemental_groups=[3])),
                stop_signal=wire.SIGUSR2,
            )
        )
        container = await runtime.container_status("c")
        assert (container.exit_code, container.reason, container.finished_at, container.log_path) == (
            137,
            "OOMKilled",
            9,
            "/l",
        )
        assert (container.image, container.image_ref, container.container.image_id) == (
            "nginx:1",
            "nginx@sha256:2",
            "sha256:1",
        )
        assert container.mounts == (Mount("/i", image=ImageMount("img", "sub")),)
        assert container.resources == LinuxResources(cpu_quota=5, unified={"a": "b"})
        assert (container.user, container.stop_signal) == (ContainerUser(1, 2, (3,)), "SIGUSR2")

    with_fake(tmp_path, steps)


def test_images_are_read_whole(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.answers["ListImages"] = wire.ListImagesResponse(
            images=[
                wire.Image(id="i", repo_digests=["d"], size=4, uid=wire.Int64Value(value=0), username="u", pinned=True)
            ]
        )
        (image,) = await runtime.images()
        assert (image.digests, image.size, image.user_id, image.username, image.pinned) == (("d",), 4, 0, "u", True)

    with_fake(tmp_path, steps)


def test_statistics_are_read_whole(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.answers["ListContainerStats"] = wire.ListContainerStatsResponse(
            stats=[
                wire.ContainerStats(
                    attributes=wire.ContainerAttributes(id="c", metadata=wire.ContainerMetadata(name="main")),
                    cpu=wire.CpuUsage(timestamp=1, usage_core_nano_seconds=wire.UInt64Value(value=0)),
                    memory=wire.MemoryUsage(working_set_bytes=wire.UInt64Value(value=3)),
                )
            ]
        )
        (stats,) = await runtime.container_stats()
        assert (stats.name, stats.cpu_nanoseconds, stats.memory_working_set, stats.memory_rss) == ("main", 0, 3, None)
        assert stats.writable_layer is None

    with_fake(tmp_path, steps)


def test_cgroup_driver_is_read_whole(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.answers["RuntimeConfig"] = wire.RuntimeConfigResponse(
            linux=wire.LinuxRuntimeConfiguration(cgroup_driver=wire.CGROUPFS)
        )
        assert await runtime.cgroup_driver() == "cgroupfs"
        server.answers["RuntimeConfig"] = wire.RuntimeConfigResponse(linux=wire.LinuxRuntimeConfiguration())
        assert await runtime.cgroup_driver() == "systemd"

    with_fake(tmp_path, steps)


def test_filters_credentials_and_ranges_are_sent(tmp_path: Path) -> None:
    async def steps(runtime: CriRuntime, server: FakeCri) -> None:
        server.answers["PullImage"] = wire.PullImageResponse(image_ref="ref")
        await runtime.sandboxes(pod_uid="u")
        assert dict(server.requests[-1][1].filter.label_selector) == {POD_UID: "u"}
        await runtime.containers()
        assert dict(server.requests[-1][1].filter.label_selector) == {}
        await runtime.container_stats(pod_uid="u")
        assert dict(server.requests[-1][1].filter.label_selector) == {POD_UID: "u"}
        await runtime.set_pod_cidr("10.0.0.0/24")
        assert server.requests[-1][1].runtime_config.network_config.pod_cidr == "10.0.0.0/24"
        credentials = Credentials("name", "word", "auth", "server", "identity", "registry")
        assert await runtime.pull_image("img", credentials, SANDBOX, runtime_handler="kata") == "ref"
        request = server.requests[-1][1]
        assert (request.image.image, request.image.runtime_handler, request.sandbox_config.metadata.name) == (
            "img",
            "kata",
            "web",
        )
        auth = request.auth
        assert (
            auth.username,
            auth.password,
            auth.auth,
            auth.server_address,
            auth.identity_token,
            auth.registry_token,
        ) == (
            "name",
            "word",
            "auth",
            "server",
            "identity",
            "registry",
        )
        await runtime.pull_image("img", None)
        assert not server.requests[-1][1].HasField("auth")

    with_fake(tmp_path, steps)


def test_missing_packages_are_named() -> None:
    code = "import sys; sys.modules['grpc'] = None; import bayplan.kubelet.runtime.cri"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'bayplan[kubelet]'" in done.stderr
