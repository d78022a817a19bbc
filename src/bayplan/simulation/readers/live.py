"""A copy of a live cluster, as far as one may read it.

Lists come in pages. A kind that may not be listed in the whole cluster is listed namespace by namespace; what remains
forbidden is left out and named. Kinds that the server does not serve are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from bayplan.api.codec import DecodeError, decode
from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.client import Client
from bayplan.simulation.snapshots.older_versions import older_versions
from bayplan.simulation.snapshots.snapshot import (
    COPIED,
    KINDS,
    NEVER_COPIED,
    ClusterSnapshot,
    LeftOut,
    SnapshotError,
    from_tree,
)
from bayplan.simulation.snapshots.thinning import thin, without_managed_fields

PAGE: Final = 500
"""Objects per request, as kubectl asks for."""
_EXPIRED: Final = 410
_TRIES: Final = 3
Progress = Callable[[str, int, int | None], None]
"""Told the kind, the number of its objects so far, and how many there are in all if that is known."""


class _Page(msgspec.Struct):
    metadata: meta_v1.ListMeta
    items: list[msgspec.Raw] | None = None


_page_of = msgspec.json.Decoder(_Page).decode


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def read_live(
    client: Client,
    *,
    taken_at: str,
    include: Iterable[str] = (),
    namespaces: Sequence[str] = (),
    whole: bool = False,
    progress: Progress | None = None,
) -> ClusterSnapshot:
    """Copy a cluster. Raises SnapshotError if nothing of nodes or pods may be read, ApiError, TransportError.

    `include`: further kinds, which are copied whole. `namespaces`: where to look if namespaces may not be listed.
    `whole`: keep all of every object, for answers that are given at once; what is stored is never whole.
    """
    reader = _Reader(client, tuple(namespaces), progress or _silent)
    copy = ClusterSnapshot(taken_at=taken_at, server_version=await _server_version(client))
    copy.source = "live cluster"
    for name in dict.fromkeys((*COPIED, *include)):
        if name in NEVER_COPIED:
            raise SnapshotError(f"{name}: objects of this kind are never copied; leave it out")
        found = await reader.objects(kind_named(name))
        shorten = thin if name in COPIED and not whole else without_managed_fields
        copy.objects[name] = [shorten(obj) for obj in found]
    copy.left_out = reader.left_out
    for one in reader.left_out:
        copy.objects.pop(one.what, None)  # nothing is known of the kind, which is not the same as that there is nothing
    if copy.why_unread("Node") and not copy.of("Pod"):
        raise SnapshotError("neither nodes nor pods may be read with these credentials; ask for get and list on both")
    return copy


def kind_named(name: str) -> Kind:
    """The storage version of a kind of this name, as kubectl would take it: kind, plural, singular or short name. Raises SnapshotError."""
    try:
        return KINDS.storage_kind(KINDS.named(name))
    except KeyError:
        import difflib

        near = difflib.get_close_matches(name, [kind.kind for kind in KINDS], 1)
        raise SnapshotError(f"{name}: no such kind" + (f"; did you mean {near[0]}?" if near else "")) from None


async def _server_version(client: Client) -> str:
    try:
        return msgspec.json.decode(await client.raw("GET", "/version"), type=_Version).git_version
    except (ApiError, msgspec.DecodeError):
        return ""  # /version may be closed to us like anything else; the copy is as good without it


def _silent(kind: str, done: int, of: int | None) -> None:
    """Tell nobody."""


class _Reader:
    """Lists kinds and remembers what could not be read."""

    def __init__(self, client: Client, namespaces: tuple[str, ...], progress: Progress) -> None:
        self.client = client
        self.progress = progress
        self.left_out: list[LeftOut] = []
        self._namespaces = namespaces

    async def objects(self, kind: Kind) -> list[Any]:
        """All objects of a kind that may be read."""
        try:
            found = await self._whole(kind)
        except ApiError as error:
            if error.code != 403:
                raise
            return await self._by_namespace(kind, error)
        if kind.kind == "Namespace":
            self._namespaces = tuple(one.metadata.name for one in found)
        return found

    async def _whole(self, kind: Kind) -> list[Any]:
        """All objects in the version that the server has."""
        for api_version in (kind.api_version, *older_versions(kind)):
            path = f"/apis/{api_version}/{kind.plural}" if kind.group else kind.path()
            try:
                return await self._list(path, kind, api_version)
            except ApiError as error:
                if error.code != 404:
                    raise
        return []

    async def _by_namespace(self, kind: Kind, refusal: ApiError) -> list[Any]:
        found: list[Any] = []
        readable = False
        for namespace in self._namespaces if kind.namespaced else ():
            try:
                found += await self._list(kind.path(namespace), kind, kind.api_version)
                readable = True
            except ApiError as error:
                if error.code not in (403, 404):
                    raise
                self.left_out.append(LeftOut(f"{kind.kind} in namespace {namespace}", error.message))
        if not readable:
            self.left_out = [one for one in self.left_out if not one.what.startswith(f"{kind.kind} in namespace ")]
            self.left_out.append(LeftOut(kind.kind, refusal.message))
        return found

    async def _list(self, path: str, kind: Kind, api_version: str) -> list[Any]:
        """All pages of a list; begun anew if the server has forgotten the revision meanwhile."""
        for attempt in range(_TRIES):
            try:
                return await self._pages(path, kind, api_version)
            except ApiError as error:
                if error.code != _EXPIRED or attempt == _TRIES - 1:
                    raise
        return []

    async def _pages(self, path: str, kind: Kind, api_version: str) -> list[Any]:
        found: list[Any] = []
        query = {"limit": str(PAGE)}
        while True:
            page = _page_of(await self.client.raw("GET", path, query))
            found.extend(_decoded(bytes(item), kind, api_version) for item in page.items or ())
            left = page.metadata.remaining_item_count
            self.progress(kind.kind, len(found), len(found) + left if left is not None else None)
            if not page.metadata.continue_:
                return found
            query = {"limit": str(PAGE), "continue": page.metadata.continue_}


def _decoded(data: bytes, kind: Kind, api_version: str) -> Any:
    try:
        if api_version == kind.api_version:
            return decode(kind.type, data)
        tree = {**msgspec.json.decode(data), "kind": kind.kind, "apiVersion": api_version}
        return from_tree(tree)[1]
    except (DecodeError, msgspec.DecodeError) as error:
        raise SnapshotError(f"{kind.kind}: the server sent what cannot be read: {error}") from error
