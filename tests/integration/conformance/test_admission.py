"""What namespaces and nodes lay down about pods. Conformance: LimitRange, ResourceQuota, RuntimeClass, Sysctls, Pods Extended (QoS class)."""

from __future__ import annotations

import pytest

from tests.integration.conformance.requests import STRATEGIC_PATCH, Object, Requests, conformance, pod


def _resources(cpu: str = "", memory: str = "", storage: str = "") -> Object:
    given = {"cpu": cpu, "memory": memory, "ephemeral-storage": storage}
    return {name: value for name, value in given.items() if value}


def _with_resources(name: str, requests: Object, limits: Object) -> Object:
    made = pod(name)
    made["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": limits}
    return made


def _limit_range(name: str, labels: Object | None = None) -> Object:
    item = {
        "type": "Container",
        "min": _resources("50m", "100Mi", "100Gi"),
        "max": _resources("500m", "500Mi", "500Gi"),
        "default": _resources("500m", "500Mi", "500Gi"),
        "defaultRequest": _resources("100m", "200Mi", "200Gi"),
    }
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"limits": [item]}}


async def _created_resources(api: Requests, core: str, name: str, requests: Object, limits: Object) -> Object:
    await api.create(f"{core}/pods", _with_resources(name, requests, limits))
    resources: Object = (await api.get(f"{core}/pods/{name}"))["spec"]["containers"][0]["resources"]
    return resources


def test_pods_get_the_defaults_of_a_limit_range_and_stay_within_it() -> None:
    """LimitRange should create a LimitRange with defaults and ensure pod has those defaults applied."""

    async def scenario(api: Requests) -> None:
        core = await api.namespace()
        ranges = f"{core}/limitranges"
        async with api.watch(ranges, labelSelector="time=now") as watch:
            created = await api.create(ranges, _limit_range("limit-range", {"time": "now"}))
            assert (await watch.next())[0] == "ADDED"
        default, requested = _resources("500m", "500Mi", "500Gi"), _resources("100m", "200Mi", "200Gi")
        assert await _created_resources(api, core, "none", {}, {}) == {"requests": requested, "limits": default}
        partial = await _created_resources(api, core, "partial", _resources("", "150Mi", "150Gi"), _resources("300m"))
        assert partial["requests"] == _resources("300m", "150Mi", "150Gi")
        assert partial["limits"] == _resources("300m", "500Mi", "500Gi")
        small, large = _resources("10m", "50Mi", "50Gi"), _resources("600m", "600Mi", "600Gi")
        for requests in (small, large):
            refused = await api.refused("POST", f"{core}/pods", _with_resources("pfpod", requests, {}))
            assert refused.code in (403, 422)
        created["spec"]["limits"][0]["min"] = _resources("9m", "49Mi", "49Gi")
        await api.update(f"{ranges}/limit-range", created)
        await api.create(f"{core}/pods", _with_resources("pfpod", small, {}))
        await api.refused("POST", f"{core}/pods", _with_resources("pfpod2", large, {}))
        await api.delete(f"{ranges}/limit-range", {"gracePeriodSeconds": 30})
        assert await api.names(ranges) == []
        await api.create(f"{core}/pods", _with_resources("pfpod2", large, {}))

    conformance(scenario)


def test_limit_ranges_of_one_namespace_are_patched_and_deleted_by_label() -> None:
    """LimitRange should list, patch and delete a LimitRange by collection."""

    async def scenario(api: Requests) -> None:
        for namespace in ("first", "second"):
            await api.create(
                f"{await api.namespace(namespace)}/limitranges", _limit_range("lr", {"e2e-test": "lr", "lr": "created"})
            )
        assert await api.names("/api/v1/limitranges", labelSelector="e2e-test=lr") == ["lr", "lr"]
        own = "/api/v1/namespaces/first/limitranges"
        limits = (await api.get(f"{own}/lr"))["spec"]["limits"]
        limits[0]["min"] = _resources("9m", "49Mi", "49Gi")
        body = {"metadata": {"labels": {"lr": "patched"}}, "spec": {"limits": limits}}
        patched = await api.patch(f"{own}/lr", body, STRATEGIC_PATCH)
        assert patched["metadata"]["labels"]["lr"] == "patched"
        assert patched["spec"]["limits"][0]["min"] == _resources("9m", "49Mi", "49Gi")
        await api.delete(own, labelSelector="lr=patched")
        assert await api.names("/api/v1/limitranges", labelSelector="e2e-test=lr") == ["lr"]
        assert await api.names(own) == []

    conformance(scenario)


