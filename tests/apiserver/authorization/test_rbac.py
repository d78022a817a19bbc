"""Roles and bindings through the server."""

from __future__ import annotations

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import coordination_v1, core_v1, meta_v1, rbac_v1
from bayplan.apiserver.authorization.chain import check_modes
from bayplan.apiserver.requests import ANONYMOUS, Request, User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.client import Client
from tests.apiserver.authorization.roles import (
    CAROL,
    OPS,
    binding,
    cluster_binding,
    cluster_role,
    config_map,
    role,
    rule,
    run,
    subject,
)
from tests.apiserver.serving import client_of


async def is_refused(client: Client, name: str = "a") -> bool:
    """Whether reading a config map is forbidden (it may also not be there)."""
    try:
        await client.get(core_v1.ConfigMap, name, "default")
    except ApiError as error:
        return error.code == 403
    return False


def test_a_role_holds_from_its_binding_until_the_binding_goes() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        carol = client_of(api, CAROL)
        assert await is_refused(carol)
        await admin.create(role("reader", rule("get", "configmaps")))
        await admin.create(binding("reader", subject("User", "carol")))
        assert not await is_refused(carol)
        with pytest.raises(ApiError, match='User "carol" cannot create resource "configmaps"'):
            await carol.create(config_map("a"))
        await admin.delete(rbac_v1.RoleBinding, "reader", "default")
        assert await is_refused(carol)

    run(case)


def test_a_change_of_the_role_counts_at_once() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        carol = client_of(api, CAROL)
        made = await admin.create(role("r", rule("create", "configmaps")))
        await admin.create(binding("r", subject("User", "carol")))
        await carol.create(config_map("a"))
        await carol.create(config_map("b"))
        made.rules = ()
        await admin.update(made)
        with pytest.raises(ApiError, match="cannot create"):
            await carol.create(config_map("c"))

    run(case)


def test_names_restrict_a_rule_and_are_not_mixed_up() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        await admin.create(role("r", rule("get", "configmaps", names="a")))
        await admin.create(binding("r", subject("User", "carol")))
        carol = client_of(api, CAROL)
        assert not await is_refused(carol, "a")
        assert await is_refused(carol, "b")
        assert not await is_refused(carol, "a")

    run(case)


def test_groups_and_service_accounts_are_subjects() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        await admin.create(cluster_role("reader", rule("get", "configmaps")))
        await admin.create(cluster_binding("group", subject("Group", "ops"), "reader"))
        account = subject("ServiceAccount", "robot", "elsewhere")
        await admin.create(binding("account", account, kind="ClusterRole", to="reader"))
        assert not await is_refused(client_of(api, OPS))
        assert not await is_refused(client_of(api, User("system:serviceaccount:elsewhere:robot")))
        assert await is_refused(client_of(api, User("system:serviceaccount:default:robot")))

    run(case)


def test_a_missing_role_is_told() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        await admin.create(binding("b", subject("User", "carol"), kind="ClusterRole", to="absent"))
        with pytest.raises(ApiError) as caught:
            await client_of(api, CAROL).get(core_v1.ConfigMap, "a", "default")
        assert caught.value.message.endswith(
            'in the namespace "default": RBAC: clusterrole.rbac.authorization.k8s.io "absent" not found'
        )

    run(case)


def test_who_may_not_ask_does_not_learn_what_there_is() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        for path in ("/apis/no.such/v1/things", "/api/v1/nosuch", "/nosuch"):
            answer = await api.handle(Request("GET", path, {}, CAROL))
            assert answer.code == 403
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            assert (await api.handle(Request("GET", path, {}, ANONYMOUS))).code == 200
        assert (await api.handle(Request("GET", "/api", {}, ANONYMOUS))).code == 403

    run(case)


def test_nobody_grants_more_than_they_hold() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        await admin.create(role("admin", rule("*", "roles", ("rbac.authorization.k8s.io",)), rule("get", "configmaps")))
        made = rule("create get update", "roles rolebindings", ("rbac.authorization.k8s.io",))
        await admin.create(role("limited", made, rule("get", "configmaps")))
        await admin.create(binding("limited", subject("User", "carol")))
        carol = client_of(api, CAROL)
        await carol.create(role("fine", rule("get", "configmaps")))
        with pytest.raises(ApiError) as caught:
            await carol.create(role("more", rule("get list", "configmaps secrets")))
        assert caught.value.message == (
            'roles.rbac.authorization.k8s.io "more" is forbidden: user "carol" (groups=["system:authenticated"]) is '
            "attempting to grant RBAC permissions not currently held:\n"
            '{APIGroups:[""], Resources:["configmaps"], Verbs:["list"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
        )
        with pytest.raises(ApiError, match="not currently held"):
            await carol.create(binding("b", subject("User", "carol"), to="admin"))
        with pytest.raises(ApiError, match='"absent" not found'):
            await carol.create(binding("b", subject("User", "carol"), to="absent"))

    run(case)


