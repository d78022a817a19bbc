"""Some resources on an etcd of their own."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.server import ApiServer
from bayplan.cluster.settings import ClusterSettings
from bayplan.cluster.storage.stores import stores_of
from bayplan.store.etcd.options import EtcdOptions
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from tests.store.etcd.clients import client_of, running
from tests.store.etcd.server import needs_etcd

LEASE = b'{"metadata":{"name":"%b"}}'


@needs_etcd
def test_resources_are_on_the_servers_that_are_named_for_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run(main: str, other: str) -> None:
        url = f"http://{other}"
        elsewhere = (("coordination.k8s.io/leases", url), ("/nosuch", url), ("/configmaps", url))
        settings = ClusterSettings(store=f"etcd://{main}", etcd=EtcdOptions(elsewhere=elsewhere))
        clock, metrics = SystemClock(), Registry()
        with caplog.at_level(logging.WARNING):
            stores = stores_of(settings, clock, metrics, None, None)
        assert "there is no resource /nosuch here" in caplog.text
        assert len({id(one) for one in stores.elsewhere.values()}) == 1
        api = ApiServer(
            stores.main, elsewhere=stores.elsewhere, clock=clock, randomness=SystemRandomness(), metrics=metrics
        )
        await api.open()
        try:
            for group, resource in (
                ("apis/coordination.k8s.io/v1", "leases"),
                ("api/v1", "configmaps"),
                ("api/v1", "secrets"),
            ):
                path = f"/{group}/namespaces/default/{resource}"
                made = Request(
                    "POST", path, {}, User("admin", ("system:masters",)), LEASE % b"mine", "application/json"
                )
                assert (await api.handle(made)).code == 201
        finally:
            await api.close()
        keys = [f"/registry/{one}/default/mine".encode() for one in ("leases", "configmaps", "secrets")]
        async with client_of(main) as of_all, client_of(other) as of_some:
            assert [(await of_some.range(key)).count for key in keys] == [1, 1, 0]
            assert [(await of_all.range(key)).count for key in keys] == [0, 0, 1]

    with running(tmp_path / "main") as main, running(tmp_path / "other") as other:
        asyncio.run(run(main.endpoint, other.endpoint))
