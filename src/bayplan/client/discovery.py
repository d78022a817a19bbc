"""Finding out at the server what a kind is that no table knows."""

from __future__ import annotations

import msgspec

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.errors import ApiError
from bayplan.api.kinds import Subresource
from bayplan.api.types import apiextensions_v1
from bayplan.client.client import Client


class _Resource(msgspec.Struct, rename="camel"):
    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()


class _Resources(msgspec.Struct):
    resources: tuple[_Resource, ...] = ()


async def find_kind(client: Client, api_version: str, kind: str) -> CustomKind | None:
    """The row of a kind that the server serves, and that now is in the client's table; None if it serves no such kind. Raises ApiError."""
    group, slash, version = api_version.partition("/")
    if not slash:
        return None
    try:
        data = await client.raw("GET", f"/apis/{group}/{version}")
    except ApiError as error:
        if error.code != 404:
            raise
        return None
    resources = msgspec.json.decode(data, type=_Resources).resources
    row = next((one for one in resources if one.kind == kind and "/" not in one.name), None)
    if row is None:
        return None
    subresources = tuple(
        Subresource(one.name.partition("/")[2], one.verbs) for one in resources if one.name.startswith(f"{row.name}/")
    )
    names = apiextensions_v1.CustomResourceDefinitionNames(plural=row.name, kind=kind, list_kind=f"{kind}List")
    found = CustomKind(
        group, version, kind, row.name, row.namespaced, verbs=row.verbs, subresources=subresources, names=names
    )
    client.kinds.add(found)
    return found
