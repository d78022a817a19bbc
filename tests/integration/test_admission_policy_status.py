"""The status of ValidatingAdmissionPolicies in a live cluster."""

from __future__ import annotations

import asyncio
from typing import Any

from bayplan.api.codec import encode, from_tree
from bayplan.api.types.admissionregistration_v1 import MatchResources, ValidatingAdmissionPolicy, Validation
from bayplan.api.types.apiextensions_v1 import CustomResourceDefinition
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


def test_custom_resources_are_known_by_their_definitions() -> None:
    fields = {"replicas": {"type": "integer"}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "tabs", "singular": "tab", "kind": "Tab", "listKind": "TabList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["tabs"], "operations": ["CREATE"]}
    expressions = ("object.spec.replicas > '1'", "object.spec.other < 1", "object.metadata.labels.size() < 3")

    async def run() -> None:
        async with running_cluster() as cluster:
            await cluster.client.create(
                from_tree(CustomResourceDefinition, {"metadata": {"name": "tabs.example.com"}, "spec": spec})
            )

            async def established() -> bool:
                found = await cluster.client.get(CustomResourceDefinition, "tabs.example.com")
                return any(one.type == "Established" and one.status == "True" for one in found.status.conditions)

            await cluster.eventually(established)
            wrong = policy("tabs", expressions[0])
            wrong.spec.match_constraints = from_tree(MatchResources, {"resourceRules": [rule]})
            wrong.spec.validations = tuple(Validation(expression=one) for one in expressions)
            await cluster.client.create(wrong)

            async def told() -> Any:
                return (await status(cluster, "tabs")).type_checking

            warnings = (await cluster.eventually(told)).expression_warnings
            assert [one.field_ref for one in warnings] == [
                "spec.validations[0].expression",
                "spec.validations[1].expression",
            ]
            assert "found no matching overload for '_>_' applied to '(int, string)'" in warnings[0].warning
            assert "example.com/v1, Kind=Tab: ERROR: <input>:1:12: undefined field 'other'" in warnings[1].warning

    asyncio.run(run())


async def status(cluster: LiveCluster, name: str) -> Any:
    return (await cluster.client.get(ValidatingAdmissionPolicy, name)).status
