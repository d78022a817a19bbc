"""A provider of the npm registry logs people in, and kubectl gets in with what it gave them: with the flags and with a configuration file."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import aiohttp
import jwt
import pytest

from bayplan.apiserver.certificates import make_authority, sign
from tests.integration.conftest import BAYPLAN, LiveCluster, stop
from tests.javascript.oidc_login import Tokens, certificate_files, log_in, needs_provider, running_provider

pytestmark = [needs_provider, pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")]

MAPPINGS = {
    "username": {"expression": "'idp:' + claims.email"},
    "groups": {"expression": "dyn(claims.groups).map(one, 'idp:' + one)"},
    "extra": [{"key": "example.com/tenant", "valueExpression": "claims.tenant"}],
}
RULES = [{"expression": "claims.email_verified == true", "message": "the address is not verified"}]
USER_RULES = [{"expression": "!user.username.startsWith('idp:root')", "message": "nobody is root"}]


class Login:
    """A provider, and what a person's kubectl needs of it."""

    def __init__(self, issuer: str, authority: Path) -> None:
        self.issuer = issuer
        self.authority = authority

    def as_person(self, name: str, client: str = "kubernetes") -> Tokens:
        """Log in."""

        async def case() -> Tokens:
            tls = ssl.create_default_context(cafile=str(self.authority))
            jar, connector = aiohttp.CookieJar(unsafe=True), aiohttp.TCPConnector(ssl=tls)
            async with aiohttp.ClientSession(cookie_jar=jar, connector=connector) as session:
                return await log_in(session, self.issuer, name, client)

        return asyncio.run(case())

    def flags(self) -> list[str]:
        """An API server that takes tokens of this provider, by flags."""
        claims = ("--oidc-username-claim=email", "--oidc-groups-claim=groups", "--oidc-groups-prefix=idp:")
        audience = ("--oidc-client-id=kubernetes", "--oidc-username-prefix=idp:")
        return [f"--oidc-issuer-url={self.issuer}", f"--oidc-ca-file={self.authority}", *audience, *claims]

    def configuration(self, file: Path) -> list[str]:
        """The same by a file, with expressions."""
        issuer = {
            "url": self.issuer,
            "audiences": ["kubernetes"],
            "certificateAuthority": self.authority.read_text(),
        }
        jwt = {
            "issuer": issuer,
            "claimMappings": MAPPINGS,
            "claimValidationRules": RULES,
            "userValidationRules": USER_RULES,
        }
        head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
        file.write_text(json.dumps({**head, "jwt": [jwt]}))
        return [f"--authentication-config={file}"]


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    """The provider."""
    directory, now = tmp_path_factory.mktemp("provider"), time.time()
    authority = make_authority(now)
    files = certificate_files(directory, authority, sign(authority, now, "provider", hosts=("127.0.0.1",)))
    with running_provider(files[1], files[2]) as issuer:
        yield Login(issuer, files[0])


