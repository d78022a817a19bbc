"""Variations of the recorded transcripts: their steps as they stand, and before each of them some like it that nothing is kept of.

The transcripts bring a server into states that a sequence made by chance does not reach (quotas, policies, definitions, disruption budgets); what is asked there
differs a little each time: another value, option, media type, form of patch or user.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator
from typing import Any

from tests.differential.api.bodies import GOLDEN, Bodies, clean
from tests.differential.api.steps import ACCEPTS, PATCHES, Step, some

_USERS = ("alice", "bob", "carol", "node1", "node2", "anonymous", "wrong")
_ANY = {"pretty": ["true", "false", "1"]}
_WRITES = {
    "fieldManager": ["m", "", "kubectl-client-side-apply", "kubectl-edit"],
    "fieldValidation": ["Strict", "Warn", "Ignore"],
    **_ANY,
}
_READS = {
    "limit": ["1", "2", "500"],
    "resourceVersion": ["0", "1", ""],
    "resourceVersionMatch": ["Exact", "NotOlderThan"],
    "labelSelector": ["a=b", "!a", "a in (b,c)"],
    "fieldSelector": ["metadata.name=a", "metadata.namespace=${ns}", "status.phase=Running"],
    "includeObject": ["None", "Metadata", "Object"],
    **_ANY,
}
_DELETES = {
    "gracePeriodSeconds": ["0", "1", "30"],
    "propagationPolicy": ["Foreground", "Background", "Orphan"],
    **_ANY,
}
_FORMS = tuple(PATCHES.values())


@functools.cache
def recorded() -> tuple[dict[str, Any], ...]:
    """All scenarios of the transcripts, without what was answered."""
    scenarios: list[dict[str, Any]] = []
    for path in sorted(GOLDEN.glob("*.json")):
        for scenario in json.loads(path.read_text(encoding="utf-8"))["scenarios"]:
            steps = [
                {key: value for key, value in step.items() if key not in ("id", "expect", "compare", "case")}
                for step in scenario["steps"]
            ]
            scenarios.append({"scenario": scenario["scenario"], "steps": steps})
    return tuple(scenarios)


def variations(bodies: Bodies, number: int) -> Iterator[Step]:
    """One of the scenarios with further steps in between. number: which; they are gone through one after the other, in an order that spreads topics."""
    known = recorded()
    wanted = known[number * 67 % len(known)]
    chance = bodies.chance
    for step in wanted["steps"]:
        if "request" in step and "watch" not in step and _is_settled(step["request"]):
            for _ in range(chance.choice((0, 1, 1, 2))):
                yield _varied(bodies, step)
        yield copy.deepcopy(step)


def _is_settled(request: dict[str, Any]) -> bool:
    """Whether what a request shows does not change by itself: the status of definitions does, each time a moment later."""
    return not (request["method"] == "GET" and "customresourcedefinitions" in request["path"])


def _varied(bodies: Bodies, step: Step) -> Step:
    """A step like another one, of which nothing is kept and nothing captured."""
    chance, request = bodies.chance, copy.deepcopy(step["request"])
    method = request["method"]
    query: dict[str, Any] = dict(request.get("query") or {})
    if method in ("POST", "PUT", "PATCH", "DELETE"):
        query["dryRun"] = "All"
        query |= some(chance, _DELETES if method == "DELETE" else _WRITES, 1)
        _vary_body(bodies, request)
    elif "retry" not in step:
        query |= some(chance, _READS, 2)
    kind = chance.random()
    if kind < 0.12:
        request["user"] = chance.choice(_USERS)
        request.pop("token", None)
    elif kind < 0.3:
        request["headers"] = {**(request.get("headers") or {}), "Accept": chance.choice(ACCEPTS)}
    elif kind < 0.34 and method in ("GET", "DELETE"):
        request["path"] = request["path"].rpartition("/")[0] or "/"
    request["query"] = query
    named = "" if method in ("GET", "DELETE") else f" of {step.get('name', '')[:50]}"
    found: Step = {"name": f"varied {method}{named}", "request": request}
    return {**found, "managedFields": True} if chance.random() < 0.2 else found


def _vary_body(bodies: Bodies, request: dict[str, Any]) -> None:
    chance, body = bodies.chance, request.get("body")
    if request["method"] == "PATCH" and chance.random() < 0.3 and isinstance(body, dict):
        headers = {**(request.get("headers") or {}), "Content-Type": chance.choice(_FORMS)}
        request["headers"] = headers
        return
    if isinstance(body, dict | list) and not _is_template(body):
        for _ in range(chance.choice((0, 1, 1, 2))):
            bodies.spoil(body)
        request["body"] = clean(body)


def _is_template(body: Any) -> bool:
    return any(mark in json.dumps(body) for mark in ('"$merge"', '"$repeat"', '"$range"'))
