"""Rules for the security contexts of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayplan.api.errors import duplicate, forbidden, invalid, required, too_long, unsupported
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import (
    Errors,
    check_format,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.paths import check_relative_path

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_MAX_ID = 2**31 - 1


def check_security_context(errors: Errors, path: str, context: core_v1.SecurityContext, host_users: bool) -> None:
    """The security context of a container."""
    check_id(errors, f"{path}.runAsUser", context.run_as_user)
    check_id(errors, f"{path}.runAsGroup", context.run_as_group)
    if context.seccomp_profile is not None:
        check_seccomp(errors, f"{path}.seccompProfile", context.seccomp_profile)
    if context.proc_mount is not None:
        if context.proc_mount not in ("Default", "Unmasked"):
            errors.append(unsupported(f"{path}.procMount", context.proc_mount, ("Default", "Unmasked")))
        if host_users and context.proc_mount == "Unmasked":
            errors.append(invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`"))
    if context.allow_privilege_escalation is False:
        if context.privileged:
            errors.append(
                invalid(
                    path, go_struct(context), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
                )
            )
        if context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(invalid(path, go_struct(context), text))
    if context.windows_options is not None:
        check_windows_options(errors, f"{path}.windowsOptions", context.windows_options)
    if context.app_armor_profile is not None:
        check_app_armor(errors, f"{path}.appArmorProfile", context.app_armor_profile)


def check_pod_security_context(errors: Errors, path: str, spec: core_v1.PodSpec) -> None:
    """The security context of a pod or template, and what of the pod depends on it."""
    context = spec.security_context
    assert context is not None
    check_id(errors, f"{path}.fsGroup", context.fs_group)
    check_id(errors, f"{path}.runAsUser", context.run_as_user)
    check_id(errors, f"{path}.runAsGroup", context.run_as_group)
    for index, group in enumerate(context.supplemental_groups):
        check_id(errors, f"{path}.supplementalGroups[{index}]", group)
    if spec.share_process_namespace and spec.host_pid:
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, text))
    if context.sysctls:
        _check_sysctls(errors, f"{path}.sysctls", context.sysctls, spec)
    if context.fs_group_change_policy not in (None, "Always", "OnRootMismatch"):
        errors.append(
            unsupported(f"{path}.fsGroupChangePolicy", context.fs_group_change_policy, ("Always", "OnRootMismatch"))
        )
    if context.seccomp_profile is not None:
        check_seccomp(errors, f"{path}.seccompProfile", context.seccomp_profile)
    if context.windows_options is not None:
        check_windows_options(errors, f"{path}.windowsOptions", context.windows_options)
    if context.app_armor_profile is not None:
        check_app_armor(errors, f"{path}.appArmorProfile", context.app_armor_profile)
    if context.supplemental_groups_policy not in (None, "Merge", "Strict"):
        errors.append(
            unsupported(f"{path}.supplementalGroupsPolicy", context.supplemental_groups_policy, ("Merge", "Strict"))
        )
    if context.se_linux_change_policy not in (None, "Recursive"):
        errors.append(unsupported(f"{path}.seLinuxChangePolicy", context.se_linux_change_policy, ("Recursive",)))


def check_id(errors: Errors, path: str, number: int | None) -> None:
    """The number of a user or group, if given."""
    if number is not None and not 0 <= number <= _MAX_ID:
        errors.append(invalid(path, number, formats.range_message(0, _MAX_ID)))


def _check_sysctls(errors: Errors, path: str, sysctls: tuple[core_v1.Sysctl, ...], spec: core_v1.PodSpec) -> None:
    names: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        where, name = f"{path}[{index}].name", sysctl.name
        if not name:
            errors.append(required(where))
        elif formats.sysctl_name(name):
            check_format(errors, where, name, formats.sysctl_name)
        elif name in names:
            errors.append(duplicate(where, name))
        names.add(name)
        dotted = name.replace("/", ".")
        if spec.host_network and dotted.startswith("net."):
            errors.append(invalid(where, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.host_ipc and (
            dotted.startswith(("kernel.shm", "kernel.msg", "fs.mqueue.")) or dotted == "kernel.sem"
        ):
            errors.append(invalid(where, name, "may not be specified when 'hostIPC' is true"))


def check_seccomp(errors: Errors, path: str, profile: core_v1.SeccompProfile) -> None:
    """A seccomp profile."""
    if not profile.type:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif profile.type not in _PROFILES:
        errors.append(unsupported(f"{path}.type", profile.type, _PROFILES))
    if profile.type == "Localhost":
        if profile.localhost_profile is None:
            errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            check_relative_path(errors, f"{path}.localhostProfile", profile.localhost_profile)
    elif profile.localhost_profile is not None:
        errors.append(
            invalid(f"{path}.localhostProfile", go_struct(profile), "can only be set when seccomp type is Localhost")
        )


def check_app_armor(errors: Errors, path: str, profile: core_v1.AppArmorProfile) -> None:
    """An AppArmor profile."""
    where, name = f"{path}.localhostProfile", profile.localhost_profile
    if profile.type == "Localhost":
        if name is None or not name.strip():
            if name:
                errors.append(invalid(where, name, "must not be padded with whitespace"))
            else:
                errors.append(required(where, "must be set when AppArmor type is Localhost"))
        elif name != name.strip():
            errors.append(invalid(where, name, "must not be padded with whitespace"))
        if name is not None and len(name) > 4095:
            errors.append(too_long(where, 4095))
    elif profile.type in _PROFILES:
        if name is not None:
            errors.append(invalid(where, name, "can only be set when AppArmor type is Localhost"))
    elif not profile.type:
        errors.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    else:
        errors.append(unsupported(f"{path}.type", profile.type, _PROFILES))


def check_windows_options(errors: Errors, path: str, options: core_v1.WindowsSecurityContextOptions) -> None:
    """Options for Windows containers."""
    if options.gmsa_credential_spec_name is not None:
        check_format(errors, f"{path}.gmsaCredentialSpecName", options.gmsa_credential_spec_name, formats.dns_subdomain)
    spec = options.gmsa_credential_spec
    if spec is not None:
        if not spec:
            errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string"))
        elif len(spec) > 64 * 1024:
            errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec size must be under 64 KiB"))
    name = options.run_as_user_name
    if name is not None:
        for message in _user_name_messages(name):
            errors.append(invalid(f"{path}.runAsUserName", name, message))


_CONTROL = re.compile(r"[\x00-\x1f\x7f]").search
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}').fullmatch
_DNS_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_NAME = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*").fullmatch
_NOT_IN_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]').search
_MAX_DOMAIN = 256
_MAX_USER = 104


def _user_name_messages(name: str) -> Iterator[str]:
    r"""What is wrong with the name of a Windows user, `DOMAIN\user` or `user`."""
    if not name:
        yield "runAsUserName cannot be an empty string"
        return
    if _CONTROL(name):
        yield "runAsUserName cannot contain control characters"
        return
    if name.count("\\") > 1:
        yield "runAsUserName cannot contain more than one backslash"
        return
    domain, backslash, user = name.rpartition("\\")
    if len(domain) >= _MAX_DOMAIN:
        yield f"runAsUserName's Domain length must be under {_MAX_DOMAIN} characters"
    if backslash and not (_NETBIOS(domain) or _DNS_NAME(domain)):
        yield "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "runAsUserName's User cannot be empty"
    elif len(user) > _MAX_USER:
        yield f"runAsUserName's User length must not be longer than {_MAX_USER} characters"
    if user and not user.strip(". "):
        yield "runAsUserName's User cannot contain only periods or spaces"
    if _NOT_IN_USER(user):
        yield "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def check_host_process(errors: Errors, path: str, spec: core_v1.PodSpec) -> None:
    """Containers that are processes of a Windows host: all of a pod or none, and only on the host's network."""
    pod = spec.security_context.windows_options if spec.security_context is not None else None
    of_pod = pod.host_process if pod is not None else None
    count = 0
    contexts = _containers(spec, path)
    for where, context in contexts:
        options = context.windows_options if context is not None else None
        own = options.host_process if options is not None else None
        if of_pod is not None and own is not None and own != of_pod:
            shown = "true" if of_pod else "false"
            text = f"pod hostProcess value must be identical if both are specified, was {shown}"
            errors.append(invalid(f"{where}.securityContext.windowsOptions.hostProcess", own, text))
        count += bool(of_pod if own is None else own)
    if not count:
        return
    if count != len(contexts):
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", text))
    if not spec.host_network:
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", False, text))


