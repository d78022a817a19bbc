"""What is said of patches that cannot be read, and of objects that a patch spoils.

Source: apiserver's `endpoints/handlers/patch.go`, evanphx/json-patch, whose documents come out with the names of what was touched in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bayplan.api.codec import encode, json_type, with_null_lists
from bayplan.api.custom_resources.go_values import shown
from bayplan.api.custom_resources.numbers import with_large_floats
from bayplan.api.errors import ApiError, bad_request, invalid, invalid_object
from bayplan.api.json.nesting import DepthError, check_depth
from bayplan.api.json.syntax import infinite_number, large_number, repaired, syntax_problem, too_large
from bayplan.api.json.writing import escaped
from bayplan.api.kinds import Kind

JSON, MERGE, STRATEGIC = "json", "merge", "strategic"
_MAP: Final = "map[string]interface {}"


def read_patch(data: bytes, patch_type: str, *, checked: bool) -> Any:
    """A patch from its body. checked: whether fields are validated, which reads the patch once more, by itself. Raises ApiError (400)."""
    place = "struct field jsonPatchOp.value" if patch_type == JSON else "value"
    try:
        check_depth(data)
        patch = msgspec.json.decode(data)
        if number := large_number(data):
            raise _unreadable(patch_type, too_large(number, place), checked=checked)
    except (msgspec.DecodeError, UnicodeDecodeError, DepthError):
        problem = syntax_problem(data)
        if not problem and (number := infinite_number(data)):
            problem = too_large(number, place)
        if problem:
            raise _unreadable(patch_type, problem, checked=checked) from None
        patch = msgspec.json.decode(repaired(data))
    if patch_type == JSON:
        return _operations(patch, checked=checked)
    if patch is None and patch_type == STRATEGIC:
        return {}
    if patch is None or (patch_type == MERGE and not checked and not isinstance(patch, dict | list)):
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict) and not (patch_type == MERGE and not checked):
        raise _unreadable(patch_type, _mismatch(patch, _MAP), checked=checked)
    if patch_type == STRATEGIC and _LONG_NUMBER.search(data):
        with_large_floats(patch)
    return patch


_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
"""Without one, no integer takes more than 64 bits."""


decode_as_sent: Callable[[bytes], Any] = msgspec.json.Decoder(float_hook=lambda text: msgspec.Raw(text.encode())).decode
"""Valid JSON with its floats as they stand there."""


def _unreadable(patch_type: str, problem: str, *, checked: bool) -> ApiError:
    if patch_type == STRATEGIC or (patch_type == JSON and not checked):
        return bad_request(problem)
    return bad_request(f"error decoding patch: {problem}" if checked else "Invalid JSON Patch")


def _mismatch(value: Any, go_type: str) -> str:
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {go_type}"


def _operations(patch: Any, *, checked: bool) -> list[dict[str, Any]]:
    """Raises ApiError (400)."""
    whole, one = (
        ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp") if checked else ("jsonpatch.Patch", "jsonpatch.Operation")
    )
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _unreadable(JSON, _mismatch(patch, whole), checked=checked)
    for operation in patch:
        if operation is not None and not isinstance(operation, dict):
            raise _unreadable(JSON, _mismatch(operation, one), checked=checked)
        for name in ("op", "path", "from") if checked else ():
            value = (operation or {}).get(name, "")
            if not isinstance(value, str | None):
                problem = (
                    f"json: cannot unmarshal {json_type(value)} into Go struct field jsonPatchOp.{name} of type string"
                )
                raise _unreadable(JSON, problem, checked=checked)
    return [operation or {} for operation in patch]


def spoiled_by(patch_type: str, patch: Any, tree: Any, kind: Kind, why: str) -> ApiError:
    """The answer to a patch whose result, a tree, is no object of the kind, and why not."""
    if patch_type == STRATEGIC:
        done = {
            "$retainKeys",
            *(("$patch",) if patch.get("$patch") == "replace" else ()),
        }  # Go takes out what it has followed
        text = shown({name: value for name, value in patch.items() if name not in done})
    else:
        data = as_written(patch_type, patch, tree)
        if not kind.is_custom and patch_type == MERGE:
            data = encode(_with_own_lists(decode_as_sent(with_null_lists(kind.kind, data)), patch))
        elif not kind.is_custom and b"[]" not in encode(patch):  # nobody but the server left lists empty
            data = with_null_lists(kind.kind, data)
        text = (escaped(data) if patch_type == MERGE else data).decode()
    return invalid_object("", "", "", [invalid("patch", text, why)])


def as_written(patch_type: str, patch: Any, tree: Any) -> bytes:
    """What came of a JSON or merge patch, with its fields in the order in which Kubernetes reads them."""
    ordered = _maps_in_order(tree)
    return encode(_merged(ordered, patch) if patch_type == MERGE else _operated(ordered, patch))


_MAPS: Final = frozenset(
    (
        *("labels", "annotations", "matchLabels", "nodeSelector", "data", "stringData", "binaryData"),
        *("limits", "requests", "capacity", "allocatable", "hard", "used", "overhead"),
    )
)
"""Fields that are maps in Go, whose keys it writes in order; all other objects have fields in an order of their own."""


def _maps_in_order(tree: Any) -> Any:
    """A tree with its maps as Go writes them, whatever the order in which clients wrote them."""
    if isinstance(tree, dict):
        return {
            name: dict(sorted(item.items()))
            if name in _MAPS and isinstance(item, dict)
            else item
            if name == "managedFields"
            else _maps_in_order(item)
            for name, item in tree.items()
        }
    return [_maps_in_order(item) for item in tree] if isinstance(tree, list) else tree


def _with_own_lists(tree: Any, patch: Any) -> Any:
    """A tree whose empty lists are null, but for those that stand in the patch."""
    if patch == []:
        return []
    if isinstance(tree, dict) and isinstance(patch, dict):
        return {name: _with_own_lists(item, patch[name]) if name in patch else item for name, item in tree.items()}
    return tree


def _merged(tree: Any, patch: Any) -> Any:
    """A tree as it is written after a merge: names that stand where the patch has some, too, are in order."""
    if isinstance(tree, dict) and isinstance(patch, dict):
        return {name: _merged(tree[name], patch.get(name)) for name in sorted(tree)}
    if isinstance(tree, list) and isinstance(patch, list) and len(tree) == len(patch):
        return [_merged(item, other) for item, other in zip(tree, patch, strict=True)]
    return tree


def _operated(tree: Any, operations: list[dict[str, Any]]) -> Any:
    """A tree as it is written after operations: names in the objects through which their paths lead are in order."""
    visited: dict[str, Any] = {}
    for operation in operations:
        for pointer in (operation.get("path"), operation.get("from")):
            node = visited
            for part in str(pointer or "").split("/")[1:-1]:
                node = node.setdefault(part.replace("~1", "/").replace("~0", "~"), {})
    return _visited(tree, visited)


def _visited(tree: Any, visited: dict[str, Any]) -> Any:
    if isinstance(tree, dict):
        return {name: _visited(tree[name], visited[name]) if name in visited else tree[name] for name in sorted(tree)}
    if isinstance(tree, list):
        return [_visited(item, visited[str(at)]) if str(at) in visited else item for at, item in enumerate(tree)]
    return tree
