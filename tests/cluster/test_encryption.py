"""A cluster that encrypts secrets in its store: on the disk there is no plain one, keys are rotated without a restart, and what has lost its
key takes nothing else away."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.api.types import core_v1, meta_v1
from bayplan.cluster.api_server.encryption import own_configuration
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings
from bayplan.kubelet.simulator import SimulatorSettings
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import client_of, opened

PATIENCE = 20.0
"""Seconds that anything may take."""
SECRETS = DEFAULT_KINDS.of_type(core_v1.Secret)
SHOWN = base64.b64encode(b"correct horse battery staple").decode()
"""As secrets show it in JSON, and as it would stand in the store."""


def settings(directory: Path, configuration: Path | None) -> ClusterSettings:
    api = replace(CLUSTER_API, encryption_provider_config=str(configuration or ""))
    return ClusterSettings(
        store=f"sqlite:{directory}/store.db",
        directory=directory / "pki",
        api=api,
        nodes=SimulatorSettings(nodes=0),
        run_scheduler=False,
        run_controllers=False,
    )


@contextlib.asynccontextmanager
async def running(directory: Path, configuration: Path | None) -> AsyncIterator[Cluster]:
    cluster = Cluster(settings(directory, configuration))
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


def write(path: Path, *providers: dict[str, object]) -> Path:
    rule = {"resources": ["secrets"], "providers": list(providers)}
    tree = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [rule]}
    path.write_text(json.dumps(tree))
    return path


def keyed(provider: str, name: str) -> dict[str, object]:
    secret = base64.b64encode((name * 32)[:32].encode()).decode()
    return {provider: {"keys": [{"name": name, "secret": secret}]}}


def secret(name: str) -> core_v1.Secret:
    return core_v1.Secret(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), data={"a": SHOWN})


async def value_of(cluster: Cluster, name: str) -> str:
    return (await cluster.client().get(core_v1.Secret, name, "default")).data["a"]


def on_disk(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("store.db*")))


def test_secrets_are_not_readable_on_the_disk_and_come_back_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        configuration = own_configuration(tmp_path)
        assert configuration.stat().st_mode & 0o777 == 0o600
        async with running(tmp_path, configuration) as cluster:
            await cluster.client().create(secret("a"))
            labels = {"text": "a-config-map-is-plain"}
            metadata = meta_v1.ObjectMeta(name="m", namespace="default", labels=labels)
            await cluster.client().create(core_v1.ConfigMap(metadata=metadata))
            assert await value_of(cluster, "a") == SHOWN
        stored = on_disk(tmp_path)
        assert b"k8s:enc:aesgcm:v1:key1:" in stored
        assert b"a-config-map-is-plain" in stored
        assert SHOWN.encode() not in stored
        assert own_configuration(tmp_path).read_text() == configuration.read_text()
        async with running(tmp_path, configuration) as cluster:
            assert await value_of(cluster, "a") == SHOWN
            await cluster.client().patch(core_v1.Secret, "a", "default", {"metadata": {"labels": {"b": "c"}}})
            assert await value_of(cluster, "a") == SHOWN
        assert SHOWN.encode() not in on_disk(tmp_path)

    asyncio.run(run())


def test_without_a_configuration_what_is_encrypted_is_told_and_the_rest_is_served(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, write(tmp_path / "one.json", keyed("aesgcm", "one"))) as cluster:
            await cluster.client().create(secret("a"))
        async with opened(open_store(f"sqlite:{tmp_path}/store.db", clock=SystemClock())) as server:
            api = client_of(server)
            why = r'secrets/default/a is encrypted, as "k8s:enc:aesgcm:v1:one": start with .* \(--encryption-provider-config\)'
            with pytest.raises(ApiError, match=why):
                await api.get(core_v1.Secret, "a", "default")
            assert await api.get(core_v1.Namespace, "default")

    asyncio.run(run())


def test_without_the_key_its_objects_fail_until_it_is_there(tmp_path: Path) -> None:
    async def run() -> None:
        configuration = write(tmp_path / "one.json", keyed("aesgcm", "one"))
        async with running(tmp_path, configuration) as cluster:
            await cluster.client().create(secret("a"))
        other = write(tmp_path / "other.json", keyed("aesgcm", "two"))
        async with running(tmp_path, other) as cluster:
            api, encryption = cluster.client(), cluster.encryption
            assert encryption is not None
            why = r'secrets/default/a\'?: no matching prefix found; it is encrypted as "k8s:enc:aesgcm:v1:one"'
            for ask in (
                partial(api.get, core_v1.Secret, "a", "default"),
                partial(api.list, core_v1.Secret),
                partial(api.patch, core_v1.Secret, "a", "default", {"data": {}}),
                partial(api.delete, core_v1.Secret, "a", "default"),
            ):
                with pytest.raises(ApiError, match=why) as caught:
                    await ask()
                assert caught.value.code == 500
            with pytest.raises(ApiError, match="already exists"):
                await api.create(secret("a"))
            assert (await api.list(core_v1.Secret, "kube-system")) is not None
            await api.create(secret("b"))
            assert await value_of(cluster, "b") == SHOWN
            write(other, keyed("aesgcm", "two"), keyed("aesgcm", "one"))
            assert await encryption.reload()
            async with asyncio.timeout(PATIENCE):
                while cluster.api.context.objects.cache(SECRETS).unreadable:  # noqa: ASYNC110 - nobody says when
                    await asyncio.sleep(0.05)
            assert await value_of(cluster, "a") == SHOWN

    asyncio.run(run())


def test_a_server_starts_beside_objects_of_its_own_that_it_cannot_read(tmp_path: Path) -> None:
    def rule(name: str, *more: dict[str, object]) -> Path:
        providers = [keyed("aesgcm", name), *more]
        resources = [{"resources": ["configmaps", "endpointslices.discovery.k8s.io"], "providers": providers}]
        tree = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": resources,
        }
        path = tmp_path / "c.json"
        path.write_text(json.dumps(tree))
        return path

    async def run() -> None:
        async with running(tmp_path, rule("one")):
            pass
        async with running(tmp_path, rule("two")) as cluster:
            api, encryption = cluster.client(), cluster.encryption
            assert encryption is not None
            tracking = partial(
                api.get, core_v1.ConfigMap, "kube-apiserver-legacy-service-account-token-tracking", "kube-system"
            )
            with pytest.raises(ApiError, match="no matching prefix found"):
                await tracking()
            rule("two", keyed("aesgcm", "one"))
            assert await encryption.reload()
            async with asyncio.timeout(PATIENCE):
                while True:
                    with contextlib.suppress(ApiError):
                        assert (await tracking()).data
                        break
                    await asyncio.sleep(0.05)

    asyncio.run(run())


def test_keys_are_rotated_while_the_cluster_runs(tmp_path: Path) -> None:
    async def run() -> None:
        configuration = write(tmp_path / "c.json", {"identity": {}})
        async with running(tmp_path, configuration) as cluster:
            encryption = cluster.encryption
            assert encryption is not None
            await cluster.client().create(secret("a"))
            old = await cluster.client().get(core_v1.Secret, "a", "default")
            assert not await encryption.reload()
            write(configuration, keyed("aesgcm", "one"), {"identity": {}})
            assert await encryption.reload()
            unchanged = await cluster.client().update(await cluster.client().get(core_v1.Secret, "a", "default"))
            assert unchanged.metadata.resource_version != old.metadata.resource_version
            again = await cluster.client().update(await cluster.client().get(core_v1.Secret, "a", "default"))
            assert again.metadata.resource_version == unchanged.metadata.resource_version
            configuration.write_text("resources: nonsense")
            assert not await encryption.reload()
            await cluster.client().create(secret("b"))
            write(configuration, keyed("secretbox", "two"), keyed("aesgcm", "one"))
            assert await encryption.reload()
            assert [await value_of(cluster, name) for name in "ab"] == [SHOWN, SHOWN]
            for name in "ab":
                await cluster.client().update(await cluster.client().get(core_v1.Secret, name, "default"))
            reloads = cluster.metrics.render().decode()
            counted = dict(re.findall(r'automatic_reloads_total\{.*status="(\w+)".*\} ([\d.]+)', reloads))
            assert counted == {"success": "2", "failure": "1"}
        async with running(tmp_path, write(tmp_path / "last.json", keyed("secretbox", "two"))) as cluster:
            assert [await value_of(cluster, name) for name in "ab"] == [SHOWN, SHOWN]

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "kind: [", "kind: Config\napiVersion: v1\n"])
def test_a_cluster_does_not_start_with_a_wrong_configuration(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ClusterError, match=r"c\.yaml cannot be used: error while parsing file"):
        Cluster(settings(tmp_path, path))
    with pytest.raises(ClusterError, match=r"none\.yaml cannot be used: \[Errno 2\]"):
        Cluster(settings(tmp_path, tmp_path / "none.yaml"))