def test_a_quota_is_updated_patched_and_deleted() -> None:
    """ResourceQuota should be able to update and delete ResourceQuota; should manage the lifecycle of a ResourceQuota."""

    async def scenario(api: Requests) -> None:
        quotas = f"{await api.namespace()}/resourcequotas"
        body = {"metadata": {"name": "quota", "labels": {"rq": "yes"}}, "spec": {"hard": _resources("1", "500Mi")}}
        created = await api.create(quotas, body)
        assert created["spec"]["hard"] == _resources("1", "500Mi")
        created["spec"]["hard"] = _resources("2", "1Gi")
        assert (await api.update(f"{quotas}/quota", created))["spec"]["hard"] == _resources("2", "1Gi")
        assert (await api.get(f"{quotas}/quota"))["spec"]["hard"] == _resources("2", "1Gi")
        assert await api.names("/api/v1/resourcequotas", labelSelector="rq=yes") == ["quota"]
        patch = {"metadata": {"labels": {"quota": "patched"}}, "spec": {"hard": {"memory": "750Mi"}}}
        patched = await api.patch(f"{quotas}/quota", patch, STRATEGIC_PATCH)
        assert patched["metadata"]["labels"]["quota"] == "patched"
        assert patched["spec"]["hard"] == _resources("2", "750Mi")
        await api.delete(quotas, labelSelector="quota=patched")
        assert await api.gone(f"{quotas}/quota")

    conformance(scenario)


def test_a_pod_names_a_runtime_class_that_exists() -> None:
    """RuntimeClass should reject a Pod requesting a non-existent RuntimeClass; a deleted RuntimeClass."""

    async def scenario(api: Requests) -> None:
        core, classes = await api.namespace(), "/apis/node.k8s.io/v1/runtimeclasses"
        text = 'pod rejected: RuntimeClass "special" not found'
        refused = await api.refused("POST", f"{core}/pods", pod("a", runtimeClassName="special"))
        assert (refused.reason, text in refused.message) == ("Forbidden", True)
        await api.create(classes, {"metadata": {"name": "special"}, "handler": "runc"})
        await api.create(f"{core}/pods", pod("a", runtimeClassName="special"))
        await api.delete(f"{classes}/special")
        refused = await api.refused("POST", f"{core}/pods", pod("b", runtimeClassName="special"))
        assert (refused.reason, text in refused.message) == ("Forbidden", True)

    conformance(scenario)


def test_names_of_sysctls_are_checked() -> None:
    """Sysctls should reject invalid sysctls."""

    async def scenario(api: Requests) -> None:
        core = await api.namespace()
        names = ("foo-", "kernel.shmmax", "safe-and-unsafe", "bar..")
        context = {"sysctls": [{"name": name, "value": "42"} for name in names]}
        refused = await api.refused("POST", f"{core}/pods", pod("a", securityContext=context))
        assert 'Invalid value: "foo-"' in refused.message
        assert 'Invalid value: "bar.."' in refused.message
        assert "safe-and-unsafe" not in refused.message
        assert "kernel.shmmax" not in refused.message

    conformance(scenario)


@pytest.mark.parametrize(
    ("requests", "limits", "wanted"),
    [
        (_resources("100m", "100Mi"), _resources("100m", "100Mi"), "Guaranteed"),
        (_resources("100m"), _resources(), "Burstable"),
        ({}, {}, "BestEffort"),
    ],
)
def test_the_qos_class_follows_from_the_resources(requests: Object, limits: Object, wanted: str) -> None:
    """Pods Extended Pods Set QOS Class should be set on Pods with matching resource requests and limits for memory and cpu."""

    async def scenario(api: Requests) -> None:
        core = await api.namespace()
        await api.create(f"{core}/pods", _with_resources("a", requests, limits))
        assert (await api.get(f"{core}/pods/a"))["status"]["qosClass"] == wanted

    conformance(scenario)
