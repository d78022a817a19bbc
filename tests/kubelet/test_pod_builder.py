"""What is put together for the runtime from volumes, objects, images and the node."""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from bayplan.api.types import core_v1, node_v1
from bayplan.kubelet.core.containers.allocation import ContainerAllocation
from bayplan.kubelet.core.containers.dns import NodeDns
from bayplan.kubelet.core.containers.resources import LimitSettings
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.images.manager import ImageManager
from bayplan.kubelet.pods.container_events import ContainerEvents
from bayplan.kubelet.pods.pod_builder import BuilderSettings, Cluster, ContainerAllocations, NodePodBuilder
from bayplan.kubelet.pods.pod_runtime import ContainerRequest, SandboxError, StartError
from bayplan.kubelet.resource_managers.errors import AllocationError
from bayplan.kubelet.runtime.behaviour import SimulatedImage
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import (
    ContainerConfig,
    Device,
    IdMapping,
    Mount,
    NamespaceMode,
    RuntimeHandler,
    RuntimeStatus,
)
from bayplan.kubelet.user_namespaces import UserNamespaces
from bayplan.support.blocking import at_once
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run
from bayplan.testing.builders import container, metadata
from tests.kubelet.volumes.node import UID, Node, pod_with

CONFIG_ERROR = "CreateContainerConfigError"


class Images:
    """Pulls everything at once, and remembers what."""

    def __init__(self) -> None:
        self.pulled: list[str] = []

    async def ensure(self, pod: core_v1.Pod, container: AnyContainer, *_: object) -> str:
        self.pulled.append(container.image)
        return container.image

    async def ensure_image(self, reference: object, pod: core_v1.Pod, image: str, *_: object) -> str:
        self.pulled.append(image)
        return image


class Allocations:
    """Gives every container the same, or fails."""

    def __init__(self) -> None:
        self.given = ContainerAllocation()
        self.error: AllocationError | None = None

    async def container(self, pod: core_v1.Pod, container: AnyContainer) -> ContainerAllocation:
        if self.error is not None:
            raise self.error
        return self.given


class Building:
    """A builder, and what it asks."""

    def __init__(self, root: Path) -> None:
        self.node = Node(root / "kubelet")
        self.images = Images()
        self.allocations = Allocations()
        self.status = RuntimeStatus(handlers=(RuntimeHandler("", user_namespaces=True), RuntimeHandler("plain")))
        self.services: list[core_v1.Service] = []
        (root / "hosts").write_text("127.0.0.1 node\n")
        self.runtime = SimulatedRuntime(
            self.node.host.clock, SeededRandomness(1), images=(SimulatedImage("rootless:1", user_id=1000),)
        )
        self.classes = {
            "plain": node_v1.RuntimeClass(metadata=metadata("plain"), handler="plain"),
        }
        self.builder = NodePodBuilder(
            self.runtime,
            cast(ImageManager, self.images),
            self.node.manager,
            UserNamespaces(self.node.root, at_once, ids_per_pod=65536, max_pods=10),
            self.node.objects,
            self.node.mounts,
            at_once,
            cast(ContainerEvents, self),
            Cluster(lambda: self.services, self.classes.get, lambda: self.node.node),
            BuilderSettings(
                self.node.root,
                root / "logs",
                LimitSettings(memory_capacity=8 * 2**30),
                "cluster.local",
                links=root / "links",
                hosts=root / "hosts",
            ),
            SeededRandomness(1),
            dns=lambda: NodeDns(("10.0.0.10",), "cluster.local"),
            cgroup_parent=lambda pod: f"/kubepods/pod{pod.metadata.uid}",
            runtime_status=lambda: self.status,
            allocations=cast(ContainerAllocations, self.allocations),
        )

    def pod(self, pod: core_v1.Pod, kind: str, reason: str, message: str) -> None:
        """An event."""
        self.node.events.append(f"{kind} {reason} {message}")

    def container(
        self, pod: core_v1.Pod, *, ips: tuple[str, ...] = ("10.1.0.5",), image: str = "app:1", restarts: int = 0
    ) -> ContainerConfig:
        """The configuration of the pod's first container, its volumes mounted before."""

        async def build() -> ContainerConfig:
            await self.node.manager.wait_for_mounts(pod)
            main = pod.spec.containers[0]
            await self.runtime.pull_image(image, None)
            found: tuple[ContainerConfig, Callable[[], Awaitable[None]]] = await self.builder.container(
                ContainerRequest(pod, main, image, restarts, ips)
            )
            return found[0]

        return run(build())


@pytest.fixture
def building(tmp_path: Path) -> Building:
    return Building(tmp_path)


def mount(config: ContainerConfig, path: str) -> Mount:
    [found] = [each for each in config.mounts if each.container_path == path]
    return found


