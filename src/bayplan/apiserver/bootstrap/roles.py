"""Publishing the roles that every cluster has, and bringing them up to date at start.

What is missing is created. What is there only gains: permissions, subjects, labels that somebody added stay, and objects with the annotation
`rbac.authorization.kubernetes.io/autoupdate: "false"` are left alone. Source: Kubernetes' `rbac/reconciliation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.types import meta_v1, rbac_v1
from bayplan.apiserver.authorization.rules import PolicyRule, compacted, missing
from bayplan.apiserver.bootstrap.component_role_table import component_roles
from bayplan.apiserver.bootstrap.controller_role_table import PREFIX, controller_roles
from bayplan.apiserver.bootstrap.role_table import (
    ACCOUNTS,
    AGGREGATED,
    GROUPS,
    READ,
    USERS,
    cluster_roles,
    events,
    rule,
)
from bayplan.apiserver.context import Call, Context
from bayplan.apiserver.verbs.create import create_object
from bayplan.apiserver.verbs.update import modify

GROUP: Final = "rbac.authorization.k8s.io"
API_VERSION: Final = f"{GROUP}/v1"
AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
SYSTEM, PUBLIC = "kube-system", "kube-public"
MakeCall = Callable[..., Call]


async def publish_roles(context: Context, make_call: MakeCall) -> None:
    """Create or complete all roles and bindings, at once. Raises ApiError."""
    wanted = default_objects()
    if context.settings.publish_component_roles:
        wanted += component_objects()
    waiting: list[Awaitable[None]] = [_ensure(context, make_call, obj) for obj in wanted]
    await asyncio.gather(*waiting)


def component_objects() -> list[Any]:
    """Roles of Bayplan's components that have none in Kubernetes, and their bindings, freshly made."""
    roles: list[Any] = [_cluster_role(name, rules) for name, (_, rules) in component_roles().items()]
    return roles + [_cluster_binding(name, [_user(user)]) for name, (user, _) in component_roles().items()]


def default_objects() -> list[Any]:
    """Everything that is published, freshly made: roles before the bindings that name them."""
    roles: list[Any] = [_cluster_role(name, rules) for name, rules in cluster_roles().items()]
    roles += [_cluster_role(PREFIX + name, rules) for name, rules in controller_roles().items()]
    roles += [_aggregated(name, into) for name, into in AGGREGATED.items()]
    roles += [_role(namespace, name, rules) for namespace, name, rules in _namespaced_roles()]
    bindings: list[Any] = [_cluster_binding(name, [_group(one) for one in groups]) for name, groups in GROUPS.items()]
    bindings += [_cluster_binding(name, [_user(user)]) for name, user in USERS.items()]
    bindings += [_cluster_binding(name, [_account(account)]) for name, account in ACCOUNTS.items()]
    bindings += [_cluster_binding(PREFIX + name, [_account(name)]) for name in controller_roles()]
    bindings += _namespaced_bindings()
    return roles + bindings


