"""The checks of the level `restricted`: current hardening practice."""

from __future__ import annotations

from bayplan.api.pod_security.baseline import OWN_USERS_SINCE, Found, added_capabilities, seccomp_profile, unmasked_proc
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

WINDOWS_SINCE = 25
"""From this minor version on, pods for Windows need not set what only Linux knows."""
_VOLUME_TYPES = frozenset(
    (
        "config_map",
        "csi",
        "downward_api",
        "empty_dir",
        "ephemeral",
        "image",
        "persistent_volume_claim",
        "projected",
        "secret",
    )
)
_WIRE_NAMES = dict(zip(core_v1.Volume.__struct_fields__, core_v1.Volume.__struct_encode_fields__, strict=True))


def _spared(pod: Subject, minor: int) -> bool:
    return minor >= WINDOWS_SINCE and pod.is_windows


def privilege_escalation(pod: Subject, minor: int) -> Found:
    """No process gains more than its parent had."""
    if _spared(pod, minor):
        return None
    names = pod.names(
        lambda one: one.security_context is None or one.security_context.allow_privilege_escalation is not False
    )
    if not names:
        return None
    detail = f"{containers_named(names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def capabilities(pod: Subject, minor: int) -> Found:
    """All capabilities are dropped; only binding to low ports may be added."""
    if _spared(pod, minor):
        return None
    keeping = pod.names(lambda one: not _drops_all(one))
    extra: set[str] = set()
    adding = []
    for container in pod.containers():
        added = {name for name in added_capabilities(container) if name != "NET_BIND_SERVICE"}
        if added:
            adding.append(container.name)
            extra |= added
    details = []
    if keeping:
        details.append(f'{containers_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        shown = quoted(sorted(extra))
        details.append(f"{containers_named(adding)} must not include {shown} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _drops_all(container: AnyContainer) -> bool:
    context = container.security_context
    return context is not None and context.capabilities is not None and "ALL" in context.capabilities.drop


def proc_mount(pod: Subject, minor: int) -> Found:
    """/proc stays masked, whoever the users are."""
    return unmasked_proc(pod)


def volume_types(pod: Subject, minor: int) -> Found:
    """Volumes hold what the cluster gives, not what the node has."""
    names, types = [], set()
    for volume in pod.spec.volumes:
        kind = _volume_type(volume)
        if kind not in _VOLUME_TYPES:
            names.append(volume.name)
            types.add(_WIRE_NAMES.get(kind, "unknown"))
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    what = f"{plural(len(types), 'restricted volume type')} {quoted(sorted(types))}"
    return Violation("restricted volume types", f"{plural(len(names), 'volume')} {quoted(names)} {verb} {what}")


def _volume_type(volume: core_v1.Volume) -> str:
    """The attribute that says what the volume is; "" for a volume of no known type."""
    for name in volume.__struct_fields__:
        if name != "name" and getattr(volume, name) is not None:
            return str(name)
    return ""


def run_as_non_root(pod: Subject, minor: int) -> Found:
    """Containers say that they do not run as root."""
    if minor >= OWN_USERS_SINCE and pod.has_own_users:
        return None
    context = pod.spec.security_context
    own = context.run_as_non_root if context is not None else None
    refusing, silent = [], []
    for container in pod.containers():
        said = container.security_context.run_as_non_root if container.security_context is not None else None
        if said is False:
            refusing.append(container.name)
        elif said is None and own is not True:
            silent.append(container.name)
    who = setters(own is False, refusing)
    if who:
        return Violation("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    if silent:
        detail = f"pod or {containers_named(silent)} must set securityContext.runAsNonRoot=true"
        return Violation("runAsNonRoot != true", detail)
    return None


def run_as_user(pod: Subject, minor: int) -> Found:
    """Nobody asks to be root."""
    if minor >= OWN_USERS_SINCE and pod.has_own_users:
        return None
    context = pod.spec.security_context
    who = setters(
        context is not None and context.run_as_user == 0,
        pod.names(lambda one: one.security_context is not None and one.security_context.run_as_user == 0),
    )
    return Violation("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def seccomp(pod: Subject, minor: int) -> Found:
    """Seccomp is on."""
    if _spared(pod, minor):
        return None
    wrong = seccomp_profile(pod, minor)
    if wrong is not None:
        return wrong
    context = pod.spec.security_context
    if context is not None and context.seccomp_profile is not None:
        return None
    names = pod.names(lambda one: one.security_context is None or one.security_context.seccomp_profile is None)
    if not names:
        return None
    wanted = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {containers_named(names)} {wanted}")
