"""Priority levels and flow schemas that every cluster has: who is served from which share of the server.

Source: Kubernetes' `flowcontrol/bootstrap`. They carry the annotation that says that the server keeps their spec up to date.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.types import flowcontrol_v1 as fc
from bayplan.api.types import meta_v1

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
MANDATORY = ("exempt", "catch-all")
"""Levels and schemas that users cannot take over."""
_EVERYBODY = ("system:unauthenticated", "system:authenticated")
_ALL = ("*",)


def priority_levels() -> list[fc.PriorityLevelConfiguration]:
    """The levels, freshly made."""
    exempt = fc.PriorityLevelConfigurationSpec(
        type="Exempt",
        exempt=fc.ExemptPriorityLevelConfiguration(nominal_concurrency_shares=0, lendable_percent=0),
    )
    reject = fc.LimitResponse(type="Reject")
    return [
        fc.PriorityLevelConfiguration(metadata=_metadata("exempt"), spec=exempt),
        _level("catch-all", 5, 0, reject),
        _level("system", 30, 33, _queue(64, 6)),
        _level("node-high", 40, 25, _queue(64, 6)),
        _level("leader-election", 10, 0, _queue(16, 4)),
        _level("workload-high", 40, 50, _queue(128, 6)),
        _level("workload-low", 100, 90, _queue(128, 6)),
        _level("global-default", 20, 50, _queue(128, 6)),
    ]


def flow_schemas() -> list[fc.FlowSchema]:
    """The schemas, freshly made; each names a level from above."""
    managers = (*_users("system:kube-controller-manager", "system:kube-scheduler"), _kube_system_accounts())
    probes = fc.NonResourcePolicyRule(verbs=("get",), non_resource_urls=("/healthz", "/readyz", "/livez"))
    leases = _resources(("get", "create", "update"), "coordination.k8s.io", ("leases",))
    nodes = (
        _resources(_ALL, "", ("nodes", "nodes/status"), cluster=True),
        _resources(_ALL, "coordination.k8s.io", ("leases",)),
    )
    return [
        _schema("exempt", "exempt", 1, "", _everything(_groups("system:masters"))),
        _schema("catch-all", "catch-all", 10000, "ByUser", _everything(_groups(*_EVERYBODY))),
        _schema("system-nodes", "system", 500, "ByUser", _everything(_groups("system:nodes"))),
        _schema("system-node-high", "node-high", 400, "ByUser", _rules(_groups("system:nodes"), nodes)),
        _schema("probes", "exempt", 2, "", _rules(_groups(*_EVERYBODY), (), (probes,))),
        _schema("system-leader-election", "leader-election", 100, "ByUser", _rules(managers, (leases,))),
        _schema(
            "kube-controller-manager",
            "workload-high",
            800,
            "ByNamespace",
            _everything(_users("system:kube-controller-manager")),
        ),
        _schema("kube-scheduler", "workload-high", 800, "ByNamespace", _everything(_users("system:kube-scheduler"))),
        _schema(
            "kube-system-service-accounts", "workload-high", 900, "ByNamespace", _everything((_kube_system_accounts(),))
        ),
        _schema("service-accounts", "workload-low", 9000, "ByUser", _everything(_groups("system:serviceaccounts"))),
        _schema("global-default", "global-default", 9900, "ByUser", _everything(_groups(*_EVERYBODY))),
    ]


def dangling(level: str, now: str, *, exists: bool) -> fc.FlowSchemaCondition:
    """What a schema of this level says about it, as of a time (RFC 3339)."""
    named = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    return fc.FlowSchemaCondition(
        type="Dangling",
        status="False" if exists else "True",
        last_transition_time=now,
        reason="Found" if exists else "NotFound",
        message=f"{named} and it exists" if exists else f"{named} but there is no such object",
    )


def _metadata(name: str) -> meta_v1.ObjectMeta:
    return meta_v1.ObjectMeta(name=name, annotations={AUTO_UPDATE: "true"})


def _queue(queues: int, hand: int) -> fc.LimitResponse:
    queuing = fc.QueuingConfiguration(queues=queues, hand_size=hand, queue_length_limit=50)
    return fc.LimitResponse(type="Queue", queuing=queuing)


def _level(name: str, shares: int, lendable: int, response: fc.LimitResponse) -> fc.PriorityLevelConfiguration:
    limited = fc.LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=shares, lendable_percent=lendable, limit_response=response
    )
    spec = fc.PriorityLevelConfigurationSpec(type="Limited", limited=limited)
    return fc.PriorityLevelConfiguration(metadata=_metadata(name), spec=spec)


def _schema(name: str, level: str, precedence: int, method: str, rules: fc.PolicyRulesWithSubjects) -> fc.FlowSchema:
    spec = fc.FlowSchemaSpec(
        priority_level_configuration=fc.PriorityLevelConfigurationReference(name=level),
        matching_precedence=precedence,
        distinguisher_method=fc.FlowDistinguisherMethod(type=method) if method else None,
        rules=(rules,),
    )
    return fc.FlowSchema(metadata=_metadata(name), spec=spec)


def _rules(
    subjects: Sequence[fc.Subject],
    resources: Sequence[fc.ResourcePolicyRule],
    others: Sequence[fc.NonResourcePolicyRule] = (),
) -> fc.PolicyRulesWithSubjects:
    return fc.PolicyRulesWithSubjects(
        subjects=tuple(subjects), resource_rules=tuple(resources), non_resource_rules=tuple(others)
    )


def _everything(subjects: Sequence[fc.Subject]) -> fc.PolicyRulesWithSubjects:
    other = fc.NonResourcePolicyRule(verbs=_ALL, non_resource_urls=_ALL)
    return _rules(subjects, (_resources(_ALL, "*", _ALL, cluster=True),), (other,))


def _resources(
    verbs: tuple[str, ...], group: str, resources: tuple[str, ...], *, cluster: bool = False
) -> fc.ResourcePolicyRule:
    return fc.ResourcePolicyRule(
        verbs=verbs, api_groups=(group,), resources=resources, cluster_scope=cluster, namespaces=_ALL
    )


def _groups(*names: str) -> tuple[fc.Subject, ...]:
    return tuple(fc.Subject(kind="Group", group=fc.GroupSubject(name=name)) for name in names)


def _users(*names: str) -> tuple[fc.Subject, ...]:
    return tuple(fc.Subject(kind="User", user=fc.UserSubject(name=name)) for name in names)


def _kube_system_accounts() -> fc.Subject:
    account = fc.ServiceAccountSubject(namespace="kube-system", name="*")
    return fc.Subject(kind="ServiceAccount", service_account=account)
