"""Which custom resources there are, as CustomResourceDefinitions say: rows in a client's table of kinds that come and go with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from bayplan.api.custom_resources.kinds import CustomKind, kinds_of
from bayplan.api.kinds import KindTable
from bayplan.api.types import apiextensions_v1
from bayplan.informers.informer import InformerFactory

Definition = apiextensions_v1.CustomResourceDefinition
Listener = Callable[[CustomKind], None]


@dataclass(frozen=True, slots=True)
class _Follower:
    added: Listener
    removed: Listener


class CustomKinds:
    """Keeps the custom kinds of a factory's client. Each definition counts by one version: the one in which its objects are kept, if that is served."""

    def __init__(self, informers: InformerFactory) -> None:
        self._informers = informers
        self._table: KindTable = informers.client.kinds
        self._rows: dict[str, CustomKind] = {}
        self._followers: list[_Follower] = []
        self.informer = informers.informer(Definition)
        self.informer.on_change(add=self._put, update=lambda _, new: self._put(new), delete=self._remove)

    def follow(self, added: Listener, removed: Listener) -> None:
        """Tell of every kind that there is and will be, and of those that end."""
        for kind in self._rows.values():
            added(kind)
        self._followers.append(_Follower(added, removed))

    def _put(self, definition: Definition) -> None:
        name = definition.metadata.name
        before, now = self._rows.get(name), row_of(definition)
        if now is not None and self._is_built_in(now):
            now = None
        if before is not None and now is not None and _shown(before) == _shown(now):
            return
        if before is not None:
            self._end(name, gone=False)
        if now is None:
            return
        self._rows[name] = now
        self._table.add(now)
        for one in self._followers:
            one.added(now)

    def _is_built_in(self, row: CustomKind) -> bool:
        """Whether the server has this resource, or this version of the group, of its own: then it serves no other."""
        return any(
            not kind.is_custom
            and kind.group == row.group
            and (kind.plural == row.plural or kind.version == row.version)
            for kind in self._table
        )

    def _remove(self, definition: Definition) -> None:
        """Definitions go after their objects."""
        self._end(definition.metadata.name, gone=True)

    def _end(self, name: str, *, gone: bool) -> None:
        kind = self._rows.pop(name, None)
        if kind is None:
            return
        self._informers.drop(kind.type, gone=gone)
        self._table.remove(kind)
        for one in self._followers:
            one.removed(kind)


def row_of(definition: Definition) -> CustomKind | None:
    """The kind by which a definition counts, without a schema: whoever only follows objects takes them as they are. None if it is not served."""
    if not any(one.type == "Established" and one.status == "True" for one in definition.status.conditions):
        return None
    served = [kind for kind in kinds_of(definition) if kind.definition.served]
    kind = next((kind for kind in served if not kind.storage_version), served[0] if served else None)
    return None if kind is None else replaced(kind)


def replaced(kind: CustomKind) -> CustomKind:
    """The row without schema, as one in which objects are also kept: a client does not care."""
    bare = replace(kind.definition, schema=None)
    return CustomKind(
        kind.group,
        kind.version,
        kind.kind,
        kind.plural,
        kind.namespaced,
        kind.short_names,
        kind.categories,
        kind.verbs,
        kind.subresources,
        names=kind.names,
        definition=bare,
    )


def _shown(kind: CustomKind) -> tuple[object, ...]:
    return kind.group, kind.version, kind.kind, kind.plural, kind.namespaced, kind.subresources
