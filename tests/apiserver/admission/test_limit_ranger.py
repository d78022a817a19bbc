"""LimitRanger."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from tests.apiserver.admission.running import container, named, pod, run


async def limits(client: Client, **item: Any) -> None:
    item.setdefault("type", "Container")
    spec = core_v1.LimitRangeSpec(limits=(core_v1.LimitRangeItem(**item),))
    await client.create(core_v1.LimitRange(metadata=named("lr"), spec=spec))


def test_containers_get_what_they_leave_out_and_an_annotation_says_so() -> None:
    async def case(client: Client) -> None:
        await limits(client, default={"cpu": "1"}, default_request={"cpu": "500m", "memory": "1Mi"})
        made = await client.create(
            pod(containers=(container(resources={"limits": {"cpu": "2"}}),), init_containers=(container("i"),))
        )
        assert made.spec.containers[0].resources.limits == {"cpu": "2"}
        assert made.spec.init_containers[0].resources.requests == {"cpu": "500m", "memory": "1Mi"}
        assert made.metadata.annotations["kubernetes.io/limit-ranger"] == (
            "LimitRanger plugin set: memory request for container c; "
            "cpu, memory request for init container i; cpu limit for init container i"
        )

    run(case)


@pytest.mark.parametrize(
    ("item", "resources", "message"),
    [
        ({"max": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, "maximum cpu usage per Container is 1, but limit is 2"),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {},
            r"maximum cpu usage per Pod is 1\.  No limit is specified",
        ),
        (
            {"type": "Pod", "min": {"memory": "1Gi"}},
            {"requests": {"memory": "1Mi"}},
            "minimum memory usage per Pod is 1Gi, but request is 1Mi",
        ),
        (
            {"max_limit_request_ratio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "5"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 5.000000",
        ),
    ],
)
def test_what_is_out_of_bounds_is_refused(item: dict[str, Any], resources: dict[str, Any], message: str) -> None:
    async def case(client: Client) -> None:
        await limits(client, **item)
        with pytest.raises(ApiError, match=message) as caught:
            await client.create(pod(containers=(container(resources=resources),)))
        assert caught.value.code == 403

    run(case)


def test_claims_are_bounded() -> None:
    async def case(client: Client) -> None:
        await limits(client, type="PersistentVolumeClaim", max={"storage": "1Gi"}, min={"storage": "1Mi"})
        resources = core_v1.VolumeResourceRequirements(requests={"storage": "2Gi"})
        spec = core_v1.PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), resources=resources)
        with pytest.raises(
            ApiError, match="maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
        ):
            await client.create(core_v1.PersistentVolumeClaim(metadata=named("c"), spec=spec))

    run(case)


def test_pod_level_resources_are_what_bounds_of_pods_look_at() -> None:
    async def case(client: Client) -> None:
        await limits(client, type="Pod", max={"cpu": "1"})
        resources = core_v1.ResourceRequirements(limits={"cpu": "2"}, requests={"cpu": "1"})
        with pytest.raises(ApiError, match="maximum cpu usage per Pod is 1, but limit is 2"):
            await client.create(pod(resources=resources))

    run(case)
