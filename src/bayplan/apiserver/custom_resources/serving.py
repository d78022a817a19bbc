"""The table of kinds and the caches follow the definitions whose names are accepted; these are established as soon as they are served.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/controller/establish`.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from bayplan.api.custom_resources.kinds import CustomKind, kinds_of
from bayplan.apiserver.bootstrap.publishing import own_call
from bayplan.apiserver.context import Context
from bayplan.apiserver.custom_resources.conversion import WebhookConverter
from bayplan.apiserver.custom_resources.definitions import (
    ACCEPTED,
    ESTABLISHED,
    NAMES_ACCEPTED,
    Condition,
    Definition,
    DefinitionRule,
    is_true,
    with_conditions,
)
from bayplan.apiserver.custom_resources.mixed_cache import MixedCache
from bayplan.apiserver.verbs.update import modify
from bayplan.support.timestamps import rfc3339


@dataclass(slots=True)
class _Served:
    """What was made of a definition."""

    definition: Definition
    kinds: list[CustomKind]
    stored: CustomKind


class CustomResourceServing(DefinitionRule):
    """Every definition whose names are accepted is served, but for what the server has of its own, and nothing else."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._served: dict[str, _Served] = {}
        self._cache = context.objects.cache(self.kind)
        context.definitions.follow(self._cache)

    async def settle(self) -> None:
        """Begin to serve what is new or has changed; end what is gone. What is served now is established. Raises ApiError."""
        revision = self._cache.revision
        named = {
            one.metadata.name: one
            for one in self.definitions()
            if is_true(one, ESTABLISHED) or is_true(one, NAMES_ACCEPTED)
        }
        wanted = {name: one for name, one in named.items() if not self.is_overlapping(one)}
        for name in self._served.keys() - wanted.keys():
            gone = self._served.pop(name)
            self._take_out(gone)
            self.context.objects.forget(gone.stored)
        for name, definition in wanted.items():
            served = self._served.get(name)
            if served is None or _differs(served.definition, definition):
                await self._serve(name, definition, served)
        self.context.definitions.reached(revision)
        for name, definition in named.items():
            if not is_true(definition, ESTABLISHED):
                call = own_call(self.context, self.kind, "", name)
                await modify(call, self._established, subresource="status", fresh=False)

    def _established(self, definition: Definition) -> Definition:
        status, now = definition.status, rfc3339(self.context.clock.now())
        served = Condition(
            type=ESTABLISHED, status="True", last_transition_time=now, reason="InitialNamesAccepted", message=ACCEPTED
        )
        changed = replace(status, conditions=with_conditions(status.conditions, served))
        return replace(definition, metadata=replace(definition.metadata), status=changed)

    async def _serve(self, name: str, definition: Definition, before: _Served | None) -> None:
        kinds = kinds_of(definition)
        stored = next(kind for kind in kinds if not kind.storage_version)
        if stored.asks_webhook:
            converter = WebhookConverter(self.context, definition)
            await self.context.objects.serve(stored, MixedCache(stored, kinds, converter))
        elif before is None or _is_other(before.stored, stored):
            await self.context.objects.serve(stored)
        else:
            self.context.objects.cache(stored).become(stored)
        if before is not None:
            self._take_out(before)
        own = {(one.group, one.version) for one in self.context.kinds if not one.is_custom}
        for kind in kinds:
            is_free = (kind.group, kind.version) not in own  # nothing is added to versions of the server's own groups
            self.context.kinds.add(kind, is_served=kind.definition.served and is_free)
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
    return old.asks_webhook or (
        (old.storage_prefix, old.version, old.kind, old.definition, old.keeps_unknown_fields)
        != (new.storage_prefix, new.version, new.kind, new.definition, new.keeps_unknown_fields)
    )
