from __future__ import annotations

import base64
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bayplan.api.codec import from_tree
from bayplan.api.types import certificates_v1
from bayplan.controllers.access import certificate_rules as rules

KEY = ec.generate_private_key(ec.SECP256R1())
SERVING, CLIENT = ["digital signature", "server auth"], ["digital signature", "client auth"]
NODE = "system:node:n1"


def request(
    name: str = NODE, group: str = "system:nodes", *alternatives: x509.GeneralName
) -> x509.CertificateSigningRequest:
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(KEY, hashes.SHA256())


DNS, URI = x509.DNSName("n1"), x509.UniformResourceIdentifier("https://n1")
ADDRESS = x509.IPAddress(ipaddress.ip_address("10.0.0.1"))


@pytest.mark.parametrize(
    ("signer", "asked", "usages"),
    [
        (rules.CLIENT, request("alice", "dev"), CLIENT),
        (rules.CLIENT, request("alice", "dev"), ["client auth"]),
        (rules.KUBELET_CLIENT, request(), CLIENT),
        (rules.KUBELET_CLIENT, request(), [*CLIENT, "key encipherment"]),
        (rules.KUBELET_SERVING, request(NODE, "system:nodes", DNS, ADDRESS), SERVING),
        (rules.LEGACY, request("x", "y", URI), ["any"]),
    ],
)
def test_signers_take_what_they_are_for(signer: str, asked: x509.CertificateSigningRequest, usages: list[str]) -> None:
    rules.check(asked, usages, signer)


@pytest.mark.parametrize(
    ("signer", "asked", "usages", "problem"),
    [
        (rules.CLIENT, request(), SERVING, "invalid usage for client certificate: server auth"),
        (rules.CLIENT, request(), ["digital signature"], "missing required usage for client certificate: client auth"),
        (rules.KUBELET_CLIENT, request(NODE, "dev"), CLIENT, "subject organization is not system:nodes"),
        (rules.KUBELET_CLIENT, request("n1"), CLIENT, "subject common name does not begin with system:node: "),
        (rules.KUBELET_CLIENT, request(NODE, "system:nodes", DNS), CLIENT, "DNS subjectAltNames are not allowed"),
        (rules.KUBELET_CLIENT, request(NODE, "system:nodes", ADDRESS), CLIENT, "IP subjectAltNames are not allowed"),
        (
            rules.KUBELET_CLIENT,
            request(),
            SERVING,
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (rules.KUBELET_SERVING, request(), SERVING, "DNS or IP subjectAltName is required"),
        (
            rules.KUBELET_SERVING,
            request(NODE, "system:nodes", DNS, URI),
            SERVING,
            "URI subjectAltNames are not allowed",
        ),
    ],
)
def test_signers_refuse_the_rest_in_kubernetes_words(
    signer: str, asked: x509.CertificateSigningRequest, usages: list[str], problem: str
) -> None:
    with pytest.raises(rules.BadRequest) as refused:
        rules.check(asked, usages, signer)
    assert str(refused.value) == problem


def csr(**fields: object) -> certificates_v1.CertificateSigningRequest:
    return from_tree(certificates_v1.CertificateSigningRequest, {"metadata": {"name": "x"}, **fields})


def encoded(asked: x509.CertificateSigningRequest) -> str:
    return base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode()


@pytest.mark.parametrize(
    ("user", "permissions"), [("bootstrap", ["nodeclient"]), (NODE, ["selfnodeclient", "nodeclient"])]
)
def test_a_kubelets_request_needs_one_of_these_permissions(user: str, permissions: list[str]) -> None:
    spec = {"request": encoded(request()), "signerName": rules.KUBELET_CLIENT, "usages": CLIENT, "username": user}
    assert [name for name, _ in rules.approvals(csr(spec=spec))] == permissions


def test_a_request_with_other_usages_is_no_kubelets() -> None:
    spec = {"request": encoded(request()), "signerName": rules.KUBELET_CLIENT, "usages": SERVING, "username": NODE}
    assert rules.approvals(csr(spec=spec)) == []


HOUR = 3600.0
BORN = "2026-01-01T00:00:00Z"
BIRTH = 1767225600.0


def decided(kind: str) -> certificates_v1.CertificateSigningRequest:
    return csr(status={"conditions": [{"type": kind, "status": "True", "lastUpdateTime": BORN}]})


@pytest.mark.parametrize(
    ("one", "age", "gone"),
    [
        pytest.param(csr(metadata={"name": "x", "creationTimestamp": BORN}), 23 * HOUR, False, id="waits for a day"),
        pytest.param(csr(metadata={"name": "x", "creationTimestamp": BORN}), 25 * HOUR, True, id="nobody decided"),
        pytest.param(decided("Approved"), 0.9 * HOUR, False, id="approved not long ago"),
        pytest.param(decided("Approved"), 1.1 * HOUR, True, id="approved an hour ago"),
        pytest.param(decided("Denied"), 1.1 * HOUR, True, id="denied an hour ago"),
        pytest.param(decided("Failed"), 1.1 * HOUR, True, id="failed an hour ago"),
    ],
)
def test_requests_go_when_they_have_served(
    one: certificates_v1.CertificateSigningRequest, age: float, gone: bool
) -> None:
    assert rules.has_served(one, BIRTH + age) is gone
