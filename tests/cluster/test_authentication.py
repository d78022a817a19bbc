"""Users that others know, on a running server: issuers of tokens, a webhook, conditions of anonymous requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from bayplan.apiserver.authentication.settings import AuthenticationSettings
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.cli.flags.kube_flags import api_server_settings
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import ClusterSettings
from tests.apiserver.authentication.oidc.provider import EC_KEY, Provider, public_key, running_provider
from tests.cluster.serving import client_of, reviewed, running, until

NOW = time.time()
BY_SUBJECT = {"username": {"claim": "sub", "prefix": "oidc:"}, "groups": {"claim": "groups", "prefix": "oidc:"}}


def issuer(provider: Provider, **more: Any) -> dict[str, Any]:
    """A provider in a configuration."""
    given = {"url": provider.issuer, "certificateAuthority": provider.authority, "audiences": ["me"]}
    return {"issuer": given | more.pop("issuer", {}), "claimMappings": BY_SUBJECT, **more}


def write(path: Path, *issuers: dict[str, Any], **more: Any) -> str:
    """A configuration file."""
    file = path / "authentication.json"
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
    file.write_text(json.dumps({**head, "jwt": issuers, **more}))
    return str(file)


def settings(**authentication: Any) -> ClusterSettings:
    """A server alone where everybody who is known may do everything."""
    api = ApiServerSettings(authentication=AuthenticationSettings(**authentication))
    return ClusterSettings(run_scheduler=False, run_controllers=False, api=api)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def initialized(cluster: Cluster) -> None:
    """Wait until all issuers have been reached."""
    assert cluster.authentication is not None
    authentication = cluster.authentication
    await until(lambda: not authentication._issuers.problem)


async def token_reviewed(session: aiohttp.ClientSession, cluster: Cluster, token: str, *audiences: str) -> Any:
    """The status of a TokenReview."""
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences},
    }
    url, headers = "/apis/authentication.k8s.io/v1/tokenreviews", bearer(cluster.credentials.admin_token)
    async with session.post(url, json=review, headers=headers) as answer:
        return (await answer.json())["status"]


def test_users_of_several_issuers_are_known_and_one_that_is_away_refuses_its_own_tokens_only(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_provider(tmp_path, NOW) as one, running_provider(tmp_path, NOW, "other") as other:
            other.status = 503
            file = write(tmp_path, issuer(one), issuer(other))
            async with running(settings(config_file=file)) as cluster, client_of(cluster, tmp_path, None) as session:
                jane = one.token(NOW, groups=["dev"])
                for _ in range(2):
                    status, user = await reviewed(session, bearer(jane))
                    assert (status, user["username"]) == (201, "oidc:jane")
                    assert user["groups"] == ["oidc:dev", "system:authenticated"]
                assert (await reviewed(session, bearer(other.token(NOW))))[0] == 401
                found = await token_reviewed(session, cluster, other.token(NOW))
                assert found["error"] == "[invalid bearer token, oidc: authenticator not initialized]"
                assert one.asked == ["/.well-known/openid-configuration", "/keys"]
                text = cluster.metrics.render().decode()
                assert (
                    'apiserver_authentication_jwt_authenticator_latency_seconds_count{jwt_issuer_hash="sha256:' in text
                )
                assert 'authentication_attempts{result="failure"} 1\n' in text

    asyncio.run(case())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"aud": "you"}, 'oidc: verify token: oidc: expected audience "me" got ["you"]'),
        ({"exp": NOW - 1}, "oidc: verify token: oidc: token is expired"),
        ({"sub": ""}, 'oidc: parse username claims "sub": the claim is empty'),
        ({"groups": 1}, 'oidc: parse groups claim "groups"'),
    ],
)
def test_a_token_that_is_not_good_says_so_to_reviews_only(tmp_path: Path, changes: Any, problem: str) -> None:
    async def case() -> None:
        async with running_provider(tmp_path, NOW) as provider:
            given = settings(config_file=write(tmp_path, issuer(provider)))
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                await initialized(cluster)
                token = provider.token(NOW, **changes)
                assert (await reviewed(session, bearer(token)))[0] == 401
                assert problem in (await token_reviewed(session, cluster, token))["error"]

    asyncio.run(case())


def test_reviews_of_tokens_are_for_audiences_of_the_server(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_provider(tmp_path, NOW) as provider:
            given = settings(config_file=write(tmp_path, issuer(provider)))
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                own = "https://kubernetes.default.svc"
                await initialized(cluster)
                found = await token_reviewed(session, cluster, provider.token(NOW), own, "other")
                assert (found["authenticated"], found["audiences"]) == (True, [own])
                assert "authenticated" not in await token_reviewed(session, cluster, provider.token(NOW), "other")

    asyncio.run(case())


def test_keys_may_change_and_come_slowly_while_others_are_answered(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_provider(tmp_path, NOW) as provider:
            given = settings(config_file=write(tmp_path, issuer(provider)))
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                await initialized(cluster)
                assert (await reviewed(session, bearer(provider.token(NOW))))[0] == 201
                provider.keys, provider.gate = [public_key(EC_KEY, "k2")], asyncio.Event()
                token = provider.token(NOW, EC_KEY, "ES256", "k2")
                waiting = [asyncio.create_task(reviewed(session, bearer(token))) for _ in range(3)]
                await until(lambda: provider.asked.count("/keys") == 2)
                assert (await reviewed(session, bearer(cluster.credentials.admin_token)))[0] == 201
                assert not any(task.done() for task in waiting)
                provider.gate.set()
                assert [status for status, _ in await asyncio.gather(*waiting)] == [201] * 3
                assert provider.asked.count("/keys") == 2

    asyncio.run(case())


def test_a_provider_may_say_where_its_keys_are_elsewhere(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_provider(tmp_path, NOW) as provider:
            elsewhere = {"discoveryURL": f"{provider.issuer}/elsewhere"}
            given = settings(config_file=write(tmp_path, issuer(provider, issuer=elsewhere)))
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                await initialized(cluster)
                assert (await reviewed(session, bearer(provider.token(NOW))))[0] == 201
                assert provider.asked == ["/elsewhere", "/keys"]

    asyncio.run(case())


def test_groups_may_be_at_another_place(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_provider(tmp_path, NOW) as provider:
            provider.groups_token = provider.token(NOW, groups=["far"])
            given = settings(config_file=write(tmp_path, issuer(provider)))
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                await initialized(cluster)
                source = {"endpoint": f"{provider.issuer}/groups", "access_token": "groups-please"}
                claims: dict[str, Any] = {"_claim_names": {"groups": "s"}, "_claim_sources": {"s": source}}
                status, user = await reviewed(session, bearer(provider.token(NOW, **claims)))
                assert (status, user["groups"]) == (201, ["oidc:far", "system:authenticated"])
                provider.groups_token = provider.token(NOW, EC_KEY, "ES256", groups=["system:masters"])
                assert (await reviewed(session, bearer(provider.token(NOW, sub="other", **claims))))[0] == 401

    asyncio.run(case())


def test_a_changed_file_is_read_and_a_broken_one_is_not_taken(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_provider(tmp_path, NOW) as one, running_provider(tmp_path, NOW, "other") as other:
            file = write(tmp_path, issuer(one))
            async with running(settings(config_file=file)) as cluster, client_of(cluster, tmp_path, None) as session:
                assert cluster.authentication is not None
                await initialized(cluster)
                assert (await reviewed(session, bearer(one.token(NOW))))[0] == 201
                assert not await cluster.authentication.reload()
                for text in ("nonsense: [", '{"kind": "Other"}'):
                    (tmp_path / "authentication.json").write_text(text)
                    assert not await cluster.authentication.reload()
                write(tmp_path, issuer(other), anonymous={"enabled": True})
                assert not await cluster.authentication.reload()
                write(tmp_path, issuer(other, issuer={"url": "http://x"}))
                assert not await cluster.authentication.reload()
                assert (await reviewed(session, bearer(one.token(NOW))))[0] == 201
                assert (await reviewed(session, bearer(other.token(NOW))))[0] == 401
                write(tmp_path, issuer(other))
                assert await cluster.authentication.reload()
                assert (await reviewed(session, bearer(one.token(NOW))))[0] == 401
                assert (await reviewed(session, bearer(other.token(NOW))))[0] == 201
                text = cluster.metrics.render().decode()
                begin = "apiserver_authentication_config_controller_automatic_reloads_total"
                found = [line.rpartition(" ") for line in text.splitlines() if line.startswith(begin)]
                assert {("failure" in line, number) for line, _, number in found} == {(True, "4"), (False, "1")}
                assert text.count("apiserver_authentication_config_controller_last_config_info{") == 1

    asyncio.run(case())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", 'failed to load authentication configuration from file ".*": empty config data'),
        ('{"jwt": []}', "Object 'Kind' is missing"),
        (
            '{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [{"issuer": {"url": "http://a"}}]}',
            r"invalid authentication configuration: \[jwt\[0\].issuer.url: Invalid value: .*, jwt\[0\].issuer.audiences: Required",
        ),
        (
            '{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [{"issuer": {"url": '
            '"https://kubernetes.default.svc", "audiences": ["a"]}, "claimMappings": {"username": {"claim": "a", "prefix": ""}}}]}',
            "URL must not overlap with disallowed issuers",
        ),
    ],
)
def test_the_server_does_not_start_with_a_broken_file(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(text)
    with pytest.raises(ClusterError, match=problem):
        Cluster(settings(config_file=str(file)))


def test_the_server_does_not_start_without_its_file(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="No such file"):
        Cluster(settings(config_file=str(tmp_path / "none")))


def test_anonymous_requests_may_be_taken_for_some_paths(tmp_path: Path) -> None:
    async def case() -> None:
        paths = {"enabled": True, "conditions": [{"path": "/livez"}, {"path": "/readyz"}]}
        file = write(tmp_path, anonymous=paths)
        async with running(settings(config_file=file)) as cluster, client_of(cluster, tmp_path, None) as session:
            for path, expected in {
                "/livez": 200,
                "/readyz": 200,
                "/healthz": 401,
                "/livez/ping": 401,
                "/api": 401,
            }.items():
                async with session.get(path) as answer:
                    assert (path, answer.status) == (path, expected)

    asyncio.run(case())


def test_anonymous_requests_are_a_matter_of_the_file_or_of_the_flag(tmp_path: Path) -> None:
    file = write(tmp_path, anonymous={"enabled": False})
    Cluster(settings(config_file=file))
    with pytest.raises(ClusterError, match="anonymous: Forbidden: --anonymous-auth flag cannot be set when"):
        Cluster(settings(config_file=file, anonymous_is_given=True))


def test_an_issuer_may_be_given_by_flags(tmp_path: Path) -> None:
    async def case() -> None:
        async with running_provider(tmp_path, NOW) as provider:
            (tmp_path / "ca.crt").write_text(provider.authority)
            flags = (
                f"--oidc-issuer-url={provider.issuer}",
                "--oidc-client-id=me",
                f"--oidc-ca-file={tmp_path}/ca.crt",
                "--oidc-groups-claim=teams",
                "--oidc-groups-prefix=t:",
                "--oidc-required-claim=hd=example.com",
                "--oidc-required-claim=level=2,3",
                "--oidc-signing-algs=ES256,RS256",
            )
            api, _, _ = api_server_settings(flags)
            given = ClusterSettings(run_scheduler=False, run_controllers=False, api=api)
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                await initialized(cluster)
                claims = {"teams": "red", "hd": "example.com", "level": "2,3"}
                status, user = await reviewed(session, bearer(provider.token(NOW, **claims)))
                assert (status, user["username"]) == (201, f"{provider.issuer}#jane")
                assert user["groups"] == ["t:red", "system:authenticated"]
                for changes in ({"hd": "other"}, {"level": "2"}):
                    assert (await reviewed(session, bearer(provider.token(NOW, **(claims | changes)))))[0] == 401
                other = provider.token(NOW, algorithm="RS384", **claims)
                assert (await reviewed(session, bearer(other)))[0] == 401

    asyncio.run(case())


class Webhook:
    """Knows the user of tokens that begin with `hook-`."""

    def __init__(self) -> None:
        self.reviews: list[Any] = []
        self.status = 200
        self.audiences: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.reviews.append(await request.json())
        if self.status != 200:
            return web.Response(status=self.status)
        name = self.reviews[-1]["spec"]["token"].removeprefix("hook-")
        user = {"username": name, "groups": ["g"], "extra": {"a": ["b"]}}
        is_known = self.reviews[-1]["spec"]["token"].startswith("hook-")
        status = {"authenticated": is_known, "user": user, "audiences": self.audiences}
        return web.json_response({**self.reviews[-1], "status": status})


@contextlib.asynccontextmanager
async def running_webhook(path: Path) -> AsyncIterator[tuple[Webhook, str]]:
    """A webhook, and a kubeconfig that leads to it."""
    webhook = Webhook()
    runner = web.ServerRunner(web.Server(webhook.answer))  # type: ignore[arg-type]
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cluster = {"server": f"http://127.0.0.1:{runner.addresses[0][1]}/review"}
    config = {
        "clusters": [{"name": "a", "cluster": cluster}],
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


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_webhook_knows_tokens_and_is_asked_once(tmp_path: Path, version: str) -> None:
    async def case() -> None:
        async with running_webhook(tmp_path) as (webhook, file):
            given = settings(webhook_config_file=file, webhook_version=version)
            async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
                for _ in range(3):
                    status, user = await reviewed(session, bearer("hook-bob"))
                    assert (status, user["username"]) == (201, "bob")
                    assert (user["groups"], user["extra"]) == (["g", "system:authenticated"], {"a": ["b"]})
                    assert (await reviewed(session, bearer("unknown")))[0] == 401
                assert [one["spec"]["token"] for one in webhook.reviews] == ["hook-bob", "unknown"]
                review = webhook.reviews[0]
                assert (review["apiVersion"], review["kind"]) == (f"authentication.k8s.io/{version}", "TokenReview")
                assert review["spec"]["audiences"] == ["https://kubernetes.default.svc"]
                assert (await reviewed(session, bearer(cluster.credentials.admin_token)))[0] == 201
                assert len(webhook.reviews) == 2

    asyncio.run(case())


def test_a_webhook_lets_nobody_in_by_accident(tmp_path: Path) -> None:
    async def case() -> None:
        async with (
            running_webhook(tmp_path) as (webhook, file),
            running(settings(webhook_config_file=file)) as cluster,
            client_of(cluster, tmp_path, None) as session,
        ):
            webhook.audiences = ["somebody else"]
            assert (await reviewed(session, bearer("hook-a")))[0] == 401
            webhook.audiences = []
            assert (await reviewed(session, bearer("hook-")))[0] == 401  # a user without a name
            webhook.status = 404
            assert (await reviewed(session, bearer("hook-b")))[0] == 401
            webhook.status = 200
            assert (await reviewed(session, bearer("hook-b")))[0] == 201  # errors are not kept

    asyncio.run(case())


def test_a_webhook_that_fails_for_a_moment_is_asked_again(tmp_path: Path) -> None:
    async def case() -> None:
        async with (
            running_webhook(tmp_path) as (webhook, file),
            running(settings(webhook_config_file=file)) as cluster,
            client_of(cluster, tmp_path, None) as session,
        ):
            webhook.status = 500
            asking = asyncio.create_task(reviewed(session, bearer("hook-bob")))
            await until(lambda: bool(webhook.reviews))
            webhook.status = 200
            assert (await asking)[0] == 201
            assert len(webhook.reviews) == 2

    asyncio.run(case())


def test_the_kubeconfig_of_a_webhook_must_be_one(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("clusters: nonsense")
    with pytest.raises(ClusterError):
        Cluster(settings(webhook_config_file=str(file)))
