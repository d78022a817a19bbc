"""Authorizers in files, on a running server: webhooks in every place that asks for permissions, policies, changes of the file."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1, rbac_v1
from bayplan.apiserver.authorization.settings import AuthorizationSettings
from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import ClusterSettings
from tests.cluster.serving import client_of, running

TOKENS = tuple((f"{name}-token", name, "", ()) for name in ("alice", "bob"))
HEAD = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration"}


class Webhook:
    """Allows what a function says."""

    def __init__(self) -> None:
        self.allows: Callable[[dict[str, Any]], Any] = lambda spec: spec["user"] == "alice"
        """True, False, or None for neither."""
        self.specs: list[dict[str, Any]] = []
        self.status = 200

    async def answer(self, request: web.Request) -> web.StreamResponse:
        review = await request.json()
        self.specs.append(review["spec"])
        if self.status != 200:
            return web.Response(status=self.status)
        found = self.allows(review["spec"])
        status = {"allowed": found is True, "denied": found is False, "reason": f"the webhook says {found}"}
        return web.json_response({**review, "status": status})


@contextlib.asynccontextmanager
async def running_webhook(path: Path) -> AsyncIterator[tuple[Webhook, str]]:
    """A webhook, and a kubeconfig that leads to it."""
    webhook = Webhook()
    runner = web.ServerRunner(web.Server(webhook.answer))  # type: ignore[arg-type]
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = {
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}/review"}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    file = path / "webhook.json"
    file.write_text(json.dumps(config))
    try:
        yield webhook, str(file)
    finally:
        await runner.cleanup()


def hook(kubeconfig: str, name: str = "hook", **changes: Any) -> dict[str, Any]:
    """A webhook in a configuration."""
    given = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": kubeconfig},
        "authorizedTTL": "1h",
        "unauthorizedTTL": "1h",
    }
    return {"type": "Webhook", "name": name, "webhook": given | changes}


RBAC = {"type": "RBAC", "name": "rbac"}


def write(path: Path, *authorizers: dict[str, Any]) -> str:
    file = path / "authorization.json"
    file.write_text(json.dumps({**HEAD, "authorizers": authorizers}))
    return str(file)


def settings(modes: tuple[str, ...] = ("RBAC",), **authorization: Any) -> ClusterSettings:
    api = ApiServerSettings(authorization_modes=modes, authorization=AuthorizationSettings(**authorization))
    return ClusterSettings(run_scheduler=False, run_controllers=False, api=api, tokens=TOKENS)


async def status_of(
    session: aiohttp.ClientSession, user: str, path: str, method: str = "GET", body: Any = None, **headers: str
) -> tuple[int, str]:
    """Status and message of an answer."""
    given = {
        "Authorization": f"Bearer {user}-token",
        **{name.replace("_", "-"): text for name, text in headers.items()},
    }
    async with session.request(method, path, json=body, headers=given) as answer:
        return answer.status, (await answer.json()).get("message", "")


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_a_webhook_decides_about_requests_and_is_asked_once(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_webhook(tmp_path) as (webhook, kubeconfig):
            given = settings(config_file=write(tmp_path, hook(kubeconfig), RBAC))
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                for _ in range(2):
                    assert (await status_of(session, "alice", f"{CONFIG_MAPS}?labelSelector=a%3Db"))[0] == 200
                    status, message = await status_of(session, "bob", CONFIG_MAPS)
                    assert status == 403
                    assert message.endswith('in the namespace "default": the webhook says False')
                about_users = [one for one in webhook.specs if one["user"] in ("alice", "bob")]
                assert [one["user"] for one in about_users] == ["alice", "bob"]
                assert about_users[0]["resourceAttributes"]["labelSelector"] == {
                    "requirements": [{"key": "a", "operator": "In", "values": ["b"]}]
                }
                text = cluster.metrics.render().decode()
                begin = "apiserver_authorization_decisions_total"
                found = {line for line in text.splitlines() if line.startswith(begin) and '"Webhook"' in line}
                assert {line.rpartition(" ")[2] for line in found if "denied" in line} == {"2"}

    asyncio.run(case())


def test_a_webhook_is_asked_by_reviews_policies_and_impersonation(tmp_path: Path) -> None:
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
                ]
            },
            "validations": [
                {
                    "expression": "authorizer.group('x.io').resource('things').check(object.metadata.name).allowed()",
                    "message": "not for you",
                }
            ],
        },
    }
    policy_binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "p"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    }

    def allows(spec: dict[str, Any]) -> bool | None:
        asked = spec.get("resourceAttributes", {})
        if asked.get("group") == "x.io":
            return bool(asked["verb"] == "good")
        if asked.get("verb", "").startswith("impersonate"):
            return bool(asked["verb"] == "impersonate" and asked["name"] == "bob")
        return True

    async def case() -> None:
        async with running_webhook(tmp_path) as (webhook, kubeconfig):
            webhook.allows = allows
            given = settings(("Webhook",), webhook_config_file=kubeconfig)
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                base = "/apis/admissionregistration.k8s.io/v1"
                assert (await status_of(session, "alice", f"{base}/validatingadmissionpolicies", "POST", policy))[
                    0
                ] == 201
                where = f"{base}/validatingadmissionpolicybindings"
                assert (await status_of(session, "alice", where, "POST", policy_binding))[0] == 201
                await status_of(session, "alice", "/api/v1/namespaces", "POST", {"metadata": {"name": "default"}})
                status, message = await status_of(session, "alice", CONFIG_MAPS, "POST", config_map("good"))
                assert (status, message) == (201, "")
                status, message = await status_of(session, "alice", CONFIG_MAPS, "POST", config_map("bad"))
                assert (status, "not for you" in message) == (422, True)
                for name, expected in (("bob", 200), ("carol", 403)):
                    found = await status_of(session, "alice", CONFIG_MAPS, Impersonate_User=name)
                    assert found[0] == expected
                review = {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": {"group": "x.io", "verb": "bad", "resource": "things"}},
                }
                url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
                headers = {"Authorization": "Bearer alice-token"}
                async with session.post(url, json=review, headers=headers) as answer:
                    found = (await answer.json())["status"]
                assert found == {"allowed": False, "denied": True, "reason": "the webhook says False"}

    asyncio.run(case())


@pytest.mark.parametrize(("policy", "expected"), [("NoOpinion", 200), ("Deny", 403)])
def test_without_a_webhook_roles_decide_or_nobody_may(tmp_path: Path, policy: str, expected: int) -> None:
    async def case() -> None:
        async with running_webhook(tmp_path) as (webhook, kubeconfig):
            webhook.status = 404
            always = {"type": "AlwaysAllow", "name": "alwaysallow"}
            given = settings(config_file=write(tmp_path, hook(kubeconfig, failurePolicy=policy), always))
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                assert (await status_of(session, "alice", CONFIG_MAPS))[0] == expected
                headers = {"Authorization": f"Bearer {cluster.credentials.admin_token}"}
                async with session.get(CONFIG_MAPS, headers=headers) as answer:
                    assert answer.status == 200  # masters are asked about nowhere
                assert all("system:masters" not in one.get("groups", ()) for one in webhook.specs)

    asyncio.run(case())


def test_who_is_unknown_sees_nothing_where_everybody_may_do_everything(tmp_path: Path) -> None:
    async def case() -> None:
        given = settings(config_file=write(tmp_path, {"type": "AlwaysAllow", "name": "alwaysallow"}))
        async with (
            running(given) as cluster,
            client_of(cluster, tmp_path, None) as session,
            session.get(CONFIG_MAPS) as answer,
        ):
            assert answer.status == 401

    asyncio.run(case())


def test_a_changed_file_is_read_and_a_broken_one_is_not_taken(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_webhook(tmp_path) as (webhook, kubeconfig):
            webhook.allows = lambda spec: True
            given = settings(config_file=write(tmp_path, hook(kubeconfig), RBAC))
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                authorization = cluster.authorization
                assert authorization is not None
                assert (await status_of(session, "alice", CONFIG_MAPS))[0] == 200
                assert not await authorization.reload()
                for broken in ((hook(kubeconfig),), (RBAC, hook("/none")), ({"type": "Node", "name": "node"}, RBAC)):
                    write(tmp_path, *broken)
                    assert not await authorization.reload()
                    assert (await status_of(session, "alice", CONFIG_MAPS))[0] == 200
                conditions: dict[str, Any] = {
                    "matchConditions": [{"expression": "request.user == 'bob'"}],
                    "matchConditionSubjectAccessReviewVersion": "v1",
                }
                write(tmp_path, hook(kubeconfig, **conditions), RBAC)
                assert await authorization.reload()
                assert (await status_of(session, "alice", CONFIG_MAPS))[0] == 403
                assert (await status_of(session, "bob", CONFIG_MAPS))[0] == 200
                text = cluster.metrics.render().decode()
                begin = "apiserver_authorization_config_controller_automatic_reloads_total"
                found = [line.rpartition(" ") for line in text.splitlines() if line.startswith(begin)]
                assert {("failure" in line, number) for line, _, number in found} == {(True, "3"), (False, "1")}

    asyncio.run(case())


def test_policies_in_a_file(tmp_path: Path) -> None:
    async def case() -> None:
        file = tmp_path / "policies.jsonl"
        file.write_text('{"user": "alice", "namespace": "default", "resource": "configmaps", "readonly": true}\n')
        given = settings(("ABAC",), policy_file=str(file))
        async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
            assert (await status_of(session, "alice", CONFIG_MAPS))[0] == 200
            status, message = await status_of(session, "bob", CONFIG_MAPS)
            assert (status, message.endswith(": No policy matched.")) == (403, True)
            assert (await status_of(session, "alice", CONFIG_MAPS, "POST", config_map("a")))[0] == 403

    asyncio.run(case())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "authorizers: Required value: at least one authorization mode must be defined"),
        ("{", "failed to load AuthorizationConfiguration from file: yaml"),
        (json.dumps({**HEAD, "authorizers": [{"type": "RBAC", "name": "x"}]}), "expected name rbac"),
        (
            json.dumps({**HEAD, "authorizers": [{"type": "ABAC", "name": "abac"}]}),
            "authorization policy file not passed",
        ),
    ],
)
def test_the_server_does_not_start_with_a_broken_file(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(text)
    with pytest.raises(ClusterError, match=problem):
        Cluster(settings(config_file=str(file)))


def test_the_server_does_not_start_with_broken_policies_or_without_its_webhook(tmp_path: Path) -> None:
    file = tmp_path / "policies"
    file.write_text("nonsense")
    with pytest.raises(ClusterError, match=r"error reading policy file .*, line 1: nonsense"):
        Cluster(settings(("ABAC",), policy_file=str(file)))
    with pytest.raises(ClusterError):
        Cluster(settings(("Webhook",), webhook_config_file=str(tmp_path / "none")))


def test_what_roles_allow_is_not_remembered_while_a_webhook_may_still_say_no(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_webhook(tmp_path) as (webhook, kubeconfig):
            webhook.allows = lambda spec: None
            given = settings(config_file=write(tmp_path, hook(kubeconfig, cacheUnauthorizedRequests=False), RBAC))
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                subject = rbac_v1.Subject(kind="User", name="bob", api_group="rbac.authorization.k8s.io")
                role = rbac_v1.RoleRef(kind="ClusterRole", name="cluster-admin", api_group="rbac.authorization.k8s.io")
                metadata = meta_v1.ObjectMeta(name="bob")
                await cluster.client().create(
                    rbac_v1.ClusterRoleBinding(metadata=metadata, subjects=(subject,), role_ref=role)
                )
                for _ in range(2):
                    assert (await status_of(session, "bob", "/api/v1/nodes/none"))[0] == 404
                webhook.allows = lambda spec: False
                assert (await status_of(session, "bob", "/api/v1/nodes/none"))[0] == 403

    asyncio.run(case())


def test_a_webhook_is_asked_about_components_of_the_same_process(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_webhook(tmp_path) as (webhook, kubeconfig):
            given = settings(("Webhook",), webhook_config_file=kubeconfig)
            async with running(given) as cluster:
                account = core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="kube-system"))
                await cluster.client().create(account)
                container = core_v1.Container(name="c", image="i")
                metadata = meta_v1.ObjectMeta(name="a", namespace="kube-system")
                await cluster.client().create(
                    core_v1.Pod(metadata=metadata, spec=core_v1.PodSpec(containers=(container,)))
                )
                path = "/api/v1/namespaces/kube-system/pods/a"
                unread = Request("DELETE", path, {}, User("alice"), reads_answer=False)
                assert cluster.api.submit(unread) is None  # which nobody waits for
                with pytest.raises(ApiError, match="the webhook says False"):
                    await cluster.client("bob", ()).delete(core_v1.Pod, "a", "kube-system")
                await cluster.client("alice", ()).delete(core_v1.Pod, "a", "kube-system")
                assert cluster.api.context.find("Pod", "kube-system", "a") is None
                assert [one["resourceAttributes"]["verb"] for one in webhook.specs] == ["delete", "delete"]

    asyncio.run(case())
