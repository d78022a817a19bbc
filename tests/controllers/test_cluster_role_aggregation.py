"""Which rules an aggregated role gathers."""

from __future__ import annotations

from bayplan.api.types import meta_v1, rbac_v1
from bayplan.controllers.access.cluster_role_aggregation import gathered_rules


def rule(resource: str) -> rbac_v1.PolicyRule:
    return rbac_v1.PolicyRule(verbs=("get",), api_groups=("",), resources=(resource,))


def role(name: str, *rules: rbac_v1.PolicyRule, **labels: str) -> rbac_v1.ClusterRole:
    return rbac_v1.ClusterRole(metadata=meta_v1.ObjectMeta(name=name, labels=labels), rules=rules)


def aggregated(name: str, **labels: str) -> rbac_v1.ClusterRole:
    selectors = tuple(meta_v1.LabelSelector(match_labels={key: value}) for key, value in labels.items())
    return rbac_v1.ClusterRole(
        metadata=meta_v1.ObjectMeta(name=name, labels=labels),
        aggregation_rule=rbac_v1.AggregationRule(cluster_role_selectors=selectors),
    )


def test_rules_of_chosen_roles_come_in_order_of_names_and_once() -> None:
    pods, secrets, nodes = rule("pods"), rule("secrets"), rule("nodes")
    roles = [role("z", pods, secrets, a="1"), role("b", nodes, pods, b="1"), role("other", rule("x"))]
    assert gathered_rules(aggregated("all", a="1", b="1"), roles) == (nodes, pods, secrets)


def test_a_role_does_not_gather_itself() -> None:
    itself = aggregated("all", a="1")
    itself.rules = (rule("pods"),)
    assert gathered_rules(itself, [itself]) == ()
