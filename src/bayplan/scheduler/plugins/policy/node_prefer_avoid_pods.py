"""NodePreferAvoidPods as `Policy` files have it: nodes that would rather not have the pods of a controller. Exists for older names.

A node names ReplicationControllers and ReplicaSets by kind and uid in the annotation `scheduler.alpha.kubernetes.io/preferAvoidPods`. It scores 0 for their pods,
and 100 for all others. Source: `node_prefer_avoid_pods.go` of Kubernetes 1.22.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from bayplan.api.types.core_v1 import Node
from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE, Scope, ScorePlugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.support.memory.memo import memoized

ANNOTATION: Final = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_CONTROLLERS: Final = ("ReplicationController", "ReplicaSet")


class NodePreferAvoidPods(ScorePlugin):
    """See the module."""

    name = "NodePreferAvoidPods"
    score_scope = Scope.NODE

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        owner = pod.owner
        if owner is None or owner.kind not in _CONTROLLERS:
            return np.full(self.snapshot.select(rows), MAX_NODE_SCORE, dtype=np.int64)
        nodes = self.snapshot.nodes
        scores = [
            0 if (owner.kind, owner.uid) in avoided_by(nodes[row]) else MAX_NODE_SCORE
            for row in self.snapshot.rows_of(rows)
        ]
        return np.array(scores, dtype=np.int64)


def avoided_by(node: Node | None) -> frozenset[tuple[str, str]]:
    """Kind and uid of the controllers whose pods a node would rather not have; none if the annotation cannot be read."""
    text = node.metadata.annotations.get(ANNOTATION) if node is not None else None
    return _read(text) if text else frozenset()


@memoized(1024)
def _read(text: str) -> frozenset[tuple[str, str]]:
    try:
        avoids = msgspec.json.decode(text, type=_Avoids)
    except (msgspec.DecodeError, RecursionError):
        return frozenset()
    controllers = [one.pod_signature.pod_controller for one in avoids.prefer_avoid_pods]
    return frozenset((one.kind, one.uid) for one in controllers if one is not None)


class _Controller(msgspec.Struct):
    kind: str = ""
    uid: str = ""


class _Signature(msgspec.Struct, rename="camel"):
    pod_controller: _Controller | None = None


class _Avoid(msgspec.Struct, rename="camel"):
    pod_signature: _Signature = msgspec.field(default_factory=_Signature)


class _Avoids(msgspec.Struct, rename="camel"):
    prefer_avoid_pods: tuple[_Avoid, ...] = ()
