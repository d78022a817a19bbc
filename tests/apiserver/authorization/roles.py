"""Roles, bindings and users for tests of authorization."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from bayplan.api.types import core_v1, meta_v1, rbac_v1
from bayplan.apiserver.requests import User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.client import Client
from tests.apiserver.serving import client_of, opened

GROUP = "rbac.authorization.k8s.io"
BY_ROLES = ApiServerSettings(authorization_modes=("Node", "RBAC"), enable_admission_plugins=("NodeRestriction",))
CAROL = User("carol", ("system:authenticated",), "carol-uid")
OPS = User("bob", ("ops", "system:authenticated"))
NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))


def run(case: Callable[[ApiServer, Client], Awaitable[None]], settings: ApiServerSettings = BY_ROLES) -> None:
    """Run a case against a fresh server, with an administrator's client."""

    async def inner() -> None:
        async with opened(settings=settings) as api:
            admin = client_of(api)
            account = core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default"))
            await admin.create(account)
            await case(api, admin)

    asyncio.run(inner())


def rule(verbs: str, resources: str, groups: Sequence[str] = ("",), names: str = "") -> rbac_v1.PolicyRule:
    """A rule from words."""
    return rbac_v1.PolicyRule(
        verbs=tuple(verbs.split()),
        api_groups=tuple(groups),
        resources=tuple(resources.split()),
        resource_names=tuple(names.split()),
    )


def role(name: str, *rules: rbac_v1.PolicyRule) -> rbac_v1.Role:
    return rbac_v1.Role(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), rules=rules)


def cluster_role(name: str, *rules: rbac_v1.PolicyRule) -> rbac_v1.ClusterRole:
    return rbac_v1.ClusterRole(metadata=meta_v1.ObjectMeta(name=name), rules=rules)


def subject(kind: str, name: str, namespace: str = "") -> rbac_v1.Subject:
    return rbac_v1.Subject(kind=kind, name=name, namespace=namespace, api_group="" if namespace else GROUP)


def binding(name: str, whom: rbac_v1.Subject, *, kind: str = "Role", to: str = "") -> rbac_v1.RoleBinding:
    return rbac_v1.RoleBinding(
        metadata=meta_v1.ObjectMeta(name=name, namespace="default"),
        subjects=(whom,),
        role_ref=rbac_v1.RoleRef(api_group=GROUP, kind=kind, name=to or name),
    )


def cluster_binding(name: str, whom: rbac_v1.Subject, to: str = "") -> rbac_v1.ClusterRoleBinding:
    return rbac_v1.ClusterRoleBinding(
        metadata=meta_v1.ObjectMeta(name=name),
        subjects=(whom,),
        role_ref=rbac_v1.RoleRef(api_group=GROUP, kind="ClusterRole", name=to or name),
    )


def config_map(name: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=name, namespace="default"))
