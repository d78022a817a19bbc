"""`scale`: replicas of a workload, seen and set through one small object that is the same for every kind."""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.api.codec import encode
from bayplan.api.conversion import convert
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.strategy import nested
from bayplan.api.errors import bad_request, conflict, internal_error, invalid, invalid_object, not_found_error
from bayplan.api.kinds import Kind
from bayplan.api.selectors import compile_selector, from_map
from bayplan.api.types import autoscaling_v1, meta_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.field_managers import track_scale
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs.patch import patch_function
from bayplan.apiserver.verbs.update import modify
from bayplan.apiserver.watching import Entry

_HEAD = b'{"kind":"Scale","apiVersion":"autoscaling/v1",'


async def handle(call: Call) -> Response:
    """get, update and patch."""
    entry = call.entry(call.path.namespace, call.path.name)
    if entry is None:
        raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
    if call.request.method == "GET":
        return _answer(call, entry)
    if call.request.method == "PUT":
        return await _update(call)
    return await _patch(call)


def scale_of(kind: Kind, obj: Any) -> autoscaling_v1.Scale:
    """The Scale of a workload of a kind. Raises ApiError (500) if its replicas are none."""
    metadata = obj.metadata
    replicas, status = _replicas_of_custom(kind, obj) if isinstance(kind, CustomKind) else _replicas_of(obj)
    return autoscaling_v1.Scale(
        metadata=meta_v1.ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp=metadata.creation_timestamp,
        ),
        spec=autoscaling_v1.ScaleSpec(replicas=replicas),
        status=status,
    )


def _replicas_of(obj: Any) -> tuple[int, autoscaling_v1.ScaleStatus]:
    given = obj.spec.selector
    selector = from_map(given) if isinstance(given, dict) else compile_selector(given)
    return obj.spec.replicas or 0, autoscaling_v1.ScaleStatus(replicas=obj.status.replicas, selector=str(selector))


def _replicas_of_custom(kind: CustomKind, obj: CustomObject) -> tuple[int, autoscaling_v1.ScaleStatus]:
    scale = kind.scale
    assert scale is not None
    try:
        wanted, there = (
            nested(obj.content, path, int) for path in (scale.spec_replicas_path, scale.status_replicas_path)
        )
        selector = nested(obj.content, scale.label_selector_path, str) if scale.label_selector_path else None
    except TypeError as error:
        raise internal_error(str(error)) from None
    return wanted or 0, autoscaling_v1.ScaleStatus(replicas=there or 0, selector=selector or "")


def _answer(call: Call, entry: Entry) -> Response:
    shape = call.shape()
    scale = scale_of(call.kind, _served(call, call.decode_stored(entry)))
    if shape.form.convert_to == "PartialObjectMetadata":
        return Response(
            200,
            b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'
            + encode({"metadata": scale.metadata})[1:],
        )
    return Response(200, _HEAD + encode(scale)[1:], warnings=call.warnings)


async def _update(call: Call) -> Response:
    given = msgspec.json.decode(call.body_json("Scale"))
    version = given.get("apiVersion", "autoscaling/v1")
    if given.get("kind", "Scale") == "Scale" and version != "autoscaling/v1":
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version (autoscaling/v1)"
        )
    scale = call.body_object(autoscaling_v1.Scale, "Scale", "autoscaling/v1")
    if scale.metadata.name != call.path.name:
        raise bad_request(
            f"the name of the object ({scale.metadata.name}) does not match the name on the URL ({call.path.name})"
        )
    return _answer(call, await modify(call, lambda old: _scaled(call, old, scale), track=False))


async def _patch(call: Call) -> Response:
    apply = patch_function(call)
    return _answer(
        call,
        await modify(call, lambda old: _scaled(call, old, apply(scale_of(call.kind, _served(call, old)))), track=False),
    )


def _scaled(call: Call, obj: Any, scale: autoscaling_v1.Scale) -> Any:
    """The workload with the wanted number of replicas. Raises ApiError."""
    if scale.spec.replicas < 0 and not call.kind.is_custom:  # those have rules of their own for it
        problem = invalid("spec.replicas", scale.spec.replicas, "must be greater than or equal to 0")
        raise invalid_object("Scale", "autoscaling", scale.metadata.name, [problem])
    wanted = scale.metadata.resource_version
    if wanted and wanted != obj.metadata.resource_version:
        raise conflict(call.kind.plural, call.kind.group, call.path.name)
    if isinstance(call.kind, CustomKind):
        return _scaled_custom(call, call.kind, obj, scale.spec.replicas)
    before, obj.spec.replicas = obj.spec.replicas, scale.spec.replicas
    track_scale(call, obj, before, scale.spec.replicas)
    return obj


def _scaled_custom(call: Call, kind: CustomKind, obj: Any, replicas: int) -> Any:
    served = _served(call, obj)
    assert kind.scale is not None
    *names, last = kind.scale.spec_replicas_path.removeprefix(".").split(".")
    part = served.content
    for name in names:
        part = part.setdefault(name, {})
        if not isinstance(part, dict):
            raise internal_error(f"{kind.scale.spec_replicas_path} accessor error: {name} is no object")
    before, part[last] = part.get(last), replicas
    track_scale(call, served, before, replicas)
    return served if kind is call.stored else convert(served, kind, call.stored)


def _served(call: Call, obj: Any) -> Any:
    """An object of the stored version in the served one."""
    return obj if call.kind is call.stored else convert(obj, call.stored, call.kind)
