"""Rows of the table of kinds that a CustomResourceDefinition stands for."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from bayplan.api.codec import decoder, encode, to_tree
from bayplan.api.custom_resources.objects import ANYTHING, CustomObject, class_of
from bayplan.api.kinds import SCALE, STATUS, Kind, version_priority
from bayplan.api.schema import Schema
from bayplan.api.types import apiextensions_v1, meta_v1

if TYPE_CHECKING:
    from bayplan.api.custom_resources.strategy import CustomStrategy
    from bayplan.api.printing.base import Printer

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which discovery gives them for custom resources."""


@dataclass(frozen=True, eq=False)
class CustomKind(Kind):
    """One version of a custom resource."""

    names: apiextensions_v1.CustomResourceDefinitionNames = field(
        default_factory=apiextensions_v1.CustomResourceDefinitionNames
    )
    definition: apiextensions_v1.CustomResourceDefinitionVersion = field(
        default_factory=apiextensions_v1.CustomResourceDefinitionVersion
    )
    keeps_unknown_fields: bool = False
    webhook: apiextensions_v1.WebhookConversion | None = None
    """What converts objects between the versions; None if only the version's name differs, or if there is but one."""

    indexed: tuple[str, ...] = ()
    """JSON paths by which objects can be selected in any of the versions."""
    replacement: str = ""
    """The best served version that is not deprecated, if clients prefer it to this one."""

    is_terminating: bool = False
    """Whether the definition is being deleted, so that nothing new may come."""

    is_custom: ClassVar[bool] = True

    @property
    def singular(self) -> str:
        """The singular name."""
        return self.names.singular

    @property
    def list_kind(self) -> str:
        """Kind of a list of these objects."""
        return self.names.list_kind

    @functools.cached_property
    def schema(self) -> Schema:
        """What objects look like; anything goes without a schema."""
        validation = self.definition.schema
        if validation is None or validation.open_apiv3_schema is None:
            return ANYTHING
        tree: Schema = to_tree(validation.open_apiv3_schema)
        return tree

    @functools.cached_property
    def type(self) -> type[CustomObject]:
        """The class of the objects."""
        return class_of(self, self.kind, self.schema, keeps_unknown_fields=self.keeps_unknown_fields)

    @functools.cached_property
    def strategy(self) -> CustomStrategy:
        """The rules."""
        from bayplan.api.custom_resources.strategy import CustomStrategy, Subresources

        given = self.definition.subresources
        subresources = Subresources() if given is None else Subresources(given.status is not None, given.scale)
        selectable = {one.json_path.removeprefix("."): one.json_path for one in self.definition.selectable_fields}
        indexed = {path.removeprefix("."): path for path in self.indexed}
        return CustomStrategy(
            self.api_version,
            self.kind,
            self.schema,
            subresources,
            selectable,
            indexed,
            prunes=not self.keeps_unknown_fields,
        )

    @property
    def scale(self) -> apiextensions_v1.CustomResourceSubresourceScale | None:
        """Where the replicas are, None for resources without them."""
        given = self.definition.subresources
        return None if given is None else given.scale

    @functools.cached_property
    def printer(self) -> Printer:
        """The columns."""
        from bayplan.api.custom_resources.printing import printer_of

        return printer_of(self.definition.additional_printer_columns)

    def converted(self, obj: CustomObject) -> CustomObject:
        """An object of another version as one of this one; the original stays as it is.

        Nothing but the name of the version is converted, which is what the strategy `None` does. What this version does not know goes, but
        not on the way to the store: there it goes when the object has been checked in the version in which it came.
        """
        found = self.type("", "", decoder(meta_v1.ObjectMeta)(encode(obj.metadata)), copy.deepcopy(obj.content))
        if self.storage_version:
            found.fit(lenient=True)
        else:
            found.is_mixed = True
        return found

    def renewed(self, obj: CustomObject) -> CustomObject:
        """An object that may have been kept in another version, or under an older schema, as one of this one; the original stays as it is."""
        found = self.converted(obj)
        found.settle()
        self.strategy.default(found)
        return found


def kinds_of(crd: apiextensions_v1.CustomResourceDefinition) -> list[CustomKind]:
    """One row per version, in the order in which clients prefer them; also of those that are not served."""
    names = crd.status.accepted_names
    stored = next((one.name for one in crd.spec.versions if one.storage), "")
    versions = sorted(crd.spec.versions, key=lambda one: version_priority(one.name))
    best = next((one.name for one in versions if one.served and not one.deprecated), "")
    conversion = crd.spec.conversion
    asks = conversion is not None and conversion.strategy == "Webhook" and len(versions) > 1
    indexed = tuple(dict.fromkeys(field.json_path for one in versions for field in one.selectable_fields))
    return [
        CustomKind(
            crd.spec.group,
            one.name,
            names.kind,
            names.plural,
            crd.spec.scope == "Namespaced",
            names.short_names,
            names.categories,
            VERBS,
            _subresources(one),
            storage_version="" if one.name == stored else stored,
            names=names,
            definition=one,
            keeps_unknown_fields=crd.spec.preserve_unknown_fields,
            asks_webhook=asks,
            webhook=conversion.webhook if conversion is not None and asks else None,
            indexed=indexed,
            replacement=best if best and version_priority(best) < version_priority(one.name) else "",
            is_terminating=crd.metadata.deletion_timestamp is not None,
        )
        for one in versions
    ]


def _subresources(version: apiextensions_v1.CustomResourceDefinitionVersion) -> tuple[Any, ...]:
    given = version.subresources
    if given is None:
        return ()
    return (*((STATUS,) if given.status is not None else ()), *((SCALE,) if given.scale is not None else ()))