def check_operating_system(errors: Errors, path: str, spec: core_v1.PodSpec) -> None:
    """`os` of a pod, and fields that do not exist on it."""
    assert spec.os is not None
    name = spec.os.name
    if not name:
        errors.append(required(f"{path}.os.name"))
    elif name not in ("linux", "windows"):
        errors.append(unsupported(f"{path}.os", name, ("linux", "windows")))
    elif name == "linux":
        _check_linux(errors, path, spec)
    else:
        _check_windows(errors, path, spec)


def _containers(spec: core_v1.PodSpec, path: str) -> list[tuple[str, core_v1.SecurityContext | None]]:
    found = [
        (f"{path}.initContainers[{index}]", one.security_context) for index, one in enumerate(spec.init_containers)
    ]
    found += [(f"{path}.containers[{index}]", one.security_context) for index, one in enumerate(spec.containers)]
    return found + [
        (f"{path}.ephemeralContainers[{index}]", one.security_context)
        for index, one in enumerate(spec.ephemeral_containers)
    ]


def _check_linux(errors: Errors, path: str, spec: core_v1.PodSpec) -> None:
    contexts = [(path, spec.security_context), *_containers(spec, path)]
    for where, context in contexts:
        if context is not None and context.windows_options is not None:
            errors.append(
                forbidden(f"{where}.securityContext.windowsOptions", "windows options cannot be set for a linux pod")
            )


