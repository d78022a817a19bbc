"""Lists that a writer gives as `[]` where Kubernetes tells that from a list that is left out.

It writes some lists as null when they are not there, so that `[]` is a change, and the writer owns the field, although what is kept is the same.
"""

from __future__ import annotations

import functools
import re

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


def with_emptied(changes: Comparison, kind: Kind, body: bytes) -> Comparison:
    """Changes and the lists that the body empties, whatever they were."""
    lists = emptied(kind, body)
    return Comparison(changes.removed, changes.modified, union(changes.added, lists)) if lists else changes
