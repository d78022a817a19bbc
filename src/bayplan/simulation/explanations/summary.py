"""What is not as it should be in a cluster, in a few lines: for tests that wait in vain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bayplan.api.errors import ApiError
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.controllers.base import controller_of
from bayplan.simulation.explanations.base import Explanation
from bayplan.simulation.explanations.question import WORKLOADS, Explainer
from bayplan.simulation.readers.live import read_live
from bayplan.simulation.snapshots.planner import QuestionError
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot, SnapshotError

_MOST: Final = 8
"""Lines."""
_ORDER: Final = (*WORKLOADS, "Pod", "PersistentVolumeClaim", "Node")
"""Owners before what they own; nodes last, as one that is full or tainted need not be wrong."""


async def what_is_wrong(client: Client) -> str:
    """What is not as it should be in a live cluster, a line for each object with the reason; "" if nothing is."""
    try:
        found = list(wrong_in(await read_live(client, taken_at="", whole=True, include=("Event",))))
    except (ApiError, TransportError, SnapshotError, QuestionError) as error:
        # The test has failed for another reason, which this must not hide.
        return f"the cluster cannot be asked what is wrong: {error}"
    lines = [_line(each) for each in found[:_MOST]]
    if len(found) > _MOST:
        lines.append(f"and {len(found) - _MOST} more, see `bayplan explain`")
    return "\n".join(lines)


def wrong_in(copy: ClusterSnapshot) -> Iterator[Explanation]:
    """Explanations of objects that are not as they should be; of a workload with its replica sets and pods, that of the workload."""
    explainer = Explainer(copy)
    explained: set[str] = set()
    for kind in _ORDER:
        for obj in copy.of(kind):
            about = explainer.explain(kind, obj)
            if about.good:
                continue
            owner = controller_of(obj)
            if owner is None or owner.uid not in explained:
                if kind == "Pod" and not obj.spec.node_name:
                    about.because.insert(0, explainer.why_pending(obj))
                yield about
            explained.add(obj.metadata.uid)


def _line(about: Explanation) -> str:
    because = next(filter(None, about.because), "")
    return about.headline + (f", because {because}" if because else "")
