"""Plugins that run by default, but for those with a file of their own."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1, networking_v1, node_v1, storage_v1
from bayplan.client import Client
from tests.apiserver.admission.running import container, label_namespace, named, pod, run

KATA = node_v1.RuntimeClass(
    metadata=meta_v1.ObjectMeta(name="kata"),
    handler="kata",
    overhead=node_v1.Overhead(pod_fixed={"cpu": "100m"}),
    scheduling=node_v1.Scheduling(
        node_selector={"kata": "yes"}, tolerations=(core_v1.Toleration(key="kata", operator="Exists"),)
    ),
)


def test_the_server_says_how_long_pods_stay_on_nodes_that_fail() -> None:
    async def case(client: Client) -> None:
        own = core_v1.Toleration(key="node.kubernetes.io/unreachable", operator="Exists", effect="NoExecute")
        plain = (await client.create(pod())).spec.tolerations
        assert [(one.key, one.toleration_seconds) for one in plain] == [
            ("node.kubernetes.io/not-ready", 20),
            ("node.kubernetes.io/unreachable", 0),
        ]
        told = (await client.create(pod("told", tolerations=(own,)))).spec.tolerations
        assert [(one.key, one.toleration_seconds) for one in told] == [
            ("node.kubernetes.io/unreachable", None),
            ("node.kubernetes.io/not-ready", 20),
        ]

    run(case, default_not_ready_toleration_seconds=20, default_unreachable_toleration_seconds=0)


def test_a_runtime_class_brings_overhead_nodes_and_tolerations() -> None:
    async def case(client: Client) -> None:
        await client.create(KATA)
        spec = (await client.create(pod(runtime_class_name="kata"))).spec
        assert (spec.overhead, spec.node_selector, spec.tolerations[-1].key) == (
            {"cpu": "100m"},
            {"kata": "yes"},
            "kata",
        )

    run(case)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"runtime_class_name": "absent"}, 'pod rejected: RuntimeClass "absent" not found'),
        ({"runtime_class_name": "kata", "overhead": {"cpu": "1"}}, "Pod's Overhead doesn't match RuntimeClass's"),
        ({"overhead": {"cpu": "1"}}, "Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        ({"runtime_class_name": "kata", "node_selector": {"kata": "no"}}, "conflict: runtimeClass.scheduling"),
    ],
)
def test_a_pod_that_contradicts_its_runtime_class_is_refused(spec: dict[str, Any], message: str) -> None:
    async def case(client: Client) -> None:
        await client.create(KATA)
        with pytest.raises(ApiError, match=message) as caught:
            await client.create(pod(**spec))
        assert caught.value.code == 403

    run(case)


def test_an_account_may_keep_other_secrets_from_its_pods() -> None:
    async def case(client: Client) -> None:
        strict = named("strict", annotations={"kubernetes.io/enforce-mountable-secrets": "true"})
        await client.create(core_v1.ServiceAccount(metadata=strict, secrets=(core_v1.ObjectReference(name="ok"),)))

        def using(name: str, secret: str) -> core_v1.Pod:
            bulk = core_v1.EnvFromSource(secret_ref=core_v1.SecretEnvSource(name=secret))
            return pod(name, service_account_name="strict", containers=(container(env_from=(bulk,)),))

        await client.create(using("a", "ok"))
        message = 'container c with envFrom referencing secret.secretName="other" is not allowed'
        with pytest.raises(ApiError, match=message):
            await client.create(using("b", "other"))

    run(case)


def test_a_claim_without_a_class_gets_the_newest_default() -> None:
    async def case(client: Client) -> None:
        for name in ("b", "a"):
            metadata = meta_v1.ObjectMeta(
                name=name, annotations={"storageclass.kubernetes.io/is-default-class": "true"}
            )
            await client.create(storage_v1.StorageClass(metadata=metadata, provisioner="x"))
        resources = core_v1.VolumeResourceRequirements(requests={"storage": "1Gi"})
        spec = core_v1.PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), resources=resources)
        made = await client.create(core_v1.PersistentVolumeClaim(metadata=named("c"), spec=spec))
        assert made.spec.storage_class_name == "a"

    run(case)


def test_an_ingress_without_a_class_gets_the_default() -> None:
    async def case(client: Client) -> None:
        metadata = meta_v1.ObjectMeta(name="std", annotations={"ingressclass.kubernetes.io/is-default-class": "true"})
        spec = networking_v1.IngressClassSpec(controller="example.com/c")
        await client.create(networking_v1.IngressClass(metadata=metadata, spec=spec))
        port = networking_v1.ServiceBackendPort(number=80)
        backend = networking_v1.IngressBackend(service=networking_v1.IngressServiceBackend(name="s", port=port))
        ingress = networking_v1.Ingress(metadata=named("i"), spec=networking_v1.IngressSpec(default_backend=backend))
        assert (await client.create(ingress)).spec.ingress_class_name == "std"

    run(case)


def test_a_bound_pod_gets_the_zone_of_its_node() -> None:
    async def case(client: Client) -> None:
        labels = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "other": "x"}
        await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name="n", labels=labels)))
        made = await client.create(pod())
        await client.bind("default", "p", made.metadata.uid, "n")
        bound = await client.get(core_v1.Pod, "p", "default")
        assert bound.metadata.labels == {key: value for key, value in labels.items() if key != "other"}

    run(case)


def test_pods_that_break_the_enforced_level_are_refused() -> None:
    async def case(client: Client) -> None:
        await label_namespace(client, {"pod-security.kubernetes.io/enforce": "baseline"})
        message = r'violates PodSecurity "baseline:latest": host namespaces \(hostNetwork=true\)'
        with pytest.raises(ApiError, match=message):
            await client.create(pod(host_network=True))
        await client.create(pod())

    run(case)
