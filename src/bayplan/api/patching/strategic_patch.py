"""Kubernetes' strategic merge patch, on plain JSON trees.

A patch is merged along the types of the object: lists with a merge key item by item, sets of scalars by union, all other lists as a whole. Directives in the
patch say what cannot be said by values: `$patch` (delete, replace), `$retainKeys`, `$deleteFromPrimitiveList/x` and `$setElementOrder/x`. Neither
tree is changed.

Source: apimachinery's `util/strategicpatch/patch.go` and `util/mergepatch/errors.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from bayplan.api.custom_resources.go_values import shown, shown_as_text, type_name
from bayplan.api.patching.json_patches import GENERIC, PatchError, copy_tree
from bayplan.api.schema import Schema, resolve

DIRECTIVE: Final = "$patch"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
SET_ORDER: Final = "$setElementOrder"
RETAIN_KEYS: Final = "$retainKeys"
_BAD_DELETION: Final = "invalid patch format of primitive list"
_BAD_ORDER: Final = "invalid patch format of setElementOrder list"


MAX_REPEATED_WORK: Final = 1_000_000
"""Members and items of all that a patch merges into again, each time: list elements that it names more than once, lists that more than one directive is
about. All of them is looked through each time."""


class _Repeats:
    """Counts what a patch changes that it has changed before."""

    def __init__(self) -> None:
        self._left = MAX_REPEATED_WORK

    def count(self, value: Any) -> None:
        """Raises PatchError (413) for the value that is too much."""
        if isinstance(value, dict | list):
            self._left -= len(value)
            if self._left < 0:
                raise PatchError(
                    413,
                    "Request entity too large: The allowed maximum of values in lists and list elements that a strategic "
                    f"merge patch changes repeatedly is {MAX_REPEATED_WORK}",
                )
            for inner in value.values() if isinstance(value, dict) else value:
                self.count(inner)


class Facts(NamedTuple):
    """How a member of an object is merged."""

    schema: Schema
    """Of the member; of the items, if it is a list."""
    strategy: str
    key: str


def apply_strategic_patch(tree: dict[str, Any], patch: dict[str, Any], definition: str) -> dict[str, Any]:
    """Apply a patch to an object of the kind with this schema definition. Raises PatchError."""
    return _merge_map(tree, patch, {"$ref": definition}, _Repeats())


def facts_of(schema: Schema, name: str) -> Facts:
    """Raises PatchError for members of which the type knows nothing."""
    resolved = resolve(schema)
    found = resolved.get("properties", {}).get(name)
    if found is None:
        if "properties" not in resolved and "$ref" not in schema:
            raise PatchError(500, "merging an object in json but data type is not struct, instead is: map")
        struct = schema.get("$ref", "").rpartition(".")[2]
        raise PatchError(500, f'unable to find api field in struct {struct} for the json field "{name}"')
    strategies = [
        one for one in found.get("x-kubernetes-patch-strategy", "").split(",") if one not in ("", "retainKeys")
    ]
    inner = resolve(found) if "$ref" in found else found
    return Facts(
        inner.get("items", found), strategies[0] if strategies else "", found.get("x-kubernetes-patch-merge-key", "")
    )


def _merge_map(tree: dict[str, Any] | None, patch: dict[str, Any], schema: Schema, repeats: _Repeats) -> dict[str, Any]:
    directive = patch.get(DIRECTIVE)
    if DIRECTIVE in patch:
        if directive == "replace":
            return copy_tree({key: value for key, value in patch.items() if key != DIRECTIVE})  # type: ignore[no-any-return]
        if directive == "delete":
            return {}
        raise _unknown_directive(patch)
    result = dict(tree) if tree is not None else {}
    rest = patch
    if any(key.startswith("$") for key in patch):
        rest = _retained(result, patch)
        rest = _in_order(result, rest, schema, repeats)
    shortened: set[str] = set()
    for key, value in rest.items():
        if key.startswith(_DELETE_FROM):
            name = _listed(key, _BAD_DELETION)
            if name in shortened:  # what follows the directive's name is not looked at, so it can stand there for ever
                repeats.count(result.get(name))
            shortened.add(name)
            if value is not None:
                _delete_from(result, name, value, schema, repeats)
            else:
                result.pop(name, None)
        elif value is None:
            result.pop(key, None)
        else:
            _merge_member(result, key, value, schema, repeats)
    return result


def _merge_member(result: dict[str, Any], key: str, value: Any, schema: Schema, repeats: _Repeats) -> None:
    live = result.get(key)
    if type(live) is not type(value):
        if _is_directive(value):
            result.pop(key, None)
        else:
            result[key] = _new_value(value)
    elif isinstance(value, dict):
        facts = facts_of(schema, key)
        result[key] = (
            copy_tree(value) if facts.strategy == "replace" else _merge_map(live, value, facts.schema, repeats)
        )
    elif isinstance(value, list):
        facts = facts_of(schema, key)
        result[key] = _merge_list(live or [], value, facts, repeats) if facts.strategy == "merge" else copy_tree(value)
    else:
        result[key] = value


def _retained(result: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Take out what `$retainKeys` does not name. Returns the rest of the patch."""
    if RETAIN_KEYS not in patch:
        return patch
    names = patch[RETAIN_KEYS]
    rest = {key: value for key, value in patch.items() if key != RETAIN_KEYS}
    wrong = PatchError(400, "invalid patch format of retainKeys")
    if not isinstance(names, list):
        raise wrong
    kept = {_hashable(name) for name in names}
    if any(
        value is not None and _hashable(key) not in kept and not key.startswith((_DELETE_FROM, SET_ORDER))
        for key, value in rest.items()
    ):
        raise wrong
    for key in [key for key in result if _hashable(key) not in kept]:
        del result[key]
    return rest


