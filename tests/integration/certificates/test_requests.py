"""Certificate signing requests in a live cluster: approved for kubelets, signed, refused, cleaned up."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bayplan.api.codec import from_tree
from bayplan.api.types import certificates_v1, core_v1, rbac_v1
from bayplan.testing.cluster import LiveCluster, running_cluster


def live(test: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster(nodes=0) as cluster:
            await test(cluster)

    asyncio.run(run())


def request(common_name: str, organization: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )
    signed = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


def csr(name: str, signer: str, encoded: str, **spec: Any) -> certificates_v1.CertificateSigningRequest:
    usages = ["client auth", "digital signature"]
    fields = {"request": encoded, "signerName": f"kubernetes.io/{signer}", "usages": usages, **spec}
    return from_tree(certificates_v1.CertificateSigningRequest, {"metadata": {"name": name}, "spec": fields})


async def approve(cluster: LiveCluster, name: str) -> None:
    found = await cluster.client.get(certificates_v1.CertificateSigningRequest, name)
    yes = certificates_v1.CertificateSigningRequestCondition(type="Approved", status="True", reason="Test")
    found.status.conditions = (*found.status.conditions, yes)
    await cluster.client.update(found, subresource="approval")


async def issued(cluster: LiveCluster, name: str) -> x509.Certificate | None:
    found = await cluster.client.get(certificates_v1.CertificateSigningRequest, name)
    text = found.status.certificate
    return x509.load_pem_x509_certificate(base64.b64decode(text)) if text else None


def test_an_approved_request_is_signed_by_the_clusters_authority() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        wanted = csr("alice", "kube-apiserver-client", request("alice", "dev"), expirationSeconds=3600)
        await cluster.client.create(wanted)
        await approve(cluster, "alice")
        certificate = await cluster.eventually(lambda: issued(cluster, "alice"))
        authority = x509.load_pem_x509_certificate(cluster.cluster.credentials.authority.certificate)
        certificate.verify_directly_issued_by(authority)
        names = {str(one.value) for one in certificate.subject}
        assert names == {"alice", "dev"}
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert lasts.total_seconds() == 3600 + 300

    live(scenario)


def test_a_request_that_its_signer_does_not_allow_fails_with_the_reason() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        usages = ["client auth", "server auth"]
        wanted = csr("bad", "kube-apiserver-client", request("alice", "dev"), usages=usages)
        await cluster.client.create(wanted)
        await approve(cluster, "bad")

        async def failed() -> bool:
            found = await cluster.client.get(certificates_v1.CertificateSigningRequest, "bad")
            condition = next(one for one in found.status.conditions if one.type == "Failed")
            assert condition.reason == "SignerValidationFailure"
            assert condition.message == "invalid usage for client certificate: server auth"
            return not found.status.certificate

        await cluster.eventually(lambda: cluster_condition(cluster, "bad", "Failed"))
        assert await failed()

    live(scenario)


async def cluster_condition(cluster: LiveCluster, name: str, kind: str) -> bool:
    found = await cluster.client.get(certificates_v1.CertificateSigningRequest, name)
    return any(one.type == kind for one in found.status.conditions)


def test_a_kubelets_request_is_approved_if_its_user_may_have_it() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        node = cluster.cluster.client("system:node:n1", ("system:nodes",))
        await node.create(csr("renewal", "kube-apiserver-client-kubelet", request("system:node:n1", "system:nodes")))
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        binding = {
            "metadata": {"name": "renewals"},
            "roleRef": {**role, "name": "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"},
            "subjects": [{"kind": "Group", "name": "system:nodes", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        assert await issued(cluster, "renewal") is None, "nobody may have it yet"
        await cluster.client.create(from_tree(rbac_v1.ClusterRoleBinding, binding))
        await cluster.eventually(lambda: issued(cluster, "renewal"))
        found = await cluster.client.get(certificates_v1.CertificateSigningRequest, "renewal")
        assert [(one.reason, one.message) for one in found.status.conditions] == [
            ("AutoApproved", "Auto approving self kubelet client certificate after SubjectAccessReview.")
        ]

    live(scenario)


def test_the_clusters_information_is_signed_with_tokens_until_they_expire() -> None:
    async def scenario(cluster: LiveCluster) -> None:
        client = cluster.client
        info = {"metadata": {"name": "cluster-info", "namespace": "kube-public"}, "data": {"kubeconfig": "content"}}
        await client.create(from_tree(core_v1.ConfigMap, info))
        token = {
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": "abcdef",
                "token-secret": "0123456789abcdef",
                "usage-bootstrap-signing": "true",
            },
        }
        await client.create(from_tree(core_v1.Secret, token))

        async def signatures(*names: str) -> bool:
            found = await client.get(core_v1.ConfigMap, "cluster-info", "kube-public")
            return {name for name in found.data if name.startswith("jws-")} == set(names)

        await cluster.eventually(lambda: signatures("jws-kubeconfig-abcdef"))
        patch = {"stringData": {"expiration": "2020-01-01T00:00:00Z"}}
        await client.patch(core_v1.Secret, "bootstrap-token-abcdef", "kube-system", patch)
        await cluster.eventually(lambda: cluster.gone(core_v1.Secret, "bootstrap-token-abcdef", "kube-system"))
        await cluster.eventually(lambda: signatures())

    live(scenario)
