"""Aggregated cluster roles: their rules are those of the roles that their selectors choose, as in Kubernetes' clusterrole-aggregation-controller."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.errors import ApiError
from bayplan.api.selectors.labels import compile_selector
from bayplan.api.types import rbac_v1
from bayplan.controllers.base import Controller
from bayplan.informers.cache import key_of


class ClusterRoleAggregationController(Controller):
    """Keeps the rules of aggregated roles. A change of any role may concern every aggregated one; there are few."""

    name = "clusterrole-aggregation-controller"
    workers = 2

    def setup(self) -> None:
        self.roles = self.informer(rbac_v1.ClusterRole)
        self.roles.on_change(
            add=lambda role: self._touch(),
            update=lambda old, new: self._touch(),
            delete=lambda role: self._touch(),
        )

    def _touch(self) -> None:
        for role in self.roles.cache:
            if role.aggregation_rule is not None:
                self.queue.add(key_of(role))

    async def reconcile(self, key: str) -> None:
        role = self.roles.cache.by_key(key)
        if role is None or role.aggregation_rule is None:
            return
        rules = gathered_rules(role, tuple(self.roles.cache))
        if rules == tuple(role.rules):
            return
        try:
            await self.client.apply(rbac_v1.ClusterRole, key, "", {"rules": rules}, manager=self.name)
        except ApiError as error:
            if error.code != 404:
                raise


def gathered_rules(role: rbac_v1.ClusterRole, roles: Sequence[rbac_v1.ClusterRole]) -> tuple[rbac_v1.PolicyRule, ...]:
    """The rules of an aggregated role: each rule of the chosen roles once, in order of the roles' names."""
    rule = role.aggregation_rule
    selectors = [compile_selector(one) for one in rule.cluster_role_selectors] if rule is not None else []
    chosen = {
        one.metadata.name: one
        for selector in selectors
        for one in roles
        if one.metadata.name != role.metadata.name and selector.matches(one.metadata.labels)
    }
    found: list[rbac_v1.PolicyRule] = []
    for name in sorted(chosen):
        found += [one for one in chosen[name].rules if one not in found]
    return tuple(found)
