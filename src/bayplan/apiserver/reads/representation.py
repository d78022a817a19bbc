"""Objects, lists and watch events in the form that the client asked for: as they are, as Table, as metadata only; JSON, YAML or protobuf."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api import protobuf
from bayplan.api.codec import decoder, encode, with_null_lists
from bayplan.api.conversions.kinds import convert
from bayplan.api.errors import ApiError, bad_request, failure
from bayplan.api.kinds import METRICS_GROUP, Kind
from bayplan.api.printing import printer_for
from bayplan.api.printing.base import Column, Printer, default_printer
from bayplan.api.protobuf.metrics import metrics_message
from bayplan.api.types import meta_v1
from bayplan.apiserver.reads.bookmarks import empty_object
from bayplan.apiserver.reads.negotiation import META_VERSIONS, PLAIN, PROTOBUF, YAML, Form
from bayplan.apiserver.reads.pieces import JsonList
from bayplan.apiserver.reads.watching import ERROR, Entry, Event
from bayplan.apiserver.requests import Response

_METADATA_ONLY = {
    version: b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%b",' % version.encode()
    for version in META_VERSIONS
}
_ADDED_BY_CONVERSION = {"DaemonSet": "deprecated.daemonset.template.generation"}
"""Annotations that stand for a field which a served version does not have: the object shows them, its metadata alone does not."""
_LONG = 1 << 20
"""Bytes from which on a list is sent in pieces."""
_STEP = 250
"""Entries that are worked on in one go: some ten milliseconds."""


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
            if self.kind.is_custom:
                raise failure(500, "", "content is not a list", details=False)
            raise no_list(self._go_type(self.kind.kind))

    def _go_type(self, name: str) -> str:
        """The name of the internal type of an object, or of a list of them."""
        if self.kind.is_custom:
            return "*unstructured.UnstructuredList" if name.endswith("List") else "*unstructured.Unstructured"
        group = "core" if self.kind.group == "events.k8s.io" else self.kind.group.partition(".")[0] or "core"
        return f"*{group}.{name}"

    def body(self, entry: Entry) -> bytes:
        """The object without kind and apiVersion and the opening brace, in the served version."""
        if self.kind is self.stored:
            return entry.body
        converted = convert(self.decode_stored(entry), self.stored, self.kind)
        converted.kind = converted.api_version = ""
        data = encode(converted)[1:]
        return data if self.kind.is_custom else with_null_lists(self.kind.kind, data)

    def metadata(self, entry: Entry) -> bytes:
        """`"metadata":{...}}` of an entry."""
        return encode(metadata_of(self.stored, entry))[1:]

    def decode_stored(self, entry: Entry) -> Any:
        """The object in the stored version."""
        if self.stored.type is None:  # figures
            return msgspec.json.decode(b"{" + entry.body)
        if not entry.name and not self.stored.is_custom:  # a bookmark, in which lists that have to be there are null
            obj = empty_object(self.stored)
            obj.metadata = _decode_metadata(b"{" + entry.body).metadata
            return obj
        return decoder(self.stored.type)(b"{" + entry.body)

    def decode_served(self, entry: Entry) -> Any:
        """The object in the served version."""
        obj = self.decode_stored(entry)
        return obj if self.kind is self.stored else convert(obj, self.stored, self.kind)

    def one(self, entry: Entry) -> bytes:
        """A single object."""
        if self.form.media_type == PROTOBUF:
            return self.enveloped(entry)
        if self.form.convert_to == "Table":
            data = self.table([entry], meta_v1.ListMeta(resource_version=str(entry.revision or "")))
        elif self.form.convert_to:
            data = _METADATA_ONLY[self.form.version] + self.metadata(entry)
        else:
            data = self.kind.type_meta + self.body(entry)
        return to_yaml(data) if self.form.media_type == YAML else data

    async def list(self, entries: Sequence[Entry], meta: meta_v1.ListMeta, warnings: Sequence[str] = ()) -> Response:
        """An answer with a list. Raises ApiError (406)."""
        if self.form.convert_to == "PartialObjectMetadata":
            kind = self._go_type(self.kind.list_kind)
            text = f"you requested PartialObjectMetadata, but the requested object is a list ({kind})"
            raise failure(406, "NotAcceptable", text, details=False)
        if self.form is PLAIN:
            bodies = (
                [entry.body for entry in entries]
                if self.kind is self.stored and not self.kind.is_custom
                else await in_steps(entries, self._item)
            )
            head = self._list_head(meta)
            if not bodies:
                return Response(200, head + b"]}", warnings=warnings)
            whole = JsonList(head, bodies)
            if whole.size >= _LONG:
                return Response(200, warnings=warnings, long_list=whole)
            return Response(200, whole.whole(), warnings=warnings)
        return Response(200, await self._list_body(entries, meta), self.form.media_type, warnings=warnings)

    def _list_head(self, meta: meta_v1.ListMeta) -> bytes:
        head = f'{{"kind":"{self.kind.list_kind}","apiVersion":"{self.kind.api_version}","metadata":'
        shown = encode(meta)
        if self.kind.is_custom and not meta.continue_:
            shown = b'{"continue":""%b%b' % (b"," if shown != b"{}" else b"", shown[1:])
        return b'%b%b,"items":[' % (head.encode(), shown)

    def _item(self, entry: Entry) -> bytes:
        """An object in a list, without the opening brace; those of custom resources say there, too, what they are."""
        return self.kind.type_meta[1:] + self.body(entry) if self.kind.is_custom else self.body(entry)

    async def _list_body(self, entries: Sequence[Entry], meta: meta_v1.ListMeta) -> bytes:
        """A list in one of the less usual forms; others get their turn while a long one is made."""
        if self.form.media_type == PROTOBUF:
            return await self._protobuf_list(entries, meta)
        if self.form.convert_to == "Table":
            data = await self._long_table(entries, meta)
        elif self.form.convert_to:
            items = await in_steps(entries, self.metadata)
            data = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%b","metadata":%b,"items":%b}' % (
                self.form.version.encode(),
                encode(meta),
                b"[%b]" % b",".join([_METADATA_ONLY[self.form.version] + item for item in items]) if items else b"null",
            )
        else:
            bodies = await in_steps(entries, self._item)
            data = JsonList(self._list_head(meta), bodies).whole() if bodies else self._list_head(meta) + b"]}"
        return to_yaml(data) if self.form.media_type == YAML else data

    async def _long_table(self, entries: Sequence[Entry], meta: meta_v1.ListMeta) -> bytes:
        printer = printer_for(self.kind)
        order = printer.order
        if order is not None:
            entries = sorted(entries, key=lambda entry: order(self.decode_served(entry)))
        rows = await in_steps(entries, self._row(printer))
        return self._whole_table(rows, meta)

    def message(self, entry: Entry) -> bytes:
        """The protobuf message of an object, whole or metadata only."""
        if self.form.convert_to:
            return protobuf.metadata_message(metadata_of(self.stored, entry).metadata)
        if self.kind.group == METRICS_GROUP:
            return metrics_message(self.decode_served(entry))
        return protobuf.message_of(self.decode_served(entry))

    def enveloped(self, entry: Entry) -> bytes:
        """The protobuf body of a single object."""
        api_version, kind = (
            (f"meta.k8s.io/{self.form.version}", "PartialObjectMetadata")
            if self.form.convert_to
            else (self.kind.api_version, self.kind.kind)
        )
        return protobuf.envelope(api_version, kind, self.message(entry))

    async def _protobuf_list(self, entries: Sequence[Entry], meta: meta_v1.ListMeta) -> bytes:
        message = protobuf.list_message(meta, await in_steps(entries, self.message))
        if self.form.convert_to:
            return protobuf.envelope(f"meta.k8s.io/{self.form.version}", "PartialObjectMetadataList", message)
        return protobuf.envelope(self.kind.api_version, self.kind.list_kind, message)

    def table(self, entries: Sequence[Entry], meta: meta_v1.ListMeta, *, with_columns: bool = True) -> bytes:
        """A Table of a few entries."""
        row = self._row(printer_for(self.kind))
        return self._whole_table([row(entry) for entry in entries], meta, with_columns=with_columns)

    def _row(self, printer: Printer) -> Callable[[Entry], bytes]:
        """How one entry becomes a row."""

        def row(entry: Entry) -> bytes:
            obj = self.decode_served(entry)
            conditions = printer.conditions(obj)
            shown = b',"conditions":%b' % encode(conditions) if conditions else b""
            return b'{"cells":%b%b,"object":%b}' % (
                encode(printer.cells(obj, self.now)),
                shown,
                self._row_object(entry),
            )

        return row

    def _whole_table(self, rows: Sequence[bytes], meta: meta_v1.ListMeta, *, with_columns: bool = True) -> bytes:
        printer = printer_for(self.kind)
        columns = printer.columns if with_columns else None
        empty = b"null" if printer is default_printer() else b"[]"
        return table_of(self.form.version, meta, columns, rows, empty=empty)

    def _row_object(self, entry: Entry) -> bytes:
        if self.include_object == "None":
            return b"null"
        if self.include_object == "Object":
            return self.kind.type_meta + self.body(entry)
        return _METADATA_ONLY[self.form.version] + self.metadata(entry)

    def watch_renderer(self) -> Renderer | None:
        """How events of a watch become bytes; None for plain JSON lines of the stored version."""
        if self.form.media_type == PROTOBUF:
            return self._shared(self._protobuf_event)
        if self.form.convert_to == "Table":
            return TableEvents(self)
        return None if self.kind is self.stored and not self.form.convert_to else self._shared(self._json_event)

    def _shared(self, make: Callable[[str, Entry], bytes]) -> Renderer:
        """Events that look alike to everybody who asks for this form are made once."""
        kind, form = self.kind, self.form

        def render(event_type: str, entry: Entry, event: Event | None) -> bytes:
            if event is None:
                return make(event_type, entry)
            return event.rendered((event_type, kind, form), lambda: make(event_type, entry))

        return render

    def _protobuf_event(self, event_type: str, entry: Entry) -> bytes:
        return protobuf.watch_frame(event_type, self.enveloped(entry))

    def _json_event(self, event_type: str, entry: Entry) -> bytes:
        if self.form.convert_to:
            data = _METADATA_ONLY[self.form.version] + self.metadata(entry)
        else:
            data = self.kind.type_meta + self.body(entry)
        return b'{"type":"%b","object":%b}\n' % (event_type.encode(), data)


Renderer = Callable[[str, Entry, Event | None], bytes]
"""Event type, object and event as the bytes of a stream."""


class TableEvents:
    """Events as Tables: the first carries the columns, later ones do not."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._first = True

    def __call__(self, event_type: str, entry: Entry, event: Event | None) -> bytes:
        meta = meta_v1.ListMeta(resource_version=str(entry.revision))
        data = self.shape.table([entry], meta, with_columns=self._first)
        self._first = False
        return b'{"type":"%b","object":%b}\n' % (event_type.encode(), data)


