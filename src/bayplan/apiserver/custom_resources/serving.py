"""The table of kinds and the caches follow the definitions that are established."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.api.custom_resources.kinds import CustomKind, kinds_of
from bayplan.apiserver.context import Context
from bayplan.apiserver.custom_resources.definitions import ESTABLISHED, Definition, DefinitionRule, is_true


@dataclass(slots=True)
class _Served:
    """What was made of a definition."""

    definition: Definition
    kinds: list[CustomKind]
    stored: CustomKind


class CustomResourceServing(DefinitionRule):
    """Every established definition is served, and nothing else."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._served: dict[str, _Served] = {}

    async def settle(self) -> None:
        """Begin to serve what is new or has changed; end what is gone. Raises ApiError if the store cannot be read."""
        wanted = {one.metadata.name: one for one in self.definitions() if is_true(one, ESTABLISHED)}
        for name in self._served.keys() - wanted.keys():
            gone = self._served.pop(name)
            self._take_out(gone)
            self.context.objects.forget(gone.stored)
        for name, definition in wanted.items():
            served = self._served.get(name)
            if served is None or _differs(served.definition, definition):
                await self._serve(name, definition, served)

    async def _serve(self, name: str, definition: Definition, before: _Served | None) -> None:
        kinds = kinds_of(definition)
        stored = next(kind for kind in kinds if not kind.storage_version)
        if before is None or _is_other(before.stored, stored):
            await self.context.objects.serve(stored)
        else:
            self.context.objects.cache(stored).become(stored)
        if before is not None:
            self._take_out(before)
        for kind in kinds:
            self.context.kinds.add(kind, is_served=kind.definition.served)
        self._served[name] = _Served(definition, kinds, stored)

    def _take_out(self, served: _Served) -> None:
        for kind in served.kinds:
            self.context.kinds.remove(kind)


def _differs(old: Definition, new: Definition) -> bool:
    """Whether something changed that is served differently."""
    return (
        old.spec != new.spec
        or old.status.accepted_names != new.status.accepted_names
        or (old.metadata.deletion_timestamp is None) != (new.metadata.deletion_timestamp is None)
        or old.metadata.uid != new.metadata.uid
    )


def _is_other(old: CustomKind, new: CustomKind) -> bool:
    """Whether objects have to be looked at anew: their version or schema is another."""
    return (old.storage_prefix, old.version, old.kind, old.definition, old.keeps_unknown_fields) != (
        new.storage_prefix,
        new.version,
        new.kind,
        new.definition,
        new.keeps_unknown_fields,
    )
