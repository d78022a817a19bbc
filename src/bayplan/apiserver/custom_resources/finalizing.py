"""The end of a definition: its objects go first.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/controller/finalizer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from bayplan.api.custom_resources.kinds import kinds_of
from bayplan.api.errors import ApiError, failure
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.apiserver.bootstrap.publishing import own_call
from bayplan.apiserver.custom_resources.definitions import (
    CLEANUP,
    ESTABLISHED,
    TERMINATING,
    Condition,
    Definition,
    DefinitionRule,
    condition,
    is_true,
    with_conditions,
)
from bayplan.apiserver.custom_resources.mixed_cache import mixed
from bayplan.apiserver.managed_fields.managers import SERVER
from bayplan.apiserver.reads.watching import Selection
from bayplan.apiserver.verbs.delete import delete_entry
from bayplan.apiserver.verbs.update import modify
from bayplan.support.timestamps import rfc3339

_REASON, _FAILED = "InstanceDeletionInProgress", "InstanceDeletionFailed"


class CustomResourceFinalizer(DefinitionRule):
    """Definitions that are deleted delete their objects and wait for the last to go."""

    def inputs(self) -> Sequence[tuple[Kind, Selection | None]]:
        """The definitions, and the objects of those that are ending."""
        stored = (self._stored(one) for one in self._ending())
        return ((self.kind, None), *((kind, None) for kind in stored if kind is not None))

    def _ending(self) -> list[Definition]:
        return [
            one
            for one in self.definitions()
            if one.metadata.deletion_timestamp is not None and CLEANUP in one.metadata.finalizers
        ]

    def _stored(self, definition: Definition) -> Kind | None:
        """The kind in whose version its objects are kept, None if it never was established or its objects are the server's own."""
        if not is_true(definition, ESTABLISHED) or self.is_overlapping(definition):
            return None
        for kind in kinds_of(definition):
            try:
                return self.context.kinds.storage_kind(kind)
            except KeyError:
                break
        return None

    async def settle(self) -> None:
        """Delete what is left; let go of definitions without objects. Raises ApiError if that failed for one of them: the others go nevertheless."""
        failed: ApiError | None = None
        for definition in self._ending():
            kind = self._stored(definition)
            found = condition(definition, TERMINATING)
            if found is None or found.reason not in (_REASON, _FAILED):
                message = "CustomResource deletion is in progress"
                await self._write(definition, _terminating(self._now(), "True", _REASON, message))
            try:
                left = kind is not None and await self._objects_left(kind)
            except ApiError as error:
                failed = error
                if found is None or found.message != error.message:
                    await self._write(definition, _terminating(self._now(), "True", _FAILED, error.message))
                continue
            if left:
                continue
            reason, message = "InstanceDeletionCompleted", "removed all instances"
            if self.is_overlapping(definition):
                reason, message = "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"
            elif not is_true(definition, ESTABLISHED):
                reason, message = "NeverEstablished", "resource was never established"
            done = _terminating(self._now(), "False", reason, message)
            await self._write(definition, done, let_go=True)
        if failed is not None:
            raise failed

    def _now(self) -> str:
        return rfc3339(self.context.clock.now())

    async def _objects_left(self, kind: Kind) -> bool:
        """Delete all objects; whether some wait for their finalizers. Raises ApiError."""
        cache = self.context.objects.cache(kind)
        entries = [entry for entry in cache.all() if b'"deletionTimestamp"' not in entry.body]
        if kind.asks_webhook:
            try:
                entries = await mixed(cache).in_version(kind, entries)
            except ApiError as error:
                raise failure(500, "", f"could not list instances: {error.message}", details=False) from error
        for entry in entries:
            call = own_call(self.context, kind, entry.namespace, entry.name)
            try:
                await delete_entry(call, entry, meta_v1.DeleteOptions())
            except ApiError as error:
                if error.reason != "NotFound":
                    raise
        return cache.count > 0

    async def _write(self, definition: Definition, wanted: Condition, *, let_go: bool = False) -> None:
        call = own_call(self.context, self.kind, "", definition.metadata.name)
        await modify(call, partial(_changed, wanted, let_go=let_go), plain=True, fresh=False, manager=SERVER)


def _terminating(now: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=TERMINATING, status=status, last_transition_time=now, reason=reason, message=message)


def _changed(wanted: Condition, definition: Definition, *, let_go: bool) -> Definition:
    """The definition with a condition, and without the finalizer if it may go."""
    metadata = replace(definition.metadata)
    if let_go:
        metadata.finalizers = tuple(one for one in metadata.finalizers if one != CLEANUP)
    conditions = with_conditions(definition.status.conditions, replace(wanted))
    return replace(definition, metadata=metadata, status=replace(definition.status, conditions=conditions))
