"""`scale`: replicas of a workload, seen and set through one small object that is the same for every kind."""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.api.codec import encode
from bayplan.api.errors import FieldError, bad_request, conflict, invalid, invalid_object, not_found_error
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


def scale_of(obj: Any) -> autoscaling_v1.Scale:
    """The Scale of a workload."""
    metadata = obj.metadata
    selector = (
        from_map(obj.spec.selector) if isinstance(obj.spec.selector, dict) else compile_selector(obj.spec.selector)
    )
    return autoscaling_v1.Scale(
        metadata=meta_v1.ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp=metadata.creation_timestamp,
        ),
        spec=autoscaling_v1.ScaleSpec(replicas=obj.spec.replicas or 0),
        status=autoscaling_v1.ScaleStatus(replicas=obj.status.replicas, selector=str(selector)),
    )


def _answer(call: Call, entry: Entry) -> Response:
    shape = call.shape()
    scale = scale_of(call.decode_stored(entry))
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
    return _answer(call, await modify(call, lambda old: _scaled(call, old, apply(scale_of(old))), track=False))


def _scaled(call: Call, obj: Any, scale: autoscaling_v1.Scale) -> Any:
    """The workload with the wanted number of replicas. Raises ApiError."""
    errors: list[FieldError] = []
    if scale.spec.replicas < 0:
        errors.append(invalid("spec.replicas", scale.spec.replicas, "must be greater than or equal to 0"))
    if errors:
        raise invalid_object("Scale", "autoscaling", scale.metadata.name, errors)
    wanted = scale.metadata.resource_version
    if wanted and wanted != obj.metadata.resource_version:
        raise conflict(call.kind.plural, call.kind.group, call.path.name)
    before, obj.spec.replicas = obj.spec.replicas, scale.spec.replicas
    track_scale(call, obj, before)
    return obj
