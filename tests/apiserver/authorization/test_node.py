"""What nodes may read (mode Node) and write (NodeRestriction)."""

from __future__ import annotations

import pytest

from bayplan.api.codec import encode
from bayplan.api.errors import ApiError
from bayplan.api.types import authentication_v1, core_v1, meta_v1
from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from tests.apiserver.authorization.roles import NODE, run
from tests.apiserver.serving import client_of


def pod(name: str, node: str, **spec: object) -> core_v1.Pod:
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name=name, namespace="default"),
        spec=core_v1.PodSpec(containers=(core_v1.Container(name="c", image="x"),), node_name=node, **spec),  # type: ignore[arg-type]
    )


def using_secret(name: str) -> core_v1.Volume:
    return core_v1.Volume(name=name, secret=core_v1.SecretVolumeSource(secret_name=name))


def using_claim(name: str) -> core_v1.Volume:
    source = core_v1.PersistentVolumeClaimVolumeSource(claim_name=name)
    return core_v1.Volume(name=name, persistent_volume_claim=source)


async def code_of(api: ApiServer, method: str, path: str, query: dict[str, str] | None = None) -> int:
    """How a request of the node n1 is answered."""
    return (await api.handle(Request(method, path, query or {}, NODE))).code


def test_a_node_reads_what_its_pods_need_while_it_has_them() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        for name in ("used", "other"):
            await admin.create(core_v1.Secret(metadata=meta_v1.ObjectMeta(name=name, namespace="default")))
        secret = "/api/v1/namespaces/default/secrets"
        assert await code_of(api, "GET", f"{secret}/used") == 403
        await admin.create(pod("mine", "n1", volumes=(using_secret("used"),)))
        await admin.create(pod("theirs", "n2", volumes=(using_secret("other"),)))
        assert await code_of(api, "GET", f"{secret}/used") == 200
        assert await code_of(api, "GET", secret, {"fieldSelector": "metadata.name=used"}) == 200
        assert await code_of(api, "GET", f"{secret}/other") == 403
        assert await code_of(api, "GET", secret) == 403
        assert await code_of(api, "GET", "/api/v1/namespaces/default/pods/mine") == 200
        assert await code_of(api, "GET", "/api/v1/namespaces/default/pods/theirs") == 403
        await admin.delete(core_v1.Pod, "mine", "default", grace_period_seconds=0)
        assert await code_of(api, "GET", f"{secret}/used") == 403

    run(case)


def test_a_node_reads_the_volume_of_its_pods_claim_and_the_secret_that_mounts_it() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        await admin.create(core_v1.Secret(metadata=meta_v1.ObjectMeta(name="key", namespace="kube-system")))
        mode = ("ReadWriteOnce",)
        amount: dict[str, str | int | float] = {"storage": "1Gi"}
        claim = core_v1.PersistentVolumeClaim(
            metadata=meta_v1.ObjectMeta(name="data", namespace="default"),
            spec=core_v1.PersistentVolumeClaimSpec(
                access_modes=mode, volume_name="v", resources=core_v1.VolumeResourceRequirements(requests=amount)
            ),
        )
        await admin.create(claim)
        csi = core_v1.CSIPersistentVolumeSource(
            driver="d.example.com",
            volume_handle="h",
            node_stage_secret_ref=core_v1.SecretReference(name="key", namespace="kube-system"),
        )
        volume = core_v1.PersistentVolume(
            metadata=meta_v1.ObjectMeta(name="v"),
            spec=core_v1.PersistentVolumeSpec(
                access_modes=mode,
                capacity=amount,
                csi=csi,
                claim_ref=core_v1.ObjectReference(name="data", namespace="default"),
            ),
        )
        await admin.create(volume)
        paths = ("/api/v1/persistentvolumes/v", "/api/v1/namespaces/kube-system/secrets/key")
        assert [await code_of(api, "GET", path) for path in paths] == [403, 403]
        await admin.create(pod("mine", "n1", volumes=(using_claim("data"),)))
        assert [await code_of(api, "GET", path) for path in paths] == [200, 200]

    run(case)


def test_a_node_sees_itself_and_lists_only_its_own_pods() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        for name in ("n1", "n2"):
            await admin.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name=name)))
        assert await code_of(api, "GET", "/api/v1/nodes/n1") == 200
        assert await code_of(api, "GET", "/api/v1/nodes/n2") == 403
        assert await code_of(api, "GET", "/api/v1/nodes") == 403
        assert await code_of(api, "GET", "/api/v1/pods", {"fieldSelector": "spec.nodeName=n1"}) == 200
        assert await code_of(api, "GET", "/api/v1/pods", {"fieldSelector": "spec.nodeName=n2"}) == 403
        assert await code_of(api, "GET", "/api/v1/services") == 200

    run(case)


def test_a_node_writes_only_what_is_its_own() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        node = client_of(api, NODE)
        for name in ("n1", "n2"):
            await admin.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name=name)))
        mine = await admin.get(core_v1.Node, "n1")
        mine.metadata.labels = {"zone": "a", "kubernetes.io/os": "linux"}
        mine = await node.update(mine)
        mine.metadata.labels = {**mine.metadata.labels, "node-restriction.kubernetes.io/x": "1"}
        with pytest.raises(ApiError, match=r"not allowed to modify labels: node-restriction.kubernetes.io/x"):
            await node.update(mine)
        with pytest.raises(ApiError, match='node "n1" is not allowed to modify node "n2"'):
            await node.update(await admin.get(core_v1.Node, "n2"))
        with pytest.raises(ApiError, match="can only create mirror pods"):
            await node.create(pod("p", "n1"))

    run(case)


def test_a_node_gets_tokens_for_its_own_pods() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"

        async def ask(audience: str = "", **bound: str) -> tuple[int, bytes]:
            reference = authentication_v1.BoundObjectReference(kind="Pod", api_version="v1", **bound)
            audiences = (audience,) if audience else ()
            spec = authentication_v1.TokenRequestSpec(bound_object_ref=reference, audiences=audiences)
            body = encode(authentication_v1.TokenRequest(spec=spec))
            answer = await api.handle(Request("POST", path, {}, NODE, body, "application/json"))
            return answer.code, answer.body

        assert (await ask(name="mine", uid="1"))[0] == 403
        token = core_v1.ServiceAccountTokenProjection(path="t", audience="vault")
        sources = (core_v1.VolumeProjection(service_account_token=token),)
        volume = core_v1.Volume(name="t", projected=core_v1.ProjectedVolumeSource(sources=sources))
        mine = await admin.create(pod("mine", "n1", volumes=(volume,)))
        theirs = await admin.create(pod("theirs", "n2", volumes=(volume,)))
        assert (await ask("vault", name="mine", uid=mine.metadata.uid))[0] == 201
        # Every pod has a volume with a token for the API server, whose audiences a request without any gets.
        assert (await ask(name="mine", uid=mine.metadata.uid))[0] == 201
        for expected, asked in (
            ("without a uid", ask("vault", name="mine")),
            ("scheduled on a different node", ask("vault", name="theirs", uid=theirs.metadata.uid)),
            ("not found in pod spec volume", ask("bank", name="mine", uid=mine.metadata.uid)),
        ):
            code, body = await asked
            assert code == 403
            assert expected in body.decode()

    run(case)
