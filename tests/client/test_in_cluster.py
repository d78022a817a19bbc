"""Programs in pods are their service account, whose token changes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from bayplan.apiserver.certificates import make_authority, sign
from bayplan.apiserver.tls import tls_context
from bayplan.client import credentials
from bayplan.client.credentials import Credentials, FileToken
from bayplan.client.errors import KubeconfigError, TransportError
from bayplan.client.http import HttpTransport
from bayplan.client.in_cluster import is_in_pod, pod_credentials
from bayplan.client.kubeconfig import load
from bayplan.support.clock import SystemClock


class Server:
    """Notes who asks."""

    def __init__(self, port: int, authority: bytes) -> None:
        self.port = port
        self.authority = authority
        self.tokens: list[str] = []


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    now = SystemClock().now()
    authority = make_authority(now)

    async def answer(request: web.BaseRequest) -> web.Response:
        server.tokens.append(request.headers.get("Authorization", ""))
        return web.Response(text="{}")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    tls = tls_context(sign(authority, now, "server", hosts=("127.0.0.1",)), None)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    server = Server(runner.addresses[0][1], authority.certificate)
    try:
        yield server
    finally:
        await runner.cleanup()


def account(directory: Path, server: Server) -> dict[str, str]:
    (directory / "ca.crt").write_bytes(server.authority)
    (directory / "token").write_text("first\n")
    return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}


def test_the_token_is_read_again_once_it_may_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serving() as server:
            environment = account(tmp_path, server)
            assert is_in_pod(environment, tmp_path)
            for seconds in (60.0, 0.0):
                monkeypatch.setattr(credentials, "_FILE_SECONDS", seconds)
                (tmp_path / "token").write_text("first\n")
                transport = HttpTransport(pod_credentials(environment, tmp_path))
                try:
                    await transport.request("GET", "/api", {})
                    (tmp_path / "token").write_text("second\n")
                    await transport.request("POST", "/api", {}, b"{}")
                    (tmp_path / "token").unlink()
                    await transport.request("GET", "/api", {})
                finally:
                    await transport.close()
            first, second = "Bearer first", "Bearer second"
            assert server.tokens == [first, first, first, first, second, second]

    asyncio.run(run())


def test_without_a_token_nothing_is_asked(tmp_path: Path) -> None:
    async def run() -> None:
        transport = HttpTransport(Credentials("http://127.0.0.1:1", source=FileToken(tmp_path / "token")))
        with pytest.raises(TransportError, match="token: No such file"):
            await transport.request("GET", "/api", {})
        await transport.close()

    asyncio.run(run())


def test_a_program_outside_of_pods_has_no_account(tmp_path: Path) -> None:
    assert not is_in_pod({}, tmp_path)
    assert not is_in_pod({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)
    with pytest.raises(KubeconfigError, match="does not run in a pod"):
        pod_credentials({}, tmp_path)
    with pytest.raises(KubeconfigError, match=r"ca\.crt"):
        pod_credentials({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)


def test_addresses_of_both_families_become_servers(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(make_authority(SystemClock().now()).certificate)
    for host, server in (("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")):
        found = pod_credentials({"KUBERNETES_SERVICE_HOST": host}, tmp_path)
        assert found.server == server
        assert found.tls is not None
        assert found.tls.verify_mode is ssl.CERT_REQUIRED


def test_a_kubeconfig_may_name_the_file_of_a_token(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "current-context: c\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: c, user: {tokenFile: token}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: c}}]\n"
    )
    found = load(tmp_path / "config")
    (tmp_path / "token").write_text("mine\n")
    assert found.token == ""
    assert found.source is not None
    assert asyncio.run(found.source.token()) == "mine"
