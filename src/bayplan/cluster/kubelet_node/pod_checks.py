"""What a kubelet asks of a pod before it looks at the node's resources: sysctls, AppArmor, features that the node must have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import Rejection, unsupported_features
from bayplan.kubelet.core.containers.security import forbidden_sysctl, unenforceable_apparmor

_APPARMOR: Final = Path("sys/kernel/security/apparmor")
_APPARMOR_ENABLED: Final = Path("sys/module/apparmor/parameters/enabled")


def has_apparmor(root: Path) -> bool:
    """Whether the kernel enforces AppArmor profiles. root: where the machine's `/sys` is."""
    try:
        return (root / _APPARMOR).exists() and (root / _APPARMOR_ENABLED).read_text().startswith("Y")
    except FileNotFoundError:
        return False


class PodChecks:
    """Called with a pod and the node's other pods: why the node does not take it, or None.

    allowed_sysctls: unsafe sysctls that pods may set: names, or prefixes with a star. apparmor: whether the machine enforces profiles. features: those that the
    node declares.
    """

    def __init__(self, allowed_sysctls: Iterable[str], *, apparmor: bool, features: Iterable[str]) -> None:
        self._allowed_sysctls = tuple(allowed_sysctls)
        self._apparmor = apparmor
        self._features = frozenset(features)

    def __call__(self, pod: core_v1.Pod, others: list[core_v1.Pod]) -> Rejection | None:
        text = forbidden_sysctl(pod, self._allowed_sysctls)
        if text:
            return Rejection("SysctlForbidden", text)
        text = unenforceable_apparmor(pod, enabled=self._apparmor)
        if text:
            return Rejection("AppArmor", f"Cannot enforce AppArmor: {text}")
        return unsupported_features(pod.spec, self._features)
