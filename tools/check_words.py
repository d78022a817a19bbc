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
    "src/bayplan/scheduler": {
        "ExtendedCycle": "Cycle.decide_with",
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
        "planner_moves": "planner_relocation",
        "planner_room": "planner_capacity",
        "promises": "reservations",
        "room_for": "capacity_for",
        "row_trial": "row_what_if",
        "suppose": "count_what_if",
        "supposing": "what_if",
        "trial": "what_if",
        "way": "plugin_plan",
        "wide_scores": "cross_node_scores",
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
