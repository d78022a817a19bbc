"""The configuration of `PodSecurity`: what counts in namespaces without labels, and what is exempt.

Source: `PodSecurityConfiguration` of pod-security.admission.config.k8s.io/v1, `k8s.io/pod-security-admission/admission/api`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from bayplan.api.errors import FieldError, duplicate, invalid
from bayplan.api.pod_security.policy import PRIVILEGED, Policies, Policy, read_level, read_version
from bayplan.api.validation.values.formats import dns_label, dns_subdomain
from bayplan.apiserver.authorization.rbac import aggregate

_KIND: Final = "PodSecurityConfiguration"
_VERSIONS: Final = tuple(f"pod-security.admission.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_NOTHING: Final[frozenset[str]] = frozenset()


class Exemptions(NamedTuple):
    """Whose pods may be as they like."""

    namespaces: frozenset[str] = _NOTHING
    usernames: frozenset[str] = _NOTHING
    runtime_classes: frozenset[str] = _NOTHING


class _Defaults(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    enforce: str = PRIVILEGED
    enforce_version: str = "latest"
    audit: str = PRIVILEGED
    audit_version: str = "latest"
    warn: str = PRIVILEGED
    warn_version: str = "latest"


class _Exemptions(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    usernames: list[str] = []
    namespaces: list[str] = []
    runtime_classes: list[str] = []


class _File(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    kind: str
    api_version: str
    defaults: _Defaults = msgspec.field(default_factory=_Defaults)
    exemptions: _Exemptions = msgspec.field(default_factory=_Exemptions)


def read(configuration: Mapping[str, Any]) -> tuple[Policies, Exemptions]:
    """What counts without labels, and what is exempt. Raises ValueError that names the fields."""
    if not configuration:
        return Policies(), Exemptions()
    kind, version = configuration.get("kind", ""), configuration.get("apiVersion", "")
    if kind != _KIND or version not in _VERSIONS:
        raise ValueError(f'no kind "{kind}" is registered for version "{version}"; expected {_KIND} of {_VERSIONS[0]}')
    try:
        file = msgspec.convert(configuration, _File)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    errors: list[FieldError] = []
    given = msgspec.to_builtins(file.defaults)
    enforce, warn, audit = (
        Policy(
            read_level(f"defaults.{mode}", given[mode] or PRIVILEGED, errors),
            read_version(f"defaults.{mode}-version", given[f"{mode}-version"] or "latest", errors),
        )
        for mode in ("enforce", "warn", "audit")
    )
    exempt = file.exemptions
    exemptions = Exemptions(
        _names("namespaces", exempt.namespaces, dns_label, errors),
        _names("usernames", exempt.usernames, lambda name: () if name else ("username must not be empty",), errors),
        _names("runtimeClasses", exempt.runtime_classes, dns_subdomain, errors),
    )
    if errors:
        raise ValueError(str(aggregate(errors)))
    return Policies(enforce, audit, warn), exemptions


def _names(
    field: str, names: Sequence[str], problems: Callable[[str], Sequence[str]], errors: list[FieldError]
) -> frozenset[str]:
    found: set[str] = set()
    for index, name in enumerate(names):
        path = f"exemptions.{field}[{index}]"
        if messages := problems(name):
            errors.append(invalid(path, name, ", ".join(messages)))
        elif name in found:
            errors.append(duplicate(path, name))
        found.add(name)
    return frozenset(found)
