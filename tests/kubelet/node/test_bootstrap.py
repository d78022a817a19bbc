"""A node joins a cluster over HTTPS with a bootstrap token, and comes back with a certificate of its own."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.api.errors import ApiError
from bayplan.api.types import certificates_v1, core_v1, meta_v1, rbac_v1
from bayplan.client import Client
from bayplan.client.errors import KubeconfigError
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load
from bayplan.kubelet.node.bootstrap import bootstrap, has_valid_certificate, read_cluster, write_kubeconfig
from bayplan.kubelet.node.certificate_requests import (
    KUBELET_SERVING,
    SERVING_USAGES,
    CertificateError,
    CertificateTemplate,
    new_key,
    request_certificate,
    satisfies,
)
from bayplan.support.clock import SystemClock
from bayplan.testing.cluster import LiveCluster, running_cluster


def connect(path: Path) -> Client:
    """A client for a kubeconfig."""
    return Client(HttpTransport(load(path)))


async def bootstrap_file(cluster: LiveCluster, directory: Path) -> Path:
    """A kubeconfig with a new bootstrap token."""
    fields = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
    fields["auth-extra-groups"] = "system:bootstrappers:kubeadm:default-node-token"
    secret = core_v1.Secret(
        metadata=meta_v1.ObjectMeta(name="bootstrap-token-abcdef", namespace="kube-system"),
        type="bootstrap.kubernetes.io/token",
        string_data=fields,
    )
    await cluster.client.create(secret)
    group = rbac_v1.Subject(kind="Group", name="system:bootstrappers:kubeadm:default-node-token")
    role = rbac_v1.RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="system:node-bootstrapper")
    await cluster.client.create(
        rbac_v1.ClusterRoleBinding(
            metadata=meta_v1.ObjectMeta(name="kubelet-bootstrap"), role_ref=role, subjects=(group,)
        )
    )
    config = yaml.safe_load(cluster.cluster.kubeconfig())
    config["users"][0]["user"] = {"token": "abcdef.0123456789abcdef"}
    path = directory / "bootstrap.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def decide(client: Client, name: str, kind: str) -> None:
    """Approve or deny a request once it is there."""
    request = await client.get(certificates_v1.CertificateSigningRequest, name)
    request.status.conditions = (
        certificates_v1.CertificateSigningRequestCondition(
            type=kind, status="True", reason="Test", message="by the test"
        ),
    )
    await client.update(request, subresource="approval")


async def names(cluster: LiveCluster) -> list[str]:
    """Names of the requests that wait for somebody."""
    found = (await cluster.client.list(certificates_v1.CertificateSigningRequest)).items
    return [each.metadata.name for each in found if not each.status.conditions]


def test_node_gets_a_certificate_and_a_kubeconfig(tmp_path: Path) -> None:
    async def steps() -> None:
        async with running_cluster(nodes=0) as cluster:
            first = await bootstrap_file(cluster, tmp_path)
            kubeconfig, pki = tmp_path / "kubelet.conf", tmp_path / "pki"
            joining = asyncio.create_task(
                bootstrap(kubeconfig, first, pki, "node-1", SystemClock(), connect, seconds=20)
            )
            approving = asyncio.create_task(approve_all(cluster))
            try:
                assert await joining
            finally:
                approving.cancel()
            assert not (pki / "kubelet-client.key.tmp").exists()
            assert has_valid_certificate(kubeconfig, SystemClock().now())
            node = connect(kubeconfig)
            try:
                created = await node.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name="node-1")))
                assert created.metadata.name == "node-1"
                with pytest.raises(ApiError, match="node"):
                    await node.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name="node-2")))
                await serving(cluster, node)
            finally:
                await node.close()
            assert not await bootstrap(kubeconfig, tmp_path / "none", pki, "node-1", SystemClock(), connect)
            await cluster.client.delete(core_v1.Node, "node-1")

    asyncio.run(steps())


async def approve_all(cluster: LiveCluster) -> None:
    """Approve every request that comes, unless the cluster does so itself."""
    while True:
        for name in await names(cluster):
            await decide(cluster.client, name, "Approved")
        await asyncio.sleep(0.05)


async def serving(cluster: LiveCluster, node: Client) -> None:
    """A node asks for its server's certificate: nobody approves that by itself."""
    template, key = CertificateTemplate(("node-1",), ("10.0.0.1",)), new_key()
    asking = asyncio.create_task(
        request_certificate(node, key, "node-1", KUBELET_SERVING, SERVING_USAGES, template, seconds=20)
    )
    (name,) = await cluster.eventually(lambda: names(cluster))
    await decide(cluster.client, name, "Approved")
    assert satisfies(await asking, template)
    refused = asyncio.create_task(
        request_certificate(node, new_key(), "node-1", KUBELET_SERVING, SERVING_USAGES, template, seconds=20)
    )
    (name,) = await cluster.eventually(lambda: names(cluster))
    await decide(cluster.client, name, "Denied")
    with pytest.raises(CertificateError, match=f"{name} is denied, reason: Test, message: by the test"):
        await refused
    with pytest.raises(
        CertificateError, match=r"was not signed within 0\.1 s: approve it with kubectl certificate approve csr-"
    ):
        await request_certificate(node, key, "node-1", KUBELET_SERVING, SERVING_USAGES, template, seconds=0.1)


