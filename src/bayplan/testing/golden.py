"""Replays recorded scheduling decisions and says where Bayplan decides otherwise.

A case holds a cluster, a pod (or a queue of pods) and what kube-scheduler decided. `differences` asks the library
about the case and names every fact that differs; facts that the recording calls informational are left out.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bayplan.scheduler import evaluate, place

Case = Mapping[str, Any]
Facts = dict[str, object]

_SEQUENCE_FIELDS: Final = ("pod", "attempt", "node", "total", "decidedBy", "message", "nominatedNode", "victims")
_POST_FILTER_FIELDS: Final = ("nominatedNode", "victims", "message", "nominatedNodes", "clearsNominations")


def cases(path: Path) -> Iterator[Case]:
    """The cases of a gzip-compressed JSON-lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def differences(case: Case) -> list[str]:
    """One line per differing fact; empty if Bayplan decides as recorded."""
    expected, actual = _facts(case["expect"]), _facts(_run(case))
    return [
        f"{path}: recorded {expected.get(path)!r}, decided {actual.get(path)!r}"
        for path in sorted(expected.keys() | actual.keys())
        if expected.get(path) != actual.get(path)
    ]


def _run(case: Case) -> Any:
    if "queue" in case:
        run = place(
            case["objects"],
            case["queue"],
            case.get("config"),
            requeue=case["requeue"],
            start_time=case["startTime"],
        )
        return run.to_dict()["attempts"]
    return evaluate(case["objects"], case["pod"], case.get("config")).to_dict()


def _facts(answer: Any) -> Facts:
    if isinstance(answer, list):
        return _sequence_facts(answer)
    facts: Facts = {}
    for key in ("preEnqueue", "preFilter"):
        if key in answer:
            facts[key] = _verdict(answer[key])
    if "nodes" in answer.get("preFilter", {}):
        facts["preFilter.nodes"] = sorted(answer["preFilter"]["nodes"])
    for key in ("skipped", "decidedBy", "message", "reason"):
        if answer.get(key):
            facts[key] = answer[key]
    for key in ("best", "unschedulablePlugins"):
        if answer.get(key):
            facts[key] = sorted(answer[key])
    for name, node in answer.get("nodes", {}).items():
        facts[f"nodes.{name}.filter"] = _verdict(node["filter"])
        for plugin, score in node.get("scores", {}).items():
            facts[f"nodes.{name}.scores.{plugin}"] = score
        if "total" in node:
            facts[f"nodes.{name}.total"] = node["total"]
    facts |= _post_filter_facts(answer.get("postFilter") or {})
    return facts


def _post_filter_facts(answer: Mapping[str, Any]) -> Facts:
    facts: Facts = {f"postFilter.{key}": answer[key] for key in _POST_FILTER_FIELDS if answer.get(key)}
    for candidate in answer.get("candidates", ()):
        facts[f"postFilter.candidates.{candidate['node']}"] = candidate
    return facts


def _sequence_facts(attempts: list[Mapping[str, Any]]) -> Facts:
    facts: Facts = {"attempts": len(attempts)}
    for number, attempt in enumerate(attempts):
        for key in _SEQUENCE_FIELDS:
            if attempt.get(key):
                facts[f"{number}.{key}"] = attempt[key]
        if attempt.get("best"):
            facts[f"{number}.best"] = sorted(attempt["best"])
        facts[f"{number}.gated"] = bool(attempt.get("gated"))
    return facts


def _verdict(answer: Mapping[str, Any]) -> object:
    """Reasons are a multiset."""
    if answer.get("ok"):
        return "ok"
    return (answer.get("code"), answer.get("plugin"), sorted(answer.get("reasons", ())))
