"""Names that the project has left behind may not come back: `python -m tools.check_words`.

A private word costs every reader a look-up. Where a package has gone over to the field's own terms, this table keeps it so. Names are compared as whole
identifiers in code, without leading underscores, and as module names; prose is not looked at.
"""

from __future__ import annotations

import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ABANDONED: Final[dict[str, dict[str, str]]] = {
    "src/bayplan/apiserver": {
        "Ask": "SentRequest",
        "Begun": "SubmittedRequest",
        "Crowds": "CreateTemplates",
        "Desk": "ApiHandler",
        "Ending": "PendingResponse",
        "Heads": "HeaderCache",
        "InProcessDoor": "InProcessEndpoint",
        "RepeatedChanges": "WriteMemo",
        "Turn": "RequestSequence",
        "UsualAnswer": "SimpleResponse",
        "Writing": "SubmittedWrite",
        "answerers": "request_handlers",
        "basis": "dependency_version",
        "crowds": "create_templates",
        "desk": "handler",
        "door": "endpoint",
        "hearers": "notification_handlers",
        "is_nobody_asked": "has_no_admission_interest",
        "known_updates": "managed_fields_memo",
        "object_changes": "managed_fields_diff",
        "renewals": "managed_fields_renewal",
        "repeated_changes": "write_memo",
        "usual_answer": "simple_response",
        "wording": "skeleton",
    },
    "src/bayplan/client": {
        "Ask": "SentRequest",
        "Door": "Endpoint",
        "News": "EventBatch",
        "asks": "requests",
        "door": "endpoint",
        "turns": "sequences",
    },
    "src/bayplan/cluster": {
        "Companion": "WorkerProcess",
        "Trust": "SigningCredentials",
        "companion": "worker_process",
        "door": "endpoint",
    },
    "src/bayplan/scheduler": {
        "ExtendedCycle": "Cycle.decide_with",
        "Door": "ExtenderTransport",
        "Findings": "PreemptionCache",
        "Passage": "BindingCycle",
        "Promises": "NominatedReservations",
        "Room": "PodCapacity",
        "Trial": "WhatIf",
        "Way": "PluginPlan",
        "WideScores": "CrossNodeScores",
        "findings": "preemption_cache",
        "lone_points": "missing_points",
        "passage": "binding_cycle",
        "planner_moves": "planning.relocation",
        "planner_room": "planning.capacity",
        "promises": "reservations",
        "room_for": "capacity_for",
        "row_trial": "row_what_if",
        "suppose": "count_what_if",
        "supposing": "what_if",
        "trial": "what_if",
        "way": "plugin_plan",
        "wide_scores": "cross_node_scores",
    },
    "src/bayplan/simulation": {
        "Allowance": "QuotaLimits",
        "ClusterCopy": "ClusterSnapshot",
        "CopyError": "SnapshotError",
        "Missing": "UncreatedPods",
        "allowance": "quota_limits",
        "front": "facade",
        "missing_pods": "uncreated_pods",
    },
    "src/bayplan/store": {
        "Begun": "PendingWrite",
        "under_way": "pending",
    },
    "src/bayplan/support": {
        "Answerer": "RequestHandler",
        "Hearer": "NotificationHandler",
        "answerers": "request_handlers",
        "hearers": "notification_handlers",
    },
}
"""Folder -> name that is not used there any more -> what to say instead."""


def abandoned_names(root: Path) -> Iterator[str]:
    """Where such a name stands, one line each: file, line, name, the word to use."""
    for folder, words in ABANDONED.items():
        for file in sorted((root / folder).rglob("*.py")):
            where = file.relative_to(root)
            if (word := words.get(file.stem.lstrip("_"))) is not None:
                yield f"{where}: the module should be called {word}"
            with tokenize.open(file) as lines:
                for token in tokenize.generate_tokens(lines.readline):
                    word = words.get(token.string.lstrip("_")) if token.type == tokenize.NAME else None
                    if word is not None:
                        yield f"{where}:{token.start[0]}: {token.string}: say {word}"


def main() -> int:
    """Print what is found. Exit code 1 if anything is."""
    found = list(abandoned_names(Path(__file__).parents[1]))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
