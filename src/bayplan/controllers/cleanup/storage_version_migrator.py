"""StorageVersionMigrations: every object of a resource is written again, so that all are kept in the version in which the server keeps them now.

    oldest migration of a resource ─▶ MigrationRunning ─▶ status.resourceVersion ─▶ an empty apply to every object ─▶ MigrationSucceeded or MigrationFailed

Of one resource one migration runs at a time. Objects that somebody changed or deleted meanwhile need nothing: they were written since.

The kind is of a beta version, which servers do not have unless they are told to (`--runtime-config=storagemigration.k8s.io/v1beta1=true`); without it nothing runs.
Source of the behaviour: kube-controller-manager's migration-runner, resource-version and storage-version-migrator controllers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.optional_kinds import STORAGE_VERSION_MIGRATION
from bayplan.api.types import meta_v1, storagemigration_v1beta1
from bayplan.client.client import APPLY_PATCH
from bayplan.controllers.base import condition_of, with_condition
from bayplan.controllers.optional_kinds import OptionalController
from bayplan.informers import InformerFactory
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)
Migration = storagemigration_v1beta1.StorageVersionMigration

RUNNING, SUCCEEDED, FAILED = "MigrationRunning", "MigrationSucceeded", "MigrationFailed"
_PAGE = 500


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[_Item] | None = None


def is_over(migration: Migration) -> bool:
    """Whether a migration has ended, well or not."""
    return any(one.type in (SUCCEEDED, FAILED) and one.status == "True" for one in migration.status.conditions)


def is_running(migration: Migration) -> bool:
    """Whether a migration has its turn."""
    condition = condition_of(migration.status.conditions, RUNNING)
    return condition is not None and condition.status == "True"


def next_migration(migrations: Iterable[Migration]) -> Migration | None:
    """Of the migrations of one resource the one that runs, or the oldest; None if all are over."""
    waiting = [one for one in migrations if not is_over(one)]
    waiting.sort(key=lambda one: (not is_running(one), one.metadata.creation_timestamp or "", one.metadata.name))
    return waiting[0] if waiting else None


def resource_of(migration: Migration) -> str:
    """`deployments.apps`, `pods`."""
    resource = migration.spec.resource
    return f"{resource.resource}.{resource.group}" if resource.group else resource.resource


class StorageVersionMigratorController(OptionalController):
    """See the module. Keys are resources."""

    name = "storage-version-migrator-controller"
    workers = 2
    kinds = (STORAGE_VERSION_MIGRATION,)

    def begin(self, informers: InformerFactory) -> None:
        self._migrations = informers.informer(Migration)
        self._migrations.on_change(
            add=lambda one: self.queue.add(resource_of(one)),
            update=lambda old, new: self.queue.add(resource_of(new)),
            delete=lambda one: self.queue.add(resource_of(one)),
        )

    async def reconcile(self, key: str) -> None:
        mine = [one for one in self._migrations.cache if resource_of(one) == key]
        for one in mine:
            if is_over(one) and condition_of(one.status.conditions, RUNNING) is not None:
                kept = tuple(each for each in one.status.conditions if each.type != RUNNING)
                await self._write(one, msgspec.structs.replace(one.status, conditions=kept))
        current = next_migration(mine)
        if current is None:
            return
        if not is_running(current):
            await self._set(current, RUNNING, "MigrationRunning", "The migration is running")
            return  # the event of this write brings the key back
        kind = self._kind(current)
        if kind is None:
            text = f"resource not found: no version of {key} is served"
            await self._set(current, FAILED, "StorageVersionMigrationFailed", text)
            return
        if not current.status.resource_version:
            page = await self._page(kind, "", 1)
            version = page.metadata.resource_version
            await self._write(current, msgspec.structs.replace(current.status, resource_version=version))
            return
        await self._migrate(current, kind)

    def _kind(self, migration: Migration) -> Kind | None:
        """The preferred version of the resource."""
        resource = migration.spec.resource
        found = (one for one in self.client.kinds if one.group == resource.group and one.plural == resource.resource)
        return next((one for one in found if one.is_stored and "patch" in one.verbs), None)

    async def _page(self, kind: Kind, continue_: str, limit: int) -> _List:
        query = {"limit": str(limit)} | ({"continue": continue_} if continue_ else {})
        return msgspec.json.decode(await self.client.raw("GET", kind.path(), query), type=_List)

    async def _migrate(self, migration: Migration, kind: Kind) -> None:
        continue_ = ""
        try:
            while True:
                page = await self._page(kind, continue_, _PAGE)
                for item in page.items or ():
                    await self._touch(kind, item.metadata)
                continue_ = page.metadata.continue_
                if not continue_:
                    break
        except ApiError as error:
            if error.code == 410:  # the list is too old to be continued: from the start, what was written counts
                raise
            text = f"migration encountered unhandled error: {error.message}"
            await self._set(migration, FAILED, "StorageVersionMigrationFailed", text)
            return
        await self._set(migration, SUCCEEDED, "StorageVersionMigrationSucceeded", "The migration has succeeded")

    async def _touch(self, kind: Kind, metadata: _Metadata) -> None:
        """Write an object again as it is, if it is still that one in that version. Raises ApiError, ClientError."""
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        }
        path = kind.path(metadata.namespace, metadata.name)
        try:
            await self.client.raw("PATCH", path, {"fieldManager": self.name}, msgspec.json.encode(body), APPLY_PATCH)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def _set(self, migration: Migration, condition: str, reason: str, message: str) -> None:
        """Add a condition that is true."""
        new = meta_v1.Condition(
            type=condition,
            status="True",
            reason=reason,
            message=message,
            last_transition_time=rfc3339(self.clock.now()),
        )
        conditions = with_condition(migration.status.conditions, new)
        await self._write(migration, msgspec.structs.replace(migration.status, conditions=conditions))

    async def _write(
        self, migration: Migration, status: storagemigration_v1beta1.StorageVersionMigrationStatus
    ) -> None:
        try:
            await self.client.update_status(msgspec.structs.replace(migration, status=status))
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            self.queue.add_rate_limited(resource_of(migration))