async def in_steps(entries: Sequence[Entry], make: Callable[[Entry], bytes]) -> list[bytes]:
    """Something of each entry; others get their turn between two pieces of the work."""
    made: list[bytes] = []
    for start in range(0, len(entries), _STEP):
        if start:
            await asyncio.sleep(0)
        made.extend(map(make, entries[start : start + _STEP]))
    return made


def table_of(
    version: str,
    meta: meta_v1.ListMeta,
    columns: Sequence[Column] | None,
    rows: Sequence[bytes],
    *,
    empty: bytes = b"[]",
) -> bytes:
    """A Table of a version of `meta.k8s.io`. columns: None where the reader knows them. empty: what stands for no rows, null in what kube-apiserver makes
    of kinds that it has no printer for."""
    definitions = None
    if columns is not None:
        fields = ("name", "type", "format", "description", "priority")
        definitions = [{field: getattr(one, field) for field in fields} for one in columns]
    head = b'{"kind":"Table","apiVersion":"meta.k8s.io/%b","metadata":%b,"columnDefinitions":%b' % (
        version.encode(),
        encode(meta),
        encode(definitions),
    )
    return head + (b',"rows":[' + b",".join(rows) + b"]}" if rows else b',"rows":' + empty + b"}")


def no_list(type_name: str) -> ApiError:
    """406: the metadata of a list is wanted of something that is none."""
    text = f"you requested PartialObjectMetadataList, but the requested object is not a list ({type_name})"
    return failure(406, "NotAcceptable", text, details=False)