def test_who_may_escalate_or_bind_is_trusted() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        group = ("rbac.authorization.k8s.io",)
        await admin.create(role("strong", rule("*", "secrets")))
        await admin.create(
            role(
                "trusted",
                rule("create escalate", "roles", group),
                rule("create", "rolebindings", group),
                rule("bind", "roles", group, names="strong"),
            )
        )
        await admin.create(binding("trusted", subject("User", "carol")))
        carol = client_of(api, CAROL)
        await carol.create(role("more", rule("get", "secrets")))
        await carol.create(binding("b", subject("User", "alice"), to="strong"))
        with pytest.raises(ApiError, match="not currently held"):
            await carol.create(binding("c", subject("User", "alice"), to="more"))

    run(case)


def test_an_update_that_creates_needs_both_permissions() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        made = await admin.create(cluster_role("r", rule("update", "leases", ("coordination.k8s.io",))))
        await admin.create(cluster_binding("r", subject("User", "carol")))
        carol = client_of(api, CAROL)
        lease = coordination_v1.Lease(metadata=meta_v1.ObjectMeta(name="a", namespace="default"))
        with pytest.raises(ApiError, match='User "carol" cannot create resource "leases"'):
            await carol.update(lease)
        made.rules = (rule("create update", "leases", ("coordination.k8s.io",)),)
        await admin.update(made)
        assert (await carol.update(lease)).metadata.uid

    run(case)


def test_the_role_of_a_binding_never_changes() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        made = await admin.create(binding("b", subject("User", "carol"), to="one"))
        made.role_ref.name = "other"
        with pytest.raises(ApiError, match="cannot change roleRef"):
            await admin.update(made)

    run(case)


@pytest.mark.parametrize("modes", [(), ("RBAC", "RBAC"), ("Other",)])
def test_modes_are_checked(modes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="authorization-mode"):
        check_modes(modes)


def test_always_deny_lets_masters_in_only() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        with pytest.raises(ApiError, match="Everything is forbidden"):
            await client_of(api, CAROL).get(core_v1.ConfigMap, "a", "default")

    run(case, ApiServerSettings(authorization_modes=("AlwaysDeny",)))


def test_bootstrap_roles_are_completed_and_what_was_added_stays() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        from bayplan.apiserver.bootstrap import publish

        found = await admin.get(rbac_v1.ClusterRole, "system:basic-user")
        extra = rule("get", "configmaps")
        found.rules = (extra,)
        found.metadata.labels = {"mine": "yes"}
        await admin.update(found)
        kept = await admin.get(rbac_v1.ClusterRole, "system:heapster")
        kept.metadata.annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
        kept.rules = ()
        await admin.update(kept)
        await publish(api.context)
        found = await admin.get(rbac_v1.ClusterRole, "system:basic-user")
        assert found.rules[0] == extra
        assert {one for each in found.rules for one in each.resources} == {
            "configmaps",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "selfsubjectreviews",
        }
        assert found.metadata.labels == {"mine": "yes", "kubernetes.io/bootstrapping": "rbac-defaults"}
        assert not (await admin.get(rbac_v1.ClusterRole, "system:heapster")).rules
        unchanged = await admin.get(rbac_v1.ClusterRole, "view")
        await publish(api.context)
        again = await admin.get(rbac_v1.ClusterRole, "view")
        assert again.metadata.resource_version == unchanged.metadata.resource_version

    run(case)


def test_metadata_of_published_roles_says_that_they_are_kept_up_to_date() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        made = await admin.get(rbac_v1.RoleBinding, "system:controller:token-cleaner", "kube-system")
        assert made.metadata.annotations == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
        assert made.subjects == (subject("ServiceAccount", "token-cleaner", "kube-system"),)
        assert isinstance(made.metadata, meta_v1.ObjectMeta)

    run(case)
