"""Under which key Kubernetes' storage has an object, as its errors say, and names that cannot be part of one.

Source: `registry/generic/registry/store.go` (`NamespaceKeyFunc`), `storage/etcd3/store.go` (`prepareKey`), `api/validation/path`.
"""

from __future__ import annotations

from typing import Final

from bayplan.api.errors import bad_request, failure, quoted
from bayplan.api.kinds import Kind

_DOTS: Final = frozenset((".", ".."))
_OLD_PREFIXES: Final = {
    "endpoints": "services/endpoints",
    "ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}
"""Kinds whose key is not their plural."""


def storage_key(kind: Kind, namespace: str, name: str) -> str:
    """The key of an object, or of a collection if there is no name; without the folder that all keys are in."""
    prefix = _OLD_PREFIXES.get(kind.plural, kind.plural)
    if kind.is_custom or kind.group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
        prefix = f"{kind.group}/{prefix}"
    return "/" + "/".join(part for part in (prefix, namespace, name) if part)


def segment_problem(name: str) -> str:
    """Why a name cannot be a segment of a path; empty if it can."""
    if name in _DOTS:
        return f"may not be '{name}'"
    return "may not contain '%'" if "%" in name else ""


def check_key(kind: Kind, namespace: str, name: str) -> None:
    """Raises ApiError (400, 500) if an object cannot be there, whatever is."""
    if name in _DOTS or "%" in name:
        raise bad_request(f"Name parameter invalid: {quoted(name)}: {segment_problem(name)}")
    if namespace in _DOTS and kind.namespaced:
        raise failure(500, "", f"invalid key: {quoted(storage_key(kind, namespace, name))}", details=False)
