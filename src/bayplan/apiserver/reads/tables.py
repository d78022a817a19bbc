"""Which resources are shown as tables: those whose storage in kube-apiserver knows how to.

Clients that like a table best usually take plain objects as well, and get these of the others.
"""

from __future__ import annotations

from typing import Final

from bayplan.api.errors import not_acceptable
from bayplan.api.kinds import Kind
from bayplan.apiserver.reads.negotiation import OFFERED, has_form

_WITHOUT_TABLE: Final = frozenset(
    ("approval", "binding", "ephemeralcontainers", "eviction", "finalize", "log", "resize", "token")
)
"""Subresources whose storage makes no tables."""
_STATUS_WITHOUT_TABLE: Final = frozenset(("apiservices", "customresourcedefinitions", "resourceclaims"))
"""Kinds of which that of the status makes none."""
_GROUPS_OF_REVIEWS: Final = frozenset(("authentication.k8s.io", "authorization.k8s.io"))


def without_tables(accept: str, kind: Kind, subresource: str) -> str:
    """What a client takes of a resource, without tables if there are none of it. Raises ApiError (406) if nothing is left."""
    if "Table" not in accept or _makes_tables(kind, subresource):
        return accept
    left = ",".join(clause for clause in accept.split(",") if not has_form(clause, "Table"))
    if not left:
        raise not_acceptable(OFFERED)
    return left


def _makes_tables(kind: Kind, subresource: str) -> bool:
    if not subresource:
        return kind.is_stored or (kind.kind != "Binding" and kind.group not in _GROUPS_OF_REVIEWS)
    return subresource not in _WITHOUT_TABLE and not (subresource == "status" and kind.plural in _STATUS_WITHOUT_TABLE)
