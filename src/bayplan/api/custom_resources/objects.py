"""The objects of custom resources: typed metadata, and a JSON tree for everything else."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import msgspec

from bayplan.api.custom_resources import defaulting, embedded, pruning
from bayplan.api.custom_resources.correlation import same
from bayplan.api.custom_resources.metadata import read_metadata
from bayplan.api.custom_resources.numbers import LARGE_EXPONENTS, as_written, settle_numbers
from bayplan.api.schema import Schema
from bayplan.api.types import meta_v1

ANYTHING: Schema = {"type": "object", pruning.PRESERVE: True}
"""The schema of objects about which nothing is known."""


class _Head(msgspec.Struct, rename="camel"):
    """The typed part of every object."""

    kind: str = ""
    api_version: str = ""
    metadata: meta_v1.ObjectMeta = msgspec.field(default_factory=meta_v1.ObjectMeta)


_read_head = msgspec.json.Decoder(_Head).decode
_read_tree = msgspec.json.Decoder(dict[str, Any]).decode


class CustomObject:
    """An object of a custom resource. Each version of each resource has a class of its own, which knows its schema."""

    __slots__ = ("api_version", "content", "has_floats", "is_mixed", "kind", "metadata")

    schema: ClassVar[Schema] = ANYTHING
    row: ClassVar[Any] = None
    """The row of the table of kinds, for classes that are the type of a kind."""
    keeps_unknown_fields: ClassVar[bool] = False
    """Whether nothing is pruned (`preserveUnknownFields` of older definitions)."""
    has_embedded: ClassVar[bool] = False
    """Whether the schema has whole objects inside."""

    def __init__(
        self,
        kind: str = "",
        api_version: str = "",
        metadata: meta_v1.ObjectMeta | None = None,
        content: dict[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.api_version = api_version
        self.metadata = meta_v1.ObjectMeta() if metadata is None else metadata
        self.content: dict[str, Any] = {} if content is None else content
        """All other fields of the object: `spec`, `status`, ..."""
        self.has_floats = False
        """Whether some numbers of `content` may be written otherwise than Go writes them."""
        self.is_mixed = False
        """Whether it came in another version, so that there may be fields that only that one knows (they are checked, and never kept)."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CustomObject)
            and (self.kind, self.api_version, self.metadata) == (other.kind, other.api_version, other.metadata)
            and same(self.content, other.content)
        )

    __hash__ = None  # type: ignore[assignment]  # they change, like all objects

    def __repr__(self) -> str:
        return f"<{self.api_version} {self.kind} {self.metadata.namespace}/{self.metadata.name}>"

    def with_metadata(self, metadata: meta_v1.ObjectMeta) -> Self:
        """The same object with other metadata; the rest is shared."""
        found = type(self)(self.kind, self.api_version, metadata, self.content)
        found.has_floats, found.is_mixed = self.has_floats, self.is_mixed
        return found

    def tree(self) -> dict[str, Any]:
        """The object as JSON shows it; metadata stay typed."""
        head = {"kind": self.kind, "apiVersion": self.api_version}
        content = as_written(self.content) if self.has_floats else self.content
        return {**{key: item for key, item in head.items() if item}, "metadata": self.metadata, **content}

    @classmethod
    def read(cls, data: bytes | str) -> Self:
        """An object from JSON that fits the schema, as the store has it. Raises msgspec.DecodeError."""
        head, content = _read_head(data), _read_tree(data)
        for name in pruning.META_FIELDS:
            content.pop(name, None)
        found = cls(head.kind, head.api_version, head.metadata, content)
        text = data.encode() if isinstance(data, str) else data
        found.has_floats = any(exponent in text for exponent in LARGE_EXPONENTS)
        return found

    @classmethod
    def read_reporting(cls, tree: dict[str, Any]) -> tuple[Self, list[str]]:
        """An object from a tree that somebody sent, which it takes over, and the paths of what was taken out because nobody knows it.

        Raises MetadataError, NumberError.
        """
        metadata, dropped = read_metadata(tree.pop("metadata", None))
        dropped = [f"metadata.{path}" for path in dropped]
        kind, api_version = tree.pop("kind", None) or "", tree.pop("apiVersion", None) or ""
        has_floats = settle_numbers(tree)
        found = cls(kind, api_version, metadata, tree)
        found.has_floats = has_floats
        dropped += found.fit()
        return found, dropped

    def fit(self, *, lenient: bool = False) -> list[str]:
        """Make the object fit its schema: unknown fields and nulls that are not allowed are taken out. Returns the paths of what was unknown.

        Raises MetadataError for malformed metadata of objects inside; lenient: these are taken out, too.
        """
        dropped = []
        if not self.keeps_unknown_fields:
            dropped = sorted(pruning.prune(self.content, self.schema))
            defaulting.drop_nulls(self.content, self.schema)
        if self.has_embedded:
            dropped += sorted(embedded.coerce(self.content, self.schema, lenient=lenient))
        return dropped

    def settle(self) -> None:
        """Take out what only the version knows in which the object came."""
        if self.is_mixed:
            self.fit(lenient=True)
            self.is_mixed = False


def class_of(row: Any, name: str, schema: Schema, *, keeps_unknown_fields: bool) -> type[CustomObject]:
    """The class of the objects of one version, which a row of the table of kinds stands for."""
    members = {
        "__slots__": (),
        "row": row,
        "schema": schema,
        "keeps_unknown_fields": keeps_unknown_fields,
        "has_embedded": embedded.has_embedded(schema),
    }
    return type(name, (CustomObject,), members)
