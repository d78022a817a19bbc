"""Objects that stages apply: of any kind, in the namespace of the object that the stage is played for unless they name another.

Source of the behaviour: kwok's lifecycle package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.codec import encode
from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.client import Client
from bayplan.client.client import APPLY_PATCH
from bayplan.client.discovery import find_kind
from bayplan.kubelet.simulator.errors import StageError

_FIELD_MANAGER = "kwok"


async def apply(client: Client, obj: dict[str, Any], namespace: str, *, content_type: str, subresource: str) -> None:
    """Create an object, or patch it if it is there; with a subresource, patch that. Raises StageError, ApiError, TransportError."""
    kind = await _kind_of(client, obj)
    metadata = obj["metadata"]
    if kind.namespaced:
        namespace = metadata.get("namespace") or namespace
        if not namespace:
            raise StageError(f"{kind.kind} {metadata.get('name', '')}: which namespace?")
        obj = {**obj, "metadata": {**metadata, "namespace": namespace}}
    else:
        namespace = ""
    name = str(metadata.get("name") or "")
    if not subresource:
        try:
            await client.raw("POST", kind.path(namespace), body=encode(obj))
            return
        except ApiError as error:
            if error.reason != "AlreadyExists" or not name:
                raise
    elif not name:
        raise StageError(f"{kind.kind}: a subresource is applied to an object with a name")
    query: Mapping[str, str] = {"fieldManager": _FIELD_MANAGER, "force": "true"} if content_type == APPLY_PATCH else {}
    await client.raw("PATCH", kind.path(namespace, name, subresource), query, encode(obj), content_type)


async def _kind_of(client: Client, obj: Mapping[str, Any]) -> Kind:
    api_version, kind = str(obj["apiVersion"]), str(obj["kind"])
    found = client.kinds.of_kind(api_version, kind) or await find_kind(client, api_version, kind)
    if found is None:
        raise StageError(f"the server has no {kind} in {api_version}")
    return found
