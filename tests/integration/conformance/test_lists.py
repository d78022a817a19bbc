"""Lists in chunks, and what cannot be shown as a Table. Conformance: Servers with support for API chunking, for Table transformation."""

from __future__ import annotations

import asyncio
import random

from tests.apiserver.serving import AS_RECORDED, served
from tests.integration.conformance.requests import Object, Refused, Requests, conformance

TOTAL = 60


async def _templates(api: Requests) -> str:
    """The path of as many pod templates as the tests want."""
    templates = f"{await api.namespace()}/podtemplates"
    container = {"name": "test", "image": "test2"}
    for index in range(TOTAL):
        body = {"metadata": {"name": f"template-{index:04}"}, "template": {"spec": {"containers": [container]}}}
        await api.create(templates, body)
    return templates


def _check_chunk(chunk: Object, limit: int, found: int) -> int:
    """How many items have been found with this chunk."""
    metadata, names = chunk["metadata"], [one["metadata"]["name"] for one in chunk["items"]]
    assert len(names) <= limit
    assert names == [f"template-{index:04}" for index in range(found, found + len(names))]
    found += len(names)
    assert metadata.get("remainingItemCount") == (TOTAL - found if metadata.get("continue") else None)
    return found


def test_chunks_are_complete_in_order_and_of_one_resource_version() -> None:
    """Servers with support for API chunking should return chunks of results for list calls."""

    async def scenario(api: Requests) -> None:
        templates = await _templates(api)
        chance = random.Random(7)
        for _ in range(3):
            found, token, versions = 0, "", set()
            while True:
                limit = chance.randint(1, TOTAL // 4)
                chunk = await api.get(templates, limit=str(limit), **({"continue": token} if token else {}))
                found = _check_chunk(chunk, limit, found)
                versions.add(chunk["metadata"]["resourceVersion"])
                await api.create("/api/v1/namespaces", {"metadata": {"generateName": "meanwhile-"}})
                token = chunk["metadata"].get("continue", "")
                if not token:
                    break
            assert found == TOTAL
            assert len(versions) == 1
        assert len((await api.get(templates, limit=str(TOTAL + 1)))["items"]) == TOTAL

    conformance(scenario)


def test_a_list_goes_on_inconsistently_after_its_version_was_compacted() -> None:
    """Servers with support for API chunking should support continue listing from the last key if the original version has been compacted away."""

    async def scenario() -> None:
        async with served(AS_RECORDED) as server:
            api = Requests(server)
            templates = await _templates(api)
            limit = TOTAL // 10
            first = await api.get(templates, limit=str(limit))
            await api.create("/api/v1/namespaces", {"metadata": {"name": "later"}})  # the templates stay as they are
            store = server.api.context.objects.store
            await store.compact(store.revision)
            token = first["metadata"]["continue"]
            try:
                await api.get(templates, limit=str(limit), **{"continue": token})
            except Refused as refusal:
                expired = refusal
            assert (expired.code, expired.reason) == (410, "Expired")
            token = expired.status["metadata"]["continue"]
            second = await api.get(templates, limit=str(limit), **{"continue": token})
            assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
            assert len(second["items"]) == limit
            found, chunk = _check_chunk(second, limit, limit), second
            while chunk["metadata"].get("continue"):
                chunk = await api.get(templates, limit="20", **{"continue": chunk["metadata"]["continue"]})
                assert chunk["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
                found = _check_chunk(chunk, 20, found)
            assert found == TOTAL

    asyncio.run(scenario())


def test_what_has_no_metadata_is_not_acceptable_as_a_table() -> None:
    """Servers with support for Table transformation should return a 406 for a backend which does not implement metadata."""

    async def scenario(api: Requests) -> None:
        refused = await api.refused(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}},
            accept="application/json;as=Table;v=v1;g=meta.k8s.io",
        )
        assert refused.code == 406

    conformance(scenario)
