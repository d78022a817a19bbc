"""What a whole cluster permits without being told."""

from __future__ import annotations

import asyncio
import json

import pytest

from bayplan.apiserver.requests import Request, User
from bayplan.cli.flags.kube_flags import api_server_settings
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings

NODE = User("system:node:n", ("system:nodes", "system:authenticated"))


def test_a_node_reads_no_secret_through_a_pod_of_its_own_making() -> None:
    async def run() -> None:
        cluster = Cluster(ClusterSettings(run_scheduler=False, run_controllers=False))
        await cluster.start()
        try:
            accounts = "/api/v1/namespaces/default/serviceaccounts"
            admin = User("admin", ("system:masters",))
            body = b'{"metadata":{"name":"default"}}'
            assert (
                await cluster.api.handle(Request("POST", accounts, {}, admin, body, "application/json"))
            ).code == 201
            volume = {"name": "v", "secret": {"secretName": "s"}}
            containers = [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]
            pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": containers, "volumes": [volume]}}
            path = "/api/v1/namespaces/default/pods"
            request = Request("POST", path, {}, NODE, json.dumps(pod).encode(), "application/json")
            refused = await cluster.api.handle(request)
            assert refused.code == 403
            assert b'node \\"n\\" can only create mirror pods' in refused.body
            secret = await cluster.api.handle(Request("GET", "/api/v1/namespaces/default/secrets/s", {}, NODE))
            assert secret.code == 403
        finally:
            await cluster.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("flags", "enabled"),
    [
        ([], True),
        (["--enable-admission-plugins=AlwaysPullImages"], True),
        (["--disable-admission-plugins=NodeRestriction"], False),
    ],
)
def test_further_plugins_leave_the_defaults_of_a_cluster(flags: list[str], enabled: bool) -> None:
    settings = api_server_settings(flags, CLUSTER_API)[0]
    active = set(settings.enable_admission_plugins) - set(settings.disable_admission_plugins)
    assert ("NodeRestriction" in active) is enabled
    assert ("AlwaysPullImages" in active) is ("--enable-admission-plugins=AlwaysPullImages" in flags)
