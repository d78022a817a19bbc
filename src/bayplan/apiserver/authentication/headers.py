"""What the headers of a request say about who asks. Source: Kubernetes' `bearertoken` and `impersonation` filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from bayplan.apiserver.requests import Impersonation

SPACE_WARNING = "the provided Authorization header contains extra space before the bearer token, and is ignored"
_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"


def bearer_token(authorization: str) -> tuple[str, str]:
    """The token of an Authorization header ("" if it has none), and a warning about the header ("" if there is none)."""
    parts = authorization.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return "", ""
    return parts[1], SPACE_WARNING if not parts[1] and len(parts) == 3 else ""


def impersonation(headers: Iterable[tuple[str, str]]) -> Impersonation | None:
    """Whom the headers ask to be, or None. `name` is "" if they ask for a group or the like without a user, which is an error."""
    found = [(name.lower(), value) for name, value in headers if name[:12].lower() == _PREFIX]
    if not found:
        return None
    first: dict[str, str] = {}
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for name, value in found:
        if name == "impersonate-group":
            groups.append(value)
        elif name.startswith(_EXTRA):
            key = unquote(name[len(_EXTRA) :]).lower()
            extra[key] = (*extra.get(key, ()), value)
        else:
            first.setdefault(name, value)
    user, uid = first.get("impersonate-user", ""), first.get("impersonate-uid", "")
    return Impersonation(user, uid, tuple(groups), extra) if user or uid or groups or extra else None


def single_values(values: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Extra information of a user with one value each; empty ones are left out."""
    return {key: (value,) for key, value in values.items() if value}
