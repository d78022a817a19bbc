"""ConfigMaps, secrets and templates of pods, as typed clients write them. Conformance: ConfigMap, Secrets, PodTemplates."""

from __future__ import annotations

import base64

import pytest

from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import Space, Workloads


def text(value: str) -> str:
    """A value that a ConfigMap and a Secret can hold."""
    return base64.b64encode(value.encode()).decode()


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
def test_data_without_a_key_is_refused(workloads: Workloads, plural: str) -> None:
    """ConfigMap should fail to create ConfigMap with empty key; Secrets should fail to create secret due to empty secret key."""

    async def scenario(space: Space) -> None:
        body = {"metadata": {"name": "anonymous"}, "data": {"": text("something")}}
        refused = await space.api.refused("POST", space.core(plural), body)
        assert (refused.code, refused.reason) == (422, "Invalid")

    workloads.run(scenario)


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
def test_data_that_is_immutable_stays_so(workloads: Workloads, plural: str) -> None:
    """ConfigMap should be immutable if `immutable` field is set; Secrets should be immutable if `immutable` field is set."""

    async def scenario(space: Space) -> None:
        api, own = space.api, space.core(f"{plural}/stone")
        current = await api.create(space.core(plural), {"metadata": {"name": "stone"}, "data": {"one": text("1\n")}})
        current["data"]["two"] = text("2\n")
        current = await api.update(own, current)
        current = await api.update(own, {**current, "immutable": True})
        more = {**current, "data": {**current["data"], "three": text("3\n")}}
        assert (await api.refused("PUT", own, more)).reason == "Invalid"
        current = await api.get(own)
        assert current["immutable"] is True
        assert (await api.refused("PUT", own, {**current, "immutable": False})).reason == "Invalid"
        current = await api.get(own)
        current["metadata"]["labels"] = {"weight": "heavy"}
        await api.update(own, current)
        await api.delete(own)
        assert await space.absent(own)

    workloads.run(scenario)


def test_a_config_map_is_patched_found_by_its_new_label_and_deleted_by_its_old_one(workloads: Workloads) -> None:
    """ConfigMap should run through a ConfigMap lifecycle; ConfigMap should update ConfigMap successfully."""

    async def scenario(space: Space) -> None:
        api, maps = space.api, space.core("configmaps")
        body: Object = {"metadata": {"name": "chart", "labels": {"old": space.name}}, "data": {"depth": "2"}}
        await api.create(maps, body)
        found = await api.get(f"{maps}/chart")
        assert (found["data"], found["metadata"]["labels"]) == (body["data"], body["metadata"]["labels"])
        changes = {"metadata": {"labels": {"new": space.name}}, "data": {"depth": "3"}}
        await api.patch(f"{maps}/chart", changes, STRATEGIC_PATCH)
        (found,) = (await api.get("/api/v1/configmaps", labelSelector=f"new={space.name}"))["items"]
        assert found["metadata"]["namespace"] == space.name
        assert found["metadata"]["labels"] == {"old": space.name, "new": space.name}
        assert found["data"] == {"depth": "3"}
        await api.update(f"{maps}/chart", {**body, "data": {"width": "4"}})
        assert (await api.get(f"{maps}/chart"))["data"] == {"width": "4"}
        await api.delete(maps, labelSelector=f"old={space.name}")
        assert await api.names(maps, labelSelector=f"old={space.name}") == []
        assert await api.names(maps) == ["kube-root-ca.crt"]

    workloads.run(scenario)


def test_a_secret_is_patched_and_deleted_by_the_label_that_it_got(workloads: Workloads) -> None:
    """Secrets should patch a secret."""

    async def scenario(space: Space) -> None:
        api, secrets, query = space.api, space.core("secrets"), {"labelSelector": f"old={space.name}"}
        metadata = {"name": "word", "labels": {"old": space.name}}
        await api.create(secrets, {"metadata": metadata, "data": {"key": text("open")}, "type": "Opaque"})
        assert await api.names("/api/v1/secrets", **query) == ["word"]
        twice = text(text("sesame"))
        changes = {"metadata": {"labels": {"new": space.name}}, "data": {"key": twice}}
        await api.patch(f"{secrets}/word", changes, STRATEGIC_PATCH)
        assert (await api.get(f"{secrets}/word"))["data"] == {"key": twice}
        await api.delete(secrets, labelSelector=f"new={space.name}")
        assert await api.names("/api/v1/secrets", **query) == []

    workloads.run(scenario)


def test_templates_of_pods_are_patched_replaced_and_deleted(workloads: Workloads) -> None:
    """PodTemplates should run the lifecycle of PodTemplates; should replace a pod template; should delete a collection of pod templates."""

    async def scenario(space: Space) -> None:
        api, templates = space.api, space.core("podtemplates")
        one, many = {"labelSelector": f"one={space.name}"}, {"labelSelector": f"many={space.name}"}
        spec = {"containers": [{"name": "main", "image": "rope:1"}]}
        assert await api.names("/api/v1/podtemplates", **one) == []
        body = {"metadata": {"name": "mould", "labels": {"one": space.name}}, "template": {"spec": spec}}
        await api.create(templates, body)
        changes = {"metadata": {"labels": {"state": "patched"}}}
        await api.patch(f"{templates}/mould", changes, STRATEGIC_PATCH)
        assert (await api.get(f"{templates}/mould"))["metadata"]["labels"]["state"] == "patched"

        def annotate(obj: Object) -> None:
            obj["metadata"]["annotations"] = {"updated": "true"}

        updated = await space.changed(f"{templates}/mould", annotate)
        assert updated["metadata"]["annotations"] == {"updated": "true"}
        await api.delete(f"{templates}/mould")
        assert await api.names("/api/v1/podtemplates", **one) == []
        names = [f"mould-{number}" for number in (1, 2, 3)]
        for name in names:
            await api.create(templates, {**body, "metadata": {"name": name, "labels": {"many": space.name}}})
        assert await api.names(templates, **many) == names
        await api.delete(templates, **many)
        assert await api.names(templates, **many) == []

    workloads.run(scenario)
