"""ConfigMaps, secrets, pod templates and nodes. Conformance: ConfigMap, Secrets, PodTemplates, Node Lifecycle."""

from __future__ import annotations

import pytest

from tests.integration.conformance.requests import MERGE_PATCH, STRATEGIC_PATCH, Object, Requests, conformance


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
def test_an_empty_key_is_refused(plural: str) -> None:
    """ConfigMap should fail to create ConfigMap with empty key; Secrets should fail to create secret due to empty secret key."""

    async def scenario(api: Requests) -> None:
        core = await api.namespace()
        refused = await api.refused("POST", f"{core}/{plural}", {"metadata": {"name": "a"}, "data": {"": "dmFsdWU="}})
        assert (refused.code, refused.reason) == (422, "Invalid")

    conformance(scenario)


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
def test_immutable_data_stays_and_stays_immutable(plural: str) -> None:
    """ConfigMap should be immutable if `immutable` field is set; Secrets should be immutable if `immutable` field is set."""

    async def scenario(api: Requests) -> None:
        core = await api.namespace()
        own = f"{core}/{plural}/a"
        current = await api.create(f"{core}/{plural}", {"metadata": {"name": "a"}, "data": {"data-1": "dmFsdWU="}})
        current["data"]["data-4"] = "dmFsdWU="
        current = await api.update(own, current)
        current = await api.update(own, {**current, "immutable": True})
        changes: list[Object] = [
            {"data": {"data-5": "dmFsdWU="}},
            {"immutable": False},
            {"immutable": None, "data": {}},
        ]
        for change in changes:
            refused = await api.refused("PUT", own, {**current, **change})
            assert (refused.code, refused.reason) == (422, "Invalid")
        current["metadata"]["labels"] = {"label1": "value1"}
        assert (await api.update(own, current))["metadata"]["labels"] == {"label1": "value1"}
        await api.delete(own)

    conformance(scenario)


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
def test_a_map_of_data_is_patched_found_everywhere_and_deleted_by_label(plural: str) -> None:
    """ConfigMap should run through a ConfigMap lifecycle; should update ConfigMap successfully; Secrets should patch a secret."""

    async def scenario(api: Requests) -> None:
        core = await api.namespace()
        selector = {"labelSelector": "static=true"}
        async with api.watch(f"/api/v1/{plural}", **selector) as watch:
            body = {"metadata": {"name": "test", "labels": {"static": "true"}}, "data": {"key": "dmFsdWU="}}
            await api.create(f"{core}/{plural}", body)
            await watch.until("ADDED")
            patch = {"metadata": {"labels": {"patched": "true"}}, "data": {"key": "cGF0Y2hlZA=="}}
            await api.patch(f"{core}/{plural}/test", patch, STRATEGIC_PATCH)
            await watch.until("MODIFIED", lambda one: one["metadata"]["labels"].get("patched") == "true")
            (found,) = (await api.get(f"/api/v1/{plural}", **selector))["items"]
            assert found["data"] == {"key": "cGF0Y2hlZA=="}
            updated = await api.update(f"{core}/{plural}/test", {**found, "data": {"other": "dmFsdWU="}})
            assert updated["data"] == {"other": "dmFsdWU="}
            await api.delete(f"{core}/{plural}", **selector)
            await watch.until("DELETED")

    conformance(scenario)


def _template(name: str) -> Object:
    container = {"name": "nginx", "image": "nginx"}
    return {
        "metadata": {"name": name, "labels": {"podtemplate-set": "true"}},
        "template": {"spec": {"containers": [container]}},
    }


def test_pod_templates_are_patched_replaced_and_deleted_by_label() -> None:
    """PodTemplates should run the lifecycle of PodTemplates; should replace a pod template; should delete a collection of pod templates."""

    async def scenario(api: Requests) -> None:
        templates = f"{await api.namespace()}/podtemplates"
        for index in range(3):
            await api.create(templates, _template(f"test-{index}"))
        patched = await api.patch(
            f"{templates}/test-0", {"metadata": {"labels": {"podtemplate": "patched"}}}, STRATEGIC_PATCH
        )
        assert patched["metadata"]["labels"]["podtemplate"] == "patched"
        patched["metadata"]["annotations"] = {"updated": "true"}
        assert (await api.update(f"{templates}/test-0", patched))["metadata"]["annotations"] == {"updated": "true"}
        assert len(await api.names("/api/v1/podtemplates", labelSelector="podtemplate-set=true")) == 3
        await api.delete(f"{templates}/test-0")
        await api.delete(templates, labelSelector="podtemplate-set=true")
        assert await api.names(templates) == []

    conformance(scenario)


def test_a_node_is_an_object_like_others() -> None:
    """Node Lifecycle should run through the lifecycle of a node."""

    async def scenario(api: Requests) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "E2E", "message": "Set from e2e test"}
        status: Object = {"conditions": [ready], "phase": "Running"}
        body = {"metadata": {"name": "fake"}, "spec": {"unschedulable": True}, "status": status}
        created = await api.create("/api/v1/nodes", body)
        own = "/api/v1/nodes/fake"
        assert (await api.get(own))["metadata"]["uid"] == created["metadata"]["uid"]
        patched = await api.patch(own, {"metadata": {"labels": {"fake": "patched"}}}, STRATEGIC_PATCH)
        assert int(patched["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
        assert await api.names("/api/v1/nodes", labelSelector="fake=patched") == ["fake"]
        patched["metadata"]["labels"]["fake"] = "updated"
        assert (await api.update(own, patched))["metadata"]["labels"]["fake"] == "updated"
        reported = await api.patch(
            f"{own}/status", {"status": {"conditions": [{**ready, "status": "False"}]}}, MERGE_PATCH
        )
        assert reported["status"]["conditions"][0]["status"] == "False"
        await api.delete(own)
        assert await api.gone(own)

    conformance(scenario)
