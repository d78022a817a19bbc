"""What goes into a container runtime and comes out of it: the messages of the Container Runtime Interface (runtime.v1) that a kubelet uses.

Times are nanoseconds since the Unix epoch, 0 where something has not happened; sizes are bytes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class SandboxState(enum.Enum):
    """Whether the namespaces of a pod exist."""

    READY = "SANDBOX_READY"
    NOT_READY = "SANDBOX_NOTREADY"


class ContainerState(enum.Enum):
    """Where a container is in its life; it only goes forward."""

    CREATED = "CONTAINER_CREATED"
    RUNNING = "CONTAINER_RUNNING"
    EXITED = "CONTAINER_EXITED"
    UNKNOWN = "CONTAINER_UNKNOWN"


class NamespaceMode(enum.Enum):
    """Whose namespace a pod or container has."""

    POD = "POD"
    CONTAINER = "CONTAINER"
    NODE = "NODE"
    TARGET = "TARGET"


class MountPropagation(enum.Enum):
    """Whether mounts made on one side are seen on the other."""

    PRIVATE = "PROPAGATION_PRIVATE"
    HOST_TO_CONTAINER = "PROPAGATION_HOST_TO_CONTAINER"
    BIDIRECTIONAL = "PROPAGATION_BIDIRECTIONAL"


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    """Which runtime this is."""

    name: str
    version: str
    api_version: str = "v1"


@dataclass(frozen=True, slots=True)
class RuntimeCondition:
    """One condition of a runtime, such as RuntimeReady or NetworkReady."""

    type: str
    status: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeHandler:
    """A way of running pods that a RuntimeClass may name; `name` is empty for the default."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """How a runtime is, and what it offers."""

    conditions: tuple[RuntimeCondition, ...] = ()
    handlers: tuple[RuntimeHandler, ...] = ()
    supplemental_groups_policy: bool = False

    def condition(self, kind: str) -> RuntimeCondition | None:
        """The condition of this type, if the runtime tells it."""
        return next((each for each in self.conditions if each.type == kind), None)


@dataclass(frozen=True, slots=True)
class DnsConfig:
    """Lines of a pod's resolv.conf."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PortMapping:
    """A port of the node that leads to one of the pod."""

    protocol: str
    container_port: int
    host_port: int
    host_ip: str = ""


@dataclass(frozen=True, slots=True)
class SecurityProfile:
    """A seccomp or AppArmor profile: `type` is RuntimeDefault, Unconfined or Localhost."""

    type: str
    localhost_ref: str = ""


@dataclass(frozen=True, slots=True)
class IdMapping:
    """A range of user or group ids in a user namespace."""

    host_id: int
    container_id: int
    length: int


@dataclass(frozen=True, slots=True)
class UserNamespace:
    """The user namespace of a pod; with mode NODE it has none of its own."""

    mode: NamespaceMode = NamespaceMode.NODE
    uids: tuple[IdMapping, ...] = ()
    gids: tuple[IdMapping, ...] = ()


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Which namespaces are shared with whom; `target_id` is a container's id where `pid` is TARGET."""

    network: NamespaceMode = NamespaceMode.POD
    pid: NamespaceMode = NamespaceMode.CONTAINER
    ipc: NamespaceMode = NamespaceMode.POD
    target_id: str = ""
    users: UserNamespace | None = None


@dataclass(frozen=True, slots=True)
class SeLinuxOptions:
    """SELinux labels."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True)
class LinuxResources:
    """Limits of a container or pod; 0 leaves the runtime's default.

    `cpu_period` and `cpu_quota` are microseconds, `cpu_shares` cgroup v1 shares, `memory_limit` bytes, `hugepages` page size such as "2MB" -> bytes,
    `unified` files of cgroup v2 -> content.
    """

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit: int = 0
    memory_swap_limit: int = 0
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    hugepages: Mapping[str, int] = field(default_factory=dict)
    unified: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SandboxSecurity:
    """Security of a pod as a whole. Ids are None where the image decides."""

    namespaces: Namespaces = Namespaces()
    run_as_user: int | None = None
    run_as_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str = "Merge"
    privileged: bool = False
    read_only_root: bool = False
    seccomp: SecurityProfile = SecurityProfile("RuntimeDefault")
    apparmor: SecurityProfile | None = None
    selinux: SeLinuxOptions | None = None


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """What a pod's sandbox is to be. `attempt` counts the sandboxes that the pod has had before."""

    name: str
    namespace: str
    uid: str
    attempt: int
    hostname: str
    log_directory: str
    dns: DnsConfig | None = None
    port_mappings: tuple[PortMapping, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    security: SandboxSecurity = SandboxSecurity()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    overhead: LinuxResources | None = None
    resources: LinuxResources | None = None


@dataclass(frozen=True, slots=True)
class ImageMount:
    """An image that is mounted as a volume."""

    image: str
    sub_path: str = ""


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the node (or an image) that a container sees."""

    container_path: str
    host_path: str = ""
    read_only: bool = False
    recursive_read_only: bool = False
    selinux_relabel: bool = False
    propagation: MountPropagation = MountPropagation.PRIVATE
    image: ImageMount | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A device of the node that a container sees; `permissions` is made of r, w and m."""

    container_path: str
    host_path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True)
