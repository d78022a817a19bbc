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


def policies_of(labels: Mapping[str, str], defaults: Policies = Policies()) -> tuple[Policies, list[FieldError]]:
    """The policies that labels ask for, and what is wrong with the labels. defaults: what is asked for without them.

    An unknown level to enforce means the strictest one, of the other modes none, and an unknown version the latest. Warnings follow a stricter enforced level.
    """
    if not any(key.startswith(PREFIX) for key in labels):
        return defaults, []
    errors: list[FieldError] = []
    found = Policies(*(_policy(labels, mode, getattr(defaults, mode), errors) for mode in Policies._fields))
    enforced = labels.get(PREFIX + "enforce")
    if enforced in LEVELS and PREFIX + "warn" not in labels and stricter(found.enforce, found.warn):
        minor = found.warn.minor if f"{PREFIX}warn-version" in labels else found.enforce.minor
        found = found._replace(warn=Policy(found.enforce.level, minor))
    return found, errors


def read_level(field: str, value: str, errors: list[FieldError]) -> str:
    """A level of the standards; the strictest one if the value is none."""
    if value in LEVELS:
        return value
    errors.append(invalid(field, value, f"must be one of {', '.join(LEVELS)}"))
    return RESTRICTED


def read_version(field: str, value: str, errors: list[FieldError]) -> int:
    """The minor version that a value names; the latest if it names none."""
    match = _VERSION.fullmatch(value)
    if match is None and value != "latest":
        errors.append(invalid(field, value, 'must be "latest" or "v1.x"'))
    return int(match[1]) if match is not None else LATEST


def stricter(one: Policy, other: Policy) -> bool:
    """Whether a policy's level forbids more than that of another."""
    return LEVELS.index(one.level) > LEVELS.index(other.level)


def _policy(labels: Mapping[str, str], mode: str, default: Policy, errors: list[FieldError]) -> Policy:
    level, minor = default
    label = PREFIX + mode
    if label in labels:
        level = read_level(f"metadata.labels[{label}]", labels[label], errors)
        if labels[label] not in LEVELS and mode != "enforce":
            level = PRIVILEGED
    if f"{label}-version" in labels:
        minor = read_version(f"metadata.labels[{label}-version]", labels[f"{label}-version"], errors)
    return Policy(level, minor)
