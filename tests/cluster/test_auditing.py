"""The audit log of a whole cluster: its components in the file, and a service that events are posted to."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.audit.policy_file import parse_policy
from bayplan.apiserver.audit.settings import AuditSettings, BatchSettings, LogSettings, WebhookSettings
from bayplan.apiserver.certificates import make_authority, sign
from bayplan.apiserver.tls import tls_context
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.clock import SystemClock

POLICY = parse_policy(b"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")


@contextlib.asynccontextmanager
async def cluster(audit: AuditSettings, *, nodes: int = 0) -> AsyncIterator[Cluster]:
    settings = ClusterSettings(
        api=replace(CLUSTER_API, audit=audit),
        nodes=SimulatorSettings(nodes=nodes),
        run_scheduler=nodes > 0,
        run_controllers=nodes > 0,
    )
    made = Cluster(settings)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(one) for one in path.read_text().splitlines()]


def test_components_in_the_same_process_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "audit.log"

    async def main() -> None:
        async with cluster(AuditSettings(policy=POLICY, log=LogSettings(path=str(path))), nodes=1) as made:
            client = made.client()
            container = core_v1.Container(name="c", image="i")
            pod = core_v1.Pod(
                metadata=meta_v1.ObjectMeta(name="p", namespace="default"),
                spec=core_v1.PodSpec(containers=(container,)),
            )
            await _until(lambda: made.api.context.find("ServiceAccount", "default", "default") is not None)
            await client.create(pod)
            await _until(lambda: made.api.context.find("Pod", "default", "p").spec.node_name)

    asyncio.run(asyncio.wait_for(main(), 60))
    found = events(path)
    users = {one["user"]["username"] for one in found}
    assert {"system:kube-scheduler", "system:kube-controller-manager", "system:node-simulator"} <= users
    binding = next(one for one in found if one.get("objectRef", {}).get("subresource") == "binding")
    assert (binding["user"]["username"], binding["verb"]) == ("system:kube-scheduler", "create")
    assert any(one["verb"] == "watch" and one["stage"] == "ResponseStarted" for one in found)
    assert any(one["verb"] == "watch" and one["stage"] == "ResponseComplete" for one in found)


async def _until(holds: Callable[[], object]) -> None:
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


class Receiver:
    """A service that takes events, at first with an error, over TLS and for a token only."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.refused = 0

    async def handle(self, request: web.BaseRequest) -> web.Response:
        assert request.headers["Authorization"] == "Bearer secret"
        assert request.path_qs == "/audit"
        if not self.refused:
            self.refused += 1
            return web.Response(status=503)
        self.posts.append(await request.json())
        return web.Response()


@contextlib.asynccontextmanager
async def receiving(receiver: Receiver, directory: Path) -> AsyncIterator[Path]:
    """Yields a kubeconfig that leads to the receiver."""
    now = SystemClock().now()
    authority = make_authority(now)
    tls = tls_context(sign(authority, now, "receiver", hosts=("127.0.0.1",)), authority.certificate)
    tls.verify_mode = ssl.CERT_NONE
    runner = web.ServerRunner(web.Server(receiver.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server = f"https://127.0.0.1:{runner.addresses[0][1]}/audit"
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(authority.certificate).decode(),
                },
            }
        ],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path = directory / "receiver.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        yield path
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("mode", ["batch", "blocking"])
def test_events_are_posted_and_posted_again(mode: str, tmp_path: Path) -> None:
    async def main() -> None:
        receiver = Receiver()
        async with receiving(receiver, tmp_path) as kubeconfig:
            batch = BatchSettings(max_size=100, max_wait=0.2)
            webhook = WebhookSettings(config_file=kubeconfig, mode=mode, initial_backoff=0.05, batch=batch)
            async with cluster(AuditSettings(policy=POLICY, webhook=webhook)) as made:
                await made.client().list(core_v1.Namespace)
            assert receiver.refused == 1
            listed = [one for post in receiver.posts for one in post["items"]]
            assert {post["kind"] for post in receiver.posts} == {"EventList"}
            assert {one["stage"] for one in listed if one["verb"] == "list"} == {"RequestReceived", "ResponseComplete"}

    asyncio.run(asyncio.wait_for(main(), 60))


def test_without_a_policy_the_file_stays_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "audit.log"

    async def main() -> None:
        async with cluster(AuditSettings(log=LogSettings(path=str(path)))) as made:
            assert made.api.auditor is None
            await made.client().list(core_v1.Namespace)

    with caplog.at_level("INFO"):
        asyncio.run(main())
    assert path.read_bytes() == b""
    assert "No audit policy file provided, no events will be recorded for log backend" in caplog.messages


def test_the_log_may_go_to_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    async def main() -> None:
        async with cluster(AuditSettings(policy=POLICY, log=LogSettings(path="-", format="legacy"))) as made:
            await made.client().list(core_v1.Namespace)

    asyncio.run(main())
    assert b' AUDIT: id="' in capfdbinary.readouterr().out


def test_places_that_cannot_be_used_are_told_at_the_start(tmp_path: Path) -> None:
    async def start(audit: AuditSettings) -> None:
        async with cluster(audit):
            pass

    with pytest.raises(ClusterError, match=f"ensureLogFile: open {tmp_path}: is a directory"):
        asyncio.run(start(AuditSettings(policy=POLICY, log=LogSettings(path=str(tmp_path)))))
    missing = tmp_path / "missing"
    with pytest.raises(ClusterError, match=f"initializing audit webhook: {missing}: No such file"):
        asyncio.run(start(AuditSettings(policy=POLICY, webhook=WebhookSettings(config_file=missing))))
