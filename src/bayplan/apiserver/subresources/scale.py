"""`scale`: replicas of a workload, seen and set through one small object that is the same for every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.api.conversions.kinds import convert
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.strategy import nested
from bayplan.api.errors import (
    ApiError,
    bad_request,
    conflict,
    internal_error,
    invalid,
    invalid_object,
    not_found_error,
)
from bayplan.api.kinds import Kind
from bayplan.api.selectors.labels import compile_selector, from_map
from bayplan.api.types import autoscaling_v1, meta_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.managed_fields.scale import SCALE, ScaleApplier, scale_entries, track_applied_scale, track_scale
from bayplan.apiserver.reads.other_forms import answer_in_form
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs.apply import configuration, is_apply
from bayplan.apiserver.verbs.patch import Patch
from bayplan.apiserver.verbs.update import check_body_name, check_uid, modify
from bayplan.apiserver.writes.bodies import body_json, body_object

_HEAD = b'{"kind":"Scale","apiVersion":"autoscaling/v1",'
_OLD_VERSIONS = frozenset(("extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"))
"""Versions of Scale that Kubernetes knows and no path takes."""
_NOT_SET = -(2**31)
"""The replicas of a custom resource that has none."""


async def handle(call: Call) -> Response:
    """get, update and patch."""
    if call.path.verb == "update":
        return await _update(call)
    entry = call.entry(call.path.namespace, call.path.name)
    if entry is None:
        raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
    if call.path.verb == "get":
        return _answer(call, await call.in_served_version(entry) if call.kind.asks_webhook else entry)
    return await _patch(call)


def scale_of(kind: Kind, obj: Any) -> autoscaling_v1.Scale:
    """The Scale of a workload of a kind. Raises ApiError (500) if its replicas are none.

    A custom resource without the field has _NOT_SET replicas.
    """
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
    return _NOT_SET if wanted is None else wanted, autoscaling_v1.ScaleStatus(
        replicas=there or 0, selector=selector or ""
    )


def _answer(call: Call, entry: Entry) -> Response:
    if call.form.convert_to == "Table":
        call.shape()  # which checks what goes into the rows
    scale = scale_of(call.kind, _served(call, call.decode_stored(entry)))
    if isinstance(call.kind, CustomKind) and scale.spec.replicas == _NOT_SET:
        assert call.kind.scale is not None
        raise internal_error(f'the spec replicas field "{call.kind.scale.spec_replicas_path}" does not exist')
    scale.kind = scale.api_version = ""
    return answer_in_form(call, 200, _HEAD, scale, "v1" if call.kind.is_custom else "autoscaling")


_NOT_REGISTERED = (
    "no kind is registered for the type v1.Scale in scheme "
    '"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781"'
)
"""What is said of any Scale of a custom resource that is JSON and cannot be decoded."""
_UNDECODABLE = ("cannot be handled as a Scale", "Object 'Kind' is missing")


class _Type(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None


def _type_of(data: bytes) -> _Type:
    """The type that a body says it has; none if it cannot be read, which is said later."""
    try:
        return msgspec.json.decode(data, type=_Type)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Type()


async def _update(call: Call) -> Response:
    given = _type_of(body_json(call, "Scale"))
    version = given.api_version or "autoscaling/v1"
    kind = given.kind or "Scale"
    if call.kind.is_custom and (kind, version) != ("Scale", "autoscaling/v1"):
        raise bad_request(_NOT_REGISTERED)
    if kind == "Scale" and version in _OLD_VERSIONS:
        try:  # it is read as that version has it, in which only the status is another
            body_object(call, autoscaling_v1.Scale, "Scale", version)
        except ApiError as error:
            if "status." not in error.status.message:
                raise
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version (autoscaling/v1)"
        )
    try:
        scale = body_object(call, autoscaling_v1.Scale, "Scale", "autoscaling/v1")
    except ApiError as error:
        if call.kind.is_custom and any(text in error.status.message for text in _UNDECODABLE):
            raise bad_request(_NOT_REGISTERED) from None
        raise
    check_body_name(call, scale)
    return _answer(call, await modify(call, lambda old: _scaled(call, old, scale), track=False))


async def _patch(call: Call) -> Response:
    if is_apply(call):
        return _answer(call, await modify(call, _applied(call), track=False))
    apply = Patch(call, SCALE)

    def patched(old: Any) -> Any:
        return _scaled(call, old, apply(_live(call, old)))

    return _answer(call, await modify(call, patched, track=False))


def _live(call: Call, obj: Any) -> autoscaling_v1.Scale:
    """The Scale of a workload as it is, with its managers."""
    scale = scale_of(call.kind, _served(call, obj))
    scale.metadata.managed_fields = scale_entries(call, obj.metadata.managed_fields)
    return scale


def _applied(call: Call) -> Callable[[Any], Any]:
    """Server-side apply of the Scale in the body, as a change of the workload. Raises ApiError."""
    given = configuration(call, SCALE)
    applier = ScaleApplier(call, given.tree, has_floats=given.has_floats)

    def applied(old: Any) -> Any:
        scale = applier.apply(_live(call, old))
        given.check(call)
        check_body_name(call, scale)
        return _scaled(call, old, scale, applied=True)

    return applied


def _scaled(call: Call, obj: Any, scale: autoscaling_v1.Scale, *, applied: bool = False) -> Any:
    """The workload with the wanted number of replicas. applied: the Scale says who manages them. Raises ApiError."""
    if call.path.verb == "update":
        check_uid(call, scale.metadata.uid, obj.metadata.uid)
    if scale.spec.replicas < 0 and not call.kind.is_custom:  # those have rules of their own for it
        problem = invalid("spec.replicas", scale.spec.replicas, "must be greater than or equal to 0")
        raise invalid_object("Scale", "autoscaling", scale.metadata.name, [problem])
    wanted = scale.metadata.resource_version
    if wanted and wanted != obj.metadata.resource_version:
        raise conflict(call.kind.plural, call.kind.group, call.path.name)
    if call.path.verb != "update" and not call.kind.is_custom and scale.metadata.uid != obj.metadata.uid:
        why = f"Precondition failed: UID in precondition: {scale.metadata.uid}, UID in object meta: {obj.metadata.uid}"
        raise conflict(f"{call.kind.plural}/scale", call.kind.group, call.path.name, why)
    if isinstance(call.kind, CustomKind):
        return _scaled_custom(call, call.kind, obj, scale, applied=applied)
    before, obj.spec.replicas = obj.spec.replicas, scale.spec.replicas
    if applied:
        track_applied_scale(call, obj, scale)
    else:
        track_scale(call, obj, before, scale)
    return obj


def _scaled_custom(call: Call, kind: CustomKind, obj: Any, scale: autoscaling_v1.Scale, *, applied: bool) -> Any:
    replicas = scale.spec.replicas
    served = _served(call, obj)
    assert kind.scale is not None
    if replicas == _NOT_SET:
        raise bad_request(f'the spec replicas field "{kind.scale.spec_replicas_path}" cannot be empty')
    *names, last = kind.scale.spec_replicas_path.removeprefix(".").split(".")
    part = served.content
    for name in names:
        part = part.setdefault(name, {})
        if not isinstance(part, dict):
            raise internal_error(f"{kind.scale.spec_replicas_path} accessor error: {name} is no object")
    before, part[last] = part.get(last), replicas
    if applied:
        track_applied_scale(call, served, scale)
    else:
        track_scale(call, served, before, scale)
    return served if kind is call.stored else convert(served, kind, call.stored)


def _served(call: Call, obj: Any) -> Any:
    """An object of the stored version in the served one."""
    return obj if call.kind is call.stored else convert(obj, call.stored, call.kind)
