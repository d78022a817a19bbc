"""Client certificates, and certificate requests: who may decide about them."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bayplan.api.errors import ApiError
from bayplan.api.types import certificates_v1, meta_v1
from bayplan.apiserver.certificates import make_authority, parse_request, sign
from bayplan.apiserver.http.server import HttpServer
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.tls import tls_context
from bayplan.client import Client
from bayplan.client.credentials import Credentials
from bayplan.client.errors import TransportError
from bayplan.client.http import HttpTransport
from tests.apiserver.authorization.roles import BY_ROLES, CAROL, cluster_binding, cluster_role, rule, run, subject
from tests.apiserver.serving import client_of, opened

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
SIGNERS = ("certificates.k8s.io",)


def test_a_client_certificate_says_who_one_is(tmp_path: Path) -> None:
    async def case() -> None:
        async with opened(settings=BY_ROLES) as api:
            now = api.context.clock.now()
            authority = make_authority(now)
            pair = sign(authority, now, "kube-apiserver", hosts=("127.0.0.1",))
            http = HttpServer(api, api.context.authenticator)
            port = await http.start("127.0.0.1", 0, tls_context(pair, authority.certificate))
            own = sign(authority, now, "dora", organizations=("system:masters",))
            trust = ssl.create_default_context(cadata=authority.certificate.decode())
            (tmp_path / "c.crt").write_bytes(own.certificate)
            (tmp_path / "c.key").write_bytes(own.key)
            trust.load_cert_chain(tmp_path / "c.crt", tmp_path / "c.key")
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            url = f"https://127.0.0.1:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews"
            try:
                async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
                    for _ in range(2):
                        async with session.post(url, json=review) as answer:
                            user = (await answer.json())["status"]["userInfo"]
            finally:
                await http.stop()
            assert (user["username"], user["groups"]) == ("dora", ["system:masters", "system:authenticated"])
            (credential,) = user["extra"]["authentication.kubernetes.io/credential-id"]
            assert credential.startswith("X509SHA256=")

    asyncio.run(case())


async def _unanswered(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def test_a_client_is_told_that_nobody_knows_who_signed_its_certificate(tmp_path: Path) -> None:
    async def case() -> None:
        authority, other = make_authority(0.0), make_authority(0.0)
        pair, foreign = sign(authority, 0.0, "server", hosts=("127.0.0.1",)), sign(other, 0.0, "dora")
        context = tls_context(pair, authority.certificate)
        server = await asyncio.start_server(_unanswered, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        (tmp_path / "pair").write_bytes(foreign.certificate + b"\n" + foreign.key)
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        trust.load_cert_chain(tmp_path / "pair")
        transport = HttpTransport(Credentials(f"https://127.0.0.1:{port}", trust))
        try:
            for _ in range(2):
                with pytest.raises(TransportError, match="does not know who signed the client certificate"):
                    await transport.request("GET", "/api", {})
        finally:
            await transport.close()
            server.close()

    asyncio.run(case())


def request(name: str, common_name: str, *organizations: str, signer: str = "example.com/s") -> object:
    """A certificate request for a subject."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    subject_name = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(subject_name).sign(key, hashes.SHA256())
    pem = made.public_bytes(serialization.Encoding.PEM)
    return certificates_v1.CertificateSigningRequest(
        metadata=meta_v1.ObjectMeta(name=name),
        spec=certificates_v1.CertificateSigningRequestSpec(
            request=base64.b64encode(pem).decode(), signer_name=signer, usages=("client auth",)
        ),
    )


def test_the_subject_of_a_request_is_read() -> None:
    made = request("a", "dora", "one", "two")
    assert isinstance(made, certificates_v1.CertificateSigningRequest)
    found = parse_request(made.spec.request)
    assert (found.common_name, found.organizations) == ("dora", ("one", "two"))


def test_nobody_asks_for_a_client_certificate_of_the_masters() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        with pytest.raises(ApiError, match="signer with system:masters group is not allowed"):
            await admin.create(request("a", "dora", "system:masters", signer=CLIENT_SIGNER))
        await admin.create(request("b", "dora", "system:masters"))

    run(case)


@pytest.mark.parametrize(
    ("permitted", "is_fine"), [("example.com/s", True), ("example.com/*", True), ("x.io/s", False)]
)
def test_who_approves_is_permitted_for_the_signer(permitted: str, is_fine: bool) -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        resources = "certificatesigningrequests/approval"
        may_write = rule("update", resources, SIGNERS)
        await admin.create(cluster_role("approver", may_write, rule("approve", "signers", SIGNERS, permitted)))
        await admin.create(cluster_binding("approver", subject("User", "carol")))
        made = await admin.create(request("a", "dora"))
        assert isinstance(made, certificates_v1.CertificateSigningRequest)
        condition = certificates_v1.CertificateSigningRequestCondition(type="Approved", status="True", reason="R")
        made.status.conditions = (condition,)
        carol = client_of(api, CAROL)
        if is_fine:
            approved = await carol.update(made, subresource="approval")
            assert approved.status.conditions[0].last_update_time
        else:
            with pytest.raises(ApiError, match="not permitted to approve requests with signerName"):
                await carol.update(made, subresource="approval")

    run(case)


def test_the_requester_is_written_by_the_server() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        await admin.create(cluster_role("r", rule("create", "certificatesigningrequests", SIGNERS)))
        await admin.create(cluster_binding("r", subject("User", "carol")))
        made = await client_of(api, CAROL).create(request("a", "dora"))
        assert isinstance(made, certificates_v1.CertificateSigningRequest)
        assert (made.spec.username, made.spec.uid, made.spec.groups) == (
            "carol",
            "carol-uid",
            ("system:authenticated",),
        )

    run(case)
