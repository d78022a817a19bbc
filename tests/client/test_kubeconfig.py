"""Kubeconfigs of all sorts: several files, impersonation, passwords, credential plugins."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from bayplan.api.errors import ApiError
from bayplan.apiserver.certificates import make_authority
from bayplan.client.credentials import Credentials
from bayplan.client.errors import KubeconfigError, TransportError
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load
from bayplan.support.clock import SystemClock

V1 = "client.authentication.k8s.io/v1"


def write(path: Path, user: Mapping[str, Any] | None = None, **cluster: Any) -> Path:
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "me"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def program(directory: Path, text: str) -> Path:
    """A credential plugin."""
    path = directory / "plugin"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def plugin(directory: Path, text: str, **settings: Any) -> Path:
    """A kubeconfig with one."""
    program(directory, text)
    return write(directory / "config", {"exec": {"apiVersion": V1, "command": "./plugin", **settings}})


def credential(**status: str) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


async def headers_seen(credentials: Credentials, times: int = 1, *, code: int = 200) -> list[list[tuple[str, str]]]:
    """What a server at the address of the credentials is sent."""
    seen: list[list[tuple[str, str]]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(list(request.headers.items()))
        return web.json_response({}, status=code)

    app = web.Application()
    app.router.add_get("/api", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    transport = HttpTransport(
        Credentials(
            f"http://127.0.0.1:{port}", token=credentials.token, source=credentials.source, headers=credentials.headers
        )
    )
    try:
        for _ in range(times):
            with contextlib.suppress(ApiError) if code >= 300 else contextlib.nullcontext():
                await transport.request("GET", "/api", {})
    finally:
        await transport.close()
        await runner.cleanup()
    return seen


def sent(credentials: Credentials, name: str, **options: Any) -> list[str]:
    """The values of a header over some requests."""
    seen = asyncio.run(headers_seen(credentials, **options))
    return [value for one in seen for key, value in one if key.lower() == name.lower()]


def test_of_several_files_the_first_word_counts_and_files_that_do_not_exist_do_not(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "config", tmp_path / "b" / "config"
    for one in (first, second):
        one.parent.mkdir()
    write(first, {"token": "one"})
    write(second, {"tokenFile": "token"}, server="http://127.0.0.1:2")
    more = yaml.safe_load(second.read_text())
    more["contexts"].append({"name": "other", "context": {"cluster": "c", "user": "theirs"}})
    more["users"].append({"name": "theirs", "user": {"tokenFile": "token"}})
    second.write_text(yaml.safe_dump(more))
    (second.parent / "token").write_text("two")
    paths = [tmp_path / "missing", first, second]
    assert (load(paths).server, load(paths).token) == ("http://127.0.0.1:1", "one")
    other = load(paths, "other")
    assert other.source is not None
    assert asyncio.run(other.source.token()) == "two", "beside the file that names it"
    assert load([second, first]).server == "http://127.0.0.1:2"
    with pytest.raises(KubeconfigError, match="missing: No such file"):
        load([tmp_path / "missing", tmp_path / "gone"])
    with pytest.raises(KubeconfigError, match=r"a/config, .*b/config: contexts: there is no entry named 'x'"):
        load(paths, "x")


def test_requests_are_made_as_somebody_else(tmp_path: Path) -> None:
    user = {
        "token": "mine",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"scope": ["a"]},
    }
    found = load(write(tmp_path / "config", user))
    assert sent(found, "impersonate-user") == ["jane"]
    assert sent(found, "impersonate-uid") == ["7"]
    assert sent(found, "impersonate-group") == ["dev", "ops"]
    assert sent(found, "impersonate-extra-scope") == ["a"]
    assert sent(found, "authorization") == ["Bearer mine"]


def test_names_have_passwords(tmp_path: Path) -> None:
    found = load(write(tmp_path / "config", {"username": "jane", "password": "s:e"}))
    assert sent(found, "authorization") == [f"Basic {base64.b64encode(b'jane:s:e').decode()}"]


def test_a_server_may_have_another_name_and_a_proxy_before_it(tmp_path: Path) -> None:
    cluster = {"tls-server-name": "api.example.com", "proxy-url": "http://proxy:3128"}
    found = load(write(tmp_path / "config", {}, **cluster))
    assert (found.tls_server_name, found.proxy) == ("api.example.com", "http://proxy:3128")


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"as-groups": ["dev"]}, "need as"),
        ({"as": "jane", "as-groups": "dev"}, "expected a list"),
        ({"auth-provider": {"name": "gcp"}}, "use a credential plugin"),
        ({"exec": {"command": "x"}}, "exec.apiVersion: '' is not one of"),
        ({"exec": {"apiVersion": V1}}, "exec.command"),
        ({"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Always"}}, "needs a terminal"),
        ({"client-certificate-data": "!", "client-key-data": "!"}, "client-certificate-data: not valid base64"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(tmp_path: Path, user: dict[str, Any], message: str) -> None:
    with pytest.raises(KubeconfigError, match=message):
        load(write(tmp_path / "config", user, server="https://127.0.0.1:1"))


def test_a_plugin_is_told_what_it_asks_for_and_run_once(tmp_path: Path) -> None:
    text = (
        f"echo run >> {tmp_path}/runs; echo \"$KUBERNETES_EXEC_INFO\" > {tmp_path}/info; echo '{credential(token='T')}'"
    )
    config = plugin(tmp_path, f"[ $1 = login ] && [ $REGION = here ] || exit 1; {text}", args=["login"],
                    env=[{"name": "REGION", "value": "here"}], provideClusterInfo=True)  # fmt: skip
    assert sent(load(config), "authorization", times=3) == ["Bearer T"] * 3
    assert (tmp_path / "runs").read_text() == "run\n"
    info = json.loads((tmp_path / "info").read_text())
    assert (info["apiVersion"], info["kind"]) == (V1, "ExecCredential")
    assert info["spec"] == {"interactive": False, "cluster": {"server": "http://127.0.0.1:1"}}


@pytest.mark.parametrize(("expires", "code"), [("2026-01-02T03:04:05Z", 200), ("", 401)])
def test_a_plugin_is_run_again_when_its_token_is_good_no_more(tmp_path: Path, expires: str, code: int) -> None:
    shown = credential(token="T$N", **({"expirationTimestamp": expires} if expires else {}))
    quoted = shown.replace('"', '\\"')
    config = plugin(tmp_path, f'echo run >> {tmp_path}/runs; N=$(wc -l < {tmp_path}/runs); echo "{quoted}"')
    assert sent(load(config), "authorization", times=3, code=code) == ["Bearer T1", "Bearer T2", "Bearer T3"]


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    pair = make_authority(SystemClock().now())
    data = {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
    (tmp_path / "answer").write_text(credential(**data))
    config = plugin(tmp_path, f"cat {tmp_path}/answer")
    tree = yaml.safe_load(config.read_text())
    tree["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    config.write_text(yaml.safe_dump(tree))
    found = load(config)
    assert found.source is not None
    assert asyncio.run(found.source.token()) == ""
    assert sent(load(plugin(tmp_path, f"cat {tmp_path}/answer")), "authorization") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exit 3", "exit code 3"),
        ("echo nothing", "no ExecCredential"),
        ('echo \'{"kind": "ExecCredential", "apiVersion": "v1"}\'', "expected an ExecCredential of"),
        (f"echo '{credential()}'", "neither token nor certificate"),
        (f"echo '{credential(clientCertificateData='x')}'", "go together"),
        (f"echo '{credential(token='T', expirationTimestamp='soon')}'", "soon"),
    ],
)
def test_a_plugin_that_fails_is_named(tmp_path: Path, text: str, message: str) -> None:
    found = load(plugin(tmp_path, text))
    assert found.source is not None
    with pytest.raises(TransportError, match=f"config: exec: .*plugin: .*{message}"):
        asyncio.run(found.source.token())


def test_who_misses_a_plugin_is_told_how_to_get_it(tmp_path: Path) -> None:
    settings = {"apiVersion": V1, "command": "no-such-plugin", "installHint": "pip install it"}
    found = load(write(tmp_path / "config", {"exec": settings}))
    assert found.source is not None
    with pytest.raises(TransportError, match="exec: no-such-plugin: No such file or directory\npip install it"):
        asyncio.run(found.source.token())


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(bytes(range(128, 256)))
    with pytest.raises(KubeconfigError, match=f"{path}: not text"):
        load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("users: !!float x", "not valid YAML"),
        ("users: !!timestamp x", "not valid YAML"),
        ("[" * 3000, "not valid YAML"),
        ("contexts: 5", "contexts: expected a list"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(KubeconfigError, match=message):
        load(tmp_path / "config")


def test_certificates_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "config", server="https://127.0.0.1:1", **{"certificate-authority-data": {"a": "b"}})
    with pytest.raises(KubeconfigError, match="certificate-authority-data: not valid base64"):
        load(path)