@pytest.fixture(scope="module", params=["flags", "configuration"])
def server(
    request: pytest.FixtureRequest, login: Login, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    """`bayplan apiserver` that knows the provider."""
    directory = tmp_path_factory.mktemp("server")
    kubeconfig = directory / "kubeconfig"
    given = login.flags() if request.param == "flags" else login.configuration(directory / "authentication.json")
    own = ("--secure-port=0", "--authorization-mode=RBAC", f"--cert-dir={directory}", f"--kubeconfig={kubeconfig}")
    command = [BAYPLAN, "apiserver", *own, *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("ready") for line in process.stdout)
        yield LiveCluster(kubeconfig, process)
        stop(process)


def add_user(server: LiveCluster, login: Login, tokens: Tokens) -> str:
    """Have the kubeconfig name somebody who has logged in, as `kubectl config` does; returns the user's name there."""
    given = {
        "idp-issuer-url": login.issuer,
        "idp-certificate-authority": str(login.authority),
        "client-id": "kubernetes",
        "client-secret": "kubernetes-secret",
        "refresh-token": tokens.refresh_token,
        "id-token": tokens.id_token,
    }
    arguments = [f"--auth-provider-arg={name}={value}" for name, value in given.items()]
    server.kubectl("kubectl", "config", "set-credentials", "jane", "--auth-provider=oidc", *arguments)
    return "jane"


def id_token(server: LiveCluster, user: str) -> str:
    """The token in the kubeconfig."""
    path = f'{{.users[?(@.name == "{user}")].user.auth-provider.config.id-token}}'
    return server.kubectl("kubectl", "config", "view", "--raw", f"--output=jsonpath={path}")


def wait_expired(token: str) -> None:
    """Wait until a token that is good for a second is so no more."""
    ends = jwt.decode(token, options={"verify_signature": False})["exp"]
    assert ends - time.time() < 5
    while time.time() <= ends:
        time.sleep(0.05)


def whoami(server: LiveCluster, *arguments: str) -> dict[str, Any]:
    """Who the server says that one is."""
    found = json.loads(server.kubectl("kubectl", *arguments, "auth", "whoami", "--output=json"))
    info: dict[str, Any] = found["status"]["userInfo"]
    return info


def review(server: LiveCluster, directory: Path, token: str) -> dict[str, Any]:
    """What the server says of a token to an administrator."""
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    file = directory / "review.json"
    file.write_text(json.dumps({**kind, "spec": {"token": token}}))
    answer = json.loads(server.kubectl("kubectl", "create", f"--filename={file}", "--output=json"))
    status: dict[str, Any] = answer["status"]
    return status


def test_somebody_logs_in_and_kubectl_refreshes_a_token_that_has_expired(server: LiveCluster, login: Login) -> None:
    tokens = login.as_person("jane")
    wait_expired(tokens.id_token)
    refusal = server.kubectl("kubectl", "--user=", f"--token={tokens.id_token}", "get", "pods", check=False)
    assert "You must be logged in to the server" in refusal
    user = add_user(server, login, tokens)
    info = whoami(server, f"--user={user}")
    assert (info["username"], info["groups"]) == ("idp:jane@example.com", ["idp:dev", "idp:qa", "system:authenticated"])
    refreshed = id_token(server, user)
    assert refreshed != tokens.id_token
    assert "forbidden" in server.kubectl("kubectl", f"--user={user}", "get", "pods", check=False)
    server.kubectl("kubectl", "create", "clusterrole", "reader", "--verb=list", "--resource=pods")
    server.kubectl("kubectl", "create", "clusterrolebinding", "dev", "--clusterrole=reader", "--group=idp:dev")
    assert "No resources found" in server.kubectl("kubectl", f"--user={user}", "get", "pods")
    assert id_token(server, user) == refreshed


def test_a_token_for_another_audience_lets_nobody_in(server: LiveCluster, login: Login, tmp_path: Path) -> None:
    token = login.as_person("john", "other").id_token
    refusal = server.kubectl("kubectl", "--user=", f"--token={token}", "get", "pods", check=False)
    assert "You must be logged in to the server" in refusal
    found = review(server, tmp_path, token)
    assert not found.get("authenticated")
    assert 'expected audience "kubernetes" got ["other"]' in found["error"]


def test_expressions_say_who_somebody_is_and_who_nobody_is(server: LiveCluster, login: Login, tmp_path: Path) -> None:
    file = any("--authentication-config" in str(one) for one in cast("list[str]", server.process.args))
    user = review(server, tmp_path, login.as_person("john").id_token)["user"]
    assert user["username"] == "idp:john@example.com"
    assert user.get("extra", {}).get("example.com/tenant") == (["blue"] if file else None)
    problems = {"eve": "the address is not verified" if file else "email not verified"}
    for name, problem in (problems | ({"root": "nobody is root"} if file else {})).items():
        found = review(server, tmp_path, login.as_person(name).id_token)
        assert problem in found["error"], name
        assert not found.get("authenticated")
