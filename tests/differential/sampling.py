"""Where a scheduler that samples nodes may be in its turns: all places that explain what it has done so far.

A scheduler that looks at some of the feasible nodes only begins each look where the last one ended, which nobody sees from outside. At first any place is
possible; each decision rules some out, and says of each of the others where the next look begins.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.scheduler import Planner
from bayplan.scheduler.decision import Decision
from tests.differential.clusters import Tree


class Places:
    """Those of one scheduler on one cluster."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self.possible = set(range(len(planner.snapshot.row_of)))
        """Places in the order of nodes where the next look may begin."""

    def difference(self, pod: Tree, difference: Callable[[Decision], str]) -> str:
        """How what came of a pod differs from what any of these places leads to; "" if one explains it. difference: from one decision."""
        sampling = self._planner.cycle_for(self._planner.pod(pod)).sampling
        following, first = set(), ""
        for place in sorted(self.possible):
            sampling.start = place
            found = difference(self._planner.decide(pod, full=True))
            if found:
                first = first or found
            else:
                following.add(sampling.start)
        if not following:
            return f"none of {len(self.possible)} places in the turns of nodes explains it: {first}"
        self.possible = following
        return ""
