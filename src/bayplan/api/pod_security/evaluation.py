"""The table of checks, and their application to a pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bayplan.api.pod_security import baseline, restricted
from bayplan.api.pod_security.policy import PRIVILEGED, RESTRICTED, Policy
from bayplan.api.pod_security.violations import Subject, Violation
from bayplan.api.types import core_v1, meta_v1
from bayplan.support.memory.memo import memoized

Check = Callable[[Subject, int], Violation | None]


class Row(NamedTuple):
    """One check of the standards."""

    check: Check
    since: int = 0
    """First minor version that has it."""
    replaced_since: int | None = None
    """Minor version from which on the level `restricted` has a stricter check in its place."""


BASELINE = (
    Row(baseline.app_armor_profile),
    Row(baseline.capabilities, replaced_since=22),
    Row(baseline.host_namespaces),
    Row(baseline.host_path_volumes, replaced_since=0),
    Row(baseline.host_ports),
    Row(baseline.probe_hosts, since=34),
    Row(baseline.privileged),
    Row(baseline.proc_mount, replaced_since=baseline.OWN_USERS_SINCE),
    Row(baseline.selinux_options),
    Row(baseline.seccomp_profile, replaced_since=19),
    Row(baseline.sysctls),
    Row(baseline.windows_host_process),
)
"""In the order in which violations are told: by the names that Kubernetes gives the checks."""
STRICTER = (
    Row(restricted.privilege_escalation, since=8),
    Row(restricted.capabilities, since=22),
    Row(restricted.proc_mount, since=baseline.OWN_USERS_SINCE),
    Row(restricted.volume_types),
    Row(restricted.run_as_non_root),
    Row(restricted.run_as_user, since=23),
    Row(restricted.seccomp, since=19),
)
"""What `restricted` adds, told behind the former."""


@memoized(256)
def checks_of(policy: Policy) -> tuple[Check, ...]:
    """The checks of a policy, in order."""
    if policy.level == PRIVILEGED:
        return ()
    rows = [row for row in BASELINE if policy.minor >= row.since]
    if policy.level == RESTRICTED:
        rows = [row for row in rows if row.replaced_since is None or policy.minor < row.replaced_since]
        rows += [row for row in STRICTER if policy.minor >= row.since]
    return tuple(row.check for row in rows)


def violations(policy: Policy, metadata: meta_v1.ObjectMeta, spec: core_v1.PodSpec) -> list[Violation]:
    """Everything that the policy forbids about a pod."""
    subject = Subject(spec, metadata.annotations)
    return [found for check in checks_of(policy) if (found := check(subject, policy.minor)) is not None]