def _listed(key: str, wrong: str) -> str:
    """The list that a directive in a key is about."""
    _, slash, name = key.partition("/")
    if not slash:
        raise PatchError(400, wrong)
    return name


def _in_order(result: dict[str, Any], patch: dict[str, Any], schema: Schema, repeats: _Repeats) -> dict[str, Any]:
    """Merge the lists for which `$setElementOrder` gives an order. Returns the rest of the patch."""
    keys = [key for key in patch if key.startswith(SET_ORDER)]
    if not keys:
        return patch
    rest = {key: value for key, value in patch.items() if not key.startswith(SET_ORDER)}
    ordered: set[str] = set()
    for key in keys:
        order = _as_list(patch[key])
        name = _listed(key, _BAD_ORDER)
        if name in ordered:
            repeats.count(result.get(name))
        ordered.add(name)
        live = _as_list(result[name]) if name in result else None
        given = _as_list(rest[name]) if name in rest else None
        facts = facts_of(schema, name)
        _check_order(given, order, facts.key)
        if live is None and given is None:
            continue
        if live is None:
            merged = _new_value(given)
        elif given is None:
            merged = live
        else:
            merged = _merge_list(live, given, facts, repeats) if facts.strategy == "merge" else given
        _check_elements(live or [], given or [])
        result[name] = _sorted(merged, order, live or [], facts.key)
        rest.pop(name, None)
    return rest


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    raise PatchError(500, f"expected a []interface {{}}, but received a {_received(value)}")


def _received(value: Any) -> str:
    return "%!s(<nil>)" if value is None else type_name(value)


def _check_order(given: list[Any] | None, order: list[Any], key: str) -> None:
    """The items of the patch stand in the order that `$setElementOrder` gives."""
    if not given or not order:
        return
    if key:
        _check_maps(given)
    wanted = [item for item in given if not _is_directive(item)]
    at = 0
    for one in order:
        if at < len(wanted) and _keyed(wanted[at], key) == _keyed(one, key):
            at += 1
    if at < len(wanted):
        raise PatchError(
            500,
            f"The order in patch list:\n{shown(given)}\n doesn't match {SET_ORDER} list:\n{shown(order)}\n",
        )


def _check_maps(items: list[Any]) -> None:
    for item in items:
        if not isinstance(item, dict):
            raise PatchError(500, f"expected a map[string]interface {{}}, but received a {_received(item)}")


def _keyed(item: Any, key: str) -> Any:
    """What identifies an item: the value of the merge key, or the item itself. Raises PatchError if it has none."""
    if not key:
        return item
    if not isinstance(item, dict):
        _check_maps([item])
    if key not in item:
        raise PatchError(500, f"map: {shown(item)} does not contain declared merge key: {key}")
    return item[key]


def _check_elements(live: list[Any], patch: list[Any]) -> None:
    """Items of lists that are merged are of one type, and no lists."""
    kinds = dict.fromkeys(type(item) for item in (*live, *patch))
    if next(iter(kinds), None) is list:
        raise PatchError(422, GENERIC)
    if len(kinds) > 1:
        raise PatchError(500, f"list element types are not identical: {shown([live, patch])}")
    if not kinds:
        raise PatchError(500, "no elements in any of the given slices")


