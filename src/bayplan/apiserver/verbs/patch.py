"""patch: JSON, merge and strategic merge patches, applied to the object as it is when it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.api.codec import DecodeError, decode_reporting, encode, field_problems, may_repeat_fields
from bayplan.api.conversion import convert
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.strategy import type_errors
from bayplan.api.errors import (
    ApiError,
    FieldError,
    bad_request,
    conflict,
    failure,
    forbidden,
    invalid,
    invalid_object,
    not_found_error,
    required,
)
from bayplan.api.patches import PatchError, apply_json_patch, apply_merge_patch, apply_strategic_patch
from bayplan.api.schema import definition_of
from bayplan.api.strategies.base import clone
from bayplan.apiserver.context import Call, yaml_to_json
from bayplan.apiserver.field_managers import Applier
from bayplan.apiserver.owners import deduplicate_owners
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs.create import OTHER_NAMESPACE, create_object
from bayplan.apiserver.verbs.update import modify
from bayplan.apiserver.watching import Entry

APPLY_TYPE = "application/apply-patch+yaml"

_PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}


_OPERATION_MEMBERS = frozenset(("op", "path", "from", "value"))


async def patch(call: Call) -> Response:
    """Change an object by a JSON, merge or strategic merge patch, or by server-side apply."""
    if call.request.content_type.partition(";")[0].strip() == APPLY_TYPE:
        return await _apply(call)
    if "force" in call.request.query:
        raise _bad_options(forbidden("force", "may not be specified for non-apply patch"))
    apply = patch_function(call)
    name = call.path.subresource.name if call.path.subresource else ""

    def patched(old: Any) -> Any:
        served = old if call.kind is call.stored else convert(clone(old), call.stored, call.kind)
        return call.to_stored(apply(served))

    return call.answer(200, await modify(call, patched, subresource=name, fresh=False))


async def _apply(call: Call) -> Response:
    """Server-side apply: the object as a manager wants its part of it; it is made if it is not there."""
    name = call.path.subresource.name if call.path.subresource else ""
    if not call.request.query.get("fieldManager"):
        raise _bad_options(required("fieldManager", "is required for apply patch"))
    applier = Applier(call, _configuration(call), name)
    if call.entry(call.path.namespace, call.path.name) is None:
        if name:
            raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
        return call.answer(201, await _create_applied(call, applier))

    def applied(old: Any) -> Any:
        obj = applier.apply(old)
        _check_place(call, obj)
        return call.to_stored(obj)

    return call.answer(200, await modify(call, applied, subresource=name, fresh=False, track=False))


async def _create_applied(call: Call, applier: Applier) -> Entry:
    obj = applier.apply(None)
    metadata = obj.metadata
    metadata.namespace = metadata.namespace or call.path.namespace
    _check_place(call, obj)
    if metadata.uid:
        detail = f"uid mismatch: the provided object specified uid {metadata.uid}, and no existing object was found"
        raise conflict(call.kind.plural, call.kind.group, call.path.name, detail)
    metadata.resource_version = ""
    return await create_object(call, obj, track=False)


def _configuration(call: Call) -> dict[str, Any]:
    """The applied configuration from the body. Raises ApiError (400)."""
    data = call.request.body
    try:
        applied = msgspec.json.decode(data if data[:1] == b"{" else yaml_to_json(data, call.kind.kind))
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(applied, dict):
        raise bad_request("error decoding YAML: the configuration is no object")
    mode = call.request.query.get("fieldValidation") or "Warn"
    if mode == "Strict":
        from bayplan.apiserver.yaml import repeated_keys  # slow to import, and seldom needed

        problem = repeated_keys(data)
        if problem:
            raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {problem}")
    api_version, kind = applied.get("apiVersion") or "", applied.get("kind") or ""
    if (api_version, kind) != (call.kind.api_version, call.kind.kind):
        if not kind:
            raise bad_request("error decoding YAML: Object 'Kind' is missing")
        group, _, version = str(api_version).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    return applied


def _bad_options(problem: FieldError) -> ApiError:
    return invalid_object("PatchOptions", "meta.k8s.io", "", [problem])


def patch_function(call: Call) -> Callable[[Any], Any]:
    """The patch in the body as a function from object to new object (in the served version). Raises ApiError (400, 415, 422)."""
    media_type = call.request.content_type.partition(";")[0].strip()
    patch_type = _PATCH_TYPES.get(media_type)
    if patch_type is None or (patch_type == "strategic" and call.kind.is_custom):
        raise failure(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    try:
        body = msgspec.json.decode(call.request.body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    mode = call.request.query.get("fieldValidation") or "Warn"
    given = _problems_of_patch(call, patch_type, body, mode)
    is_partial = not given and _is_of_status(call, patch_type, body)

    def apply_to(tree: dict[str, Any], cls: type[Any]) -> Any:
        tree |= {"kind": call.kind.kind, "apiVersion": call.kind.api_version}
        try:
            if patch_type == "json":
                return apply_json_patch(tree, body)
            if patch_type == "merge":
                return apply_merge_patch(tree, body)
            return apply_strategic_patch(tree, body, definition_of(cls))
        except PatchError as error:
            raise patch_failure(error) from None

    def apply(obj: Any) -> Any:
        cls = type(obj)
        if is_partial:
            status = msgspec.json.decode(encode(obj.status))
            patched = _with_status(obj, apply_to({"metadata": {"uid": obj.metadata.uid}, "status": status}, cls))
            if patched is not None:
                return patched
        return _decode_patched(call, cls, apply_to(msgspec.json.decode(encode(obj)), cls), mode, given)

    return apply


def _is_of_status(call: Call, patch_type: str, body: Any) -> bool:
    """Whether a patch concerns nothing but the status, of an object with a certain uid perhaps: most do that come by way of it.

    The rest of the object, which may be large, need not be taken apart then.
    """
    name = call.path.subresource.name if call.path.subresource else ""
    if name != "status" or patch_type == "json" or call.kind.is_custom or not isinstance(body, dict):
        return False
    metadata = body.get("metadata", {})
    return body.keys() <= {"metadata", "status"} and isinstance(metadata, dict) and metadata.keys() <= {"uid"}


def _with_status(obj: Any, tree: Any) -> Any | None:
    """The object with another status and metadata of its own, in which nobody manages fields yet; the rest is shared.

    None if there is something to say about the status.
    """
    try:
        new, problems = decode_reporting(type(obj), encode(tree))
    except DecodeError:
        return None
    if problems:
        return None
    metadata = msgspec.structs.replace(obj.metadata, uid=new.metadata.uid, managed_fields=())
    return msgspec.structs.replace(obj, status=new.status, metadata=metadata)


def _problems_of_patch(call: Call, patch_type: str, body: Any, mode: str) -> list[str]:
    """What is wrong with the fields of the patch itself: those given twice, and unknown members of JSON patch operations."""
    data = call.request.body
    if mode == "Ignore" or not (mode == "Strict" or call.request.reads_warnings):
        return []
    unknown = []
    if patch_type == "json":
        operations = [one if isinstance(one, dict) else {} for one in body] if isinstance(body, list) else []
        unknown = [
            f'unknown field "[{index}].{name}"'
            for index, operation in enumerate(operations)
            for name in operation
            if name not in _OPERATION_MEMBERS
        ]
    problems = field_problems(data, unknown) if unknown or mode == "Strict" or may_repeat_fields(data) else []
    return [f"json patch {problem}" for problem in problems] if patch_type == "json" else problems


def patch_failure(error: PatchError) -> ApiError:
    """The answer to a patch that cannot be applied."""
    if error.code == 422:
        return failure(422, "Invalid", str(error))
    if error.code == 500:
        return failure(500, "", str(error), details=False)
    return (
        bad_request(str(error))
        if error.code == 400
        else failure(error.code, "RequestEntityTooLarge", str(error), details=False)
    )


def _decode_patched(call: Call, cls: type[Any], tree: Any, mode: str, given: list[str]) -> Any:
    try:
        obj, problems = decode_reporting(cls, encode(tree))
    except DecodeError as error:
        raise _unusable(tree, str(error)) from None
    problems = [*given, *problems]
    if problems and mode == "Strict":
        raise _unusable(tree, f"strict decoding error: {', '.join(problems)}")
    is_other = obj.kind not in ("", call.kind.kind) or obj.api_version not in ("", call.kind.api_version)
    if isinstance(obj, CustomObject):
        if is_other:
            raise invalid_object(obj.kind, call.kind.group, obj.metadata.name, type_errors(call.kind, obj))
    elif is_other and cls is call.kind.type:
        raise _unusable(tree, f'no kind "{obj.kind}" is registered for version "{obj.api_version}"')
    if problems and mode == "Warn":
        call.warnings[:] = dict.fromkeys([*call.warnings, *problems])
    if "managedFields" in (tree.get("metadata") or ()):
        call.resets_managers = tree["metadata"]["managedFields"] == []
    _check_place(call, obj)
    call.warnings[:] = dict.fromkeys([*call.warnings, *deduplicate_owners(obj.metadata)])
    return obj


def _check_place(call: Call, obj: Any) -> None:
    """Raises ApiError (400) if the object has another name or namespace than the URL."""
    name = call.path.name
    if obj.metadata.name != name:
        if obj.metadata.name:
            raise bad_request(
                f"the name of the object ({obj.metadata.name}) does not match the name on the URL ({name})"
            )
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if obj.metadata.namespace != call.path.namespace and call.kind.namespaced:
        raise bad_request(OTHER_NAMESPACE)


def _unusable(tree: Any, why: str) -> ApiError:
    """The answer to a patch whose result is no object of the kind."""
    return invalid_object("", "", "", [invalid("patch", encode(tree).decode(), why)])
