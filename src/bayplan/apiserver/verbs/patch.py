"""patch: JSON, merge and strategic merge patches, applied to the object as it is when it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.api.codec import (
    DecodeError,
    decode_reporting,
    encode,
    field_problems,
    may_repeat_fields,
    with_null_lists,
)
from bayplan.api.conversions.kinds import convert
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.strategy import type_errors
from bayplan.api.errors import (
    ApiError,
    bad_request,
    failure,
    invalid_object,
    not_found_error,
    unsupported_media_type,
)
from bayplan.api.json.decode_problems import Refused, first_problem
from bayplan.api.json.unstructured import COMPARED_IN_BYTES, as_converted, first_unstructured_problem
from bayplan.api.kinds import Kind
from bayplan.api.patching.json_patches import PatchError, apply_json_patch, apply_merge_patch
from bayplan.api.patching.strategic_leftovers import left_of
from bayplan.api.patching.strategic_patch import apply_strategic_patch
from bayplan.api.schema import definition_of
from bayplan.api.strategies.base import clone
from bayplan.apiserver.context import Call
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs import apply
from bayplan.apiserver.verbs.update import check_place, modify
from bayplan.apiserver.writes.bodies import internal_type, other_type
from bayplan.apiserver.writes.body_errors import head_of, head_problem, version_problem
from bayplan.apiserver.writes.options import check_patch_options
from bayplan.apiserver.writes.owners import deduplicate_owners
from bayplan.apiserver.writes.patch_errors import (
    JSON,
    MERGE,
    STRATEGIC,
    as_written,
    decode_as_sent,
    read_patch,
    spoiled_by,
)
from bayplan.apiserver.writes.repeated_writes import RepeatedWrite
from bayplan.apiserver.writes.write_memo import STATUS, Change

_PATCH_TYPES = {
    "application/json-patch+json": JSON,
    "application/merge-patch+json": MERGE,
    "application/strategic-merge-patch+json": STRATEGIC,
}


_OPERATION_MEMBERS = frozenset(("op", "path", "from", "value"))
_FREE_METADATA = frozenset(("labels", "annotations", "finalizers", "uid", "resourceVersion"))
"""Members of metadata that may be patched without a look at the rest of the object."""


async def patch(call: Call) -> Response:
    """Change an object by a JSON, merge or strategic merge patch, or by server-side apply."""
    name = call.path.subresource.name if call.path.subresource else ""
    applies = apply.is_apply(call)
    change: Change | RepeatedWrite | None = None
    if name == "status" and not applies:
        change = call.context.write_memo.change(call, STATUS)
    elif not name and not applies:
        context = call.context
        change = context.repeated_writes.find(call)
    if change is not None and (written := await change.write()) is not None:
        return call.answer(200, written)
    unchanged = call.context.unchanged_writes.find(call)
    if unchanged is not None and (same := unchanged.entry()) is not None:
        return call.answer(200, same)
    if applies:
        code, written = await apply.apply(call)
    else:
        code, written = 200, await _patch(call, change)
    if unchanged is not None:
        unchanged.learn(written)
    return call.answer(code, written)


async def _patch(call: Call, change: Change | RepeatedWrite | None) -> Entry:
    """Change an object by one of the other patches. change: what learns from the outcome."""
    name = call.path.subresource.name if call.path.subresource else ""
    changes = Patch(call)

    def patched(old: Any) -> Any:
        served = old if call.kind is call.stored else convert(clone(old), call.stored, call.kind)
        obj = changes(call.strategy.shown(served))
        return call.to_stored(obj, lambda error: changes.spoiled(type(obj), lambda: str(error)))

    written = await modify(call, patched, subresource=name, fresh=False)
    if change is not None and (changes.part == "status" or not name) and not call.warnings:
        change.learn(written)
    return written


class Patch:
    """The patch in a body, as a function from object to new object (in the served version)."""

    def __init__(self, call: Call, kind: Kind | None = None) -> None:
        """kind: of the object, if it is not that of the path. Raises ApiError (400, 415, 422)."""
        self.call = call
        self.kind = kind or call.kind
        self.patch_type = _type_of(call)
        check_patch_options(call.request.query, is_apply=False)
        if kind is None and call.entry(call.path.namespace, call.path.name) is None:
            raise not_found_error(call.kind.plural, call.kind.group, call.path.name)  # whatever the patch is
        self.mode = call.request.query.get("fieldValidation") or "Warn"
        self.body = read_patch(call.request.body, self.patch_type, checked=self.mode != "Ignore")
        self.problems = _problems_of_patch(call, self.patch_type, self.body, self.mode)
        self.part = "" if self.problems else _only_part(call, self.patch_type, self.body)
        """What of the object it concerns, if that is not the whole."""
        self.tree: Any = None
        """What came of it last."""
        self._before = b""
        """The object to which it was applied last."""

    def __call__(self, obj: Any) -> Any:
        """Raises ApiError (400, 413, 422, 500)."""
        cls = type(obj)
        if self.part and (patched := (self._with_status if self.part == "status" else self._with_metadata)(obj)):
            return patched
        data = encode(obj)
        if not self.kind.is_custom:
            data = with_null_lists(self.kind.kind, data)
        self._before = data
        self.tree = self._applied(msgspec.json.decode(data), cls)
        return self._decoded(cls)

    def _with_status(self, obj: Any) -> Any | None:
        """The object with another status and metadata of its own; None if there is something to say about the status."""
        status = msgspec.json.decode(encode(obj.status))
        tree = self._applied({"metadata": {"uid": obj.metadata.uid}, "status": status}, type(obj))
        try:
            new, problems = decode_reporting(type(obj), encode(tree), worded=False)
        except DecodeError:
            return None
        return None if problems else _with_parts(obj, new.status, new.metadata.uid)

    def _with_metadata(self, obj: Any) -> Any | None:
        """The object with other metadata, in which nobody manages fields yet; None if there is something to say about any of it."""
        cls = type(obj)
        metadata = msgspec.structs.replace(obj.metadata, managed_fields=())
        tree = self._applied({"metadata": msgspec.json.decode(encode(metadata))}, cls)
        try:
            new, problems = decode_reporting(cls, encode(tree), worded=False)
            if problems:
                return None
            whole = msgspec.structs.replace(obj, kind=new.kind, api_version=new.api_version, metadata=new.metadata)
            copy, problems = decode_reporting(
                cls, encode(whole), self.call.context.settings.feature_gates, worded=False
            )
        except DecodeError:
            return None
        return None if problems else copy

    def _applied(self, tree: dict[str, Any], cls: type[Any]) -> Any:
        tree |= {"kind": self.kind.kind, "apiVersion": self.kind.api_version}
        try:
            if self.patch_type == JSON:
                return apply_json_patch(tree, self.body)
            if self.patch_type == MERGE:
                return apply_merge_patch(tree, self.body)
            return apply_strategic_patch(tree, self.body, definition_of(cls))
        except PatchError as error:
            raise patch_failure(error) from None

    def spoiled(self, cls: type[Any], why: Callable[[], str]) -> ApiError:
        """The answer to a patch whose result is no object of a class. why: what a decoder says, if nothing is told before that."""
        if self.patch_type == STRATEGIC:
            first = first_unstructured_problem(cls, self.tree)
        else:
            first = head_problem(encode(self.tree))
        return self._spoiled(cls, first or why())

    def _refused(self, error: DecodeError) -> ApiError:
        return self.spoiled(self.kind.type, lambda: str(error))

    def _spoiled(self, cls: type[Any], why: str) -> ApiError:
        if self.kind.is_custom:
            self._keep_numbers(cls)
        patch = self.body
        if self.patch_type == STRATEGIC:
            patch = left_of(patch, msgspec.json.decode(self._before), definition_of(cls))
        return spoiled_by(self.patch_type, patch, self.tree, self.kind, why)

    def _decoded(self, cls: type[Any]) -> Any:
        call, tree = self.call, self.tree
        try:
            obj, problems = self._reported(cls)
        except DecodeError as error:
            self._keep_numbers(cls)
            why = str(error)
            raise self.spoiled(cls, lambda: self._other_type(cls) or self._first_problem(cls) or why) from None
        problems = [*self.problems, *(self._in_order(cls, problems) if len(problems) > 1 else problems)]
        if problems:
            call.check_quantities(obj, self._refused)
        if problems and self.mode == "Strict":
            why = f"strict decoding error: {', '.join(problems)}"
            raise self._spoiled(cls, why)
        self._check_type(obj, cls)
        if problems and self.mode == "Warn":
            call.warnings[:] = dict.fromkeys([*call.warnings, *problems])
        if "managedFields" in (tree.get("metadata") or ()):
            call.resets_managers = tree["metadata"]["managedFields"] == []
        check_place(call, obj, self._refused)
        doubled = deduplicate_owners(obj.metadata, after_admission=True)
        call.warnings[:] = dict.fromkeys([*call.warnings, *doubled])
        return obj

    def _reported(self, cls: type[Any]) -> tuple[Any, list[str]]:
        """What came of the patch, and what is wrong with its fields. Raises DecodeError."""
        gates, quotes = self.call.context.settings.feature_gates, self.patch_type != STRATEGIC
        try:
            if self.kind.kind in COMPARED_IN_BYTES:
                if self.patch_type == STRATEGIC:
                    raise DecodeError("only the converter knows the order of names")
                self.tree = msgspec.json.decode(as_written(self.patch_type, self.body, self.tree))
            return decode_reporting(cls, encode(self.tree), gates, quotes=quotes, worded=False)
        except DecodeError:
            if self.patch_type != STRATEGIC:
                raise
        try:  # numbers may be larger than their fields
            return decode_reporting(cls, encode(as_converted(cls, self.tree)), gates, quotes=quotes)
        except Refused as refusal:
            raise DecodeError(str(refusal)) from None

    def _keep_numbers(self, cls: type[Any]) -> None:
        """Apply it once more with numbers as they were sent, which is how messages show what came of it.

        That is not possible where an operation looks at what a number is, or a text is no text.
        """
        if self.patch_type == STRATEGIC:
            return
        read = self.body
        try:
            self.body = decode_as_sent(self.call.request.body)
            before = msgspec.json.decode(self._before)
            if self.kind.is_custom:  # kept as maps, whose names Go writes in order
                before = msgspec.json.decode(msgspec.json.encode(before, order="sorted"))
            self.tree = self._applied(before, cls)
        except (ApiError, msgspec.DecodeError, UnicodeDecodeError):
            self.body = read

    def _first_problem(self, cls: type[Any]) -> str:
        """What Kubernetes finds first; "" if only the whole says what is wrong."""
        if self.patch_type == STRATEGIC:
            return ""
        written = as_written(self.patch_type, self.body, self.tree)
        if not issubclass(cls, CustomObject):
            return first_problem(cls, written) or ""
        try:
            decode_reporting(cls, written)
        except DecodeError as error:
            return str(error)
        return ""

    def _in_order(self, cls: type[Any], problems: list[str]) -> list[str]:
        """What is wrong with fields, in the order in which Kubernetes finds it."""
        if self.patch_type == STRATEGIC:
            return sorted(problems)
        return decode_reporting(cls, as_written(self.patch_type, self.body, self.tree))[1]

    def _other_type(self, cls: type[Any]) -> str:
        """Why nobody knows what came of the patch, which is told before what is wrong with its fields; "" if it is known."""
        head = head_of(encode(self.tree))
        if head is None or self.kind.is_custom or self.patch_type == STRATEGIC or cls is not self.kind.type:
            return ""
        is_same = (head.api_version, head.kind or self.kind.kind) == (self.kind.api_version, self.kind.kind)
        if is_same or self.call.context.kinds.of_kind(head.api_version, head.kind) is not None:
            return ""
        return self._unknown(head.api_version, head.kind)

    def _unknown(self, api_version: str, kind: str) -> str:
        """Why something of another type is no object of the kind."""
        if not api_version:
            return internal_type(self.kind, kind)
        return other_type(self.call, api_version, kind, self.kind.kind, self.kind.api_version)

    def _check_type(self, obj: Any, cls: type[Any]) -> None:
        """An object stays of its kind; what a strategic patch says of that is not looked at. Raises ApiError (422)."""
        kind = self.kind
        if obj.kind in ("", kind.kind) and obj.api_version in ("", kind.api_version):
            if not obj.api_version and self.patch_type != STRATEGIC and cls is kind.type and not kind.is_custom:
                # Go takes it for an internal type, whose JSON has no names.
                unknown = [f'unknown field "{name}"' for name in self.tree if name not in ("kind", "apiVersion")]
                if self.mode == "Strict":
                    raise self._spoiled(cls, f"strict decoding error: {', '.join(sorted(unknown))}")
                if self.mode == "Warn":
                    self.call.warnings.extend(unknown)
                where = f"the name of the object ({self.call.path.name} based on URL) was undeterminable"
                raise bad_request(f"{where}: name must be provided")
            return
        if isinstance(obj, CustomObject):
            raise invalid_object(obj.kind, kind.group, obj.metadata.name, type_errors(kind, obj))
        if self.patch_type == STRATEGIC:
            obj.kind, obj.api_version = kind.kind, kind.api_version
        elif cls is kind.type:
            why = version_problem(obj.api_version) or self._unknown(obj.api_version, obj.kind)
            raise self._spoiled(cls, why)


def _type_of(call: Call) -> str:
    """The type of the patch. Raises ApiError (415)."""
    patch_type = _PATCH_TYPES.get(call.request.content_type.partition(";")[0].strip())
    if call.kind.is_custom and patch_type in (None, STRATEGIC):
        raise unsupported_media_type((*(one for one in _PATCH_TYPES if "strategic" not in one), apply.APPLY_TYPE))
    assert patch_type is not None, "check_routed has been called"
    return patch_type


def check_routed(content_type: str) -> None:
    """Whether there is a route for a patch of this type of a built-in resource: who finds routes looks before anybody else. Raises ApiError (415)."""
    media_type = content_type.partition(";")[0].strip()
    if media_type != apply.APPLY_TYPE and media_type not in _PATCH_TYPES:
        raise failure(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def _only_part(call: Call, patch_type: str, body: Any) -> str:
    """The part of an object that is all that a patch concerns: "status", where it comes by way of that, or "metadata"; "" if it may concern more.

    The rest of the object, which may be large, need not be taken apart then.
    """
    name = call.path.subresource.name if call.path.subresource else ""
    if patch_type == JSON or call.kind.is_custom or not isinstance(body, dict):
        return ""
    metadata = body.get("metadata", {})
    if not isinstance(metadata, dict):
        return ""
    if name == "status" and body.keys() <= {"metadata", "status"} and metadata.keys() <= {"uid"}:
        return name
    if not name and body.keys() == {"metadata"} and metadata.keys() <= _FREE_METADATA:
        return "metadata"
    return ""


def _with_parts(obj: Any, status: Any, uid: str) -> Any:
    """The object with another status and metadata of its own, in which nobody manages fields yet; the rest is shared."""
    metadata = msgspec.structs.replace(obj.metadata, uid=uid, managed_fields=())
    return msgspec.structs.replace(obj, status=status, metadata=metadata)


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
    try:
        problems = field_problems(data, unknown) if unknown or mode == "Strict" or may_repeat_fields(data) else []
    except (msgspec.DecodeError, UnicodeDecodeError):
        problems = unknown  # some text is no text
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
