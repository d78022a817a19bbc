"""ReplicaSet: as many pods of one template as the spec asks for."""

from __future__ import annotations

from typing import Any

from bayplan.api.types import apps_v1
from bayplan.controllers.workloads.replicas import Actions, Failure, ReplicasController, counts, failure_conditions


class ReplicaSetController(ReplicasController):
    """See the module."""

    name = "replicaset-controller"
    owner_type = apps_v1.ReplicaSet
    api_version, kind = "apps/v1", "ReplicaSet"

    def status(self, owner: Any, actions: Actions, failure: Failure | None, now: float) -> apps_v1.ReplicaSetStatus:
        return apps_v1.ReplicaSetStatus(
            **counts(owner, actions.owned, now),
            conditions=failure_conditions(owner.status.conditions, apps_v1.ReplicaSetCondition, failure, now),
            terminating_replicas=actions.terminating,
        )
