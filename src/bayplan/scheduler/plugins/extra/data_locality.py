"""DataLocality: prefers nodes that hold the data sets of a pod, and nodes in the same zone as those that do.

    data.bayplan.dev/NAME: ""       label of a pod, or of a claim that it mounts: it reads the data set
    data.bayplan.dev/NAME: "120"    label of a node: it holds so many GiB of it (a cache or a replica); any other value counts as 1

A node scores with what it holds of all data sets of the pod, a node in a domain where others hold more with a part of that (`domainWeight`).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bayplan.scheduler.framework.extension_points import PreScorePlugin, ScaledScorePlugin, Scope, default_scale
from bayplan.scheduler.framework.extra_arguments import DataLocalityArgs
from bayplan.scheduler.framework.state import CycleState, Handle, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Skip
from bayplan.scheduler.snapshot.labels import Ints, Rows

PREFIX = "data.bayplan.dev/"


class DataLocality(PreScorePlugin, ScaledScorePlugin):
    """See the module. Raw scores are in hundredths of GiB."""

    name = "DataLocality"
    score_scope = Scope.NODE
    equal_stays_equal = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args if isinstance(args, DataLocalityArgs) else DataLocalityArgs()

    def data_sets(self, pod: PodShape) -> tuple[str, ...]:
        """The label keys of the data sets that a pod reads, sorted."""
        found = {key for key in pod.labels if key.startswith(PREFIX)}
        for volume in pod.volumes:
            if volume.persistent_volume_claim is not None:
                name = f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
                claim = self.snapshot.catalog.claims.get(name)
                if claim is not None:
                    found.update(key for key in claim.metadata.labels if key.startswith(PREFIX))
        return tuple(sorted(found))

    def reads(self, pod: PodShape) -> Hashable | None:
        return self.data_sets(pod)

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        keys = self.data_sets(pod)
        if not keys:
            return SKIP
        total = np.zeros(self.snapshot.size, dtype=np.int64)
        for key in keys:
            total += self._worth(key)
        state.score_data[self.name] = total
        return None

    def _worth(self, key: str) -> Ints:
        """Per row, what holding a data set, or being near it, is worth."""
        snapshot, rows = self.snapshot, self.snapshot.all_rows
        here = np.where(snapshot.alive[rows], snapshot.label_column(key).gather(_gib, rows), 0)
        domains = snapshot.label_column(self.args.topology_key)
        ids = domains.ids[rows]
        most = np.zeros(len(domains.values) + 1, dtype=np.int64)
        np.maximum.at(most, ids, here)
        most[-1] = 0  # nodes without the label are near nobody
        worth: Ints = np.maximum(here * 100, most[ids] * self.args.domain_weight)
        return worth

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        total: Ints = state.score_data[self.name]
        return total[rows]

    def scale(self, state: CycleState, pod: PodShape, scores: Ints, lowest: int, highest: int) -> Ints:
        return default_scale(scores, highest, reverse=False)


def _gib(value: str | None) -> int:
    """What the label of a node says that it holds."""
    if value is None:
        return 0
    return min(int(value), 1_000_000) if value.isascii() and value.isdigit() else 1