def test_a_sandbox_has_its_directory_its_dns_and_its_cgroup(building: Building, tmp_path: Path) -> None:
    found = run(building.builder.sandbox(pod_with(dns_policy="ClusterFirst"), 2))
    assert found.log_directory == f"{tmp_path}/logs/default_p_{UID}"
    assert Path(found.log_directory).is_dir()
    assert found.dns is not None
    assert found.dns.servers == ("10.0.0.10",)
    assert (found.cgroup_parent, found.attempt) == (f"/kubepods/pod{UID}", 2)


def test_events_say_what_dns_cannot_be(building: Building) -> None:
    many = core_v1.PodDNSConfig(nameservers=tuple(f"192.0.2.{number}" for number in range(5)))
    run(building.builder.sandbox(pod_with(dns_config=many), 0))
    assert building.node.events[0].startswith("Warning DNSConfigForming Nameserver limits were exceeded")


def test_volumes_are_mounted_where_the_container_wants_them(building: Building) -> None:
    building.node.objects.put_config_map("c", a="1")
    volume = core_v1.Volume(name="v", config_map=core_v1.ConfigMapVolumeSource(name="c", default_mode=0o644))
    found = mount(building.container(pod_with(volume)), "/v")
    assert (found.host_path, found.read_only) == (str(building.node.directory("configmap")), True)


def test_a_part_of_a_volume_is_bound_and_mounted(building: Building) -> None:
    volume = core_v1.Volume(name="v", empty_dir=core_v1.EmptyDirVolumeSource())
    part = core_v1.VolumeMount(name="v", mount_path="/data", sub_path_expr="of/$(NAME)")
    main = container(volume_mounts=(part,), env=(core_v1.EnvVar(name="NAME", value="me"),))
    found = mount(building.container(pod_with(volume, containers=(main,))), "/data")
    assert found.host_path == str(building.node.root / "pods" / UID / "volume-subpaths" / "v" / "main" / "0")
    assert (building.node.directory("empty-dir") / "of" / "me").is_dir()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            core_v1.VolumeMount(name="v", mount_path="/d", sub_path="link/x"),
            'failed to prepare subPath for volumeMount "v" of container "main"',
        ),
        (core_v1.VolumeMount(name="v", mount_path="/d", sub_path_expr="$(NONE)"), "missing value for NONE"),
        (
            core_v1.VolumeMount(name="w", mount_path="/d"),
            'cannot find volume "w" to mount into container "main"',
        ),
    ],
)
def test_mounts_that_are_impossible_are_said(building: Building, part: core_v1.VolumeMount, message: str) -> None:
    volume = core_v1.Volume(name="v", empty_dir=core_v1.EmptyDirVolumeSource())
    directory = building.node.directory("empty-dir")
    directory.mkdir(parents=True)
    (directory / "link").symlink_to("/etc")
    whole = core_v1.VolumeMount(name="v", mount_path="/all")
    with pytest.raises(StartError) as error:
        building.container(pod_with(volume, containers=(container(volume_mounts=(whole, part)),)))
    assert (error.value.reason, str(error.value)) == (CONFIG_ERROR, message)


def test_each_run_has_a_file_of_its_own_for_its_last_words(building: Building) -> None:
    asked = pod_with(containers=(container(termination_message_path="/dev/termination-log"),))
    files = [Path(mount(building.container(asked), "/dev/termination-log").host_path) for _ in range(2)]
    assert files[0] != files[1]
    assert [stat.S_IMODE(each.stat().st_mode) for each in files] == [0o666, 0o666]
    assert files[0].parent == building.node.root / "pods" / UID / "containers" / "main"


def test_etc_hosts_names_the_pod_or_is_the_nodes(building: Building) -> None:
    own = Path(mount(building.container(pod_with()), "/etc/hosts").host_path)
    assert own.read_text().endswith("10.1.0.5\tp\n")
    building.container(pod_with(host_network=True), ips=())
    assert own.read_text() == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n"


def test_variables_come_from_objects_files_and_the_sandbox(building: Building) -> None:
    building.node.objects.put_config_map("c", a="1")
    building.node.objects.put_secret("s", b="2")
    volume = core_v1.Volume(name="v", config_map=core_v1.ConfigMapVolumeSource(name="f", default_mode=0o644))
    building.node.objects.put_config_map("f", env="KEY='3'\n")

    def of(name: str, **source: Any) -> core_v1.EnvVar:
        return core_v1.EnvVar(name=name, value_from=core_v1.EnvVarSource(**source))

    env = (
        of("A", config_map_key_ref=core_v1.ConfigMapKeySelector(name="c", key="a")),
        of("B", secret_key_ref=core_v1.SecretKeySelector(name="s", key="b")),
        of("C", file_key_ref=core_v1.FileKeySelector(volume_name="v", path="env", key="KEY")),
        of("IP", field_ref=core_v1.ObjectFieldSelector(field_path="status.podIP")),
    )
    used = (core_v1.VolumeMount(name="v", mount_path="/v"),)
    found = building.container(pod_with(volume, containers=(container(env=env, volume_mounts=used),)))
    assert dict(found.environment) == {"A": "1", "B": "2", "C": "3", "IP": "10.1.0.5"}


