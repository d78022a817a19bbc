"""What a runtime is told of a pod and its containers (generatePodSandboxConfig and generateContainerConfig in pkg/kubelet/kuberuntime)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from bayplan.api.codec import encode
from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.expansion import expand, expand_command, references
from bayplan.kubelet.core.containers.hosts import kernel_hostname
from bayplan.kubelet.core.containers.security import dotted
from bayplan.kubelet.core.plan import container_hash
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.runtime import labels
from bayplan.kubelet.runtime.types import (
    ContainerConfig,
    ContainerSecurity,
    Device,
    DnsConfig,
    ImageMount,
    LinuxResources,
    Mount,
    MountPropagation,
    PortMapping,
    SandboxConfig,
    SandboxSecurity,
)
from bayplan.kubelet.volumes.interface import Mounted

_PROPAGATION = {
    "HostToContainer": MountPropagation.HOST_TO_CONTAINER,
    "Bidirectional": MountPropagation.BIDIRECTIONAL,
}
ETC_HOSTS = "/etc/hosts"


class MountConfigError(Exception):
    """A container's mounts are impossible; the text is for the status."""


def pod_log_directory(root: str, pod: core_v1.Pod) -> str:
    """Where the logs of a pod lie: `ROOT/NAMESPACE_NAME_UID`."""
    metadata = pod.metadata
    return f"{root}/{metadata.namespace}_{metadata.name}_{metadata.uid}"


def container_log_path(name: str, restarts: int) -> str:
    """The log of one run of a container, below its pod's directory."""
    return f"{name}/{restarts}.log"


def pod_labels(pod: core_v1.Pod) -> dict[str, str]:
    """Labels of a sandbox: the pod's own, and by which it is found again."""
    metadata = pod.metadata
    return {
        **metadata.labels,
        labels.POD_NAME: metadata.name,
        labels.POD_NAMESPACE: metadata.namespace,
        labels.POD_UID: metadata.uid,
    }


def port_mappings(pod: core_v1.Pod) -> tuple[PortMapping, ...]:
    """Ports of containers; those with a port of the node are opened there."""
    return tuple(
        PortMapping(port.protocol or "TCP", port.container_port, port.host_port, port.host_ip)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for port in container.ports
    )


@dataclass(frozen=True, slots=True)
class SandboxParts:
    """What of a sandbox does not follow from the pod alone."""

    log_root: str
    cluster_domain: str
    dns: DnsConfig
    security: SandboxSecurity
    cgroup_parent: str = ""
    resources: LinuxResources | None = None
    overhead: LinuxResources | None = None


def sandbox_config(pod: core_v1.Pod, attempt: int, parts: SandboxParts) -> SandboxConfig:
    """A pod's sandbox. Raises HostnameError."""
    security = pod.spec.security_context
    sysctls = {dotted(each.name): each.value for each in security.sysctls} if security is not None else {}
    return SandboxConfig(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        uid=pod.metadata.uid,
        attempt=attempt,
        hostname="" if pod.spec.host_network else kernel_hostname(pod, parts.cluster_domain),
        log_directory=pod_log_directory(parts.log_root, pod),
        dns=parts.dns,
        port_mappings=port_mappings(pod),
        labels=pod_labels(pod),
        annotations=dict(pod.metadata.annotations),
        cgroup_parent=parts.cgroup_parent,
        security=parts.security,
        sysctls=sysctls,
        overhead=parts.overhead,
        resources=parts.resources,
    )


