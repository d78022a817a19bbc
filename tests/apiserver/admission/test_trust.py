"""Who may write trust bundles of signers; plugins that judge nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.kinds import KindTable
from bayplan.api.optional_kinds import CLUSTER_TRUST_BUNDLE
from bayplan.api.types import core_v1, meta_v1, rbac_v1
from bayplan.api.types.certificates_v1beta1 import ClusterTrustBundle, ClusterTrustBundleSpec
from bayplan.apiserver.certificates import make_authority
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.requests import User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.client import Client
from bayplan.client.in_process import InProcessTransport
from tests.apiserver.serving import ADMIN, client_of, opened

_SETTINGS = ApiServerSettings(runtime_config=("certificates.k8s.io/v1beta1=true",), authorization_modes=("RBAC",))
_ANNA = User("anna", groups=("system:authenticated",))
_WRITES = {"apiGroups": ["certificates.k8s.io"], "resources": ["clustertrustbundles"], "verbs": ["*"]}
_ATTESTS = {
    "apiGroups": ["certificates.k8s.io"],
    "resources": ["signers"],
    "resourceNames": ["example.com/*"],
    "verbs": ["attest"],
}


def _client(api: ApiServer, user: User) -> Client:
    kinds = KindTable(api.context.kinds)
    kinds.add(CLUSTER_TRUST_BUNDLE)
    return Client(InProcessTransport(InProcessEndpoint(api, user)), kinds)


def _bundle(name: str, signer: str = "") -> ClusterTrustBundle:
    authority = make_authority(1_790_000_000.0).certificate.decode()
    spec = ClusterTrustBundleSpec(signer_name=signer, trust_bundle=authority)
    return ClusterTrustBundle(metadata=meta_v1.ObjectMeta(name=name), spec=spec)


def _run(case: Callable[[ApiServer], Awaitable[None]], settings: ApiServerSettings) -> None:
    async def inner() -> None:
        async with opened(settings=settings) as api:
            await case(api)

    asyncio.run(inner())


async def _give(client: Client, *rules: object) -> None:
    """Give Anna a role with these rules, or change it."""
    role = from_tree(rbac_v1.ClusterRole, {"metadata": {"name": "trust"}, "rules": list(rules)})
    await client.create(role)
    binding = {
        "metadata": {"name": "trust"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "trust"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "anna"}],
    }
    await client.create(from_tree(rbac_v1.ClusterRoleBinding, binding))


def test_a_bundle_of_a_signer_needs_the_permission_to_attest() -> None:
    async def case(api: ApiServer) -> None:
        anna, admin = _client(api, _ANNA), _client(api, ADMIN)
        await _give(admin, _WRITES)
        await anna.create(_bundle("free"))
        with pytest.raises(
            ApiError, match=r'user not permitted to attest for signerName "example\.com/pods"'
        ) as caught:
            await anna.create(_bundle("example.com:pods:a", "example.com/pods"))
        assert caught.value.code == 403
        await admin.create(_bundle("example.com:pods:a", "example.com/pods"))
        owners = {"metadata": {"finalizers": ["example.com/stay"]}}
        await anna.patch(ClusterTrustBundle, "example.com:pods:a", "", owners)  # as the garbage collector may
        with pytest.raises(ApiError, match="not permitted to attest"):
            await anna.patch(ClusterTrustBundle, "example.com:pods:a", "", {"metadata": {"labels": {"a": "b"}}})
        await admin.patch(rbac_v1.ClusterRole, "trust", "", {"rules": [_WRITES, _ATTESTS]})
        await anna.create(_bundle("example.com:pods:b", "example.com/pods"))

    _run(case, _SETTINGS)


def test_a_plugin_that_refuses_everything_lets_reads_pass() -> None:
    async def case(api: ApiServer) -> None:
        client = client_of(api)
        with pytest.raises(ApiError, match="admission control is denying all modifications") as caught:
            await client.create(core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="a", namespace="default")))
        assert caught.value.code == 403
        assert not (await client.list(core_v1.ConfigMap, "default")).items

    _run(case, ApiServerSettings(enable_admission_plugins=("AlwaysAdmit", "AlwaysDeny")))
