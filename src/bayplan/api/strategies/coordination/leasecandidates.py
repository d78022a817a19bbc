"""Candidates of coordinated leader election."""

from __future__ import annotations

import re
from typing import Final

from bayplan.api.errors import FieldError, invalid, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import coordination_v1beta1
from bayplan.api.validation.fields import Errors, check_format, check_unchanged
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats

LeaseCandidate = coordination_v1beta1.LeaseCandidate
OLDEST: Final = "OldestEmulationVersion"
"""The strategy by which the candidate with the oldest version becomes the leader."""
_NUMBER: Final = "(?:0|[1-9][0-9]*)"
_SEMANTIC: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    r"(?:-((?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)
Version = tuple[int, int, int, tuple[tuple[int, int, str], ...]]
_NONE: Final[Version] = (0, 0, 0, ((2, 0, ""),))


class LeaseCandidateStrategy(Strategy):
    """Rules of candidates: the lease never changes."""

    allow_unconditional_update = False
    allow_create_on_update = True
    name_is_checked_as = "config-map-key"
    update_checks = UpdateChecks(whole=1)

    def validate(self, obj: LeaseCandidate) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        if not spec.lease_name:
            errors.append(required("spec.leaseName"))
        emulated = _check_version(errors, "spec.emulationVersion", spec.emulation_version, needed=False)
        version = _check_version(errors, "spec.binaryVersion", spec.binary_version)
        if spec.binary_version and spec.emulation_version and version < emulated:
            text = "must be greater than or equal to `emulationVersion`"
            errors.append(invalid("spec.binaryVersion", spec.binary_version, text))
        if not spec.strategy:
            errors.append(required("spec.strategy"))
            return errors
        if spec.strategy == OLDEST and emulated == _NONE:
            text = "must be specified when `strategy` is 'OldestEmulationVersion'"
            errors.append(required("spec.emulationVersion", text))
        if "/" in spec.strategy:
            check_format(errors, "spec.strategy.strategy", spec.strategy, formats.label_key)
        elif spec.strategy != OLDEST:
            errors.append(unsupported("spec.strategy.strategy", spec.strategy, (OLDEST,)))
        return errors

    def validate_update(self, obj: LeaseCandidate, old: LeaseCandidate) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec.leaseName", obj.spec.lease_name, old.spec.lease_name)
        return errors


def _check_version(errors: Errors, path: str, text: str, *, needed: bool = True) -> Version:
    """A semantic version; that of nothing if there is none."""
    if not text:
        if needed:
            errors.append(required(path))
        return _NONE
    found = _SEMANTIC.fullmatch(text)
    if found is None:
        errors.append(invalid(path, text, "must be a valid semantic version"))
        return _NONE
    return int(found[1]), int(found[2]), int(found[3]), _before(found[4])


def _before(text: str | None) -> tuple[tuple[int, int, str], ...]:
    """What comes before a release, so that it can be compared: numbers come before words, and a release after all of that."""
    if text is None:
        return ((2, 0, ""),)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in text.split("."))


STRATEGY = LeaseCandidateStrategy()
