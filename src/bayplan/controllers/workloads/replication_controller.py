"""ReplicationController: what a ReplicaSet is, with a plain map as selector."""

from __future__ import annotations

from typing import Any

from bayplan.api.selectors.labels import LabelSelector, from_map
from bayplan.api.types import core_v1
from bayplan.controllers.workloads.replicas import Actions, Failure, ReplicasController, counts, failure_conditions


class ReplicationManager(ReplicasController):
    """See the module."""

    name = "replicationcontroller-controller"
    event_source = "replication-controller"
    owner_type = core_v1.ReplicationController
    api_version, kind = "v1", "ReplicationController"

    def selector_of(self, owner: Any) -> LabelSelector:
        return from_map(owner.spec.selector)

    def status(
        self, owner: Any, actions: Actions, failure: Failure | None, now: float
    ) -> core_v1.ReplicationControllerStatus:
        return core_v1.ReplicationControllerStatus(
            **counts(owner, actions.owned, now),
            conditions=failure_conditions(
                owner.status.conditions, core_v1.ReplicationControllerCondition, failure, now
            ),
        )
