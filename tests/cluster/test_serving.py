"""Certificates of a running server and its clients: who is a front proxy, what a change of the files changes."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.authentication.request_headers import RequestHeaders
from bayplan.apiserver.bootstrap.authentication import FrontProxy, publish_authentication
from bayplan.apiserver.certificates import KeyPair, make_authority, sign
from bayplan.apiserver.service_account_tokens.issuing import ObjectName, TokenGrant
from bayplan.apiserver.service_account_tokens.keys import TokenKeys, make_signing_key, public_pem
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import ClusterSettings, SniFiles
from tests.apiserver.aggregation.remote_server import PATH, remote_server
from tests.apiserver.aggregation.test_aggregation import Front
from tests.apiserver.authentication.certificates import issue
from tests.cluster.serving import client_of, reviewed, running, written

NOW = time.time()
USERS, PROXIES = make_authority(NOW), make_authority(NOW)
WATCH = "/api/v1/namespaces?watch=true"
ALICE = {
    "X-Remote-User": "alice",
    "X-Remote-Group": "dev",
    "X-Remote-Uid": "7",
    "X-Remote-Extra-Example.com%2fteam": "red",
}


def settings(path: Path, **more: Any) -> ClusterSettings:
    """A server alone, with authorities of its users and of front proxies in files."""
    users, _ = written(path / "users", USERS)
    proxies, _ = written(path / "proxies", PROXIES)
    given: dict[str, Any] = {"client_ca": users, "requestheader_ca": proxies, "requestheader_names": ("proxy",)}
    return ClusterSettings(run_scheduler=False, run_controllers=False, **(given | more))


def test_a_front_proxy_says_who_asks(tmp_path: Path) -> None:
    async def case() -> None:
        async with (
            running(settings(tmp_path)) as cluster,
            client_of(cluster, tmp_path, issue(PROXIES, "proxy", NOW)) as session,
        ):
            for _ in range(2):  # the second time the headers are known
                assert await reviewed(session, ALICE) == (
                    201,
                    {
                        "username": "alice",
                        "uid": "7",
                        "groups": ["dev", "system:authenticated"],
                        "extra": {"example.com/team": ["red"]},
                    },
                )
            assert (await reviewed(session))[0] == 401

    asyncio.run(case())


@pytest.mark.parametrize(
    ("authority", "name", "expected"),
    [
        (USERS, "proxy", (201, "proxy")),
        (USERS, "dora", (201, "dora")),
        (PROXIES, "mallory", (401, None)),
        (None, "", (403, None)),
    ],
)
def test_headers_of_others_say_nothing(
    tmp_path: Path, authority: KeyPair | None, name: str, expected: tuple[int, str | None]
) -> None:
    async def case() -> None:
        async with running(settings(tmp_path)) as cluster:
            pair = issue(authority, name, NOW) if authority is not None else None
            async with client_of(cluster, tmp_path, pair) as session:
                status, user = await reviewed(session, ALICE | {"X-Remote-Group": "system:masters"})
                assert (status, user.get("username")) == expected
                assert "system:masters" not in user.get("groups", ())

    asyncio.run(case())


def test_a_token_of_a_front_proxy_goes_before_nothing(tmp_path: Path) -> None:
    async def case() -> None:
        given = settings(tmp_path, tokens=(("t", "carol", "", ()),))
        proxy = issue(PROXIES, "proxy", NOW)
        async with running(given) as cluster, client_of(cluster, tmp_path, proxy) as session:
            assert (await reviewed(session, {"Authorization": "Bearer t"}))[1]["username"] == "carol"
            assert (await reviewed(session, {"Authorization": "Bearer t"} | ALICE))[1]["username"] == "alice"

    asyncio.run(case())


def test_headers_may_have_other_names(tmp_path: Path) -> None:
    async def case() -> None:
        headers = RequestHeaders(("X-Who", "X-Else"), (), ("X-Team",), ("X-More-",))
        async with running(settings(tmp_path, request_headers=headers)) as cluster:
            async with client_of(cluster, tmp_path, issue(PROXIES, "proxy", NOW)) as session:
                status, user = await reviewed(session, {"X-Who": "", "X-Else": "bob", "X-Team": "ops", "X-More-A": "1"})
                assert (status, user["username"], user["groups"]) == (201, "bob", ["ops", "system:authenticated"])
                assert user["extra"] == {"a": ["1"]}
                assert (await reviewed(session, ALICE))[0] == 401
            data = cluster.api.context.find("ConfigMap", "kube-system", "extension-apiserver-authentication").data
            assert json.loads(data["requestheader-username-headers"]) == ["X-Who", "X-Else"]
            assert "requestheader-uid-headers" not in data

    asyncio.run(case())


def test_the_authorities_are_read_again_when_they_change(tmp_path: Path) -> None:
    async def case() -> None:
        given = settings(tmp_path)
        newer = make_authority(NOW)
        async with running(given) as cluster, client_of(cluster, tmp_path, issue(USERS, "dora", NOW)) as session:
            assert (await reviewed(session))[1]["username"] == "dora"
            assert not await cluster.serving.reload()
            assert given.client_ca is not None
            given.client_ca.write_text("nothing")
            assert not await cluster.serving.reload()
            assert (await reviewed(session))[0] == 201
            given.client_ca.write_bytes(newer.certificate)
            assert await cluster.serving.reload()
            await cluster._certificates_changed()
            assert (await reviewed(session))[0] == 401  # on the same connection
            async with client_of(cluster, tmp_path, issue(newer, "emil", NOW)) as later:
                assert (await reviewed(later))[1]["username"] == "emil"
            data = cluster.api.context.find("ConfigMap", "kube-system", "extension-apiserver-authentication").data
            assert data["client-ca-file"] == (USERS.certificate + newer.certificate).decode()

    asyncio.run(case())


def test_a_watch_ends_with_the_certificate_that_opened_its_connection(tmp_path: Path) -> None:
    async def case() -> None:
        async with running(settings(tmp_path, api=ApiServerSettings())) as cluster:
            pair = issue(USERS, "dora", time.time(), seconds=2)
            async with client_of(cluster, tmp_path, pair) as session, session.get(WATCH) as watch:
                assert watch.status == 200
                with pytest.raises((aiohttp.ClientError, ConnectionError)):
                    await asyncio.wait_for(watch.read(), 30)

    asyncio.run(case())


def test_the_certificate_is_chosen_by_the_name_that_is_asked_for(tmp_path: Path) -> None:
    async def case() -> None:
        named = sign(USERS, NOW, "named", hosts=("named.example.com", "*.wild.example.com"))
        explicit = sign(USERS, NOW, "explicit", hosts=("x.example.com",))
        sni = (
            SniFiles(*written(tmp_path / "named", named)),
            SniFiles(
                *written(tmp_path / "explicit", explicit),
                ("named2.example.com", "x.wild.example.com", "both.example.com"),
            ),
            SniFiles(*written(tmp_path / "both", sign(USERS, NOW, "both", hosts=("both.example.com",)))),
        )
        async with running(settings(tmp_path, sni_certificates=sni)) as cluster:
            tls = ssl.create_default_context()
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
            found = {}
            names = (
                "named.example.com",
                "a.wild.example.com",
                "named2.example.com",
                "both.example.com",
                "x.example.com",
            )
            for name in names:
                _, writer = await asyncio.open_connection("127.0.0.1", cluster.port, ssl=tls, server_hostname=name)
                found[name] = writer.get_extra_info("ssl_object").getpeercert(True)
                writer.close()
            own = cluster.credentials.server.certificate
            shown = (named.certificate, named.certificate, explicit.certificate, explicit.certificate, own)
            expected = dict(zip(found, shown, strict=True))
            assert found == {name: ssl.PEM_cert_to_DER_cert(pem.decode()) for name, pem in expected.items()}

    asyncio.run(case())


def test_a_server_certificate_is_read_again_when_it_changes(tmp_path: Path) -> None:
    async def case() -> None:
        first, second = (sign(USERS, NOW, name, hosts=("127.0.0.1",)) for name in ("first", "second"))
        certificate, key = written(tmp_path / "server", first)
        async with running(settings(tmp_path, tls_certificate=certificate, tls_key=key)) as cluster:
            trust = ssl.create_default_context(cadata=USERS.certificate.decode())
            for pair, is_other in ((first, False), (second, True)):
                written(tmp_path / "server", pair)
                assert await cluster.serving.reload() is is_other
                await cluster._certificates_changed()
                _, writer = await asyncio.open_connection("127.0.0.1", cluster.port, ssl=trust)
                shown = writer.get_extra_info("ssl_object").getpeercert(True)
                writer.close()
                assert shown == ssl.PEM_cert_to_DER_cert(pair.certificate.decode())

    asyncio.run(case())


def test_files_that_cannot_be_used_keep_no_others_back(tmp_path: Path) -> None:
    async def case() -> None:
        first, second = (sign(USERS, NOW, name, hosts=("127.0.0.1",)) for name in ("first", "second"))
        certificate, key = written(tmp_path / "server", first)
        authority, _ = written(tmp_path / "users", USERS)
        proxies, _ = written(tmp_path / "proxies", PROXIES)
        given = settings(tmp_path, tls_certificate=certificate, tls_key=key, client_ca=authority)
        async with running(replace(given, requestheader_ca=proxies)) as cluster:
            users = cluster.serving.client_authority
            authority.write_text("junk")
            proxies.unlink()
            assert not await cluster.serving.reload()
            tls = cluster.serving.tls
            written(tmp_path / "server", second)
            assert await cluster.serving.reload()
            assert (cluster.serving.tls is tls, cluster.serving.client_authority) == (False, users)
            certificate.unlink()
            written(tmp_path / "proxies", PROXIES)
            authority.write_bytes(USERS.certificate + PROXIES.certificate)
            assert await cluster.serving.reload()
            assert cluster.serving.client_authority == (USERS.certificate + PROXIES.certificate).decode()

    asyncio.run(case())


def test_an_authority_of_both_needs_names_of_front_proxies(tmp_path: Path) -> None:
    users, _ = written(tmp_path / "both", USERS)
    with pytest.raises(ClusterError, match="contain overlapping certificates; --requestheader-allowed-names must be"):
        Cluster(settings(tmp_path, requestheader_ca=users, requestheader_names=()))
    Cluster(settings(tmp_path, requestheader_ca=users))


@pytest.mark.parametrize("signs", [True, False])
def test_the_keys_of_service_account_tokens_are_read_again_when_they_change(tmp_path: Path, signs: bool) -> None:
    async def case() -> None:
        signing, further = tmp_path / "sa.key", tmp_path / "further.pub"
        first, second, other = make_signing_key(), make_signing_key(), make_signing_key()
        signing.write_bytes(first)
        further.write_bytes(public_pem(other))
        given = settings(tmp_path, token_signing_key=signing if signs else None, token_keys=(further,))
        async with running(given) as cluster, client_of(cluster, tmp_path, None) as session:
            account = await cluster.client().create(
                core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="robot", namespace="kube-system"))
            )
            issuer = cluster.api.context.service_accounts.issuer
            grant = TokenGrant(
                namespace="kube-system",
                account=ObjectName("robot", account.metadata.uid),
                audiences=issuer.audiences,
                seconds=3600,
                token_id="t",
            )
            own = issuer.issue(grant, time.time())
            theirs = replace(issuer, keys=TokenKeys(lambda: other)).issue(grant, time.time())
            for token in (own, theirs):
                assert (await reviewed(session, {"Authorization": f"Bearer {token}"}))[0] == 201
            files = cluster._token_key_files
            assert not await files.reload()
            further.write_text("nothing")
            assert not await files.reload()
            assert (await reviewed(session, {"Authorization": f"Bearer {theirs}"}))[0] == 201
            signing.write_bytes(second)
            further.write_bytes(public_pem(second))
            assert await files.reload()
            cluster.api.context.service_accounts.keys_changed()
            assert (await reviewed(session, {"Authorization": f"Bearer {theirs}"}))[0] == 401
            assert (await reviewed(session, {"Authorization": f"Bearer {own}"}))[0] == (401 if signs else 201)
            assert (await reviewed(session, {"Authorization": f"Bearer {issuer.issue(grant, time.time())}"}))[0] == 201

    asyncio.run(case())


def test_what_is_published_is_made_again_and_else_left_alone(tmp_path: Path) -> None:
    async def case() -> None:
        async with running(settings(tmp_path)) as cluster:

            def published() -> Any:
                return cluster.api.context.find("ConfigMap", "kube-system", "extension-apiserver-authentication")

            before = published()
            await cluster._certificates_changed()
            assert published().metadata.resource_version == before.metadata.resource_version
            client = cluster.client()
            await client.delete(core_v1.ConfigMap, before.metadata.name, "kube-system")
            assert published() is None
            await cluster._certificates_changed()
            assert published().data == before.data
            changed = published()
            changed = await client.update(
                msgspec.structs.replace(changed, data={**changed.data, "client-ca-file": "x", "own": "y"})
            )
            await cluster._certificates_changed()
            assert published().data == {**before.data, "own": "y"}

    asyncio.run(case())


def test_a_certificate_of_another_authority_joins_those_that_are_published(tmp_path: Path) -> None:
    async def case() -> None:
        async with running(settings(tmp_path)) as cluster:
            other, old = make_authority(NOW), make_authority(NOW - 11 * 365 * 86400)
            proxy = FrontProxy((old.certificate + other.certificate).decode(), ("other",))
            await publish_authentication(cluster.api.context, other.certificate.decode(), proxy)
            data = cluster.api.context.find("ConfigMap", "kube-system", "extension-apiserver-authentication").data
            assert data["client-ca-file"] == (USERS.certificate + other.certificate).decode()
            assert data["requestheader-client-ca-file"] == (PROXIES.certificate + other.certificate).decode()
            assert json.loads(data["requestheader-allowed-names"]) == ["proxy", "other"]

    asyncio.run(case())


@pytest.mark.parametrize("text", ["", "no certificate at all\n"])
def test_an_authority_of_kubelets_without_a_certificate_is_refused(text: str, tmp_path: Path) -> None:
    """Rather than not to check whom the server talks to, as if no authority were named."""
    authority = tmp_path / "kubelets.pem"
    authority.write_text(text)

    with pytest.raises(ClusterError, match=f"certificates {authority} holds no certificate"):
        Cluster(settings(tmp_path, kubelet_ca=authority))


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    own = sign(USERS, NOW, "server", hosts=("127.0.0.1",))
    secret = serialization.BestAvailableEncryption(b"x")
    form = serialization.PrivateFormat.PKCS8
    key = serialization.load_pem_private_key(own.key, None).private_bytes(serialization.Encoding.PEM, form, secret)
    certificate, path = written(tmp_path / "server", own)
    path.write_bytes(key)
    with pytest.raises(ClusterError, match="the private key is encrypted, and nothing says with which password"):
        Cluster(settings(tmp_path, tls_certificate=certificate, tls_key=path))


def test_the_certificate_for_aggregated_servers_is_read_again_when_it_changes(tmp_path: Path) -> None:
    async def case() -> None:
        first, second = (sign(PROXIES, NOW, name) for name in ("proxy", "newer"))
        certificate, key = written(tmp_path / "asking", first)
        given = settings(tmp_path, proxy_client_certificate=certificate, proxy_client_key=key)
        async with (
            running(given) as cluster,
            remote_server(PROXIES.certificate) as remote,
            client_of(cluster, tmp_path, None) as session,
        ):
            front = Front(cluster, session)
            await front.add_service(remote.port, ca_bundle=remote.ca_bundle)
            await front.condition("True")
            assert (await front.ask(f"{PATH}/things"))[1]["certificate"] == "proxy"
            key.write_bytes(second.key)  # half of the pair
            assert not await cluster.serving.reload()
            certificate.write_bytes(second.certificate)
            assert await cluster.serving.reload()
            await cluster._certificates_changed()
            assert (await front.ask(f"{PATH}/things"))[1]["certificate"] == "newer"

    asyncio.run(case())


@pytest.mark.parametrize("what", ["proxy_client", "kubelet"])
def test_a_pair_for_other_servers_whose_halves_do_not_belong_together_is_refused(what: str, tmp_path: Path) -> None:
    certificate, _ = written(tmp_path / "one", sign(PROXIES, NOW, "proxy"))
    _, key = written(tmp_path / "other", sign(PROXIES, NOW, "proxy"))
    names = {"proxy_client": "proxy_client_certificate", "kubelet": "kubelet_certificate"}
    with pytest.raises(ClusterError, match=rf"the certificates cannot be used: .*{certificate}, {key}"):
        Cluster(settings(tmp_path, **{names[what]: certificate, f"{what}_key": key}))


def test_the_certificate_for_kubelets_is_read_again_when_it_changes(tmp_path: Path) -> None:
    async def case() -> None:
        certificate, key = written(tmp_path / "asking", sign(USERS, NOW, "first"))
        given = settings(tmp_path, kubelet_certificate=certificate, kubelet_key=key)
        async with running(given) as cluster, remote_server(USERS.certificate) as kubelet:
            assert cluster._http is not None
            relays = cluster._http._relays
            for name in ("first", "second"):
                written(tmp_path / "asking", sign(USERS, NOW, name))
                await cluster.serving.reload()
                await cluster._certificates_changed()
                page = await relays.kubelet_page("127.0.0.1", str(kubelet.port), "/metrics")
                assert json.loads(page)["certificate"] == name

    asyncio.run(case())
