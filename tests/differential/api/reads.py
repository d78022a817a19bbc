"""Lists, gets and watches with all their options, of a few objects of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from bayplan.api.kinds import Kind
from tests.differential.api.bodies import OWN_NAMES, Bodies, Tree, name_of
from tests.differential.api.steps import ACCEPTS, Step, patch, some, step

_FIELDS = (
    *(
        "metadata.name={name}",
        "metadata.name!={name}",
        "metadata.namespace=${ns}",
        "metadata.name={name},metadata.namespace=${ns}",
        "metadata.uid=x",
    ),
    *(
        "spec.nodeName=",
        "status.phase=Pending",
        "status.phase!=Failed",
        "type=Opaque",
        "involvedObject.kind=Pod",
        "spec.unschedulable=true",
        "reason=x",
    ),
    *(
        "metadata.name in (a)",
        "=",
        "metadata.name",
        "a=b=c",
        "metadata.name==",
        "spec.clusterIP!=None",
        "spec.signerName=x",
        "status.successful=0",
    ),
)
_LABELS = (
    *(
        "diff=${ns}",
        "diff!=${ns}",
        "n=0",
        "n in (0,1)",
        "n notin (0)",
        "n",
        "!n",
        "n=0,diff=${ns}",
        "n>0",
        "n<5",
        "n>x",
        "n=a b",
        "in in (in)",
    ),
    *("", ",", "n=", "n==0", "n in ()", "n in (a", "a/b/c=d", "-=x", "n=" + "x" * 64, "n exists", "n>=1", "x" * 64),
)
_LIST = {
    "limit": ["1", "2", "0", "-1", "x", "", "9999999999999999999"],
    "resourceVersion": ["0", "${rv}", "", "x", "1", "999999999", "-1"],
    "resourceVersionMatch": ["Exact", "NotOlderThan", "x", ""],
    "continue": ["x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", ""],
    "pretty": ["true", "false", "1", "0", "", "x"],
    "timeoutSeconds": ["5", "x", "-1"],
    "includeObject": ["None", "Metadata", "Object", "x", ""],
    "nosuch": ["x"],
    "sendInitialEvents": ["true", "false"],
    "allowWatchBookmarks": ["true", "x"],
    "shardSelector": ["x"],
}
_WATCH = {
    "resourceVersion": ["0", "${rv}", "", "x", "-1", "1"],
    "resourceVersionMatch": ["Exact", "NotOlderThan", "NotOlderThan", "x"],
    "sendInitialEvents": ["true", "true", "false", "x"],
    "allowWatchBookmarks": ["true", "true", "false", "x"],
    "limit": ["1"],
    "continue": ["x"],
    "includeObject": ["None"],
    "pretty": ["true"],
}


def reads(bodies: Bodies, kind: Kind) -> Iterator[Step]:
    """Makes some objects and looks at them."""
    chance, collection = bodies.chance, kind.path("${ns}" if kind.namespaced else "")
    everywhere = kind.path()
    made = (
        0 if kind.plural == "apiservices" else 1 if kind.plural in OWN_NAMES else 4
    )  # whether an API service is available changes by itself
    for number in range(made):
        body = bodies.valid(kind, f"o{number}")
        labels = {"diff": "${ns}", "n": str(number)}
        body = {**body, "metadata": {**body["metadata"], "labels": labels}}
        yield step("POST", collection, "create", body, capture={"rv": "/metadata/resourceVersion"})
    mine = {"labelSelector": "diff=${ns}"}
    own = {} if kind.namespaced else mine
    for _ in range(10):
        query = {**own, **some(chance, {**_LIST, **_selectors(chance, kind, bodies)}, 3)}
        path = collection if chance.random() < 0.7 else everywhere
        query = query if path == collection else {**query, **mine}
        yield step("GET", path, "list", query=query, headers=_accept(chance), layout=chance.random() < 0.3)
    yield step("GET", collection, "list page", query={**own, "limit": "2"}, capture={"next": "/metadata/continue"})
    yield step(
        "GET",
        collection,
        "list page",
        query={**own, "limit": chance.choice("12"), "continue": "${next}"},
        headers=_accept(chance),
    )
    yield step("GET", collection, "list page", query={**own, "continue": "${next}", **some(chance, _LIST, 1)})
    name = kind.path("${ns}" if kind.namespaced else "", name_of(kind, chance.choice(("o1", "none"))))
    for _ in range(4):
        yield step(
            "GET", name, "get", query=some(chance, _LIST, 2), headers=_accept(chance), layout=chance.random() < 0.5
        )
    for method in ("HEAD", "OPTIONS", "TRACE", "POST"):
        if chance.random() < 0.4:
            yield step(method, chance.choice((collection, name)), f"method {method}")
    yield from _watches(bodies, kind, collection, own)


def _accept(chance: Random) -> Tree | None:
    return {"Accept": chance.choice(ACCEPTS)} if chance.random() < 0.5 else None


def _selectors(chance: Random, kind: Kind, bodies: Bodies) -> Tree:
    name = name_of(kind, chance.choice(("o0", "none")))
    return {
        "fieldSelector": [chance.choice(_FIELDS).replace("{name}", name) for _ in range(3)],
        "labelSelector": [chance.choice(_LABELS) for _ in range(3)],
    }


def _watches(bodies: Bodies, kind: Kind, collection: str, own: Tree) -> Iterator[Step]:
    """Watches for a second, while objects change."""
    chance, handles = bodies.chance, [f"w{number}" for number in range(6)]
    for handle in handles:
        query = {"watch": chance.choice(("true", "1", "true")), "timeoutSeconds": "1", **own, **some(chance, _WATCH, 3)}
        if chance.random() < 0.3:
            query |= {
                key: values[0]
                for key, values in _selectors(chance, kind, bodies).items()
                if not own or key == "fieldSelector"
            }
        path = collection if chance.random() < 0.85 else f"{collection}/{name_of(kind, 'o1')}"
        request = {"path": path, "query": query, **({"headers": _accept(chance)} if chance.random() < 0.4 else {})}
        request = {key: value for key, value in request.items() if value is not None}
        yield {"name": "watch", "watch": handle, "request": request}
    one = kind.path("${ns}" if kind.namespaced else "", name_of(kind, "o1"))
    if kind.plural not in OWN_NAMES:
        yield patch(one, "merge", {"metadata": {"labels": {"n": "5"}}})
        yield patch(one, "merge", {"metadata": {"annotations": {"a": "b"}}})
        yield step("DELETE", one, "delete", query={"gracePeriodSeconds": "0"})
    for handle in handles:
        yield {"name": "events", "collect": {"watch": handle, "until": {"close": True}, "timeoutSeconds": 4}}