def test_request_is_found_again_after_a_restart(tmp_path: Path) -> None:
    async def steps() -> None:
        async with running_cluster(nodes=0) as cluster:
            client, key = cluster.client, new_key()
            usages = ("digital signature", "client auth")
            with pytest.raises(CertificateError, match="was not signed"):
                await request_certificate(
                    client, key, "n", "example.test/signer", usages, name="node-csr-x", seconds=0.1
                )
            with pytest.raises(CertificateError, match="was not signed"):
                await request_certificate(
                    client, key, "n", "example.test/signer", usages, name="node-csr-x", seconds=0.1
                )
            assert await names(cluster) == ["node-csr-x"]
            with pytest.raises(CertificateError, match="for another key"):
                await request_certificate(
                    client, new_key(), "n", "example.test/signer", usages, name="node-csr-x", seconds=0.1
                )
            waiting = asyncio.create_task(
                request_certificate(client, key, "n", "example.test/signer", usages, name="node-csr-x", seconds=20)
            )
            await asyncio.sleep(0)
            await client.delete(certificates_v1.CertificateSigningRequest, "node-csr-x")
            with pytest.raises((CertificateError, ApiError), match=r"deleted|not found|was not signed"):
                await asyncio.wait_for(waiting, 10)

    asyncio.run(steps())


def kubeconfig(path: Path, **cluster: Any) -> Path:
    """A kubeconfig of one cluster."""
    write_kubeconfig(path, {"server": "https://127.0.0.1:1", **cluster}, path.parent / "client.pem")
    return path


def test_kubeconfigs_are_read_and_written(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "a", **{"certificate-authority": "ca.crt", "other": 1})
    assert read_cluster(path) == {"server": "https://127.0.0.1:1", "certificate-authority": str(tmp_path / "ca.crt")}
    assert path.stat().st_mode & 0o777 == 0o600
    assert not has_valid_certificate(path, 0.0)
    assert not has_valid_certificate(tmp_path / "none", 0.0)
    (tmp_path / "b").write_text("- 1")
    with pytest.raises(KubeconfigError, match="expected a mapping"):
        read_cluster(tmp_path / "b")
    with pytest.raises(KubeconfigError, match="no server"):
        read_cluster(kubeconfig(tmp_path / "c", server=""))
    config = yaml.safe_load(path.read_text())
    config["current-context"] = "other"
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(KubeconfigError, match="no context named 'other'"):
        read_cluster(path)
    config = yaml.safe_load(kubeconfig(tmp_path / "d").read_text())
    config["users"][0]["user"] = {"client-certificate-data": base64.b64encode(b"x").decode()}
    (tmp_path / "d").write_text(yaml.safe_dump(config))
    assert not has_valid_certificate(tmp_path / "d", 0.0)
