"""Objects, lists and watch events in the form that the client asked for: as they are, as Table, as metadata only; JSON or YAML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.codec import decoder, encode
from bayplan.api.conversion import convert
from bayplan.api.errors import bad_request, failure
from bayplan.api.kinds import Kind
from bayplan.api.printing import printer_for
from bayplan.api.types import meta_v1
from bayplan.apiserver.negotiation import YAML, Form
from bayplan.apiserver.watching import Entry, Event

_METADATA_ONLY = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'


class _MetadataOnly(msgspec.Struct, gc=False):
    metadata: meta_v1.ObjectMeta


_decode_metadata = msgspec.json.Decoder(_MetadataOnly).decode


@dataclass(slots=True)
class Shape:
    """Everything that decides how entries of one request become bytes."""

    kind: Kind
    """The kind that is served."""
    stored: Kind
    """The kind that is kept."""
    form: Form
    include_object: str = "Metadata"
    now: float = 0.0

    def check(self, *, is_list: bool) -> None:
        """Raises ApiError if the form does not go with the request."""
        if self.form.convert_to == "Table" and self.include_object not in ("", "None", "Metadata", "Object"):
            raise bad_request(
                f'Unable to convert to Table as requested: includeObject: Invalid value: "{self.include_object}": '
                "must be 'Metadata', 'Object', 'None', or empty"
            )
        if self.form.convert_to == "PartialObjectMetadataList" and not is_list:
            raise failure(
                406,
                "NotAcceptable",
                f"you requested PartialObjectMetadataList, but the requested object is not a list (*core.{self.kind.kind})",
                details=False,
            )

    def body(self, entry: Entry) -> bytes:
        """The object without kind and apiVersion and the opening brace, in the served version."""
        if self.kind is self.stored:
            return entry.body
        converted = convert(self.decode_stored(entry), self.stored, self.kind)
        converted.kind = converted.api_version = ""
        return encode(converted)[1:]

    def decode_stored(self, entry: Entry) -> Any:
        """The object in the stored version."""
        return (
            decoder(self.stored.type)(b"{" + entry.body)
            if self.stored.type is not None
            else msgspec.json.decode(b"{" + entry.body)
        )

    def decode_served(self, entry: Entry) -> Any:
        """The object in the served version."""
        obj = self.decode_stored(entry)
        return obj if self.kind is self.stored else convert(obj, self.stored, self.kind)

    def one(self, entry: Entry) -> bytes:
        """A single object."""
        if self.form.convert_to == "Table":
            data = self.table([entry], meta_v1.ListMeta(resource_version=str(entry.revision)))
        elif self.form.convert_to:
            data = _METADATA_ONLY + metadata_only(entry)[1:]
        else:
            data = self.kind.type_meta + self.body(entry)
        return to_yaml(data) if self.form.media_type == YAML else data

    def list(self, entries: Sequence[Entry], meta: meta_v1.ListMeta) -> bytes:
        """A list."""
        if self.form.convert_to == "Table":
            data = self.table(entries, meta)
        elif self.form.convert_to:
            items = b",".join(_METADATA_ONLY + metadata_only(entry)[1:] for entry in entries)
            data = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":%b,"items":[%b]}' % (
                encode(meta),
                items,
            )
        else:
            head = (
                f'{{"kind":"{self.kind.list_kind}","apiVersion":"{self.kind.api_version}","metadata":'.encode()
                + encode(meta)
                + b',"items":['
            )
            if self.kind is self.stored:
                bodies: Iterable[bytes] = [entry.body for entry in entries]
            else:
                bodies = [self.body(entry) for entry in entries]
            data = b"%b{%b]}" % (head, b",{".join(bodies)) if entries else head + b"]}"
        return to_yaml(data) if self.form.media_type == YAML else data

    def table(self, entries: Sequence[Entry], meta: meta_v1.ListMeta, *, with_columns: bool = True) -> bytes:
        """A Table of the entries."""
        printer = printer_for(self.kind)
        rows = []
        for entry in entries:
            obj = self.decode_served(entry)
            conditions = printer.conditions(obj)
            shown = b',"conditions":%b' % encode(conditions) if conditions else b""
            rows.append(
                b'{"cells":%b%b,"object":%b}' % (encode(printer.cells(obj, self.now)), shown, self._row_object(entry))
            )
        columns = (
            [
                {
                    "name": one.name,
                    "type": one.type,
                    "format": one.format,
                    "description": one.description,
                    "priority": one.priority,
                }
                for one in printer.columns
            ]
            if with_columns
            else None
        )
        head = b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":%b,"columnDefinitions":%b' % (
            encode(meta),
            encode(columns),
        )
        return head + b',"rows":[' + b",".join(rows) + b"]}"

    def _row_object(self, entry: Entry) -> bytes:
        if self.include_object == "None":
            return b"null"
        if self.include_object == "Object":
            return self.kind.type_meta + self.body(entry)
        return _METADATA_ONLY + metadata_only(entry)[1:]

    def watch_renderer(self) -> WatchRenderer | None:
        """How events of a watch become bytes; None for plain JSON lines of the stored version."""
        return None if self.kind is self.stored and not self.form.convert_to else WatchRenderer(self)


class WatchRenderer:
    """Events in a form other than plain JSON: the first Table event carries the columns, later ones do not."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._first = True

    def __call__(self, event_type: str, entry: Entry, event: Event | None) -> bytes:
        shape = self.shape
        if shape.form.convert_to == "Table":
            data = shape.table(
                [entry], meta_v1.ListMeta(resource_version=str(entry.revision)), with_columns=self._first
            )
            self._first = False
        elif shape.form.convert_to:
            data = _METADATA_ONLY + metadata_only(entry)[1:]
        else:
            data = shape.kind.type_meta + shape.body(entry)
        return b'{"type":"%b","object":%b}\n' % (event_type.encode(), data)


def metadata_only(entry: Entry) -> bytes:
    """`{"metadata":{...}}` of an entry."""
    return encode(_decode_metadata(b"{" + entry.body))


def to_yaml(data: bytes) -> bytes:
    """JSON as YAML."""
    from bayplan.apiserver.yaml import to_yaml as convert_to_yaml  # slow to import, and seldom needed

    return convert_to_yaml(data)