def _metadata(name: str, namespace: str = "", labels: dict[str, str] | None = None) -> meta_v1.ObjectMeta:
    return meta_v1.ObjectMeta(
        name=name,
        namespace=namespace,
        labels={"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
        annotations={AUTO_UPDATE: "true"},
    )


def _gathered(into: str) -> dict[str, str]:
    return {f"{GROUP}/aggregate-to-{into}": "true"} if into else {}


def _cluster_role(name: str, rules: tuple[PolicyRule, ...]) -> rbac_v1.ClusterRole:
    into = name.removeprefix("system:aggregate-to-") if name.startswith("system:aggregate-to-") else ""
    return rbac_v1.ClusterRole(metadata=_metadata(name, labels=_gathered(into)), rules=rules)


def _aggregated(name: str, into: str) -> rbac_v1.ClusterRole:
    selector = meta_v1.LabelSelector(match_labels=_gathered(name))
    return rbac_v1.ClusterRole(
        metadata=_metadata(name, labels=_gathered(into)),
        aggregation_rule=rbac_v1.AggregationRule(cluster_role_selectors=(selector,)),
    )


def _role(namespace: str, name: str, rules: tuple[PolicyRule, ...]) -> rbac_v1.Role:
    return rbac_v1.Role(metadata=_metadata(name, namespace), rules=rules)


def _user(name: str) -> rbac_v1.Subject:
    return rbac_v1.Subject(kind="User", api_group=GROUP, name=name)


def _group(name: str) -> rbac_v1.Subject:
    return rbac_v1.Subject(kind="Group", api_group=GROUP, name=name)


def _account(name: str) -> rbac_v1.Subject:
    return rbac_v1.Subject(kind="ServiceAccount", name=name, namespace=SYSTEM)


def _cluster_binding(name: str, subjects: Sequence[rbac_v1.Subject]) -> rbac_v1.ClusterRoleBinding:
    role = rbac_v1.RoleRef(api_group=GROUP, kind="ClusterRole", name=name)
    return rbac_v1.ClusterRoleBinding(metadata=_metadata(name), subjects=tuple(subjects), role_ref=role)


_READER: Final = "extension-apiserver-authentication-reader"
_LOCKING: Final = "system::leader-locking-"


def _namespaced_roles() -> tuple[tuple[str, str, tuple[PolicyRule, ...]], ...]:
    def locking(name: str) -> tuple[str, str, tuple[PolicyRule, ...]]:
        plurals = ("leases", "leasecandidates")
        return (
            SYSTEM,
            _LOCKING + name,
            tuple(rule(f"{READ} create update", "coordination.k8s.io", one) for one in plurals),
        )

    return (
        (SYSTEM, _READER, (rule(READ, "core", "configmaps", "extension-apiserver-authentication"),)),
        (SYSTEM, f"{PREFIX}bootstrap-signer", (rule(READ, "core", "secrets"),)),
        (SYSTEM, f"{PREFIX}cloud-provider", (rule(f"create {READ}", "core", "configmaps"),)),
        (SYSTEM, f"{PREFIX}token-cleaner", (rule(f"{READ} delete", "core", "secrets"), events())),
        locking("kube-controller-manager"),
        locking("kube-scheduler"),
        (
            PUBLIC,
            f"{PREFIX}bootstrap-signer",
            (rule(READ, "core", "configmaps"), rule("update", "core", "configmaps", "cluster-info"), events()),
        ),
    )


def _namespaced_bindings() -> list[rbac_v1.RoleBinding]:
    def bind(namespace: str, name: str, *subjects: rbac_v1.Subject, role: str = "") -> rbac_v1.RoleBinding:
        reference = rbac_v1.RoleRef(api_group=GROUP, kind="Role", name=role or name)
        return rbac_v1.RoleBinding(metadata=_metadata(name, namespace), subjects=subjects, role_ref=reference)

    manager, scheduler = "kube-controller-manager", "kube-scheduler"
    both = (_user(f"system:{manager}"), _user(f"system:{scheduler}"))
    return [
        bind(SYSTEM, f"system::{_READER}", *both, role=_READER),
        bind(
            SYSTEM,
            _LOCKING + manager,
            _user(f"system:{manager}"),
            _account(manager),
            _account("leader-election-controller"),
        ),
        bind(SYSTEM, _LOCKING + scheduler, _user(f"system:{scheduler}"), _account(scheduler)),
        *(
            bind(SYSTEM, PREFIX + name, _account(name))
            for name in ("bootstrap-signer", "cloud-provider", "token-cleaner")
        ),
        bind(PUBLIC, f"{PREFIX}bootstrap-signer", _account("bootstrap-signer")),
    ]


async def _ensure(context: Context, make_call: MakeCall, wanted: Any) -> None:
    """Create an object, or add what the one that is there lacks."""
    kind = context.kinds.of_kind(API_VERSION, type(wanted).__name__)
    assert kind is not None
    namespace, name = wanted.metadata.namespace, wanted.metadata.name
    cache = context.objects.cache(kind)
    entry = cache.get(namespace, name)
    if entry is None:
        try:
            await create_object(make_call(context, kind, namespace), wanted, plain=True)
        except ApiError as error:
            if error.reason != "AlreadyExists":  # another server was faster
                raise
        return
    found = cache.shared(entry)
    if found.metadata.annotations.get(AUTO_UPDATE) == "false" or not _lacks(found, wanted):
        return
    await modify(make_call(context, kind, namespace, name), lambda obj: _completed(obj, wanted), plain=True)


def _lacks(found: Any, wanted: Any) -> bool:
    return bool(_completed(_copied(found), wanted) != found)


def _copied(obj: Any) -> Any:
    """A copy of a shared object whose members may be replaced; what they hold stays shared."""
    from msgspec.structs import replace

    metadata = replace(obj.metadata, labels=dict(obj.metadata.labels), annotations=dict(obj.metadata.annotations))
    return replace(obj, metadata=metadata)


def _completed(obj: Any, wanted: Any) -> Any:
    """The object with what it lacks; what it has stays."""
    metadata = obj.metadata
    metadata.labels = {**wanted.metadata.labels, **metadata.labels}
    metadata.annotations = {**wanted.metadata.annotations, **metadata.annotations}
    if isinstance(wanted, rbac_v1.RoleBinding | rbac_v1.ClusterRoleBinding):
        obj.subjects = (*obj.subjects, *(one for one in wanted.subjects if one not in obj.subjects))
        obj.role_ref = wanted.role_ref
        return obj
    obj.rules = (*obj.rules, *compacted(missing(obj.rules, wanted.rules)))
    aggregation = getattr(wanted, "aggregation_rule", None)
    if aggregation is not None:
        held = obj.aggregation_rule.cluster_role_selectors if obj.aggregation_rule is not None else ()
        lacking = tuple(one for one in aggregation.cluster_role_selectors if one not in held)
        obj.aggregation_rule = rbac_v1.AggregationRule(cluster_role_selectors=(*held, *lacking))
    return obj
