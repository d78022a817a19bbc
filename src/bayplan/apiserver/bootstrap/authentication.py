"""Publishing by what clients are known: extension API servers read from a ConfigMap who vouches for clients, and which front proxy may say who asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.aggregation.forwarding import EXTRA_PREFIX, GROUP_HEADER, UID_HEADER, USER_HEADER
from bayplan.apiserver.bootstrap.publishing import change, ensure
from bayplan.apiserver.context import Context

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
CLIENT_CA = "client-ca-file"


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """Who may say in headers who asks: certificates of an authority (PEM), with one of these names; any name if there are none."""

    authority: str
    names: tuple[str, ...]


async def publish_authentication(context: Context, client_ca: str, front_proxy: FrontProxy) -> None:
    """Create or correct it; other keys stay. Raises ApiError."""
    data = {
        CLIENT_CA: client_ca,
        "requestheader-client-ca-file": front_proxy.authority,
        "requestheader-allowed-names": _listed(front_proxy.names),
        "requestheader-username-headers": _listed((USER_HEADER,)),
        "requestheader-uid-headers": _listed((UID_HEADER,)),
        "requestheader-group-headers": _listed((GROUP_HEADER,)),
        "requestheader-extra-headers-prefix": _listed((EXTRA_PREFIX,)),
    }
    metadata = meta_v1.ObjectMeta(name=NAME, namespace=NAMESPACE)
    if not await ensure(context, core_v1.ConfigMap(metadata=metadata, data=data), "v1"):
        await change(context, "v1", "ConfigMap", NAMESPACE, NAME, lambda found: _corrected(found, data))


def _listed(values: tuple[str, ...]) -> str:
    return msgspec.json.encode(values).decode()


def _corrected(found: Any, data: dict[str, str]) -> Any:
    found.data = {**found.data, **data}
    return found