class ContainerSecurity:
    """Security of one container. Ids are None where the image decides."""

    namespaces: Namespaces = Namespaces()
    capabilities_add: tuple[str, ...] = ()
    capabilities_drop: tuple[str, ...] = ()
    privileged: bool = False
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_username: str = ""
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str = "Merge"
    read_only_root: bool = False
    no_new_privileges: bool = False
    masked_paths: tuple[str, ...] = ()
    read_only_paths: tuple[str, ...] = ()
    seccomp: SecurityProfile = SecurityProfile("Unconfined")
    apparmor: SecurityProfile | None = None
    selinux: SeLinuxOptions | None = None


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """What a container is to be.

    `image` is the reference that the runtime resolves (an id once it is pulled), `user_image` what the pod's spec says. `log_path` is relative
    to the sandbox's `log_directory`. `stop_signal` is a name such as SIGUSR1, empty for the image's.
    """

    name: str
    attempt: int
    image: str
    user_image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_directory: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_path: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    resources: LinuxResources = LinuxResources()
    security: ContainerSecurity = ContainerSecurity()
    stop_signal: str = ""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox as a list shows it."""

    id: str
    name: str
    namespace: str
    uid: str
    attempt: int
    state: SandboxState
    created_at: int
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime_handler: str = ""


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """A sandbox with what only its status tells. `ips` are empty for pods in the node's network."""

    sandbox: Sandbox
    ips: tuple[str, ...] = ()
    network: NamespaceMode = NamespaceMode.POD
    users: UserNamespace | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """A container as a list shows it."""

    id: str
    sandbox_id: str
    name: str
    attempt: int
    image: str
    image_ref: str
    state: ContainerState
    created_at: int
    image_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerUser:
    """Who the first process of a container runs as."""

    uid: int
    gid: int
    supplemental_groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """A container with what only its status tells. `image` is the name under which the runtime knows the image."""

    container: Container
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""
    image_ref: str = ""
    log_path: str = ""
    mounts: tuple[Mount, ...] = ()
    resources: LinuxResources | None = None
    user: ContainerUser | None = None
    stop_signal: str = ""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended that was run in a container."""

    stdout: bytes
    stderr: bytes
    exit_code: int


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is there. `size` counts what is unpacked; `pinned` images are never removed."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int = 0
    user_id: int | None = None
    username: str = ""
    pinned: bool = False
    runtime_handler: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to log in to a registry. `auth` is the base64 of `username:password`."""

    username: str = ""
    password: str = ""
    auth: str = ""
    server_address: str = ""
    identity_token: str = ""
    registry_token: str = ""


@dataclass(frozen=True, slots=True)
class FilesystemUsage:
    """How much of a file system something uses."""

    timestamp: int
    mountpoint: str
    used_bytes: int
    inodes_used: int = 0


@dataclass(frozen=True, slots=True)
class ContainerStats:
    """Usage of a container. `cpu_nanoseconds` only grows; what the runtime does not tell is None."""

    container_id: str
    name: str
    labels: Mapping[str, str]
    timestamp: int
    cpu_nanoseconds: int | None = None
    memory_working_set: int | None = None
    memory_usage: int | None = None
    memory_rss: int | None = None
    memory_available: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    writable_layer: FilesystemUsage | None = None


class ContainerEventType(enum.Enum):
    """What happened to a container."""

    CREATED = "CONTAINER_CREATED_EVENT"
    STARTED = "CONTAINER_STARTED_EVENT"
    STOPPED = "CONTAINER_STOPPED_EVENT"
    DELETED = "CONTAINER_DELETED_EVENT"


@dataclass(frozen=True, slots=True)
class ContainerEvent:
    """Something that a runtime tells by itself. `pod_uid` is empty where it does not say."""

    type: ContainerEventType
    container_id: str
    timestamp: int
    pod_uid: str = ""
