"""Owner references that name one owner twice: the server keeps the first and says so."""

from __future__ import annotations

from typing import Any

import msgspec

_WARNING = (
    ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
)


def deduplicate_owners(metadata: Any, *, after_admission: bool = False) -> list[str]:
    """Keep each owner once. Returns the warning, if there is one."""
    references = metadata.owner_references
    if len(references) < 2:
        return []
    kept: list[Any] = []
    doubled: list[str] = []
    seen: set[bytes] = set()
    for reference in references:
        whole = msgspec.json.encode(reference)
        if whole in seen:
            doubled.append(reference.uid)
        else:
            seen.add(whole)
            kept.append(reference)
    if not doubled:
        return []
    metadata.owner_references = tuple(kept)
    when = " after mutating admission happens" if after_admission else ""
    return [_WARNING.format(when=when, uids=", ".join(dict.fromkeys(doubled)))]
