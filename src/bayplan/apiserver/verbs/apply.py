"""Server-side apply: a configuration of one manager, laid over the object as it is when it is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from bayplan.api.codec import json_type, may_repeat_fields
from bayplan.api.custom_resources.numbers import NumberError, settle_numbers
from bayplan.api.errors import ApiError, bad_request, conflict, failure, not_found_error
from bayplan.api.json.nesting import DepthError, check_depth
from bayplan.api.json.syntax import large_number
from bayplan.api.json.unstructured import first_unstructured_problem
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.managed_fields.applying import Applier
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import revision_problem
from bayplan.apiserver.verbs.create import create_object
from bayplan.apiserver.verbs.update import check_place, modify
from bayplan.apiserver.writes.body_errors import version_problem
from bayplan.apiserver.writes.options import check_patch_options

T = TypeVar("T")

APPLY_TYPE: Final = "application/apply-patch+yaml"
_ODD_NUMBER: Final = re.compile(rb"[:\[,]\s*+-?+[0-9]++(?:[.eE]|(?<=[0-9]{19}))")
"""The beginning of a number in JSON that may not be a whole one, or have more than 64 bits."""
_MINUS_ZERO: Final = re.compile(rb"[:\[,]\s*+-0\.0*+\s*+[,\]}]")
"""A number in JSON that is 0 in YAML."""


_NO_PLAIN_TEXT: Final = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")
"""Control characters that JSON takes, and the ends of lines that YAML has besides."""


def is_apply(call: Call) -> bool:
    """Whether the request is a server-side apply."""
    return call.request.content_type.partition(";")[0].strip() == APPLY_TYPE


async def apply(call: Call) -> tuple[int, Entry]:
    """Server-side apply: the object as a manager wants its part of it; it is made if it is not there (201)."""
    name = call.path.subresource.name if call.path.subresource else ""
    check_patch_options(call.request.query, is_apply=True)
    is_new = call.entry(call.path.namespace, call.path.name) is None
    if is_new and name:
        raise not_found_error(call.kind.plural, call.kind.group, call.path.name)
    given = configuration(call, call.kind)
    applier = Applier(call, given.tree, name, has_floats=given.has_floats)
    if is_new:
        return 201, await _create_applied(call, applier, given)

    def applied(old: Any) -> Any:
        obj = applier.apply(old)
        if given.repeated:
            call.check_quantities(obj, applier.refused)
        given.check(call)
        check_place(call, obj, applier.refused)
        return call.to_stored(obj, applier.refused)

    return 200, await modify(call, applied, subresource=name, fresh=False, track=False)


async def _create_applied(call: Call, applier: Applier, given: Configuration) -> Entry:
    obj = applier.apply(None)
    if given.repeated:
        call.check_quantities(obj, applier.refused)
    given.check(call)
    metadata = obj.metadata
    metadata.namespace = metadata.namespace or call.path.namespace
    check_place(call, obj, applier.refused)
    if metadata.uid:
        call.check_quantities(obj, applier.refused)
        detail = f"uid mismatch: the provided object specified uid {metadata.uid}, and no existing object was found"
        raise conflict(call.kind.plural, call.kind.group, call.path.name, detail)
    if metadata.resource_version and (problem := revision_problem(metadata.resource_version)):
        raise failure(500, "", problem, details=False)
    if not call.dry_run:
        metadata.resource_version = ""
    return await create_object(call, obj, track=False, refused=applier.refused)


def _from_yaml(data: bytes) -> Any:
    """The tree of a YAML document. Raises ApiError (400)."""
    from bayplan.apiserver.yaml.documents import to_json  # slow to import, and seldom needed

    return msgspec.json.decode(_read_yaml(data, to_json))


def _read_yaml(data: bytes, read: Callable[[bytes], T]) -> T:
    """What a function finds in a YAML document. Raises ApiError (400)."""
    import yaml  # slow to import, and seldom needed

    from bayplan.apiserver.yaml.documents import problem_text

    try:
        return read(data)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {problem_text(error)}") from None


class Configuration(NamedTuple):
    """What is applied."""

    tree: dict[str, Any]
    has_floats: bool
    """Whether some of its numbers are no whole ones of 64 bits."""
    repeated: str
    """Which fields it gives twice, worded as go-yaml does; "" if none, or nobody wants to know."""

    def check(self, call: Call) -> None:
        """Refuse what gives fields twice, or warn of that. To be called when it has been merged, which may have been refused for other reasons.

        Raises ApiError (400).
        """
        if self.repeated and call.request.query.get("fieldValidation") == "Strict":
            raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {self.repeated}")
        lines = [line.strip() for line in self.repeated.splitlines()[1:]]
        call.warnings.extend(line for line in lines if line not in call.warnings)


def configuration(call: Call, expected: Kind) -> Configuration:
    """The applied configuration, of this kind, from the body. Raises ApiError (400, 422)."""
    check_patch_options(call.request.query, is_apply=True)
    data = call.request.body
    applied, has_floats, is_yaml = _read_configuration(data)
    mode, repeated = call.request.query.get("fieldValidation") or "Warn", ""
    may_repeat = mode == "Strict" or is_yaml or (call.request.reads_warnings and may_repeat_fields(data))
    if mode != "Ignore" and may_repeat and (mode == "Strict" or call.request.reads_warnings):
        from bayplan.apiserver.yaml.documents import repeated_keys  # slow to import, and seldom needed

        repeated = _read_yaml(data, repeated_keys)
    api_version, kind = (
        one if isinstance(one, str) else "" for one in (applied.get("apiVersion"), applied.get("kind"))
    )
    if (api_version, kind) != (expected.api_version, expected.kind):
        if version_problem(api_version):
            api_version = kind = ""
        group, _, version = api_version.rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    metadata = applied.get("metadata")
    managers = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if isinstance(managers, list) and all(map(_is_manager, managers)):
        raise bad_request("metadata.managedFields must be nil")
    return Configuration(applied, has_floats, repeated)


def _is_manager(entry: Any) -> bool:
    """Whether kube-apiserver takes something for an entry of managed fields; it passes over all of them if it does not, and refuses the type later."""
    return isinstance(entry, dict) and first_unstructured_problem(meta_v1.ManagedFieldsEntry, entry) is None


def _read_configuration(data: bytes) -> tuple[dict[str, Any], bool, bool]:
    """A configuration, whether it has floats, and whether it is YAML that is no JSON. Raises ApiError (400)."""
    try:  # JSON is read a hundred times as fast as YAML
        check_depth(data)
        found, is_yaml = msgspec.json.decode(data), False
    except (msgspec.DecodeError, UnicodeDecodeError, DepthError):
        is_yaml = True
    if is_yaml or _is_other_yaml(data):
        found, is_yaml = _from_yaml(data), True
    if found is None:
        return {}, False, is_yaml
    if not isinstance(found, dict):
        raise _unreadable(f"json: cannot unmarshal {json_type(found)} into Go value of type map[string]interface {{}}")
    if not is_yaml and not _ODD_NUMBER.search(data):
        return found, False, False
    try:
        return found, settle_numbers(found), is_yaml
    except NumberError as error:
        raise _unreadable(str(error)) from None


def _is_other_yaml(data: bytes) -> bool:
    """Whether JSON may be something else to a reader of YAML, where nothing begins with a tab, some numbers are text, and slashes are not escaped."""
    return (
        data[:1] == b"\t"
        or b"\\/" in data
        or bool(large_number(data))
        or ((not data.isascii() or b"\x7f" in data) and _NO_PLAIN_TEXT.search(data) is not None)
        or (b"-0." in data and _MINUS_ZERO.search(data) is not None)
    )


def _unreadable(problem: str) -> ApiError:
    return bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {problem}")
