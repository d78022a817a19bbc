"""Publishing by what clients are known: extension API servers read the authority of client certificates from a ConfigMap."""

from __future__ import annotations

from typing import Any

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.bootstrap.publishing import change, ensure
from bayplan.apiserver.context import Context

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
CLIENT_CA = "client-ca-file"


async def publish_authentication(context: Context, client_ca: str) -> None:
    """Create or correct it; other keys stay. Raises ApiError."""
    metadata = meta_v1.ObjectMeta(name=NAME, namespace=NAMESPACE)
    if not await ensure(context, core_v1.ConfigMap(metadata=metadata, data={CLIENT_CA: client_ca}), "v1"):
        await change(context, "v1", "ConfigMap", NAMESPACE, NAME, lambda found: _corrected(found, client_ca))


def _corrected(found: Any, client_ca: str) -> Any:
    found.data = {**found.data, CLIENT_CA: client_ca}
    return found
