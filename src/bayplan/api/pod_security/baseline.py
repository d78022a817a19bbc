"""The checks of the level `baseline`: known ways to break out of a pod are closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.api.pod_security.violations import (
    AnyContainer,
    Subject,
    Violation,
    containers_named,
    plural,
    quoted,
    setters,
)
from bayplan.api.types import core_v1

Found = Violation | None
_DEFAULT_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_APP_ARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_SELINUX_TYPES = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))
_SYSCTLS = (
    (
        0,
        (
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.ping_group_range",
            "net.ipv4.ip_unprivileged_port_start",
        ),
    ),
    (27, ("net.ipv4.ip_local_reserved_ports",)),
    (
        29,
        (
            "net.ipv4.tcp_keepalive_time",
            "net.ipv4.tcp_fin_timeout",
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
        ),
    ),
    (32, ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")),
)
"""Sysctls that belong to the pod alone, by the minor version that found so."""
OWN_USERS_SINCE = 35
"""From this minor version on, pods with users of their own may do more."""


def app_armor_profile(pod: Subject, minor: int) -> Found:
    """AppArmor may not be turned off."""
    context = pod.spec.security_context
    own = context.app_armor_profile if context is not None else None
    values = {own.type} if own is not None and not _is_confined(own.type) else set()
    bad = []
    for container in pod.containers():
        profile = container.security_context.app_armor_profile if container.security_context else None
        if profile is not None and not _is_confined(profile.type):
            bad.append(container.name)
            values.add(profile.type)
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in pod.annotations.items()
        if key.startswith(_APP_ARMOR_PREFIX)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    who = setters(own is not None and not _is_confined(own.type), bad)
    if annotations:
        who = " and ".join(part for part in (who, plural(len(annotations), "annotation")) if part)
    if not who:
        return None
    shown = [*sorted(values), *annotations]
    reason = plural(len(shown), "forbidden AppArmor profile")
    return Violation(reason, f"{who} must not set AppArmor profile type to {quoted(shown)}")


def _is_confined(type_: str) -> bool:
    return type_ in ("", "RuntimeDefault", "Localhost")


def capabilities(pod: Subject, minor: int) -> Found:
    """No capabilities beyond those that containers have anyway."""
    extra: set[str] = set()
    bad = []
    for container in pod.containers():
        added = set(added_capabilities(container)) - _DEFAULT_CAPABILITIES
        if added:
            bad.append(container.name)
            extra |= added
    if not bad:
        return None
    detail = f"{containers_named(bad)} must not include {quoted(sorted(extra))} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def added_capabilities(container: AnyContainer) -> tuple[str, ...]:
    """Capabilities that a container adds."""
    context = container.security_context
    return context.capabilities.add if context is not None and context.capabilities is not None else ()


def host_namespaces(pod: Subject, minor: int) -> Found:
    """The node's network, processes and IPC stay the node's."""
    spec = pod.spec
    shared = {"hostNetwork": spec.host_network, "hostPID": spec.host_pid, "hostIPC": spec.host_ipc}
    used = [f"{name}=true" for name, is_shared in shared.items() if is_shared]
    return Violation("host namespaces", ", ".join(used)) if used else None


def host_path_volumes(pod: Subject, minor: int) -> Found:
    """The node's files stay the node's."""
    names = [volume.name for volume in pod.spec.volumes if volume.host_path is not None]
    return Violation("hostPath volumes", f"{plural(len(names), 'volume')} {quoted(names)}") if names else None


def host_ports(pod: Subject, minor: int) -> Found:
    """The node's ports stay the node's."""
    names, ports = [], set()
    for container in pod.containers():
        taken = {str(port.host_port) for port in container.ports if port.host_port}
        if taken:
            names.append(container.name)
            ports |= taken
    if not names:
        return None
    what = plural(len(ports), "hostPort")
    verb = "uses" if len(names) == 1 else "use"
    return Violation(what, f"{containers_named(names)} {verb} {what} {', '.join(sorted(ports))}")


_PROBE_HOST = "probe or lifecycle host"


def probe_hosts(pod: Subject, minor: int) -> Found:
    """Probes and hooks talk to the pod, not to anybody the kubelet can reach."""
    names, hosts = [], set()
    for container in pod.containers():
        told = {host for host in _hosts(container) if host}
        if told:
            names.append(container.name)
            hosts |= told
    if not names:
        return None
    what = plural(len(hosts), _PROBE_HOST)
    verb = "uses" if len(names) == 1 else "use"
    return Violation(_PROBE_HOST, f"{containers_named(names)} {verb} {what} {quoted(sorted(hosts))}")


def _hosts(container: AnyContainer) -> Iterator[str]:
    handlers: list[Any] = [container.liveness_probe, container.readiness_probe, container.startup_probe]
    if container.lifecycle is not None:
        handlers += [container.lifecycle.post_start, container.lifecycle.pre_stop]
    for handler in handlers:
        if handler is not None:
            if handler.http_get is not None:
                yield handler.http_get.host
            if handler.tcp_socket is not None:
                yield handler.tcp_socket.host


def privileged(pod: Subject, minor: int) -> Found:
    """Privileged containers are the node."""
    names = pod.names(lambda one: one.security_context is not None and bool(one.security_context.privileged))
    if not names:
        return None
    return Violation("privileged", f"{containers_named(names)} must not set securityContext.privileged=true")


def proc_mount(pod: Subject, minor: int) -> Found:
    """/proc stays masked; pods with users of their own may see all of it."""
    return None if minor >= OWN_USERS_SINCE and pod.has_own_users else unmasked_proc(pod)


def unmasked_proc(pod: Subject) -> Found:
    """Containers that see all of /proc."""
    names, values = [], set()
    for container in pod.containers():
        wanted = container.security_context.proc_mount if container.security_context is not None else None
        if wanted is not None and wanted != "Default":
            names.append(container.name)
            values.add(wanted)
    if not names:
        return None
    detail = f"{containers_named(names)} must not set securityContext.procMount to {quoted(sorted(values))}"
    return Violation("procMount", detail)


def selinux_options(pod: Subject, minor: int) -> Found:
    """SELinux types of containers only, and no user or role."""
    allowed = _SELINUX_TYPES | {"container_engine_t"} if minor >= 31 else _SELINUX_TYPES
    types: list[str] = []
    user = role = False

    def is_bad(options: core_v1.SELinuxOptions | None) -> bool:
        nonlocal user, role
        if options is None:
            return False
        if options.type not in allowed and options.type not in types:
            types.append(options.type)
        user, role = user or bool(options.user), role or bool(options.role)
        return options.type not in allowed or bool(options.user) or bool(options.role)

    context = pod.spec.security_context
    who = setters(
        is_bad(context.se_linux_options if context is not None else None),
        pod.names(lambda one: is_bad(one.security_context.se_linux_options if one.security_context else None)),
    )
    if not who:
        return None
    what = [f"{plural(len(types), 'type')} {quoted(sorted(types))}"] if types else []
    what += [f"{name} may not be set" for name, is_set in (("user", user), ("role", role)) if is_set]
    return Violation("seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(what)}")


def seccomp_profile(pod: Subject, minor: int) -> Found:
    """Seccomp may not be turned off."""
    if minor < 19:
        return _seccomp_annotations(pod)
    context = pod.spec.security_context
    values: set[str] = set()

    def is_bad(profile: core_v1.SeccompProfile | None) -> bool:
        if profile is None or profile.type in ("RuntimeDefault", "Localhost"):
            return False
        values.add(profile.type)
        return True

    who = setters(
        is_bad(context.seccomp_profile if context is not None else None),
        pod.names(lambda one: is_bad(one.security_context.seccomp_profile if one.security_context else None)),
    )
    if not who:
        return None
    detail = f"{who} must not set securityContext.seccompProfile.type to {quoted(sorted(values))}"
    return Violation("seccompProfile", detail)


def _seccomp_annotations(pod: Subject) -> Found:
    """Before fields, annotations said it."""
    keys = ["seccomp.security.alpha.kubernetes.io/pod"]
    keys += [f"container.seccomp.security.alpha.kubernetes.io/{one.name}" for one in pod.containers()]
    bad = sorted(
        f"{key}={value}"
        for key, value in pod.annotations.items()
        if key in keys and value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")
    )
    if not bad:
        return None
    return Violation("seccompProfile", f"forbidden {plural(len(bad), 'annotation')} {quoted(bad)}")


def sysctls(pod: Subject, minor: int) -> Found:
    """Only sysctls that do not reach beyond the pod."""
    context = pod.spec.security_context
    allowed = {name for since, names in _SYSCTLS if minor >= since for name in names}
    bad = [one.name for one in context.sysctls if one.name not in allowed] if context is not None else []
    return Violation("forbidden sysctls", ", ".join(bad)) if bad else None


def windows_host_process(pod: Subject, minor: int) -> Found:
    """Host processes of Windows are the node."""

    def is_host(options: core_v1.WindowsSecurityContextOptions | None) -> bool:
        return options is not None and bool(options.host_process)

    context = pod.spec.security_context
    who = setters(
        is_host(context.windows_options if context is not None else None),
        pod.names(lambda one: is_host(one.security_context.windows_options if one.security_context else None)),
    )
    if not who:
        return None
    return Violation("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true")
