"""What the headers of a request say about who asks. Source: Kubernetes' `bearertoken` and `impersonation` filters."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from bayplan.apiserver.requests import Impersonation

SPACE_WARNING = "the provided Authorization header contains extra space before the bearer token, and is ignored"
_SOCKET_PREFIX = "base64url.bearer.authorization.k8s.io."
_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"


def bearer_token(authorization: str) -> tuple[str, str]:
    """The token of an Authorization header ("" if it has none), and a warning about the header ("" if there is none)."""
    parts = authorization.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return "", ""
    return parts[1], SPACE_WARNING if not parts[1] and len(parts) == 3 else ""


class SocketTokenError(ValueError):
    """A client sends a token for a WebSocket as it must not be sent."""


def socket_token(protocols: Iterable[str]) -> tuple[str, list[str]]:
    """The token that a browser sends among the subprotocols of a WebSocket, as it can send no header ("" if there is none), and the other subprotocols.

    protocols: values of `Sec-WebSocket-Protocol`. Raises SocketTokenError. Source: Kubernetes' `request/websocket/protocol.go`.
    """
    tokens, others = [], []
    for protocol in (part.strip() for value in protocols for part in value.split(",")):
        if protocol.startswith(_SOCKET_PREFIX):
            tokens.append(protocol.removeprefix(_SOCKET_PREFIX))
        else:
            others.append(protocol)
    if not tokens:
        return "", others
    if len(tokens) > 1:
        raise SocketTokenError("multiple base64.bearer.authorization tokens specified")
    try:
        encoded = "" if "=" in tokens[0] else tokens[0] + "=" * (-len(tokens[0]) % 4)
        token = b64decode(encoded, altchars=b"-_", validate=True).decode()
    except ValueError:
        token = ""
    if not token:
        raise SocketTokenError("invalid base64.bearer.authorization token encoding")
    if not any(others):
        raise SocketTokenError("missing additional subprotocol")
    return token, others


def without_token(protocols: str) -> str:
    """Subprotocols of a WebSocket as they are passed on: without the client's token."""
    return ",".join(one for one in protocols.split(",") if not one.strip().startswith(_SOCKET_PREFIX))


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