def test_what_is_missing_keeps_a_container_from_being_made(building: Building) -> None:
    env = (core_v1.EnvFromSource(config_map_ref=core_v1.ConfigMapEnvSource(name="c")),)
    with pytest.raises(StartError) as error:
        building.container(pod_with(containers=(container(env_from=env),)))
    assert (error.value.reason, str(error.value)) == (CONFIG_ERROR, 'configmap "c" not found')


def test_an_image_that_runs_as_root_is_refused_where_that_is_not_wanted(building: Building) -> None:
    asked = pod_with(security_context=core_v1.PodSecurityContext(run_as_non_root=True))
    with pytest.raises(StartError, match="container has runAsNonRoot and image will run as root"):
        building.container(asked)
    assert building.container(asked, image="rootless:1").security.run_as_user == 1000


def test_images_of_volumes_are_pulled_before_the_containers(building: Building) -> None:
    volumes = (
        core_v1.Volume(name="v", image=core_v1.ImageVolumeSource(reference="models:1")),
        core_v1.Volume(name="w", image=core_v1.ImageVolumeSource(reference="unused:1")),
    )
    asked = pod_with(*volumes, mounts={"/v": "v"})
    sandbox = run(building.builder.sandbox(asked, 0))
    run(building.builder.image(asked, asked.spec.containers[0], sandbox))
    assert building.images.pulled == ["models:1", "app:1"]
    assert mount(building.container(asked), "/v").image is not None


def test_pods_with_a_user_namespace_have_ids_of_their_own(building: Building) -> None:
    asked = pod_with(host_users=False)
    found = run(building.builder.sandbox(asked, 0)).security.namespaces.users
    assert found is not None
    assert (found.mode, found.uids) == (NamespaceMode.POD, (IdMapping(65536, 0, 65536),))
    assert building.container(asked).security.namespaces.users == found
    other = msgspec.structs.replace(asked, metadata=metadata("q", "default", uid="other"))
    assert run(building.builder.sandbox(other, 0)).security.namespaces.users != found
    usual = run(building.builder.sandbox(pod_with(), 0)).security.namespaces.users
    assert usual is not None
    assert usual.mode is NamespaceMode.NODE


def test_a_runtime_class_must_exist_and_be_able_to(building: Building) -> None:
    with pytest.raises(SandboxError) as error:
        run(building.builder.sandbox(pod_with(host_users=False, runtime_class_name="plain"), 0))
    text = 'can\'t set `spec.hostUsers: false`, RuntimeClass handler "plain" does not support user namespaces'
    assert str(error.value) == text
    with pytest.raises(SandboxError, match='RuntimeClass "gone" not found'):
        run(building.builder.sandbox(pod_with(runtime_class_name="gone"), 0))


def test_collectors_of_logs_find_containers_by_links(building: Building, tmp_path: Path) -> None:
    asked = pod_with()
    log = tmp_path / "logs" / f"default_p_{UID}" / "main" / "3.log"
    building.builder.started(asked, asked.spec.containers[0], "abcdef", 3)
    assert not (tmp_path / "links").exists(), "a link to nothing"
    log.parent.mkdir(parents=True)
    log.touch()
    building.builder.started(asked, asked.spec.containers[0], "abcdef", 3)
    assert (tmp_path / "links" / "p_default_main-abcdef.log").resolve() == log
    assert building.builder.next_log_number(asked, asked.spec.containers[0]) == 4


def test_a_container_is_told_of_its_cpus_its_memory_and_its_devices(building: Building) -> None:
    building.allocations.given = ContainerAllocation(
        cpus="1,5",
        memory_nodes="0",
        environment={"DEVICE": "one"},
        mounts=(Mount("/lib/vendor", "/opt/vendor", read_only=True),),
        devices=(Device("/dev/one", "/dev/vendor1", "rw"),),
        annotations={"vendor.example/one": "1"},
        cdi_devices=("vendor.example/gpu=one",),
    )
    spec = pod_with(containers=(core_v1.Container(name="main", image="app:1", args=("$(DEVICE)",)),))
    found = building.container(spec)
    assert (found.resources.cpuset_cpus, found.resources.cpuset_mems) == ("1,5", "0")
    assert found.environment[0] == ("DEVICE", "one")
    assert found.args == ("one",)
    assert mount(found, "/lib/vendor").read_only
    assert found.devices == (Device("/dev/one", "/dev/vendor1", "rw"),)
    assert found.cdi_devices == ("vendor.example/gpu=one",)
    assert found.annotations["vendor.example/one"] == "1"


def test_a_container_whose_devices_are_not_ready_is_not_made(building: Building) -> None:
    building.allocations.error = AllocationError("device plugin PreStartContainer rpc failed with err: no")
    with pytest.raises(StartError, match="PreStartContainer rpc failed") as failure:
        building.container(pod_with())
    assert failure.value.reason == "CreateContainerConfigError"