def _merge_list(live: list[Any], patch: list[Any], facts: Facts, repeats: _Repeats) -> list[Any]:
    if not live and not patch:
        return live
    _check_elements(live, patch)
    if not isinstance((live or patch)[0], dict):
        known = {_hashable(item) for item in live}
        merged = [*live, *(item for item in dict.fromkeys(patch) if _hashable(item) not in known)]
        return _sorted(merged, patch, live, "")
    if not facts.key:
        raise PatchError(500, "cannot merge lists without merge key for struct")
    live, patch = _without_directives(live, patch, facts.key)
    merged = list(live)
    places = _first_places((_hashable(item.get(facts.key)) for item in reversed(live)), len(live))
    touched: set[Any] = set()
    for item in patch:
        wanted = _identity(item, facts.key)
        at = places.get(wanted)
        if at is None:
            places[wanted] = len(merged)
            merged.append(copy_tree(item))
        else:
            if wanted in touched:
                repeats.count(merged[at])
            merged[at] = _merge_map(merged[at], item, facts.schema, repeats)
        touched.add(wanted)
    return _sorted(merged, patch, live, facts.key)


def _without_directives(live: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Delete from the live list what the patch says, and take such items out of the patch. Of a list that is replaced, the new items are the live ones."""
    plain, replaces = [], False
    gone: set[Any] = set()
    for item in patch:
        if DIRECTIVE not in item:
            plain.append(item)
        elif item[DIRECTIVE] == "delete":
            gone.add(_hashable(_keyed(item, key)))
        elif item[DIRECTIVE] == "replace":
            replaces = True
        elif item[DIRECTIVE] == "merge":
            raise PatchError(500, "merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(item)
    if replaces:
        return copy_tree(plain), []
    return [one for one in live if _hashable(one.get(key)) not in gone] if gone else live, plain


def _unknown_directive(patch: dict[str, Any]) -> PatchError:
    return PatchError(500, f"unknown patch type: {shown_as_text(patch[DIRECTIVE])} in map: {shown(patch)}")


def _sorted(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Items in a given order; those that it does not name keep their places in the live list as far as both are there."""
    rank = _first_places((_identity(item, key) for item in reversed(order)), len(order))
    identities = [_identity(item, key) for item in merged]
    named = sorted((rank[one], at) for at, one in enumerate(identities) if one in rank)
    if len(named) == len(merged):
        return [merged[at] for _, at in named]
    place = _first_places((_hashable(item.get(key) if key else item) for item in reversed(live)), len(live))
    others = sorted((place.get(one, len(live)), at) for at, one in enumerate(identities) if one not in rank)
    result: list[Any] = []
    left, right = 0, 0
    while left < len(others) and right < len(named):
        first, second = identities[others[left][1]], identities[named[right][1]]
        if first in place and second in place and place[first] < place[second]:
            result.append(merged[others[left][1]])
            left += 1
        else:
            result.append(merged[named[right][1]])
            right += 1
    result += [merged[at] for _, at in named[right:]]
    return result + [merged[at] for _, at in others[left:]]


def _first_places(identities: Iterable[Any], count: int) -> dict[Any, int]:
    """Where each stands first, of identities from the last to the first."""
    return dict(zip(identities, range(count - 1, -1, -1), strict=True))


def _identity(item: Any, key: str) -> Any:
    """What identifies an item, to be looked up. Raises PatchError if it has nothing."""
    if type(item) is dict and type(found := item.get(key)) is str:
        return found
    return _hashable(_keyed(item, key))


def _hashable(value: Any) -> Any:
    if type(value) is str:  # which equals nothing of another type
        return value
    return (type(value), value if not isinstance(value, dict | list) else shown(value))


def _delete_from(result: dict[str, Any], name: str, values: Any, schema: Schema, repeats: _Repeats) -> None:
    """Take scalars out of a list; maps are merged into theirs, as without the directive."""
    live = result.get(name)
    if not isinstance(live, list) or not isinstance(values, list) or not (live or values):
        return
    _check_elements(live, values)
    if isinstance((live or values)[0], dict):
        result[name] = _merge_list(live, values, facts_of(schema, name), repeats)
        return
    gone = {_hashable(value) for value in values}
    result[name] = [item for item in live if _hashable(item) not in gone]


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and value.get(DIRECTIVE) is not None


def _new_value(value: Any) -> Any:
    """A value that was not there before, without nulls and without what only says how to merge."""
    if isinstance(value, dict):
        return {key: _new_value(item) for key, item in value.items() if item is not None and not _is_directive(item)}
    if isinstance(value, list):
        return [_new_value(item) for item in value if not _is_directive(item)]
    return value
