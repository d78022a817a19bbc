"""Service accounts, tokens, access reviews and certificate requests. Conformance: ServiceAccounts, SubjectReview, Certificates API."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bayplan.apiserver.certificates import make_authority
from tests.integration.conformance.requests import MERGE_PATCH, STRATEGIC_PATCH, Requests, conformance, pod


@pytest.mark.parametrize("account", [None, True, False])
@pytest.mark.parametrize("of_pod", [None, True, False])
def test_pods_and_accounts_opt_out_of_tokens(account: bool | None, of_pod: bool | None) -> None:
    """ServiceAccounts should allow opting out of API token automount."""

    async def scenario(api: Requests) -> None:
        core = await api.namespace()
        body = {"metadata": {"name": "sa"}, **({} if account is None else {"automountServiceAccountToken": account})}
        await api.create(f"{core}/serviceaccounts", body)
        spec = {} if of_pod is None else {"automountServiceAccountToken": of_pod}
        made = await api.create(f"{core}/pods", pod("a", serviceAccountName="sa", **spec))
        mounts = [one["mountPath"] for one in made["spec"]["containers"][0].get("volumeMounts", ())]
        wanted = of_pod if of_pod is not None else account is not False
        assert ("/var/run/secrets/kubernetes.io/serviceaccount" in mounts) == wanted

    conformance(scenario)


def test_an_account_is_created_watched_patched_updated_and_deleted() -> None:
    """ServiceAccounts should run through the lifecycle of a ServiceAccount; should update a ServiceAccount."""

    async def scenario(api: Requests) -> None:
        accounts = f"{await api.namespace()}/serviceaccounts"
        async with api.watch("/api/v1/serviceaccounts", labelSelector="test-static=true") as watch:
            created = await api.create(accounts, {"metadata": {"name": "sa", "labels": {"test-static": "true"}}})
            assert (await watch.until("ADDED"))["metadata"]["uid"] == created["metadata"]["uid"]
            patched = await api.patch(
                f"{accounts}/sa", {"automountServiceAccountToken": False}, STRATEGIC_PATCH, fieldValidation="Strict"
            )
            assert patched["automountServiceAccountToken"] is False
            await watch.until("MODIFIED", lambda one: one.get("automountServiceAccountToken") is False)
            patched["automountServiceAccountToken"] = True
            assert (await api.update(f"{accounts}/sa", patched))["automountServiceAccountToken"] is True
            assert await api.names("/api/v1/serviceaccounts", labelSelector="test-static=true") == ["sa"]
            await api.delete(accounts, labelSelector="test-static=true")
            await watch.until("DELETED")
        assert await api.gone(f"{accounts}/sa")

    conformance(scenario)


def test_a_requested_token_passes_a_review() -> None:
    """ServiceAccounts should create a serviceAccountToken and ensure a successful TokenReview."""

    async def scenario(api: Requests) -> None:
        core = await api.namespace()
        account = await api.create(f"{core}/serviceaccounts", {"metadata": {"name": "sa"}})
        request = await api.create(f"{core}/serviceaccounts/sa/token", {"spec": {"expirationSeconds": 3600}})
        token = request["status"]["token"]
        review = await api.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
        assert review["status"]["authenticated"] is True
        assert not review["status"].get("error")
        user = review["status"]["user"]
        assert user["username"] == "system:serviceaccount:conformance:sa"
        assert user["uid"] == account["metadata"]["uid"]
        groups = {"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:conformance"}
        assert set(user["groups"]) == groups

    conformance(scenario)


def test_reviews_say_what_requests_are_allowed_to_do() -> None:
    """SubjectReview should support SubjectReview API operations."""

    async def scenario(api: Requests) -> None:
        core = await api.namespace()
        account = await api.create(f"{core}/serviceaccounts", {"metadata": {"name": "e2e"}})
        name, uid = "system:serviceaccount:conformance:e2e", account["metadata"]["uid"]
        groups = ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:conformance"]
        asked = {"verb": "list", "resource": "configmaps", "namespace": "conformance", "version": "v1"}
        spec = {"resourceAttributes": asked, "user": name, "groups": groups, "uid": uid}
        group = "/apis/authorization.k8s.io/v1"
        local = {"metadata": {"namespace": "conformance"}, "spec": spec}

        async def reviews() -> list[bool]:
            found = [
                await api.create(f"{group}/subjectaccessreviews", {"spec": spec}),
                await api.create(f"{group}/namespaces/conformance/localsubjectaccessreviews", local),
            ]
            return [one["status"]["allowed"] for one in found]

        impersonated = api.impersonating(name, uid, groups)
        assert await reviews() == [False, False]
        assert (await impersonated.refused("GET", f"{core}/configmaps")).reason == "Forbidden"
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        subject = {"kind": "ServiceAccount", "name": "e2e", "namespace": "conformance"}
        await api.create(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/conformance/rolebindings",
            {"metadata": {"name": "view"}, "roleRef": reference, "subjects": [subject]},
        )
        await api.patch(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/view",
            {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]},
        )
        assert await reviews() == [True, True]
        assert await impersonated.names(f"{core}/configmaps") == []

    conformance(scenario)


def _certificate_request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "e2e.example.com")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def test_certificate_requests_are_approved_and_answered() -> None:
    """Certificates API should support CSR API operations."""

    async def scenario(api: Requests) -> None:
        group = "/apis/certificates.k8s.io/v1"
        found = {one["name"] for one in (await api.get(group))["resources"]}
        requests = "certificatesigningrequests"
        assert {requests, f"{requests}/approval", f"{requests}/status"} <= found
        spec = {
            "request": _certificate_request(),
            "signerName": "example.com/e2e",
            "expirationSeconds": 3600,
            "usages": ["digital signature", "key encipherment", "server auth"],
        }
        body = {"metadata": {"generateName": "e2e-example-csr-"}, "spec": spec}
        names = [(await api.create(f"{group}/{requests}", body))["metadata"]["name"] for _ in range(3)]
        selector = "spec.signerName=example.com/e2e"
        assert sorted(names) == await api.names(f"{group}/{requests}", fieldSelector=selector)
        own = f"{group}/{requests}/{names[0]}"
        condition = {"type": "ApprovalPatch", "status": "True", "reason": "e2e"}
        patched = await api.patch(f"{own}/approval", {"status": {"conditions": [condition]}}, MERGE_PATCH)
        assert [one["type"] for one in patched["status"]["conditions"]] == ["ApprovalPatch"]
        patched["status"]["conditions"].append({**condition, "type": "Approved"})
        approved = await api.update(f"{own}/approval", patched)
        assert [one["type"] for one in approved["status"]["conditions"]] == ["ApprovalPatch", "Approved"]
        authority = make_authority(1_700_000_000.0)
        certificate = base64.b64encode(authority.certificate).decode()
        answered = await api.patch(f"{own}/status", {"status": {"certificate": certificate}}, MERGE_PATCH)
        assert answered["status"]["certificate"] == certificate
        answered["status"]["conditions"].append({**condition, "type": "StatusUpdate"})
        assert len((await api.update(f"{own}/status", answered))["status"]["conditions"]) == 3
        await api.delete(own)
        assert len(await api.names(f"{group}/{requests}", fieldSelector=selector)) == 2
        await api.delete(f"{group}/{requests}", fieldSelector=selector)
        assert await api.names(f"{group}/{requests}", fieldSelector=selector) == []

    conformance(scenario)
