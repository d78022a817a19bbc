"""Tables of objects of every kind whose fields and statuses are set by chance."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.kinds import Kind
from tests.differential.api.bodies import OWN_NAMES, Bodies, clean, name_of
from tests.differential.api.steps import Step, patch, some, step
from tests.differential.api.writes import EFFECTIVE

_TABLE = "application/json;as=Table;v={};g=meta.k8s.io"


def tables(bodies: Bodies, kind: Kind) -> Iterator[Step]:
    """Some objects, and how they are listed."""
    chance, space = bodies.chance, "${ns}" if kind.namespaced else ""
    collection = kind.path(space)
    has_status = any(row.name == "status" for row in kind.subresources)
    for number in range(0 if kind.plural in OWN_NAMES else 5):
        make = bodies.valid if kind.plural in EFFECTIVE else bodies.mixed
        body = make(kind, f"t{number}")
        if isinstance(body.get("metadata"), dict):
            body = {**body, "metadata": {**body["metadata"], "labels": {"diff": "${ns}"}}}
        yield step("POST", collection, "create for a table", body)
        if not has_status:
            continue
        for _ in range(2):
            status = (bodies.typed(kind) or {}).get("status")
            if isinstance(status, dict):
                path = kind.path(space, name_of(kind, f"t{number}"), "status")
                yield patch(path, "merge", clean({"status": status}), name="status for a table")
    for _ in range(3):
        query = {
            "labelSelector": "diff=${ns}",
            **some(chance, {"includeObject": ["None", "Metadata", "Object"], "limit": ["2"]}, 2),
        }
        headers = {"Accept": _TABLE.format(chance.choice(("v1", "v1", "v1beta1")))}
        yield step("GET", collection, "table", query=query, headers=headers)
    yield step("GET", kind.path(space, name_of(kind, "t1")), "table of one", headers={"Accept": _TABLE.format("v1")})
