"""What the kubelet's types are as messages of the Container Runtime Interface (runtime.v1), and the way back.

Pure conversion, in both directions; `cri` sends and receives. Needs the package container-runtime-interface-api.
"""

from __future__ import annotations

from typing import Any

from cri_api.v1 import api_pb2 as wire

from bayplan.kubelet.runtime.types import (
    Container,
    ContainerConfig,
    ContainerEvent,
    ContainerEventType,
    ContainerSecurity,
    ContainerState,
    ContainerStats,
    ContainerStatus,
    ContainerUser,
    Credentials,
    FilesystemUsage,
    IdMapping,
    Image,
    ImageMount,
    LinuxResources,
    Mount,
    MountPropagation,
    NamespaceMode,
    Namespaces,
    RuntimeCondition,
    RuntimeHandler,
    RuntimeStatus,
    Sandbox,
    SandboxConfig,
    SandboxSecurity,
    SandboxState,
    SandboxStatus,
    SecurityProfile,
    SeLinuxOptions,
    UserNamespace,
)


def _int64(value: int | None) -> wire.Int64Value | None:
    return None if value is None else wire.Int64Value(value=value)


def _profile(profile: SecurityProfile | None) -> wire.SecurityProfile | None:
    if profile is None:
        return None
    return wire.SecurityProfile(
        profile_type=wire.SecurityProfile.ProfileType.Value(profile.type), localhost_ref=profile.localhost_ref
    )


def _selinux(options: SeLinuxOptions | None) -> wire.SELinuxOption | None:
    if options is None:
        return None
    return wire.SELinuxOption(user=options.user, role=options.role, type=options.type, level=options.level)


def _user_namespace(users: UserNamespace | None) -> wire.UserNamespace | None:
    if users is None:
        return None
    return wire.UserNamespace(
        mode=wire.NamespaceMode.Value(users.mode.value),
        uids=[_id_mapping(each) for each in users.uids],
        gids=[_id_mapping(each) for each in users.gids],
    )


def _id_mapping(mapping: IdMapping) -> wire.IDMapping:
    return wire.IDMapping(host_id=mapping.host_id, container_id=mapping.container_id, length=mapping.length)


def _namespaces(namespaces: Namespaces) -> wire.NamespaceOption:
    return wire.NamespaceOption(
        network=wire.NamespaceMode.Value(namespaces.network.value),
        pid=wire.NamespaceMode.Value(namespaces.pid.value),
        ipc=wire.NamespaceMode.Value(namespaces.ipc.value),
        target_id=namespaces.target_id,
        userns_options=_user_namespace(namespaces.users),
    )


def to_resources(resources: LinuxResources) -> wire.LinuxContainerResources:
    """Limits of a container or a pod."""
    return wire.LinuxContainerResources(
        cpu_period=resources.cpu_period,
        cpu_quota=resources.cpu_quota,
        cpu_shares=resources.cpu_shares,
        memory_limit_in_bytes=resources.memory_limit,
        memory_swap_limit_in_bytes=resources.memory_swap_limit,
        oom_score_adj=resources.oom_score_adj,
        cpuset_cpus=resources.cpuset_cpus,
        cpuset_mems=resources.cpuset_mems,
        hugepage_limits=[
            wire.HugepageLimit(page_size=size, limit=limit) for size, limit in resources.hugepages.items()
        ],
        unified=resources.unified,
    )


def _sandbox_security(security: SandboxSecurity) -> wire.LinuxSandboxSecurityContext:
    return wire.LinuxSandboxSecurityContext(
        namespace_options=_namespaces(security.namespaces),
        selinux_options=_selinux(security.selinux),
        run_as_user=_int64(security.run_as_user),
        run_as_group=_int64(security.run_as_group),
        readonly_rootfs=security.read_only_root,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=wire.SupplementalGroupsPolicy.Value(security.supplemental_groups_policy),
        privileged=security.privileged,
        seccomp=_profile(security.seccomp),
        apparmor=_profile(security.apparmor),
    )


def to_sandbox_config(config: SandboxConfig) -> wire.PodSandboxConfig:
    """What a sandbox is to be."""
    dns = config.dns
    return wire.PodSandboxConfig(
        metadata=wire.PodSandboxMetadata(
            name=config.name, uid=config.uid, namespace=config.namespace, attempt=config.attempt
        ),
        hostname=config.hostname,
        log_directory=config.log_directory,
        dns_config=wire.DNSConfig(servers=dns.servers, searches=dns.searches, options=dns.options) if dns else None,
        port_mappings=[
            wire.PortMapping(
                protocol=wire.Protocol.Value(each.protocol),
                container_port=each.container_port,
                host_port=each.host_port,
                host_ip=each.host_ip,
            )
            for each in config.port_mappings
        ],
        labels=config.labels,
        annotations=config.annotations,
        linux=wire.LinuxPodSandboxConfig(
            cgroup_parent=config.cgroup_parent,
            security_context=_sandbox_security(config.security),
            sysctls=config.sysctls,
            overhead=to_resources(config.overhead) if config.overhead else None,
            resources=to_resources(config.resources) if config.resources else None,
        ),
    )


