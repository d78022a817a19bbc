"""Puts together what the runtime is told of pods: images, volumes, variables, files, limits (implements `PodBuilder`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import msgspec

from bayplan.api.types import core_v1, node_v1
from bayplan.kubelet.core.containers.allocation import ContainerAllocation
from bayplan.kubelet.core.containers.config import (
    ETC_HOSTS,
    ContainerParts,
    MountConfigError,
    SandboxParts,
    container_config,
    container_log_path,
    pod_log_directory,
    sandbox_config,
    sub_path_of,
    volume_mount,
    wants_hosts_file,
)
from bayplan.kubelet.core.containers.dns import NodeDns, pod_dns
from bayplan.kubelet.core.containers.environment import Sources, VariableError, needs, variables
from bayplan.kubelet.core.containers.hosts import HostnameError, host_network_hosts_file, hosts_file
from bayplan.kubelet.core.containers.resources import LimitSettings, container_resources
from bayplan.kubelet.core.containers.security import (
    NodeSecurity,
    SecurityError,
    container_security,
    sandbox_security,
    verify_non_root,
)
from bayplan.kubelet.core.log_names import link_name
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.images.manager import ImageManager, ImagePullError, container_reference
from bayplan.kubelet.images.users import ImageUsers
from bayplan.kubelet.objects import ObjectError, ObjectNotFoundError, ObjectSource
from bayplan.kubelet.pods.container_events import WARNING, ContainerEvents
from bayplan.kubelet.pods.hooks import describe
from bayplan.kubelet.pods.pod_runtime import ContainerRequest, SandboxError, StartError
from bayplan.kubelet.resource_managers.errors import AllocationError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import (
    ContainerConfig,
    Device,
    Mount,
    RuntimeStatus,
    SandboxConfig,
    UserNamespace,
)
from bayplan.kubelet.user_namespaces import UserNamespaceError, UserNamespaces
from bayplan.kubelet.volumes.errors import SubPathError
from bayplan.kubelet.volumes.interface import Mounted
from bayplan.kubelet.volumes.manager import VolumeManager
from bayplan.kubelet.volumes.subpath import SubPath, open_part, prepare_sub_path
from bayplan.support.blocking import Blocking
from bayplan.support.randomness import Randomness
from bayplan.support.system.mounts import Mounter

logger = logging.getLogger(__name__)

CONFIG_ERROR = "CreateContainerConfigError"
_CONFIG_ERRORS = (
    VariableError,
    MountConfigError,
    SecurityError,
    SubPathError,
    ObjectError,
    SandboxError,
    AllocationError,
    OSError,
)
_TERMINATION_MODE = 0o666
_MOST_ENV_FILE = 64 * 1024
"""Bytes of a file with variables that are read."""


@dataclass(frozen=True, slots=True)
class BuilderSettings:
    """What the node is set to. `root` is the kubelet's directory, `logs` that of pods' logs, `links` that of links to them by container."""

    root: Path
    logs: Path
    limits: LimitSettings
    cluster_domain: str = ""
    security: NodeSecurity = field(default_factory=NodeSecurity)
    links: Path = Path("/var/log/containers")
    hosts: Path = Path(ETC_HOSTS)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the builder asks of the API's objects, each time."""

    services: Callable[[], Iterable[core_v1.Service]]
    runtime_class: Callable[[str], node_v1.RuntimeClass | None]
    node: Callable[[], core_v1.Node | None]


class ContainerAllocations(Protocol):
    """What containers get of which the node has only so much."""

    async def container(self, pod: core_v1.Pod, container: AnyContainer) -> ContainerAllocation:
        """What a container gets that is about to be made. Raises AllocationError."""


