"""Custom kinds are told from misspelt ones, left out where that is wanted, and counted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bayplan.cluster.manifests.apply import ManifestError, apply_manifests
from bayplan.cluster.manifests.unserved import UnservedKinds, is_custom, meant
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support import virtual_time
from bayplan.testing.cluster import running_cluster
from tests.integration.custom_resources.definitions import crontab, crontabs, path, read

WIDGET = {"apiVersion": "acme.example/v1", "kind": "Widget", "metadata": {"name": "w"}}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("monitoring.coreos.com/v1", "ServiceMonitor"),
        ("serving.knative.dev/v1", "Service"),
        ("gateway.networking.k8s.io/v1", "Gateway"),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
        ("config.openshift.io/v1", "Ingress"),
    ],
)
def test_kinds_of_other_groups_are_custom(api_version: str, kind: str) -> None:
    assert is_custom(api_version, kind)


@pytest.mark.parametrize(
    ("api_version", "kind", "right"),
    [
        ("apps/v1", "Deploymnt", "Deployment in apps/v1"),
        ("app/v1", "Deployment", "Deployment in apps/v1"),
        ("networkin.k8s.io/v1", "Ingress", "Ingress in networking.k8s.io/v1"),
        ("policy/v1beta1", "PodDisruptionBudget", "PodDisruptionBudget in policy/v1"),
        ("policy/v1beta1", "PodSecurityPolicy", ""),
    ],
)
def test_a_misspelt_kind_is_not_custom_and_the_right_one_is_found(api_version: str, kind: str, right: str) -> None:
    assert not is_custom(api_version, kind)
    found = meant(api_version, kind)
    assert (f"{found.kind} in {found.api_version}" if found else "") == right


def applied(objects: list[dict[str, Any]], unserved: UnservedKinds | None) -> int:
    async def main() -> int:
        async with running_cluster(nodes=0) as cluster:
            return await apply_manifests(cluster.client, [(Path("m.yaml"), one) for one in objects], unserved)

    return asyncio.run(main())


def test_custom_resources_are_left_out_and_counted() -> None:
    met = UnservedKinds()
    assert applied([WIDGET, CONFIG, {**WIDGET, "metadata": {"name": "v"}}], met) == 1
    assert met.to_list() == [{"kind": "Widget", "apiVersion": "acme.example/v1", "objects": 2}]


def test_without_an_account_they_are_an_error() -> None:
    with pytest.raises(ManifestError, match=r"m\.yaml: Widget w: this server has no Widget"):
        applied([WIDGET, CONFIG], None)


def test_a_misspelt_kind_is_an_error_that_names_the_right_one() -> None:
    wrong = {"apiVersion": "apps/v1", "kind": "Deploymnt", "metadata": {"name": "d"}}
    with pytest.raises(ManifestError, match=r"Deploymnt d: .*did you mean Deployment in apps/v1\?"):
        applied([wrong, CONFIG], UnservedKinds())


def test_what_a_definition_brings_is_applied_with_it() -> None:
    async def main() -> None:
        met = UnservedKinds()
        async with VirtualCluster() as cluster:
            objects = [(Path("m.yaml"), obj) for obj in (crontab("first"), crontabs())]
            assert await apply_manifests(cluster.client, objects, met) == 2
            assert (
                await apply_manifests(cluster.client, [(Path("m.yaml"), crontab("first", {"replicas": 4}))], met) == 1
            )
            found = await read(cluster.client, path("first"))
        assert found is not None
        assert found["spec"] == {"replicas": 4}
        assert met.to_list() == []

    virtual_time.run(main())


def test_a_definition_whose_names_are_taken_is_an_error() -> None:
    async def main() -> None:
        other = crontabs()
        other["metadata"]["name"] = "others.stable.example.com"
        other["spec"]["names"] |= {"plural": "others", "singular": "other"}
        async with VirtualCluster() as cluster:
            await apply_manifests(cluster.client, [(Path("m.yaml"), crontabs())])
            other["spec"]["versions"][0]["name"] = "v2"
            with pytest.raises(ManifestError, match=r"others\.stable\.example\.com: it is not established"):
                await apply_manifests(cluster.client, [(Path("m.yaml"), other)])

    virtual_time.run(main())