def no_protobuf(type_name: str) -> ApiError:
    """406: what was asked for has no protobuf form."""
    return failure(
        406,
        "NotAcceptable",
        f"object {type_name} does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message",
        details=False,
    )


def in_form(data: bytes, media_type: str) -> bytes:
    """An answer that is no object of the served kind (Status, Scale, reviews, discovery) as YAML or protobuf. Raises ApiError (406)."""
    if media_type == YAML:
        return to_yaml(data)
    tree = msgspec.json.decode(data)
    api_version, kind = tree.get("apiVersion", ""), tree.get("kind", "")
    try:
        message = protobuf.message_of_tree(api_version, tree)
    except protobuf.ProtobufError:
        raise no_protobuf(kind) from None
    return protobuf.envelope(api_version or "v1", kind, message)


def error_event(media_type: str, status: meta_v1.Status) -> bytes:
    """The ERROR event that ends a watch."""
    data = msgspec.json.encode(status)
    if media_type.startswith(PROTOBUF):
        return protobuf.watch_frame(ERROR, in_form(data, PROTOBUF))
    return b'{"type":"ERROR","object":%b}\n' % data


def metadata_of(kind: Kind, entry: Entry) -> _MetadataOnly:
    """The metadata of an entry of a stored kind, without what conversion into the served version adds to it."""
    found = _decode_metadata(b"{" + entry.body)
    added = _ADDED_BY_CONVERSION.get(kind.kind)
    if added is not None and added in found.metadata.annotations:
        found.metadata.annotations = {key: value for key, value in found.metadata.annotations.items() if key != added}
    return found


def to_yaml(data: bytes) -> bytes:
    """JSON as YAML."""
    from bayplan.apiserver.yaml.documents import to_yaml as convert_to_yaml  # slow to import, and seldom needed

    return convert_to_yaml(data)
