"""patch: JSON, merge and strategic merge patches, applied to the object as it is when it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.api.codec import DecodeError, decode_reporting, encode
from bayplan.api.conversion import convert
from bayplan.api.errors import ApiError, bad_request, failure, invalid, invalid_object
from bayplan.api.patches import PatchError, apply_json_patch, apply_merge_patch, apply_strategic_patch
from bayplan.api.schema import definition_of
from bayplan.api.strategies.base import clone
from bayplan.apiserver.context import Call
from bayplan.apiserver.owners import deduplicate_owners
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs.write import OTHER_NAMESPACE, modify

_PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}


async def patch(call: Call) -> Response:
    """Change an object by a JSON, merge or strategic merge patch."""
    apply = patch_function(call)
    name = call.path.subresource.name if call.path.subresource else ""

    def patched(old: Any) -> Any:
        served = old if call.kind is call.stored else convert(clone(old), call.stored, call.kind)
        return call.to_stored(apply(served))

    return call.answer(200, await modify(call, patched, subresource=name, fresh=False))


def patch_function(call: Call) -> Callable[[Any], Any]:
    """The patch in the body as a function from object to new object (in the served version). Raises ApiError (400, 415, 422)."""
    media_type = call.request.content_type.partition(";")[0].strip()
    patch_type = _PATCH_TYPES.get(media_type)
    if patch_type is None:
        raise failure(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    try:
        body = msgspec.json.decode(call.request.body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    mode = call.request.query.get("fieldValidation") or "Warn"

    def apply(obj: Any) -> Any:
        type_meta = {"kind": call.kind.kind, "apiVersion": call.kind.api_version}
        tree: Any = {**type_meta, **msgspec.json.decode(encode(obj)), **type_meta}
        try:
            if patch_type == "json":
                tree = apply_json_patch(tree, body)
            elif patch_type == "merge":
                tree = apply_merge_patch(tree, body)
            else:
                tree = apply_strategic_patch(tree, body, definition_of(type(obj)))
        except PatchError as error:
            raise patch_failure(error) from None
        return _decode_patched(call, type(obj), tree, mode)

    return apply


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


def _decode_patched(call: Call, cls: type[Any], tree: Any, mode: str) -> Any:
    try:
        obj, problems = decode_reporting(cls, encode(tree))
    except DecodeError as error:
        raise _unusable(tree, str(error)) from None
    if problems and mode == "Strict":
        raise _unusable(tree, f"strict decoding error: {', '.join(problems)}")
    is_other = obj.kind not in ("", call.kind.kind) or obj.api_version not in ("", call.kind.api_version)
    if is_other and cls is call.kind.type:
        raise _unusable(tree, f'no kind "{obj.kind}" is registered for version "{obj.api_version}"')
    if problems and mode == "Warn":
        call.warnings[:] = dict.fromkeys([*call.warnings, *problems])
    name = call.path.name
    if obj.metadata.name != name:
        if obj.metadata.name:
            raise bad_request(
                f"the name of the object ({obj.metadata.name}) does not match the name on the URL ({name})"
            )
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if obj.metadata.namespace != call.path.namespace and call.kind.namespaced:
        raise bad_request(OTHER_NAMESPACE)
    call.warnings[:] = dict.fromkeys([*call.warnings, *deduplicate_owners(obj.metadata)])
    return obj


def _unusable(tree: Any, why: str) -> ApiError:
    """The answer to a patch whose result is no object of the kind."""
    return invalid_object("", "", "", [invalid("patch", encode(tree).decode(), why)])
