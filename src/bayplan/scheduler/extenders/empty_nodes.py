"""Scores of nodes that an extender has sent back whole.

kube-scheduler goes on with what is in the answer: nodes without pods, and without images. Filters are behind it then; scores see such nodes,
while PreScore looks at the cluster as it is. Source: `HTTPExtender.Filter` and `findNodesThatPassExtenders` of kube-scheduler 1.36.
"""

from __future__ import annotations

import numpy as np

from bayplan.scheduler.decision import Decision
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.scoring.cross_node_scores import pre_score
from bayplan.scheduler.snapshot.labels import Ints


def score_empty_nodes(profile: Profile, state: CycleState, shape: PodShape, decision: Decision, total: Ints) -> None:
    """Put scores of empty nodes in place of those in the decision and in `total`, whose rows below zero are not feasible.

    Raises PluginError.
    """
    feasible = np.flatnonzero(total >= 0)
    separate = state.for_scores()
    for plugin in profile.score:
        before = decision.scores.get(plugin.name)
        if before is None or pre_score(plugin, separate, shape, feasible, profile) is not None:
            continue
        raw = plugin.score_empty(separate, shape, feasible)
        if raw is None:
            continue
        after = before.copy()
        after[feasible] = plugin.normalize(separate, shape, feasible, raw) * profile.weights[plugin.name]
        total[feasible] += after[feasible] - before[feasible]
        decision.scores[plugin.name] = after
