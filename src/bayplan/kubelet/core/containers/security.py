"""Security of pods and containers as the runtime is told of it (pkg/securitycontext, pkg/kubelet/kuberuntime/security_context.go)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bayplan.api.types import core_v1
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.runtime.types import (
    ContainerSecurity,
    NamespaceMode,
    Namespaces,
    SandboxSecurity,
    SecurityProfile,
    SeLinuxOptions,
    UserNamespace,
)

MASKED_PATHS: Final = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
READ_ONLY_PATHS: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_MOST_USER = 2**31 - 1


class SecurityError(Exception):
    """A container may not run as it would; the text is for the status."""


@dataclass(frozen=True, slots=True)
class Effective:
    """What holds for a container: what it says, else what its pod says."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    selinux: core_v1.SELinuxOptions | None = None
    seccomp: core_v1.SeccompProfile | None = None
    apparmor: core_v1.AppArmorProfile | None = None
    own: core_v1.SecurityContext = core_v1.SecurityContext()  # noqa: RUF009 - nobody changes it


def effective(pod: core_v1.Pod, container: AnyContainer) -> Effective:
    """The security context of a container."""
    of_pod = pod.spec.security_context or core_v1.PodSecurityContext()
    own = container.security_context or core_v1.SecurityContext()
    return Effective(
        own.run_as_user if own.run_as_user is not None else of_pod.run_as_user,
        own.run_as_group if own.run_as_group is not None else of_pod.run_as_group,
        own.run_as_non_root if own.run_as_non_root is not None else of_pod.run_as_non_root,
        own.se_linux_options or of_pod.se_linux_options,
        own.seccomp_profile or of_pod.seccomp_profile,
        own.app_armor_profile or of_pod.app_armor_profile,
        own,
    )


def verify_non_root(
    pod: core_v1.Pod, container: AnyContainer, image_user: int | None, image_username: str, description: str
) -> None:
    """See that a container that must not run as root does not. description: the pod as messages name it. Raises SecurityError."""
    found = effective(pod, container)
    if not found.run_as_non_root:
        return
    where = f'(pod: "{description}", container: {container.name})'
    if found.run_as_user is not None:
        if found.run_as_user == 0:
            raise SecurityError(f"container's runAsUser breaks non-root policy {where}")
        return
    if image_user is None and image_username:
        text = f"container has runAsNonRoot and image has non-numeric user ({image_username}), cannot verify user is non-root"
        raise SecurityError(f"{text} {where}")
    if image_user == 0:
        raise SecurityError(f"container has runAsNonRoot and image will run as root {where}")
    if image_user is not None and not 0 <= image_user <= _MOST_USER:
        text = (
            f"container has runAsNonRoot and image has an invalid user id ({image_user}). (Must be 1-({_MOST_USER})): "
            f"must be between 0 and {_MOST_USER}, inclusive"
        )
        raise SecurityError(f"{text} {where}")


def namespaces(pod: core_v1.Pod, users: UserNamespace | None = None, target_id: str = "") -> Namespaces:
    """Which namespaces a pod's containers share. target_id: the container whose processes an ephemeral container sees."""
    spec = pod.spec
    node, own = NamespaceMode.NODE, NamespaceMode.POD
    pid = node if spec.host_pid else own if spec.share_process_namespace else NamespaceMode.CONTAINER
    if target_id and pid is NamespaceMode.CONTAINER:
        pid = NamespaceMode.TARGET
    return Namespaces(
        network=node if spec.host_network else own,
        pid=pid,
        ipc=node if spec.host_ipc else own,
        target_id=target_id if pid is NamespaceMode.TARGET else "",
        users=users,
    )


def seccomp_of(
    profile: core_v1.SeccompProfile | None, root: str, *, privileged: bool, runtime_default: bool
) -> SecurityProfile:
    """The seccomp profile. root: directory of local profiles. runtime_default: what holds where none is asked for. Raises SecurityError."""
    if privileged:
        return SecurityProfile("Unconfined")
    if profile is None:
        return SecurityProfile("RuntimeDefault" if runtime_default else "Unconfined")
    if profile.type == "Localhost":
        if not profile.localhost_profile:
            raise SecurityError("localhostProfile must be set if seccompProfile type is Localhost.")
        return SecurityProfile("Localhost", f"{root}/{profile.localhost_profile}")
    return SecurityProfile(profile.type)


def _apparmor_of(profile: core_v1.AppArmorProfile | None) -> SecurityProfile | None:
    if profile is None:
        return None
    return SecurityProfile(profile.type, profile.localhost_profile or "")


def _selinux_of(options: core_v1.SELinuxOptions | None) -> SeLinuxOptions | None:
    if options is None:
        return None
    return SeLinuxOptions(options.user, options.role, options.type, options.level)


def _groups(pod: core_v1.Pod, extra: tuple[int, ...]) -> tuple[int, ...]:
    security = pod.spec.security_context
    if security is None:
        return extra
    own = (security.fs_group,) if security.fs_group is not None else ()
    return (*own, *extra, *security.supplemental_groups)


def _groups_policy(pod: core_v1.Pod) -> str:
    security = pod.spec.security_context
    return (security.supplemental_groups_policy if security is not None else None) or "Merge"