def _container_security(security: ContainerSecurity) -> wire.LinuxContainerSecurityContext:
    message = wire.LinuxContainerSecurityContext(
        privileged=security.privileged,
        namespace_options=_namespaces(security.namespaces),
        selinux_options=_selinux(security.selinux),
        run_as_user=_int64(security.run_as_user),
        run_as_group=_int64(security.run_as_group),
        run_as_username=security.run_as_username,
        readonly_rootfs=security.read_only_root,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=wire.SupplementalGroupsPolicy.Value(security.supplemental_groups_policy),
        no_new_privs=security.no_new_privileges,
        masked_paths=security.masked_paths,
        readonly_paths=security.read_only_paths,
        seccomp=_profile(security.seccomp),
        apparmor=_profile(security.apparmor),
    )
    if security.capabilities_add or security.capabilities_drop:
        message.capabilities.add_capabilities.extend(security.capabilities_add)
        message.capabilities.drop_capabilities.extend(security.capabilities_drop)
    return message


def _to_mount(mount: Mount, users: UserNamespace | None) -> wire.Mount:
    """users: files show the owners that they have in the pod's user namespace, if it has one of its own."""
    return wire.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly=mount.read_only,
        selinux_relabel=mount.selinux_relabel,
        propagation=wire.MountPropagation.Value(mount.propagation.value),
        recursive_read_only=mount.recursive_read_only,
        image=wire.ImageSpec(image=mount.image.image) if mount.image else None,
        image_sub_path=mount.image.sub_path if mount.image else "",
        uidMappings=[_id_mapping(each) for each in users.uids] if users is not None else [],
        gidMappings=[_id_mapping(each) for each in users.gids] if users is not None else [],
    )


def to_container_config(config: ContainerConfig) -> wire.ContainerConfig:
    """What a container is to be."""
    return wire.ContainerConfig(
        metadata=wire.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=wire.ImageSpec(image=config.image, user_specified_image=config.user_image),
        command=config.command,
        args=config.args,
        working_dir=config.working_directory,
        envs=[wire.KeyValue(key=key, value=value) for key, value in config.environment],
        mounts=[_to_mount(each, config.security.namespaces.users) for each in config.mounts],
        devices=[
            wire.Device(container_path=each.container_path, host_path=each.host_path, permissions=each.permissions)
            for each in config.devices
        ],
        CDI_devices=[wire.CDIDevice(name=each) for each in config.cdi_devices],
        labels=config.labels,
        annotations=config.annotations,
        log_path=config.log_path,
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        linux=wire.LinuxContainerConfig(
            resources=to_resources(config.resources), security_context=_container_security(config.security)
        ),
        stop_signal=wire.Signal.Value(config.stop_signal) if config.stop_signal else wire.Signal.RUNTIME_DEFAULT,
    )


def to_auth(credentials: Credentials | None) -> wire.AuthConfig | None:
    """How to log in to a registry."""
    if credentials is None:
        return None
    return wire.AuthConfig(
        username=credentials.username,
        password=credentials.password,
        auth=credentials.auth,
        server_address=credentials.server_address,
        identity_token=credentials.identity_token,
        registry_token=credentials.registry_token,
    )


def from_status(answer: wire.StatusResponse) -> RuntimeStatus:
    """How a runtime is."""
    return RuntimeStatus(
        conditions=tuple(
            RuntimeCondition(each.type, each.status, each.reason, each.message) for each in answer.status.conditions
        ),
        handlers=tuple(
            RuntimeHandler(each.name, each.features.recursive_read_only_mounts, each.features.user_namespaces)
            for each in answer.runtime_handlers
        ),
        supplemental_groups_policy=answer.features.supplemental_groups_policy,
    )


def from_sandbox(message: wire.PodSandbox | wire.PodSandboxStatus) -> Sandbox:
    """A sandbox."""
    return Sandbox(
        id=message.id,
        name=message.metadata.name,
        namespace=message.metadata.namespace,
        uid=message.metadata.uid,
        attempt=message.metadata.attempt,
        state=SandboxState(wire.PodSandboxState.Name(message.state)),
        created_at=message.created_at,
        labels=dict(message.labels),
        annotations=dict(message.annotations),
        runtime_handler=message.runtime_handler,
    )


def from_sandbox_status(message: wire.PodSandboxStatus) -> SandboxStatus:
    """A sandbox with its addresses. The first address is the runtime's main one."""
    options = message.linux.namespaces.options
    ips = (message.network.ip, *(each.ip for each in message.network.additional_ips))
    return SandboxStatus(
        sandbox=from_sandbox(message),
        ips=tuple(ip for ip in ips if ip),
        network=NamespaceMode(wire.NamespaceMode.Name(options.network)),
        users=_from_user_namespace(options.userns_options) if options.HasField("userns_options") else None,
    )


