"""Kinds that are still served, but should not be used any more: every answer says so."""

from __future__ import annotations

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.kinds import Kind

_WARNINGS = {
    ("v1", "ComponentStatus"): "v1 ComponentStatus is deprecated in v1.19+",
    ("v1", "Endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}


def deprecation_of(kind: Kind) -> str:
    """The text of the Warning header, "" for kinds that are up to date."""
    if isinstance(kind, CustomKind):
        given = kind.definition
        if not given.deprecated:
            return ""
        instead = f"; use {kind.group}/{kind.replacement} {kind.kind}" if kind.replacement else ""
        return given.deprecation_warning or f"{kind.api_version} {kind.kind} is deprecated{instead}"
    return _WARNINGS.get((kind.api_version, kind.kind), "")
