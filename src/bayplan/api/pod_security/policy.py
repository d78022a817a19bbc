"""What a namespace's labels ask for: a level and a version each for enforcing, auditing and warning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from bayplan.api.errors import FieldError, invalid

PREFIX = "pod-security.kubernetes.io/"
PRIVILEGED, BASELINE, RESTRICTED = LEVELS = ("privileged", "baseline", "restricted")
LATEST = 1 << 30
"""A minor version above all that there are."""
_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")


class Policy(NamedTuple):
    """A level of the standards as of a version."""

    level: str = PRIVILEGED
    minor: int = LATEST
    """Minor version of Kubernetes whose standards apply."""

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"


class Policies(NamedTuple):
    """What is refused, noted and warned about."""

    enforce: Policy = Policy()
    audit: Policy = Policy()
    warn: Policy = Policy()


def policies_of(labels: Mapping[str, str]) -> tuple[Policies, list[FieldError]]:
    """The policies that labels ask for, and what is wrong with the labels. An unknown level means the strictest one, an unknown version the latest.
    Modes without a level of their own follow the enforced one."""
    if not any(key.startswith(PREFIX) for key in labels):
        return Policies(), []
    errors: list[FieldError] = []
    found = Policies(*(_policy(labels, mode, errors) for mode in Policies._fields))
    for mode in ("audit", "warn"):
        own = getattr(found, mode)
        if PREFIX + mode not in labels and stricter(found.enforce, own):
            minor = own.minor if f"{PREFIX}{mode}-version" in labels else found.enforce.minor
            found = found._replace(**{mode: Policy(found.enforce.level, minor)})
    return found, errors


def stricter(one: Policy, other: Policy) -> bool:
    """Whether a policy's level forbids more than that of another."""
    return LEVELS.index(one.level) > LEVELS.index(other.level)


def _policy(labels: Mapping[str, str], mode: str, errors: list[FieldError]) -> Policy:
    level = labels.get(PREFIX + mode, PRIVILEGED)
    if level not in LEVELS:
        errors.append(invalid(f"metadata.labels[{PREFIX}{mode}]", level, f"must be one of {', '.join(LEVELS)}"))
        level = RESTRICTED
    version = labels.get(f"{PREFIX}{mode}-version", "latest")
    match = _VERSION.fullmatch(version)
    if match is None and version != "latest":
        errors.append(invalid(f"metadata.labels[{PREFIX}{mode}-version]", version, 'must be "latest" or "v1.x"'))
    return Policy(level, int(match[1]) if match is not None else LATEST)