class NodePodBuilder:
    """See the module."""

    def __init__(
        self,
        runtime: Runtime,
        images: ImageManager,
        volumes: VolumeManager,
        users: UserNamespaces,
        objects: ObjectSource,
        mounter: Mounter,
        blocking: Blocking,
        events: ContainerEvents,
        cluster: Cluster,
        settings: BuilderSettings,
        randomness: Randomness,
        *,
        dns: Callable[[], NodeDns],
        cgroup_parent: Callable[[core_v1.Pod], str],
        runtime_status: Callable[[], RuntimeStatus],
        allocations: ContainerAllocations,
    ) -> None:
        self._images = images
        self._image_users = ImageUsers(runtime)
        self._volumes = volumes
        self._users = users
        self._objects = objects
        self._mounter = mounter
        self._blocking = blocking
        self._events = events
        self._cluster = cluster
        self._settings = settings
        self._randomness = randomness
        self._dns = dns
        self._cgroup_parent = cgroup_parent
        self._runtime_status = runtime_status
        self._allocations = allocations

    async def sandbox(self, pod: core_v1.Pod, attempt: int) -> SandboxConfig:
        """See PodBuilder."""
        users = await self._user_namespace(pod)
        dns = pod_dns(pod, self._dns(), describe(pod))
        for reason, message in dns.warnings:
            self._events.pod(pod, WARNING, reason, message)
        parts = SandboxParts(
            log_root=str(self._settings.logs),
            cluster_domain=self._settings.cluster_domain,
            dns=dns.config,
            security=sandbox_security(pod, users, tuple(self._volumes.extra_groups(pod))),
            cgroup_parent=self._cgroup_parent(pod),
        )
        try:
            config = sandbox_config(pod, attempt, parts)
            await self._blocking(lambda: _make_directory(config.log_directory))
        except (HostnameError, OSError) as error:
            raise SandboxError(str(error)) from error
        return config

    async def _user_namespace(self, pod: core_v1.Pod) -> UserNamespace:
        """The ids of a pod: the node's, or a range of its own. Raises SandboxError."""
        handler = self.runtime_handler(pod)
        is_supported = any(each.name == handler and each.user_namespaces for each in self._runtime_status().handlers)
        try:
            return await self._users.of(pod, handler=handler, is_supported=is_supported)
        except (UserNamespaceError, OSError) as error:
            raise SandboxError(str(error)) from error

    def runtime_handler(self, pod: core_v1.Pod) -> str:
        """See PodBuilder."""
        name = pod.spec.runtime_class_name
        if not name:
            return ""
        found = self._cluster.runtime_class(name)
        if found is None:
            raise SandboxError(f'failed to get sandbox runtime: RuntimeClass "{name}" not found')
        return found.handler

    def _handler(self, pod: core_v1.Pod) -> str:
        """The handler of a pod that has its sandbox. Raises StartError where its class has gone since."""
        try:
            return self.runtime_handler(pod)
        except SandboxError as error:
            raise StartError(CONFIG_ERROR, str(error)) from error

    async def image(self, pod: core_v1.Pod, container: AnyContainer, sandbox: SandboxConfig) -> str:
        """See PodBuilder. Images of the container's volumes are pulled before its own."""
        secrets = await self._pull_secrets(pod)
        handler = self._handler(pod)
        try:
            for volume in pod.spec.volumes:
                if volume.image is None or all(each.name != volume.name for each in container.volume_mounts):
                    continue
                reference = container_reference(pod, container.name)
                policy = volume.image.pull_policy
                await self._images.ensure_image(
                    reference, pod, volume.image.reference, policy, secrets, sandbox, handler
                )
            return await self._images.ensure(pod, container, secrets, sandbox, handler)
        except ImagePullError as error:
            raise StartError(error.reason, error.message) from error

    async def _pull_secrets(self, pod: core_v1.Pod) -> list[core_v1.Secret]:
        found, missing = [], []
        for reference in pod.spec.image_pull_secrets:
            if not reference.name:
                continue
            try:
                found.append(await self._objects.secret(pod.metadata.namespace, reference.name))
            except ObjectError:
                missing.append(reference.name)
        if missing:
            text = (
                f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
                "attempting to pull the image may not succeed."
            )
            self._events.pod(pod, WARNING, "FailedToRetrieveImagePullSecret", text)
        return found

    async def container(self, request: ContainerRequest) -> tuple[ContainerConfig, Callable[[], Awaitable[None]]]:
        """See PodBuilder."""
        pod, container = request.pod, request.container
        try:
            allocation = await self._allocations.container(pod, container)
            own = await self._environment(_with_ips(pod, request.ips), container)
            environment = (*allocation.environment.items(), *own)
            mounts, devices = await self._mounts(request, environment)
            user, username = await self._image_users.of(request.image_ref)
            verify_non_root(pod, container, user, username, describe(pod))
            security = container_security(
                pod,
                container,
                self._settings.security,
                image_user=user,
                image_username=username,
                users=await self._user_namespace(pod),
                extra_groups=tuple(self._volumes.extra_groups(pod)),
                target_id=request.target_id,
            )
            directory = f"{pod_log_directory(str(self._settings.logs), pod)}/{container.name}"
            await self._blocking(lambda: _make_directory(directory))
        except _CONFIG_ERRORS as error:
            raise StartError(CONFIG_ERROR, str(error)) from error
        parts = ContainerParts(
            image_ref=request.image_ref,
            restarts=request.restarts,
            environment=environment,
            mounts=(*allocation.mounts, *mounts),
            security=security,
            resources=replace(
                container_resources(pod, container, self._settings.limits),
                cpuset_cpus=allocation.cpus,
                cpuset_mems=allocation.memory_nodes,
            ),
            devices=(*allocation.devices, *devices),
            cdi_devices=allocation.cdi_devices,
            annotations=allocation.annotations,
        )
        return container_config(pod, container, parts), _nothing

    async def _environment(self, pod: core_v1.Pod, container: AnyContainer) -> tuple[tuple[str, str], ...]:
        wanted = needs(container)
        namespace = pod.metadata.namespace
        config_maps: dict[str, core_v1.ConfigMap | None] = {}
        secrets: dict[str, core_v1.Secret | None] = {}
        for name in wanted.config_maps:
            try:
                config_maps[name] = await self._objects.config_map(namespace, name)
            except ObjectNotFoundError:
                config_maps[name] = None
        for name in wanted.secrets:
            try:
                secrets[name] = await self._objects.secret(namespace, name)
            except ObjectNotFoundError:
                secrets[name] = None
        node = self._cluster.node()
        sources = Sources(
            config_maps,
            secrets,
            {each: await self._file(pod, *each) for each in wanted.files},
            self._cluster.services(),
            node.status.allocatable if node is not None else {},
        )
        return variables(pod, container, sources)

    async def _file(self, pod: core_v1.Pod, volume: str, path: str) -> str | None:
        """A file of a volume; None if it is not there."""
        mounted = self._volumes.mounted(pod.metadata.uid).get(volume)
        if mounted is None:
            raise VariableError(f'cannot find the volume "{volume}" referenced by FileKeyRef')
        host_path = mounted.host_path

        def read() -> str | None:
            try:
                found = open_part(host_path, path)
            except FileNotFoundError:
                return None
            try:
                with open(f"/proc/self/fd/{found}", encoding="utf-8", errors="replace") as file:
                    return file.read(_MOST_ENV_FILE)
            finally:
                os.close(found)

        return await self._blocking(read)

    async def _mounts(
        self, request: ContainerRequest, environment: tuple[tuple[str, str], ...]
    ) -> tuple[tuple[Mount, ...], tuple[Device, ...]]:
        pod, container = request.pod, request.container
        uid = pod.metadata.uid
        volumes = self._volumes.mounted(uid)
        handler = self._handler(pod)
        recursive = any(
            each.name == handler and each.recursive_read_only_mounts for each in self._runtime_status().handlers
        )
        mounts = []
        for index, wanted in enumerate(container.volume_mounts):
            volume = volumes.get(wanted.name)
            if volume is None:
                text = f'cannot find volume "{wanted.name}" to mount into container "{container.name}"'
                raise MountConfigError(text)
            part = sub_path_of(wanted, environment)
            host_path = volume.host_path
            if part and not volume.image:
                host_path = await self._sub_path(pod, container, wanted, volume, part, index)
            mounts.append(volume_mount(wanted, volume, host_path, part, recursive_read_only=recursive))
        if wants_hosts_file(pod, container, request.ips):
            mounts.append(self._hosts_mount(pod, request.ips))
        if container.termination_message_path:
            mounts.append(self._termination_mount(pod, container))
        return tuple(mounts), _devices(container, volumes)

    async def _sub_path(
        self,
        pod: core_v1.Pod,
        container: AnyContainer,
        mount: core_v1.VolumeMount,
        volume: Mounted,
        part: str,
        index: int,
    ) -> str:
        uid = pod.metadata.uid
        wanted = SubPath(
            pod_directory=self._pod_directory(uid),
            volume=self._volumes.inner_name(uid, mount.name),
            volume_path=volume.host_path,
            path=part,
            mount_name=mount.name,
            container=container.name,
            index=index,
        )
        return await prepare_sub_path(self._mounter, self._blocking, wanted)

    def _pod_directory(self, uid: str) -> Path:
        return self._settings.root / "pods" / uid

    def _hosts_mount(self, pod: core_v1.Pod, ips: tuple[str, ...]) -> Mount:
        file = self._pod_directory(pod.metadata.uid) / "etc-hosts"
        if pod.spec.host_network:
            text = host_network_hosts_file(pod, self._settings.hosts.read_text())
        else:
            text = hosts_file(pod, ips, self._settings.cluster_domain)
        file.write_text(text)
        file.chmod(0o644)
        return Mount(container_path=ETC_HOSTS, host_path=str(file), selinux_relabel=True)

    def _termination_mount(self, pod: core_v1.Pod, container: AnyContainer) -> Mount:
        """A file for the container's last words, another one for each run."""
        directory = self._pod_directory(pod.metadata.uid) / "containers" / container.name
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        file = directory / self._randomness.suffix(8)
        file.touch()
        file.chmod(_TERMINATION_MODE)
        path = container.termination_message_path
        return Mount(container_path=path if path.startswith("/") else f"/{path}", host_path=str(file))

    def next_log_number(self, pod: core_v1.Pod, container: AnyContainer) -> int:
        """See PodBuilder."""
        directory = Path(pod_log_directory(str(self._settings.logs), pod), container.name)
        numbers = [each.name.partition(".")[0] for each in directory.glob("*.log*")] if directory.is_dir() else []
        return max((int(each) + 1 for each in numbers if each.isdecimal()), default=0)

    def started(self, pod: core_v1.Pod, container: AnyContainer, container_id: str, restarts: int) -> None:
        """See PodBuilder: collectors of logs find containers by links that name pod, container and id."""
        log = Path(pod_log_directory(str(self._settings.logs), pod), container_log_path(container.name, restarts))
        name = link_name(pod.metadata.name, pod.metadata.namespace, container.name, container_id)
        link = self._settings.links / name
        try:
            if log.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(log)
        except OSError as error:
            logger.warning("no link to the log of container %s: %s", container_id, error)


def _devices(container: AnyContainer, volumes: Mapping[str, Mounted]) -> tuple[Device, ...]:
    """Block volumes as devices. Raises MountConfigError."""
    devices = []
    for wanted in container.volume_devices:
        volume = volumes.get(wanted.name)
        if volume is None or not volume.is_device:
            text = f'cannot find volume "{wanted.name}" to pass into container "{container.name}"'
            raise MountConfigError(text)
        devices.append(Device(wanted.device_path, volume.host_path, "r" if volume.read_only else "mrw"))
    return tuple(devices)


def _with_ips(pod: core_v1.Pod, ips: tuple[str, ...]) -> core_v1.Pod:
    """The pod with the addresses of its sandbox, which its status may not have yet."""
    status = msgspec.structs.replace(
        pod.status, pod_ip=ips[0] if ips else "", pod_ips=tuple(core_v1.PodIP(ip=each) for each in ips)
    )
    changed: core_v1.Pod = msgspec.structs.replace(pod, status=status)
    return changed


def _make_directory(path: str) -> None:
    Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)


async def _nothing() -> None:
    """What was made for a container stays until its pod goes."""
