"""ControllerRevisions: the templates that StatefulSets and DaemonSets had, so that they can go back.

    revisions of an owner -> settle(owner, template, revisions) -> Settled(update, create | renumber)

A template that was there before gets the newest number again instead of a second copy. What `kubectl rollout history` and `undo` read is the patch in `data`.

Source of the behaviour: Kubernetes' `pkg/controller/history`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.codec import from_tree, to_tree
from bayplan.api.errors import ApiError
from bayplan.api.selectors.labels import LabelSelector
from bayplan.api.strategies.base import clone
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.controllers.base import (
    Controller,
    adoption,
    controller_of,
    held_or_free,
    index_by_controller,
    is_still_there,
    owner_reference,
    release,
)
from bayplan.controllers.workloads.deployment_rules import template_hash

HASH_LABEL = "controller.kubernetes.io/hash"
"""Label of a StatefulSet's revision: the hash of its template."""


def data_of(template: core_v1.PodTemplateSpec) -> dict[str, Any]:
    """The patch that brings a template back, in the order of its keys: other controllers look for revisions by their bytes."""
    found: dict[str, Any] = msgspec.json.decode(_patch_to(template))
    return found


def _patch_to(template: core_v1.PodTemplateSpec) -> bytes:
    return _canonical({"spec": {"template": {**to_tree(template), "$patch": "replace"}}})


def template_in(revision: apps_v1.ControllerRevision) -> core_v1.PodTemplateSpec:
    """The template that a revision holds. Raises DecodeError."""
    tree = dict(revision.data["spec"]["template"])
    tree.pop("$patch", None)
    found: core_v1.PodTemplateSpec = from_tree(core_v1.PodTemplateSpec, tree)
    return found


def in_order(revisions: Iterable[apps_v1.ControllerRevision]) -> list[apps_v1.ControllerRevision]:
    """Revisions from the oldest to the newest."""
    return sorted(revisions, key=lambda one: (one.revision, one.metadata.creation_timestamp or "", one.metadata.name))


@dataclass(frozen=True, slots=True)
class Settled:
    """Which revision a template is."""

    update: apps_v1.ControllerRevision
    create: bool = False
    """The revision is new."""
    renumber: bool = False
    """The revision is an old one that becomes the newest."""


def settle(
    owner: Any,
    reference: meta_v1.OwnerReference,
    labels: dict[str, str],
    revisions: Sequence[apps_v1.ControllerRevision],
    collisions: int | None,
    hash_label: str = HASH_LABEL,
) -> Settled:
    """The revision of the owner's template among those that there are, or a new one. `revisions` are in order."""
    number = revisions[-1].revision + 1 if revisions else 1
    wanted = _patch_to(owner.spec.template)
    for one in reversed(revisions):
        if _canonical(one.data) != wanted:
            continue
        if one is revisions[-1]:
            return Settled(one)
        renumbered: apps_v1.ControllerRevision = clone(one)
        renumbered.revision = number
        return Settled(renumbered, renumber=True)
    digest = template_hash(owner.spec.template, collisions)
    metadata = owner.metadata
    new = apps_v1.ControllerRevision(
        metadata=meta_v1.ObjectMeta(
            name=f"{metadata.name}-{digest}",
            namespace=metadata.namespace,
            labels={**labels, hash_label: digest},
            annotations=dict(metadata.annotations),
            owner_references=(reference,),
        ),
        data=msgspec.json.decode(wanted),
        revision=number,
    )
    return Settled(new, create=True)


def _canonical(data: Any) -> bytes:
    return msgspec.json.encode(data, order="deterministic")


def twins_of(
    revision: apps_v1.ControllerRevision, revisions: Iterable[apps_v1.ControllerRevision]
) -> list[apps_v1.ControllerRevision]:
    """Other revisions with the same template."""
    data = _canonical(revision.data)
    return [one for one in revisions if one.metadata.name != revision.metadata.name and _canonical(one.data) == data]


def outdated(
    revisions: Sequence[apps_v1.ControllerRevision], live: Container[str], limit: int | None
) -> list[apps_v1.ControllerRevision]:
    """The oldest revisions beyond the history limit. `live`: names of those in use, which do not count."""
    history = [one for one in revisions if one.metadata.name not in live]
    return history[: max(len(history) - (10 if limit is None else limit), 0)]


class RevisionKeeper:
    """Reads and writes the revisions of the owners of one controller."""

    def __init__(self, controller: Controller, api_version: str, kind: str, hash_label: str = HASH_LABEL) -> None:
        self._client, self._hash_label = controller.client, hash_label
        self._api_version, self._kind = api_version, kind
        self.revisions = controller.informer(apps_v1.ControllerRevision)
        index_by_controller(self.revisions)

    async def of(self, owner: Any, selector: LabelSelector) -> list[apps_v1.ControllerRevision]:
        """The owner's revisions in order. Orphans that match are adopted, those that do not match any more are let go."""
        reference = owner_reference(self._api_version, self._kind, owner)
        found = []
        for one in held_or_free(self.revisions, owner):
            holder, matches = controller_of(one), selector.matches(one.metadata.labels)
            if holder is not None and holder.uid == owner.metadata.uid:
                if matches or owner.metadata.deletion_timestamp:
                    found.append(one)
                else:
                    await self._patch(one, release(owner, one))
            elif (
                holder is None
                and matches
                and not (owner.metadata.deletion_timestamp or one.metadata.deletion_timestamp)
            ):
                if not await is_still_there(self._client, owner):
                    raise RuntimeError(f"the cache is behind: the {self._kind} is gone or about to go")
                await self._patch(one, adoption(reference, one))
                found.append(one)
        return in_order(found)

    async def _patch(self, one: apps_v1.ControllerRevision, patch: dict[str, Any]) -> None:
        try:
            await self._client.patch(
                apps_v1.ControllerRevision,
                one.metadata.name,
                one.metadata.namespace,
                patch,
                patch_type=STRATEGIC_PATCH,
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def settle(
        self,
        owner: Any,
        labels: dict[str, str],
        revisions: Sequence[apps_v1.ControllerRevision],
        collisions: int | None,
    ) -> tuple[apps_v1.ControllerRevision, int | None]:
        """The revision of the owner's template, written if it is new; and the count of hash collisions."""
        reference = owner_reference(self._api_version, self._kind, owner)
        while True:
            settled = settle(owner, reference, labels, revisions, collisions, self._hash_label)
            if settled.renumber:
                return await self._client.update(settled.update), collisions
            if not settled.create:
                return settled.update, collisions
            try:
                return await self._client.create(settled.update), collisions
            except ApiError as error:
                if error.code != 409:
                    raise
            name, namespace = settled.update.metadata.name, settled.update.metadata.namespace
            there = await self._client.get(apps_v1.ControllerRevision, name, namespace)
            if _canonical(there.data) == _canonical(settled.update.data) and controller_of(there) == reference:
                return there, collisions
            collisions = (collisions or 0) + 1

    async def forget(self, revisions: Iterable[apps_v1.ControllerRevision]) -> None:
        """Delete revisions."""
        for one in revisions:
            try:
                await self._client.delete(
                    apps_v1.ControllerRevision, one.metadata.name, one.metadata.namespace, uid=one.metadata.uid
                )
            except ApiError as error:
                if error.code not in (404, 409):
                    raise