def sandbox_security(
    pod: core_v1.Pod, users: UserNamespace | None = None, extra_groups: tuple[int, ...] = ()
) -> SandboxSecurity:
    """Security of a pod as a whole. extra_groups: those that its volumes need."""
    security = pod.spec.security_context
    containers: tuple[AnyContainer, ...] = (
        *pod.spec.containers,
        *pod.spec.init_containers,
        *pod.spec.ephemeral_containers,
    )
    privileged = any(
        each.security_context is not None and bool(each.security_context.privileged) for each in containers
    )
    return SandboxSecurity(
        namespaces=namespaces(pod, users),
        run_as_user=security.run_as_user if security is not None else None,
        run_as_group=security.run_as_group if security is not None else None,
        supplemental_groups=_groups(pod, extra_groups),
        supplemental_groups_policy=_groups_policy(pod),
        privileged=privileged,
        selinux=_selinux_of(security.se_linux_options) if security is not None else None,
    )


@dataclass(frozen=True, slots=True)
class NodeSecurity:
    """What the node decides: where seccomp profiles lie, whether pods get the runtime's profile without asking, what is masked besides `MASKED_PATHS`."""

    seccomp_root: str = "/var/lib/kubelet/seccomp"
    seccomp_default: bool = False
    more_masked_paths: tuple[str, ...] = ()


def container_security(
    pod: core_v1.Pod,
    container: AnyContainer,
    node: NodeSecurity,
    *,
    image_user: int | None = None,
    image_username: str = "",
    users: UserNamespace | None = None,
    extra_groups: tuple[int, ...] = (),
    target_id: str = "",
) -> ContainerSecurity:
    """Security of one container. image_user, image_username: as whom its image runs. Raises SecurityError."""
    found = effective(pod, container)
    own = found.own
    capabilities = own.capabilities or core_v1.Capabilities()
    unmasked = own.proc_mount == "Unmasked"
    from_image = found.run_as_user is None
    return ContainerSecurity(
        namespaces=namespaces(pod, users, target_id),
        capabilities_add=tuple(capabilities.add),
        capabilities_drop=tuple(capabilities.drop),
        privileged=bool(own.privileged),
        run_as_user=image_user if from_image else found.run_as_user,
        run_as_group=found.run_as_group,
        run_as_username=image_username if from_image else "",
        supplemental_groups=_groups(pod, extra_groups),
        supplemental_groups_policy=_groups_policy(pod),
        read_only_root=bool(own.read_only_root_filesystem),
        no_new_privileges=own.allow_privilege_escalation is False,
        masked_paths=() if unmasked else (*MASKED_PATHS, *node.more_masked_paths),
        read_only_paths=() if unmasked else READ_ONLY_PATHS,
        seccomp=seccomp_of(
            found.seccomp, node.seccomp_root, privileged=bool(own.privileged), runtime_default=node.seccomp_default
        ),
        apparmor=_apparmor_of(found.apparmor),
        selinux=_selinux_of(found.selinux),
    )


_SAFE_SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    )
)
"""Sysctls that have an effect in the pod alone."""
_IN_IPC: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.", "kernel.sem")
"""How the names of sysctls of the IPC namespace begin."""


def dotted(name: str) -> str:
    """A sysctl's name with dots: `net/ipv4/a` is `net.ipv4.a`; in names with slashes, dots belong to names of devices."""
    first = min((name.index(each) for each in "./" if each in name), default=-1)
    if first < 0 or name[first] == ".":
        return name
    return name.translate(str.maketrans("./", "/."))


def forbidden_sysctl(pod: core_v1.Pod, allowed_unsafe: tuple[str, ...]) -> str:
    """Why a pod's sysctls are not allowed on this node; empty if they are. allowed_unsafe: names, or prefixes with a star."""
    security = pod.spec.security_context
    for each in security.sysctls if security is not None else ():
        name = dotted(each.name)
        if name not in _SAFE_SYSCTLS and not any(_matches(name, dotted(pattern)) for pattern in allowed_unsafe):
            return f'forbidden sysctl: "{name}" not allowlisted'
        if name.startswith(_IN_IPC) and pod.spec.host_ipc:
            return f'forbidden sysctl: "{name}" not allowed with host IPC enabled'
        if name.startswith("net.") and pod.spec.host_network:
            return f'forbidden sysctl: "{name}" not allowed with host Net enabled'
    return ""


def unenforceable_apparmor(pod: core_v1.Pod, *, enabled: bool) -> str:
    """Why the AppArmor profiles that a pod asks for cannot be enforced; empty if they can. enabled: whether the machine's kernel does that.

    A pod that runs, or has run, keeps what it has (`pkg/security/apparmor`, `appArmorAdmitHandler`).
    """
    containers: tuple[AnyContainer, ...] = (
        *pod.spec.init_containers,
        *pod.spec.containers,
        *pod.spec.ephemeral_containers,
    )
    profiles = [effective(pod, each).apparmor for each in containers]
    of_pod = pod.spec.security_context.app_armor_profile if pod.spec.security_context is not None else None
    required = any(each is not None and each.type != "Unconfined" for each in (of_pod, *profiles))
    if pod.status.phase not in ("", "Pending") or not required:
        return ""
    if not enabled:
        return "AppArmor is not enabled on the host"
    if any(each and each.type == "Localhost" and not (each.localhost_profile or "").strip() for each in profiles):
        return "invalid empty AppArmor profile name"
    return ""


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
