"""JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch, on plain JSON trees.

A patch never changes the tree that it is given. Where Kubernetes departs from the RFCs, it is followed: `replace` of a missing key adds it, negative list
indexes count from the end.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.schema import Schema, definitions, resolve

MAX_OPERATIONS = 10_000


class PatchError(Exception):
    """The patch cannot be applied."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        """HTTP status code that Kubernetes answers with."""


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
    document = {"": copy_tree(tree)}
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchError(400, "error decoding patch: an operation must be an object")
        _apply_operation(document, operation)
    return document[""]


def _apply_operation(document: dict[str, Any], operation: dict[str, Any]) -> None:
    name, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise PatchError(422, GENERIC)
    if name in ("add", "replace", "test"):
        if name != "test" and "value" not in operation:
            raise PatchError(422, GENERIC)
        value = copy_tree(operation.get("value"))
        if name == "add":
            _add(document, path, value)
        elif name == "replace":
            _replace(document, path, value)
        elif _get(document, path, missing=None) != value:
            raise PatchError(422, GENERIC)
    elif name == "remove":
        _remove(document, path)
    elif name in ("move", "copy"):
        source = operation.get("from")
        if not isinstance(source, str):
            raise PatchError(422, GENERIC)
        value = copy_tree(_get(document, source, missing=None if name == "copy" else _MISSING))
        if name == "move":
            _remove(document, source)
        _add(document, path, value)
    else:
        raise PatchError(422, GENERIC)


_MISSING = object()


def _parts(path: str) -> list[str]:
    """The members that a pointer goes through, the document first; what stands before the first slash is not looked at."""
    _, *parts = path.split("/")
    return ["", *(part.replace("~1", "/").replace("~0", "~") for part in parts)]


def _index(part: str, length: int) -> int:
    try:
        index = int(part)
    except ValueError:
        raise PatchError(422, GENERIC) from None
    if index < 0:
        index += length
    if not 0 <= index < length:
        raise PatchError(422, GENERIC)
    return index


def _parent(document: dict[str, Any], path: str) -> tuple[Any, str]:
    *heads, last = _parts(path)
    node: Any = document
    for part in heads:
        if isinstance(node, dict):
            node = node.get(part, _MISSING)
        elif isinstance(node, list):
            node = node[_index(part, len(node))]
        else:
            node = _MISSING
        if node is _MISSING or node is None:
            raise PatchError(422, GENERIC)
    if not isinstance(node, dict | list):
        raise PatchError(422, GENERIC)
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
        raise PatchError(422, GENERIC)  # the document as a whole stays
    node, last = _parent(document, path)
    if isinstance(node, dict):
        if last not in node:
            raise PatchError(422, GENERIC)
        del node[last]
    else:
        del node[_index(last, len(node))]


# JSON merge patch


def apply_merge_patch(tree: Any, patch: Any) -> Any:
    """Apply a merge patch. Raises PatchError if the patch is no object."""
    if not isinstance(patch, dict):
        raise PatchError(400, "error decoding patch: the patch must be an object")
    return _merge(tree, patch)


def _merge(tree: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy_tree(patch)
    result = dict(tree) if isinstance(tree, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


# Strategic merge patch

_DIRECTIVE = "$patch"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_SET_ORDER = "$setElementOrder/"
_RETAIN_KEYS = "$retainKeys"


def apply_strategic_patch(tree: dict[str, Any], patch: Any, definition: str) -> dict[str, Any]:
    """Apply a strategic merge patch to an object of the kind with this schema definition. Raises PatchError."""
    if not isinstance(patch, dict):
        raise PatchError(400, "error decoding patch: the patch must be an object")
    merged: dict[str, Any] = _strategic_map(tree, patch, definitions()[definition])
    return merged


def _property(schema: Schema, name: str) -> Schema:
    """The schema of a member with its patch facts; empty if the schema says nothing."""
    schema = resolve(schema)
    found = schema.get("properties", {}).get(name)
    if found is None:
        inner = schema.get("additionalProperties")
        return inner if isinstance(inner, dict) else {}
    result: Schema = found
    return result


def _strategic_map(tree: Any, patch: dict[str, Any], schema: Schema) -> Any:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return copy_tree({key: value for key, value in patch.items() if key != _DIRECTIVE})
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchError(500, f"Unknown patch type: {directive}")
    result = dict(tree) if isinstance(tree, dict) else {}
    retained = patch.get(_RETAIN_KEYS)
    if retained is not None:
        if not isinstance(retained, list) or not (patch.keys() - {_RETAIN_KEYS, _DIRECTIVE}) <= set(retained):
            raise PatchError(400, "$retainKeys list doesn't match the fields in the patch")
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key in (_DIRECTIVE, _RETAIN_KEYS) or key.startswith(_SET_ORDER):
            continue
        if key.startswith(_DELETE_FROM):
            _delete_primitives(result, key[len(_DELETE_FROM) :], value)
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _strategic_value(
                result.get(key), value, _property(schema, key), patch.get(_SET_ORDER + key), key
            )
            if value == {_DIRECTIVE: "delete"}:
                del result[key]
    for key, order in patch.items():
        if key.startswith(_SET_ORDER) and key[len(_SET_ORDER) :] not in patch:
            name = key[len(_SET_ORDER) :]
            if isinstance(result.get(name), list):
                result[name] = _strategic_value(result[name], [], _property(schema, name), order, name)
    return result


def _delete_primitives(result: dict[str, Any], name: str, values: Any) -> None:
    if not isinstance(values, list):
        raise PatchError(400, f"{_DELETE_FROM}{name} must be a list")
    kept = [item for item in result.get(name) or [] if item not in values]
    if kept:
        result[name] = kept
    else:
        result.pop(name, None)


def _strategic_value(tree: Any, patch: Any, schema: Schema, order: Any, name: str) -> Any:
    if isinstance(patch, dict):
        facts = schema.get("x-kubernetes-patch-strategy", "")
        if "replace" in facts.split(","):
            return copy_tree(patch)
        return _strategic_map(tree if isinstance(tree, dict) else None, patch, schema)
    if isinstance(patch, list):
        return _strategic_list(tree if isinstance(tree, list) else [], patch, schema, order, name)
    return patch


def _strategic_list(tree: list[Any], patch: list[Any], schema: Schema, order: Any, name: str) -> list[Any]:
    schema = resolve(schema)
    strategies = schema.get("x-kubernetes-patch-strategy", "").split(",")
    if "merge" not in strategies:
        return copy_tree([item for item in patch if not _is_directive(item)])  # type: ignore[no-any-return]
    key = schema.get("x-kubernetes-patch-merge-key")
    if key is None:
        merged = [*tree, *(item for item in patch if item not in tree)]
        return _ordered(merged, tree, order if isinstance(order, list) else patch, None)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [copy_tree(_without_directive(item)) for item in patch if _without_directive(item)]
    return _merge_list_by_key(tree, patch, schema, key, order, name)


def _merge_list_by_key(tree: list[Any], patch: list[Any], schema: Schema, key: str, order: Any, name: str) -> list[Any]:
    items = schema.get("items", {})
    result = list(tree)
    for item in patch:
        if not isinstance(item, dict):
            raise PatchError(400, f"The order in patch list:\n{patch}\n doesn't match $setElementOrder list")
        if key not in item:
            raise PatchError(500, f"map: {item} does not contain declared merge key: {key}")
        at = next(
            (index for index, one in enumerate(result) if isinstance(one, dict) and one.get(key) == item[key]), None
        )
        if item.get(_DIRECTIVE) == "delete":
            result = [one for one in result if not (isinstance(one, dict) and one.get(key) == item[key])]
        elif at is not None:
            result[at] = _strategic_map(result[at], item, items)
        else:
            result.append(_strategic_map(None, item, items))
    if isinstance(order, list):
        wanted = [one.get(key) if isinstance(one, dict) else None for one in order]
        for item in patch:
            if item.get(_DIRECTIVE) is None and item[key] not in wanted:
                raise PatchError(
                    500, f"The order in patch list:\n{patch}\n doesn't match {_SET_ORDER}{name} list:\n{order}\n"
                )
    return _ordered(result, tree, order if isinstance(order, list) else patch, key)


def _is_directive(item: Any) -> bool:
    return isinstance(item, dict) and _DIRECTIVE in item


def _without_directive(item: Any) -> Any:
    return {key: value for key, value in item.items() if key != _DIRECTIVE} if isinstance(item, dict) else item


def _ordered(merged: list[Any], live: list[Any], order: list[Any], key: str | None) -> list[Any]:
    """Items in the order that `$setElementOrder`, or else the patch itself, gives them.

    Items of the live list that it does not name stand before the first named one that follows them in the live list, or at the end.
    """

    def identities(items: list[Any]) -> list[str]:
        return [str(item.get(key) if key is not None and isinstance(item, dict) else item) for item in items]

    rank = {name: index for index, name in enumerate(identities(order))}
    named: list[tuple[str, Any]] = []
    others: list[tuple[str, Any]] = []
    for name, item in zip(identities(merged), merged, strict=True):
        (named if name in rank else others).append((name, item))
    if not named:
        return merged
    named.sort(key=lambda pair: rank[pair[0]])
    position = {name: index for index, name in enumerate(identities(live))}
    result: list[Any] = []
    at = 0
    for name, item in named:
        limit = position.get(name)
        while at < len(others) and limit is not None and position.get(others[at][0], len(position)) < limit:
            result.append(others[at][1])
            at += 1
        result.append(item)
    return result + [item for _, item in others[at:]]
