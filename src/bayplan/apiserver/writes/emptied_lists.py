"""Lists and maps that a writer gives as `[]` or `{}` where Kubernetes tells that from one that is left out.

It writes some lists as null when they are not there, so that `[]` is a change, and the writer owns the field, although what is kept is the same. Some maps of
immutable objects may be left out but not be empty, as they are compared by Go's `reflect.DeepEqual`.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final

import msgspec

from bayplan.api.errors import FieldError, forbidden
from bayplan.api.kinds import Kind
from bayplan.api.managedfields.compare import Comparison
from bayplan.api.managedfields.fieldset import FieldSet, of_paths, union

_LISTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "CSINode": (("f:spec", "f:drivers"),),
    "ClusterRole": (("f:rules",),),
    "EndpointSlice": (("f:endpoints",), ("f:ports",)),
    "LimitRange": (("f:spec", "f:limits"),),
    "Role": (("f:rules",),),
    "TokenRequest": (("f:spec", "f:audiences"),),
}
"""By built-in type, the paths of lists that may be empty and are written as null then. No other list of the type has the name."""


@functools.cache
def _patterns(name: str) -> tuple[tuple[re.Pattern[bytes], FieldSet], ...]:
    return tuple(
        (re.compile(rb'"%b"\s*:\s*\[\s*\]' % path[-1].removeprefix("f:").encode()), of_paths(path))
        for path in _LISTS.get(name, ())
    )


def emptied(kind: Kind, body: bytes, posted: str = "") -> FieldSet:
    """The lists of an object of this kind that a JSON body gives as `[]`. posted: its type, if it is posted to a subresource and not kept."""
    found: FieldSet = {}
    for pattern, path in () if kind.is_custom else _patterns(posted or kind.kind):
        if pattern.search(body):
            found = union(found, path)
    return found


_IMMUTABLE_MAPS: Final = {"ConfigMap": ("binaryData", "binary_data"), "Secret": ("data", "data")}
"""By built-in type, the map that is compared so: its name, and that of the attribute."""


def emptied_map_errors(kind: Kind, obj: Any, old: Any, body: bytes) -> list[FieldError]:
    """What is wrong with a change of an immutable object whose JSON body, an object or a patch, gives a map as `{}` that is not there."""
    if kind.is_custom or kind.kind not in _IMMUTABLE_MAPS or not old.immutable:
        return []
    name, attribute = _IMMUTABLE_MAPS[kind.kind]
    if getattr(obj, attribute) or getattr(old, attribute):
        return []
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # another form, which is not looked into
        return []
    path = f"/{name}"
    parts = tree if isinstance(tree, list) else [{"path": path, "value": tree[name]}] if name in (tree or ()) else []
    is_given = any(isinstance(one, dict) and one.get("path") == path and one.get("value") == {} for one in parts)
    return [forbidden(name, "field is immutable when `immutable` is set")] if is_given else []


_NO_WEBHOOKS: Final = re.compile(rb'"webhooks"\s*:\s*\[\s*\]|"/webhooks"\s*,\s*"value"\s*:\s*\[\s*\]')


def empties_webhooks(obj: Any, body: bytes) -> bool:
    """Whether a JSON body gives an object without webhooks an empty list of them, which counts for the generation whatever was there."""
    return not getattr(obj, "webhooks", True) and _NO_WEBHOOKS.search(body) is not None


def with_emptied(changes: Comparison, kind: Kind, body: bytes) -> Comparison:
    """Changes and the lists that the body empties, whatever they were."""
    lists = emptied(kind, body)
    return Comparison(changes.removed, changes.modified, union(changes.added, lists)) if lists else changes