def _from_user_namespace(message: wire.UserNamespace) -> UserNamespace:
    return UserNamespace(
        mode=NamespaceMode(wire.NamespaceMode.Name(message.mode)),
        uids=tuple(IdMapping(each.host_id, each.container_id, each.length) for each in message.uids),
        gids=tuple(IdMapping(each.host_id, each.container_id, each.length) for each in message.gids),
    )


def from_container(message: wire.Container) -> Container:
    """A container of a list."""
    return _container(message, message.pod_sandbox_id)


def _container(message: wire.Container | wire.ContainerStatus, sandbox_id: str) -> Container:
    return Container(
        id=message.id,
        sandbox_id=sandbox_id,
        name=message.metadata.name,
        attempt=message.metadata.attempt,
        image=message.image.image,
        image_ref=message.image_ref,
        state=ContainerState(wire.ContainerState.Name(message.state)),
        created_at=message.created_at,
        image_id=message.image_id,
        labels=dict(message.labels),
        annotations=dict(message.annotations),
    )


def from_container_status(message: wire.ContainerStatus) -> ContainerStatus:
    """A container with how it ended. The interface does not name its sandbox here: `sandbox_id` is empty."""
    linux = message.resources.linux
    user = message.user.linux
    return ContainerStatus(
        container=_container(message, ""),
        started_at=max(message.started_at, 0),
        finished_at=max(message.finished_at, 0),
        exit_code=message.exit_code,
        reason=message.reason,
        message=message.message,
        image=message.image.image,
        image_ref=message.image_ref,
        log_path=message.log_path,
        mounts=tuple(_from_mount(each) for each in message.mounts),
        resources=_from_resources(linux) if message.resources.HasField("linux") else None,
        user=ContainerUser(user.uid, user.gid, tuple(user.supplemental_groups))
        if message.user.HasField("linux")
        else None,
        stop_signal=wire.Signal.Name(message.stop_signal) if message.stop_signal else "",
    )


def _from_mount(message: wire.Mount) -> Mount:
    return Mount(
        container_path=message.container_path,
        host_path=message.host_path,
        read_only=message.readonly,
        recursive_read_only=message.recursive_read_only,
        selinux_relabel=message.selinux_relabel,
        propagation=MountPropagation(wire.MountPropagation.Name(message.propagation)),
        image=ImageMount(message.image.image, message.image_sub_path) if message.HasField("image") else None,
    )


def _from_resources(message: wire.LinuxContainerResources) -> LinuxResources:
    return LinuxResources(
        cpu_period=message.cpu_period,
        cpu_quota=message.cpu_quota,
        cpu_shares=message.cpu_shares,
        memory_limit=message.memory_limit_in_bytes,
        memory_swap_limit=message.memory_swap_limit_in_bytes,
        oom_score_adj=message.oom_score_adj,
        cpuset_cpus=message.cpuset_cpus,
        cpuset_mems=message.cpuset_mems,
        hugepages={each.page_size: each.limit for each in message.hugepage_limits},
        unified=dict(message.unified),
    )


def from_image(message: wire.Image) -> Image:
    """An image that is there."""
    return Image(
        id=message.id,
        tags=tuple(message.repo_tags),
        digests=tuple(message.repo_digests),
        size=message.size,
        user_id=message.uid.value if message.HasField("uid") else None,
        username=message.username,
        pinned=message.pinned,
        runtime_handler=message.spec.runtime_handler,
    )


def from_filesystem(message: wire.FilesystemUsage) -> FilesystemUsage:
    """How much of a file system is used."""
    return FilesystemUsage(
        message.timestamp, message.fs_id.mountpoint, message.used_bytes.value, message.inodes_used.value
    )


def _value(message: Any, name: str) -> int | None:
    """The number in a wrapped field, None where it is not told."""
    return getattr(message, name).value if message.HasField(name) else None


def from_stats(message: wire.ContainerStats) -> ContainerStats:
    """Usage of a container."""
    memory = message.memory
    return ContainerStats(
        container_id=message.attributes.id,
        name=message.attributes.metadata.name,
        labels=dict(message.attributes.labels),
        timestamp=message.cpu.timestamp or memory.timestamp,
        cpu_nanoseconds=_value(message.cpu, "usage_core_nano_seconds"),
        memory_working_set=_value(memory, "working_set_bytes"),
        memory_usage=_value(memory, "usage_bytes"),
        memory_rss=_value(memory, "rss_bytes"),
        memory_available=_value(memory, "available_bytes"),
        page_faults=_value(memory, "page_faults"),
        major_page_faults=_value(memory, "major_page_faults"),
        writable_layer=from_filesystem(message.writable_layer) if message.HasField("writable_layer") else None,
    )


def from_event(message: wire.ContainerEventResponse) -> ContainerEvent:
    """Something that happened to a container."""
    return ContainerEvent(
        ContainerEventType(wire.ContainerEventType.Name(message.container_event_type)),
        message.container_id,
        message.created_at,
        message.pod_sandbox_status.metadata.uid,
    )
