"""Copies of live clusters: complete with all rights, as far as they go with few."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from bayplan.api.errors import ApiError, failure
from bayplan.api.types import core_v1, meta_v1, rbac_v1
from bayplan.client import Client
from bayplan.simulation.readers import live as readers_live
from bayplan.simulation.readers.live import kind_named, read_live
from bayplan.simulation.snapshots.snapshot import COPIED, SnapshotError
from bayplan.testing.builders import container, deployment, namespace, pod
from bayplan.testing.cluster import LiveCluster, running_cluster
from tests.client.transports import Spoiler

TAKEN = "2026-01-02T03:04:05Z"


def test_everything_that_bears_on_placement_is_copied_and_nothing_secret() -> None:
    async def main() -> None:
        async with running_cluster(nodes=2) as cluster:
            hidden = container(cpu="100m", env=(core_v1.EnvVar(name="A", value="hush"),))
            await cluster.client.create(deployment("web", 3, pod_spec={"containers": (hidden,)}))
            await cluster.rolled_out("web", 3)
            secret = core_v1.Secret(metadata=meta_v1.ObjectMeta(name="s", namespace="default"))
            await cluster.client.create(secret)
            seen: list[str] = []
            copy = await read_live(cluster.client, taken_at=TAKEN, progress=lambda kind, done, of: seen.append(kind))
            counts = copy.counts()
            assert (counts["Node"], counts["Deployment"], counts["ReplicaSet"], counts["Pod"]) == (2, 1, 1, 3)
            assert "Secret" not in counts
            assert not copy.left_out
            assert copy.server_version.startswith("v1.36")
            assert copy.of("Pod")[0].spec.containers[0].env == ()
            assert set(seen) <= set(COPIED)

    asyncio.run(main())


def test_a_further_kind_is_copied_whole() -> None:
    async def main() -> None:
        async with running_cluster(nodes=0) as cluster:
            made = core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="m", namespace="default"), data={"a": "b"})
            await cluster.client.create(made)
            copy = await read_live(cluster.client, taken_at=TAKEN, include=["ConfigMap"])
            assert {"a": "b"} in [one.data for one in copy.of("ConfigMap")]
            assert all(not one.metadata.managed_fields for one in copy.of("ConfigMap"))

    asyncio.run(main())


async def allow(cluster: LiveCluster, role: str, space: str, resources: tuple[str, ...]) -> None:
    """Let the user `reader` list some resources, in one namespace or (for "") in the whole cluster."""
    rule = rbac_v1.PolicyRule(verbs=("get", "list"), api_groups=("",), resources=resources)
    subject = rbac_v1.Subject(kind="User", name="reader", api_group="rbac.authorization.k8s.io")
    metadata = meta_v1.ObjectMeta(name=role, namespace=space)
    kind = "Role" if space else "ClusterRole"
    reference = rbac_v1.RoleRef(kind=kind, name=role, api_group="rbac.authorization.k8s.io")
    if space:
        await cluster.client.create(rbac_v1.Role(metadata=metadata, rules=(rule,)))
        await cluster.client.create(rbac_v1.RoleBinding(metadata=metadata, subjects=(subject,), role_ref=reference))
    else:
        await cluster.client.create(rbac_v1.ClusterRole(metadata=metadata, rules=(rule,)))
        await cluster.client.create(
            rbac_v1.ClusterRoleBinding(metadata=metadata, subjects=(subject,), role_ref=reference)
        )


def test_what_may_not_be_read_is_left_out_and_named() -> None:
    async def main() -> None:
        async with running_cluster(nodes=1) as cluster:
            await cluster.client.create(namespace("other"))
            await cluster.eventually(lambda: cluster.client.get(core_v1.ServiceAccount, "default", "other"))
            for space in ("default", "other"):
                await cluster.client.create(pod("p", namespace=space))
            await allow(cluster, "everywhere", "", ("nodes", "namespaces"))
            await allow(cluster, "here", "default", ("pods",))
            copy = await read_live(cluster.cluster.client("reader", ()), taken_at=TAKEN)
            assert [(one.metadata.namespace, one.metadata.name) for one in copy.of("Pod")] == [("default", "p")]
            missing = {one.what for one in copy.left_out}
            assert "Pod in namespace other" in missing
            assert "PersistentVolume" in missing
            assert {"LimitRange", "ResourceQuota", "HorizontalPodAutoscaler"} <= missing
            assert "Pod" not in missing

    asyncio.run(main())


def test_whoever_may_read_neither_nodes_nor_pods_is_told_what_to_ask_for() -> None:
    async def main() -> None:
        async with running_cluster(nodes=0) as cluster:
            with pytest.raises(SnapshotError, match="ask for get and list on both"):
                await read_live(cluster.cluster.client("nobody", ()), taken_at=TAKEN)

    asyncio.run(main())


def test_a_list_that_expires_between_pages_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_live, "PAGE", 2)
    expired = ApiError(failure(410, "Expired", "the token is too old", details=False).status)
    second_page = Spoiler("GET", "/api/v1/nodes", expired, after=1)

    async def main() -> None:
        async with running_cluster(nodes=5) as cluster:
            copy = await read_live(Client(second_page.over(cluster.client.transport)), taken_at=TAKEN)
            assert second_page.seen == 2 + 3, "two pages until it expires, then all three"
            assert len({one.metadata.name for one in copy.of("Node")}) == len(copy.of("Node")) == 5

    asyncio.run(main())


@pytest.mark.parametrize("name", ["Deployment", "deployments", "deploy", "deployments.apps"])
def test_kinds_are_named_as_for_kubectl(name: str) -> None:
    assert kind_named(name).kind == "Deployment"


def test_an_unknown_kind_names_the_nearest_one() -> None:
    with pytest.raises(SnapshotError, match="did you mean Deployment"):
        kind_named("Deploymint")


def test_servers_of_other_releases_are_read_in_the_version_that_they_have() -> None:
    """A server from before apps/v1 and autoscaling/v2: what it does not have is 404, not an error."""
    spec = {"replicas": 2, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}
    metric = {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 60}}
    target = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3, "metrics": [metric]}
    served: dict[str, Any] = {
        "/api/v1/nodes": {"metadata": {"name": "a"}},
        "/apis/extensions/v1beta1/deployments": {"metadata": {"name": "web", "namespace": "x"}, "spec": spec},
        "/apis/autoscaling/v2beta1/horizontalpodautoscalers": {
            "metadata": {"name": "web", "namespace": "x"},
            "spec": target,
        },
        "/apis/autoscaling/v1/horizontalpodautoscalers": {"metadata": {"name": "other", "namespace": "x"}},
    }

    async def raw(method: str, path: str, *_: Any, **__: Any) -> bytes:
        if path not in served:
            raise failure(404, "NotFound", "the server could not find the requested resource")
        return json.dumps({"metadata": {}, "items": [served[path]]}).encode()

    client = Client(cast("Any", None))
    client.raw = raw  # type: ignore[method-assign]
    copy = asyncio.run(read_live(client, taken_at=TAKEN))
    assert copy.counts() == {"Node": 1, "Deployment": 1, "HorizontalPodAutoscaler": 1}
    selector = copy.of("Deployment")[0].spec.selector
    assert dict(selector.match_labels) == {"app": "web"}
    assert copy.of("HorizontalPodAutoscaler")[0].spec.metrics[0].resource.target.average_utilization == 60
    assert copy.left_out == []
