"""Answers that show no object of the store (a Scale, a review, a token), in the form that the client asked for."""

from __future__ import annotations

import functools
from typing import NamedTuple

import msgspec

from bayplan.api.codec import encode
from bayplan.api.errors import not_acceptable
from bayplan.api.printing.base import Column, default_printer, object_age
from bayplan.api.types import autoscaling_v1, meta_v1
from bayplan.apiserver.context import BODY_TYPES, Call
from bayplan.apiserver.representation import no_list
from bayplan.apiserver.requests import Response


class _Shown(NamedTuple):
    """A table of one row."""

    columns: tuple[Column, ...]
    cells: tuple[str | int, ...]


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
        raise not_acceptable(BODY_TYPES)
    shown = _scale_row(obj, call.context.clock.now(), is_custom=call.kind.is_custom)
    rows = {"None": b"null", "Object": type_meta + encode(obj)[1:]}
    meta = meta_v1.ListMeta(resource_version=metadata.resource_version)
    data = (
        b'{"kind":"Table","apiVersion":"meta.k8s.io/%b","metadata":%b,"columnDefinitions":%b,"rows":[{"cells":%b,"object":%b}]}'
        % (
            form.version.encode(),
            encode(meta),
            encode([_definition(one) for one in shown.columns]),
            encode(shown.cells),
            rows.get(call.request.query.get("includeObject", ""), only),
        )
    )
    return Response(code, data, warnings=call.warnings)


def _definition(column: Column) -> dict[str, str | int]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


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


def _scale_row(scale: autoscaling_v1.Scale, now: float, *, is_custom: bool) -> _Shown:
    cells = (scale.metadata.name, scale.spec.replicas, scale.status.replicas, object_age(scale, now))
    return _Shown(_scale_columns(is_custom=is_custom), cells)
