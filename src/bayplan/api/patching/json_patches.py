"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), on plain JSON trees.

A patch never changes the tree that it is given. Where Kubernetes departs from the RFCs, it is followed: `replace` of a missing key adds it, negative list
indexes count from the end.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.api.json.nesting import is_too_deep
from bayplan.api.long_lists import LongList, in_one, in_pieces, is_same

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Bytes of JSON that all copies of one JSON patch may add, as in kube-apiserver."""


class PatchError(Exception):
    """The patch cannot be applied."""

    def __init__(self, code: int, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        """HTTP status code that Kubernetes answers with."""
        self.detail = detail
        """What Go's `json-patch` says of an operation, where that is known; answers to patches do not show it."""


class FailedTest(PatchError):
    """A test of a JSON patch finds another value."""


GENERIC = "the server rejected our request due to an error in our request"


def copy_tree(value: Any) -> Any:
    """An independent copy of a JSON tree."""
    if isinstance(value, dict):
        return {key: copy_tree(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_tree(item) for item in value]
    return value


# JSON patch


def apply_json_patch(tree: Any, operations: Any) -> Any:
    """Apply a list of operations. Raises PatchError."""
    if not isinstance(operations, list):
        raise PatchError(
            400, "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        )
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(
            413,
            f"Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    document = {"": in_pieces(tree)}
    copied = 0
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchError(400, "error decoding patch: an operation must be an object")
        try:
            copied += _apply_operation(document, operation, MAX_COPIED_BYTES - copied)
        except PatchError as error:
            error.detail = _of_operation(error.detail, operation)
            raise
    return in_one(document[""])


def _of_operation(detail: str, operation: dict[str, Any]) -> str:
    """What is wrong with an operation, given what is wrong at its path."""
    name, path = operation.get("op"), operation.get("path")
    if detail == _NO_PATH and name == "test":
        return f"test operation does not apply: is missing path: {path}: {_MISSING_VALUE}"
    if detail == _NO_PATH:
        shown = path if name == "replace" else f'"{path}"'
        return f"{name} operation does not apply: doc is missing path: {shown}: {_MISSING_VALUE}"
    if not detail.startswith(_AT_PATH) or name not in ("add", "remove", "replace", "test"):
        return detail
    if name == "replace":
        return f"replace operation does not apply: doc is missing key: {path}: {_MISSING_VALUE}"
    if name == "add" and detail.startswith(_NO_NUMBER):
        detail = f"value was not a proper array index: '{str(path).rpartition('/')[2]}': {detail}"
    return f"error in {name} for path: '{path}': {detail}"


def _apply_operation(document: dict[str, Any], operation: dict[str, Any], may_copy: int) -> int:
    """Returns how many bytes of JSON were copied. may_copy: how many may be. Raises PatchError."""
    name, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise PatchError(422, GENERIC)
    value = operation.get("value")
    if name == "add":
        _add(document, path, in_pieces(value))
    elif name == "replace" and not path:
        document[""] = in_pieces(_whole(value))
    elif name == "replace":
        _replace(document, path, in_pieces(value))
    elif name == "test":
        found = _get(document, path, missing=None) if path else document[""]
        if not is_same(found, value):
            raise FailedTest(422, GENERIC)
    elif name == "remove":
        _remove(document, path)
    elif name in ("move", "copy"):
        return _move(document, operation.get("from"), path, copies=name == "copy", may_copy=may_copy)
    else:
        raise PatchError(422, GENERIC, f"Unexpected kind: {name or ''}")
    return 0


def _move(document: dict[str, Any], source: Any, path: str, *, copies: bool, may_copy: int) -> int:
    """Move or copy a value; returns how many bytes of JSON were copied. Raises PatchError."""
    if not isinstance(source, str):
        name = "copy" if copies else "move"
        detail = f"{name} operation failed to decode from: operation, missing from field: {_MISSING_VALUE}"
        raise PatchError(422, GENERIC, detail)
    if not copies:
        value = _get(document, source, missing=_MISSING)
        _remove(document, source)
        _add(document, path, value)
        return 0
    value = in_one(_get(document, source, missing=None))
    copied = _size(value)
    if copied > may_copy:
        raise PatchError(422, GENERIC)
    _add(document, path, in_pieces(value))
    return copied


def _size(value: Any) -> int:
    """Bytes of a JSON tree. Raises PatchError if it is nested too deeply."""
    data = msgspec.json.encode(value)
    if is_too_deep(data):
        raise PatchError(422, GENERIC)
    return len(data)


_MISSING = object()
_NO_PATH = "no such path"
_MISSING_VALUE = "missing value"
_NO_NUMBER = "strconv.Atoi: parsing"
_NO_ITEM = "Unable to access invalid index"
_NO_KEY = "Unable to remove nonexistent key"
_AT_PATH = (_NO_NUMBER, _NO_ITEM, _NO_KEY)
_INDEX_DIGITS = 20
"""More than the index of any list has."""


def _whole(value: Any) -> Any:
    """What may stand in the place of the document."""
    if not isinstance(value, dict | list):
        raise PatchError(422, GENERIC, "replace operation value must be object or array: %!w(<nil>)")
    return value


def _parts(path: str) -> list[str]:
    """The members that a pointer goes through, the document first; what stands before the first slash is not looked at."""
    _, *parts = path.split("/")
    if not parts:
        raise PatchError(422, GENERIC, _NO_PATH)
    return ["", *(part.replace("~1", "/").replace("~0", "~") for part in parts)]


def _index(part: str, length: int) -> int:
    if len(part) > _INDEX_DIGITS:
        raise PatchError(422, GENERIC)
    try:
        index = int(part)
    except ValueError:
        raise PatchError(422, GENERIC, f'{_NO_NUMBER} "{part}": invalid syntax') from None
    found = index + length if index < 0 else index
    if not 0 <= found < length:
        raise PatchError(422, GENERIC, f"{_NO_ITEM}: {index}: invalid index referenced")
    return found


def _parent(document: dict[str, Any], path: str) -> tuple[Any, str]:
    *heads, last = _parts(path)
    node: Any = document
    for part in heads:
        if isinstance(node, dict):
            node = node.get(part, _MISSING)
        elif isinstance(node, list | LongList):
            try:
                node = node[_index(part, len(node))]
            except PatchError as error:
                error.detail = _NO_PATH
                raise
        else:
            node = _MISSING
        if node is _MISSING or node is None:
            raise PatchError(422, GENERIC, _NO_PATH)
    if not isinstance(node, dict | list | LongList):
        raise PatchError(422, GENERIC, _NO_PATH)
    return node, last


def _get(document: dict[str, Any], path: str, missing: Any) -> Any:
    node, last = _parent(document, path)
    found = node.get(last, missing) if isinstance(node, dict) else node[_index(last, len(node))]
    if found is _MISSING:
        raise PatchError(422, GENERIC)
    return found


def _add(document: dict[str, Any], path: str, value: Any) -> None:
    node, last = _parent(document, path)
    if isinstance(node, dict):
        node[last] = value
    elif last == "-":
        node.append(value)
    else:
        node.insert(_index(last, len(node) + 1), value)


def _replace(document: dict[str, Any], path: str, value: Any) -> None:
    node, last = _parent(document, path)
    if isinstance(node, dict):
        node[last] = value
    else:
        node[_index(last, len(node))] = value


def _remove(document: dict[str, Any], path: str) -> None:
    if "/" not in path:
        raise PatchError(422, GENERIC, _NO_PATH)  # the document as a whole stays
    node, last = _parent(document, path)
    if isinstance(node, dict):
        if last not in node:
            raise PatchError(422, GENERIC, f"{_NO_KEY}: {last}: {_MISSING_VALUE}")
        del node[last]
    else:
        del node[_index(last, len(node))]


# JSON merge patch


def apply_merge_patch(tree: Any, patch: Any) -> Any:
    """Apply a merge patch; a list takes the place of all. Raises PatchError if the patch is something else than an object."""
    if isinstance(patch, list):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        raise PatchError(400, "error decoding patch: the patch must be an object")
    return _merge(tree, patch)


def _merge(tree: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy_tree(patch) if isinstance(tree, dict) else _without_nulls(patch)
    result = dict(tree) if isinstance(tree, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


def _without_nulls(value: Any) -> Any:
    """A copy of a value that replaces another, without members that are null: the library behind kube-apiserver's merge patches leaves them out in lists, too."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
