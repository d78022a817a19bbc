"""Definitions in groups of the Kubernetes project say whether they are approved."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.client import Client
from bayplan.testing.cluster import running_cluster
from tests.integration.custom_resources.definitions import DEFINITIONS, create, crontabs, read

NAME = "crontabs.stable.k8s.io"
ANNOTATION = "api-approved.kubernetes.io"


def protected(approval: str | None) -> dict[str, Any]:
    found = crontabs()
    found["metadata"] = {"name": NAME, "annotations": {} if approval is None else {ANNOTATION: approval}}
    found["spec"]["group"] = "stable.k8s.io"
    return found


async def conformance(client: Client) -> tuple[str, str] | None:
    found = await read(client, f"{DEFINITIONS}/{NAME}")
    assert found is not None
    for one in found["status"]["conditions"] or ():
        if one["type"] == "KubernetesAPIApprovalPolicyConformant":
            return one["status"], one["reason"]
    return None


def test_the_condition_follows_the_annotation() -> None:
    async def scenario() -> None:
        async with running_cluster() as cluster:
            client = cluster.client

            async def says(*expected: str) -> bool:
                return await conformance(client) == expected

            with pytest.raises(ApiError, match="protected groups must have approval annotation"):
                await create(client, DEFINITIONS, protected(None))
            await create(client, DEFINITIONS, protected("unapproved, a test"))
            assert await cluster.eventually(lambda: says("False", "UnapprovedAnnotation"))
            patch = {"metadata": {"annotations": {ANNOTATION: "https://github.com/kubernetes/enhancements/pull/1111"}}}
            content_type = "application/merge-patch+json"
            await client.raw("PATCH", f"{DEFINITIONS}/{NAME}", {}, json.dumps(patch).encode(), content_type)
            assert await cluster.eventually(lambda: says("True", "ApprovedAnnotation"))

    asyncio.run(scenario())
