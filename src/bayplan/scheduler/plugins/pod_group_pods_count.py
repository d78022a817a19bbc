"""PodGroupPodsCount: of several placements the one that holds more pods of the group is better (KEP-5732)."""

from __future__ import annotations

from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE
from bayplan.scheduler.framework.placements import PlacementScorePlugin, Proposal
from bayplan.scheduler.snapshot.labels import Ints


class PodGroupPodsCount(PlacementScorePlugin):
    """Counts the group's pods, those that are placed already included."""

    name = "PodGroupPodsCount"

    def score_placements(self, placed: int, proposal: Proposal) -> Ints:
        counts: Ints = proposal.counts() + placed
        return counts

    def normalize_placements(self, scores: Ints) -> Ints:
        scaled: Ints = scores * MAX_NODE_SCORE // max(int(scores.max(initial=0)), 1)
        return scaled
