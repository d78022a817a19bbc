"""What limits, quotas and rules make of pods, as typed clients see it.

Conformance: LimitRange, ResourceQuota, RuntimeClass, Sysctls, Pods Extended (QoS class).
"""

from __future__ import annotations

from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import PAUSE, Space, Workloads


def amounts(cpu: str = "", memory: str = "", disk: str = "") -> dict[str, str]:
    """Amounts of resources; empty ones are left out."""
    given = {"cpu": cpu, "memory": memory, "ephemeral-storage": disk}
    return {name: value for name, value in given.items() if value}


def pod(name: str, requests: Object | None = None, limits: Object | None = None, **spec: object) -> Object:
    """A pod that asks for something."""
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    container = {"name": "main", "image": PAUSE, "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}}


def limit_range(name: str, labels: dict[str, str]) -> Object:
    """Bounds and defaults of containers."""
    item = {
        "type": "Container",
        "min": amounts("50m", "100Mi", "100Gi"),
        "max": amounts("500m", "500Mi", "500Gi"),
        "default": amounts("500m", "500Mi", "500Gi"),
        "defaultRequest": amounts("100m", "200Mi", "200Gi"),
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": {"limits": [item]}}


async def resources_of(space: Space, body: Object) -> Object:
    """Create a pod and read what its container asks for."""
    await space.api.create(space.core("pods"), body)
    found = await space.api.get(space.core(f"pods/{body['metadata']['name']}"))
    resources: Object = found["spec"]["containers"][0]["resources"]
    return resources


def test_a_limit_range_gives_defaults_and_bounds_until_it_is_gone(workloads: Workloads) -> None:
    """LimitRange should create a LimitRange with defaults and ensure pod has those defaults applied."""

    async def scenario(space: Space) -> None:
        api, ranges, pods = space.api, space.core("limitranges"), space.core("pods")
        stream = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        async with api.watch(ranges, labelSelector=f"at={space.name}", **stream) as watch:
            assert (await watch.next())[0] == "BOOKMARK"
            await api.create(ranges, limit_range("bounds", {"at": space.name}))
            assert (await watch.next())[0] == "ADDED"
        bounds = await api.get(f"{ranges}/bounds")
        (item,) = bounds["spec"]["limits"]
        assert await resources_of(space, pod("plain")) == {
            "requests": item["defaultRequest"],
            "limits": item["default"],
        }
        assert await resources_of(space, pod("partly", amounts("", "150Mi", "150Gi"), amounts("300m"))) == {
            "requests": amounts("300m", "150Mi", "150Gi"),
            "limits": amounts("300m", "500Mi", "500Gi"),
        }
        small, large = amounts("10m", "50Mi", "50Gi"), amounts("600m", "600Mi", "600Gi")
        for asked in (small, large):
            await api.refused("POST", pods, pod("bounded", asked))
        item["min"] = amounts("9m", "49Mi", "49Gi")
        await api.update(f"{ranges}/bounds", bounds)
        assert (await api.get(f"{ranges}/bounds"))["spec"]["limits"][0]["min"] == item["min"]
        await api.create(pods, pod("bounded", small))
        await api.refused("POST", pods, pod("bounded", large))
        await api.delete(f"{ranges}/bounds", {"gracePeriodSeconds": 30})
        assert await api.names(ranges) == []
        await api.create(pods, pod("unbounded", large))

    workloads.run(scenario)


def test_limit_ranges_go_by_the_label_that_a_patch_gave_them(workloads: Workloads) -> None:
    """LimitRange should list, patch and delete a LimitRange by collection."""

    async def scenario(space: Space) -> None:
        api, ranges = space.api, space.core("limitranges")
        labels = {"both": space.name, "state": "created"}
        created = await api.create(ranges, limit_range("bounds", labels))
        other = f"{space.name}-other"
        await api.create("/api/v1/namespaces", {"metadata": {"name": other}})
        await api.create(f"/api/v1/namespaces/{other}/limitranges", limit_range("bounds", labels))
        query = {"labelSelector": f"both={space.name}"}
        assert await api.names("/api/v1/limitranges", **query) == ["bounds", "bounds"]
        limits = created["spec"]["limits"]
        limits[0]["min"] = amounts("9m", "49Mi", "49Gi")
        metadata = {"creationTimestamp": created["metadata"]["creationTimestamp"], "labels": {"state": "patched"}}
        patched = await api.patch(
            f"{ranges}/bounds", {"metadata": metadata, "spec": {"limits": limits}}, STRATEGIC_PATCH
        )
        assert patched["metadata"]["labels"]["state"] == "patched"
        assert patched["spec"]["limits"] == limits
        await api.delete(ranges, labelSelector="state=patched")
        assert await api.names(ranges, labelSelector="state=patched") == []
        assert await api.names("/api/v1/limitranges", **query) == ["bounds"]
        await api.delete(f"/api/v1/namespaces/{other}")

    workloads.run(scenario)


def test_a_quota_is_updated_patched_and_deleted(workloads: Workloads) -> None:
    """ResourceQuota should be able to update and delete ResourceQuota; should manage the lifecycle of a ResourceQuota."""

    async def scenario(space: Space) -> None:
        api, quotas = space.api, space.core("resourcequotas")
        own, query = f"{quotas}/share", {"labelSelector": f"of={space.name}"}
        metadata = {"name": "share", "labels": {"of": space.name}}
        created = await api.create(quotas, {"metadata": metadata, "spec": {"hard": amounts("1", "500Mi")}})
        assert created["spec"]["hard"] == (await api.get(own))["spec"]["hard"] == amounts("1", "500Mi")

        def enlarge(obj: Object) -> None:
            obj["spec"]["hard"] = amounts("2", "1Gi")

        assert (await space.changed(own, enlarge))["spec"]["hard"] == amounts("2", "1Gi")
        assert (await api.get(own))["spec"]["hard"] == amounts("2", "1Gi")
        assert await api.names("/api/v1/resourcequotas", **query) == ["share"]
        changes = {"metadata": {"labels": {"state": "patched"}}, "spec": {"hard": {"memory": "750Mi"}}}
        patched = await api.patch(own, changes, STRATEGIC_PATCH)
        assert patched["metadata"]["labels"]["state"] == "patched"
        assert patched["spec"]["hard"] == amounts("2", "750Mi")
        await api.delete(quotas, labelSelector="state=patched")
        assert await space.absent(own)

    workloads.run(scenario)


def test_a_runtime_class_must_be_there(workloads: Workloads) -> None:
    """RuntimeClass should reject a Pod requesting a non-existent RuntimeClass; should reject a Pod requesting a deleted RuntimeClass."""

    async def scenario(space: Space) -> None:
        api, classes, name = space.api, "/apis/node.k8s.io/v1/runtimeclasses", f"{space.name}-class"
        body = pod("picky", runtimeClassName=name)
        refused = await api.refused("POST", space.core("pods"), body)
        assert refused.reason == "Forbidden"
        assert f'RuntimeClass "{name}" not found' in refused.message
        await api.create(classes, {"metadata": {"name": name}, "handler": "runc"})
        await api.delete(f"{classes}/{name}")
        await space.gone(f"{classes}/{name}")
        assert (await api.refused("POST", space.core("pods"), body)).message == refused.message

    workloads.run(scenario)


def test_bad_names_of_sysctls_are_told_and_good_ones_are_not(workloads: Workloads) -> None:
    """Sysctls should reject invalid sysctls."""

    async def scenario(space: Space) -> None:
        names = ("bad-", "kernel.shmmax", "neither-good-nor-bad", "bad..")
        body = pod("tuned", securityContext={"sysctls": [{"name": name, "value": "7"} for name in names]})
        refused = await space.api.refused("POST", space.core("pods"), body)
        assert [f'Invalid value: "{name}"' in refused.message for name in names] == [True, False, False, True]
        assert not any(name in refused.message for name in names[1:3])

    workloads.run(scenario)


def test_equal_requests_and_limits_are_guaranteed(workloads: Workloads) -> None:
    """Pods Extended Pods Set QOS Class should be set on Pods with matching resource requests and limits for memory and cpu."""

    async def scenario(space: Space) -> None:
        asked = amounts("100m", "100Mi")
        await space.api.create(space.core("pods"), pod("sure", asked, asked))
        assert (await space.api.get(space.core("pods/sure")))["status"]["qosClass"] == "Guaranteed"

    workloads.run(scenario)
