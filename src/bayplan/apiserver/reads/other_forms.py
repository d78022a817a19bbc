"""Answers that show no object of the store (a Scale, a review, a token), in the form that the client asked for."""

from __future__ import annotations

import functools

import msgspec

from bayplan.api.codec import encode
from bayplan.api.errors import not_acceptable
from bayplan.api.printing.base import Column, default_printer, object_age
from bayplan.api.types import autoscaling_v1, meta_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.reads.negotiation import OFFERED
from bayplan.apiserver.reads.representation import no_list, table_of
from bayplan.apiserver.requests import Response


def answer_in_form(call: Call, code: int, type_meta: bytes, obj: msgspec.Struct, group: str) -> Response:
    """An object with metadata, of a kind that is not that of the path, as the client wants it; only Scales have tables. Raises ApiError (406)."""
    form, metadata = call.form, getattr(obj, "metadata")  # noqa: B009  whatever has metadata
    if not form.convert_to:
        return Response(code, type_meta + encode(obj)[1:], warnings=call.warnings)
    name = type(obj).__name__
    if form.convert_to == "PartialObjectMetadataList":
        raise no_list(f"*{group}.{name}")
    only = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%b",' % form.version.encode()
    only += encode({"metadata": metadata})[1:]
    if form.convert_to == "PartialObjectMetadata":
        return Response(code, only, warnings=call.warnings)
    if not isinstance(obj, autoscaling_v1.Scale):
        raise not_acceptable(OFFERED)
    cells = (metadata.name, obj.spec.replicas, obj.status.replicas, object_age(obj, call.context.clock.now()))
    objects = {"None": b"null", "Object": type_meta + encode(obj)[1:]}
    row = b'{"cells":%b,"object":%b}' % (
        encode(cells),
        objects.get(call.request.query.get("includeObject", ""), only),
    )
    meta = meta_v1.ListMeta(resource_version=metadata.resource_version)
    data = table_of(form.version, meta, _scale_columns(is_custom=call.kind.is_custom), [row])
    return Response(code, data, warnings=call.warnings)


@functools.cache
def _scale_columns(*, is_custom: bool) -> tuple[Column, ...]:
    name, age = default_printer().columns
    wanted, there = (
        ("Number of desired replicas", "Number of actual replicas")
        if is_custom
        else (
            "replicas is the desired number of instances for the scaled object.",
            "replicas is the actual number of observed instances of the scaled object.",
        )
    )
    return (
        Column("Name", name.description, "string", "name" if is_custom else ""),
        Column("Desired", wanted, "integer"),
        Column("Available", there, "integer"),
        Column("Age", age.description, "date" if is_custom else "string"),
    )
