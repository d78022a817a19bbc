"""The status of ValidatingAdmissionPolicies in a live cluster."""

from __future__ import annotations

import asyncio
from typing import Any

from bayplan.api.codec import encode, from_tree
from bayplan.api.types.admissionregistration_v1 import ValidatingAdmissionPolicy
from bayplan.testing.cluster import LiveCluster, running_cluster


def policy(name: str, expression: str) -> ValidatingAdmissionPolicy:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    return from_tree(ValidatingAdmissionPolicy, {"metadata": {"name": name}, "spec": spec})


def test_the_status_tells_what_does_not_fit_and_follows_the_spec() -> None:
    async def run() -> None:
        async with running_cluster() as cluster:
            client = cluster.client
            await client.create(policy("wrong", "object.replicas > 1"))
            await client.create(policy("right", "object.spec.replicas > 1"))

            async def observed(name: str, generation: int) -> bool:
                seen: int = (await status(cluster, name)).observed_generation
                return seen == generation

            await cluster.eventually(lambda: observed("wrong", 1))
            await cluster.eventually(lambda: observed("right", 1))
            (warning,) = (await status(cluster, "wrong")).type_checking.expression_warnings
            assert warning.field_ref == "spec.validations[0].expression"
            assert warning.warning == (
                "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n"
                " | object.replicas > 1\n | ......^\n"
            )
            assert b'"typeChecking":{}' in encode(await status(cluster, "right"))

            validations = [{"expression": "object.spec.replicas > 1"}]
            await client.patch(ValidatingAdmissionPolicy, "wrong", "", {"spec": {"validations": validations}})
            await cluster.eventually(lambda: observed("wrong", 2))
            assert b"expressionWarnings" not in encode(await status(cluster, "wrong"))

    asyncio.run(run())


async def status(cluster: LiveCluster, name: str) -> Any:
    return (await cluster.client.get(ValidatingAdmissionPolicy, name)).status