_WINDOWS_POD = (
    ("app_armor_profile", "appArmorProfile"),
    ("se_linux_options", "seLinuxOptions"),
    ("", "hostUsers"),
    ("", "hostPID"),
    ("", "hostIPC"),
    ("seccomp_profile", "seccompProfile"),
    ("fs_group", "fsGroup"),
    ("fs_group_change_policy", "fsGroupChangePolicy"),
    ("sysctls", "sysctls"),
    ("", "shareProcessNamespace"),
    ("run_as_user", "runAsUser"),
    ("run_as_group", "runAsGroup"),
    ("supplemental_groups", "supplementalGroups"),
    ("supplemental_groups_policy", "supplementalGroupsPolicy"),
    ("se_linux_change_policy", "seLinuxChangePolicy"),
)
"""Attribute of the security context -> name of the field; without an attribute, a field of the pod's spec."""
_WINDOWS_CONTAINER = (
    ("app_armor_profile", "appArmorProfile"),
    ("se_linux_options", "seLinuxOptions"),
    ("seccomp_profile", "seccompProfile"),
    ("capabilities", "capabilities"),
    ("read_only_root_filesystem", "readOnlyRootFilesystem"),
    ("privileged", "privileged"),
    ("allow_privilege_escalation", "allowPrivilegeEscalation"),
    ("proc_mount", "procMount"),
    ("run_as_user", "runAsUser"),
    ("run_as_group", "runAsGroup"),
)


def _check_windows(errors: Errors, path: str, spec: core_v1.PodSpec) -> None:
    text = "cannot be set for a windows pod"
    outside = {
        "hostUsers": spec.host_users,
        "hostPID": spec.host_pid or None,
        "hostIPC": spec.host_ipc or None,
        "shareProcessNamespace": spec.share_process_namespace,
    }
    context = spec.security_context or core_v1.PodSecurityContext()
    for attribute, field in _WINDOWS_POD:
        if not attribute:
            if outside[field] is not None:
                errors.append(forbidden(f"{path}.{field}", text))
        elif getattr(context, attribute) not in (None, ()):
            errors.append(forbidden(f"{path}.securityContext.{field}", text))
    for where, own in _containers(spec, path):
        if own is not None:
            for attribute, field in _WINDOWS_CONTAINER:
                if getattr(own, attribute) is not None:
                    errors.append(forbidden(f"{where}.securityContext.{field}", text))
