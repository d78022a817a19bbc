"""Namespaces, and what of them their status and finalizers say. Conformance: Namespaces."""

from __future__ import annotations

from tests.integration.conformance.requests import MERGE_PATCH, STRATEGIC_PATCH, Requests, conformance

NAMESPACES = "/api/v1/namespaces"


def test_a_namespace_is_patched_and_updated() -> None:
    """Namespaces should patch a Namespace; should apply an update to a Namespace."""

    async def scenario(api: Requests) -> None:
        await api.namespace("nspatchtest")
        patched = await api.patch(
            f"{NAMESPACES}/nspatchtest", {"metadata": {"labels": {"testLabel": "testValue"}}}, STRATEGIC_PATCH
        )
        assert patched["metadata"]["labels"]["testLabel"] == "testValue"
        patched["metadata"]["labels"]["nspatchtest"] = "updated"
        updated = await api.update(f"{NAMESPACES}/nspatchtest", patched)
        assert updated["metadata"]["labels"]["nspatchtest"] == "updated"
        assert await api.names(NAMESPACES, labelSelector="nspatchtest=updated") == ["nspatchtest"]

    conformance(scenario)


def test_the_status_of_a_namespace_is_read_patched_and_updated() -> None:
    """Namespaces should apply changes to a namespace status."""

    async def scenario(api: Requests) -> None:
        await api.namespace("status")
        own = f"{NAMESPACES}/status/status"
        assert (await api.get(own))["status"]["phase"] == "Active"
        condition = {"type": "StatusPatch", "status": "True", "reason": "E2E", "message": "Patched by an e2e test"}
        patched = await api.patch(own, {"status": {"conditions": [condition]}}, MERGE_PATCH)
        assert patched["status"]["conditions"][0]["type"] == "StatusPatch"
        patched["status"]["conditions"].append({**condition, "type": "StatusUpdate"})
        updated = await api.update(own, patched)
        assert [one["type"] for one in updated["status"]["conditions"]] == ["StatusPatch", "StatusUpdate"]

    conformance(scenario)


def test_a_finalizer_is_added_and_taken_away() -> None:
    """Namespaces should apply a finalizer to a Namespace."""

    async def scenario(api: Requests) -> None:
        await api.namespace("finalize")
        own = f"{NAMESPACES}/finalize"
        found = await api.get(own)
        found["spec"]["finalizers"].append("e2e.example.com/fakeFinalizer")
        updated = await api.update(f"{own}/finalize", found)
        assert updated["spec"]["finalizers"] == ["kubernetes", "e2e.example.com/fakeFinalizer"]
        updated["spec"]["finalizers"] = ["kubernetes"]
        again = await api.update(f"{own}/finalize", updated)
        assert again["spec"]["finalizers"] == ["kubernetes"]

    conformance(scenario)