@dataclass(frozen=True, slots=True)
class ContainerParts:
    """What of a container does not follow from its spec alone."""

    image_ref: str
    restarts: int
    environment: tuple[tuple[str, str], ...]
    mounts: tuple[Mount, ...]
    security: ContainerSecurity
    resources: LinuxResources = field(default_factory=LinuxResources)
    devices: tuple[Device, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


def container_config(pod: core_v1.Pod, container: AnyContainer, parts: ContainerParts) -> ContainerConfig:
    """A container."""
    values = dict(parts.environment)
    lifecycle = container.lifecycle
    return ContainerConfig(
        name=container.name,
        attempt=parts.restarts,
        image=parts.image_ref,
        user_image=container.image,
        command=expand_command(container.command, values),
        args=expand_command(container.args, values),
        working_directory=container.working_dir,
        environment=parts.environment,
        mounts=parts.mounts,
        devices=parts.devices,
        cdi_devices=parts.cdi_devices,
        labels={
            labels.POD_NAME: pod.metadata.name,
            labels.POD_NAMESPACE: pod.metadata.namespace,
            labels.POD_UID: pod.metadata.uid,
            labels.CONTAINER_NAME: container.name,
        },
        annotations={**parts.annotations, **_annotations(pod, container, parts.restarts)},
        log_path=container_log_path(container.name, parts.restarts),
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        resources=parts.resources,
        security=parts.security,
        stop_signal=(lifecycle.stop_signal if lifecycle is not None else None) or "",
    )


def _annotations(pod: core_v1.Pod, container: AnyContainer, restarts: int) -> dict[str, str]:
    """What the kubelet must know of a container when its pod is gone from the API."""
    found = {
        labels.CONTAINER_HASH: container_hash(container),
        labels.RESTART_COUNT: str(restarts),
        labels.TERMINATION_PATH: container.termination_message_path,
        labels.TERMINATION_POLICY: container.termination_message_policy,
    }
    if pod.metadata.deletion_grace_period_seconds is not None:
        found[labels.POD_DELETION_GRACE_PERIOD] = str(pod.metadata.deletion_grace_period_seconds)
    if pod.spec.termination_grace_period_seconds is not None:
        found[labels.POD_GRACE_PERIOD] = str(pod.spec.termination_grace_period_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        found[labels.PRE_STOP_HANDLER] = encode(container.lifecycle.pre_stop).decode()
    if container.ports:
        found[labels.CONTAINER_PORTS] = json.dumps([msgspec.json.decode(encode(each)) for each in container.ports])
    return found


def sub_path_of(mount: core_v1.VolumeMount, environment: Iterable[tuple[str, str]]) -> str:
    """The part of a volume that is mounted; empty for all of it. Raises MountConfigError."""
    path = mount.sub_path
    if mount.sub_path_expr:
        values = {name: value for name, value in environment if value}
        missing = {name for name in references(mount.sub_path_expr) if name not in values}
        if missing:
            raise MountConfigError(f"missing value for {', '.join(sorted(missing))}")
        path = expand(mount.sub_path_expr, values)
    if not path:
        return ""
    if path.startswith("/"):
        raise MountConfigError(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise MountConfigError(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def volume_mount(
    mount: core_v1.VolumeMount, volume: Mounted, host_path: str, sub_path: str, *, recursive_read_only: bool
) -> Mount:
    """One mount of a container. host_path: with the sub path. recursive_read_only: whether the runtime can. Raises MountConfigError."""
    container_path = mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}"
    return Mount(
        container_path=container_path,
        host_path=host_path,
        read_only=mount.read_only or volume.read_only,
        recursive_read_only=_is_recursively_read_only(mount, recursive_read_only),
        selinux_relabel=volume.relabel,
        propagation=_PROPAGATION.get(mount.mount_propagation or "", MountPropagation.PRIVATE),
        image=ImageMount(volume.image, sub_path) if volume.image else None,
    )


def _is_recursively_read_only(mount: core_v1.VolumeMount, is_supported: bool) -> bool:
    """Whether what is mounted below is read-only as well. Raises MountConfigError."""
    mode = mount.recursive_read_only or "Disabled"
    if mode == "Disabled":
        return False
    problem = ""
    if not mount.read_only:
        problem = "it is not read-only"
    elif mount.mount_propagation not in (None, "None"):
        problem = f'it is not compatible with propagation "{mount.mount_propagation}"'
    elif mode == "Enabled" and not is_supported:
        problem = "it is not supported by the runtime"
    if problem:
        text = f'volume "{mount.name}" requested recursive read-only mode, but {problem}'
        raise MountConfigError(f"failed to resolve recursive read-only mode: {text}")
    return is_supported


def wants_hosts_file(pod: core_v1.Pod, container: AnyContainer, ips: tuple[str, ...]) -> bool:
    """Whether /etc/hosts of a container is the kubelet's: unless it mounts its own there, once there are addresses."""
    if not ips and not pod.spec.host_network:
        return False
    return all(each.mount_path != ETC_HOSTS for each in container.volume_mounts)
