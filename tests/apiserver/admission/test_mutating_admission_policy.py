"""MutatingAdmissionPolicy: whose objects are changed, in which order, and what becomes of failures."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.client import Client
from tests.apiserver.admission.running import run
from tests.apiserver.admission.test_validating_admission_policy import config_map, deployment, rule

LABELS = "Object{{metadata: Object.metadata{{labels: {{'{0}': {1}}}}}}}"


def applied(expression: str) -> types.Mutation:
    return types.Mutation(
        patch_type="ApplyConfiguration", apply_configuration=types.ApplyConfiguration(expression=expression)
    )


def labelled(name: str, value: str) -> types.Mutation:
    return applied(LABELS.format(name, value))


async def policy(client: Client, *mutations: types.Mutation, name: str = "pol", **spec: Any) -> None:
    given = {
        "match_constraints": types.MatchResources(resource_rules=(rule(),)),
        "reinvocation_policy": "Never",
        **spec,
    }
    await client.create(
        types.MutatingAdmissionPolicy(
            metadata=meta_v1.ObjectMeta(name=name),
            spec=types.MutatingAdmissionPolicySpec(mutations=mutations, **given),
        )
    )
    await client.create(
        types.MutatingAdmissionPolicyBinding(
            metadata=meta_v1.ObjectMeta(name=name), spec=types.MutatingAdmissionPolicyBindingSpec(policy_name=name)
        )
    )


def test_mutations_see_what_those_before_them_made() -> None:
    async def case(client: Client) -> None:
        await policy(client, labelled("a", "'1'"), labelled("b", "object.metadata.labels.a + '2'"))
        await policy(client, labelled("c", "object.metadata.labels.b + '3'"), name="pol-2")
        made = await client.create(config_map())
        assert made.metadata.labels == {"a": "1", "b": "12", "c": "123"}

    run(case)


def test_conditions_and_namespaces_decide() -> None:
    async def case(client: Client) -> None:
        condition = types.MatchCondition(name="c", expression="object.metadata.name == 'one'")
        await policy(client, labelled("ns", "namespaceObject.metadata.name"), match_conditions=(condition,))
        assert (await client.create(config_map())).metadata.labels == {"ns": "default"}
        assert (await client.create(config_map("two"))).metadata.labels == {}

    run(case)


def test_policies_that_want_it_are_asked_again() -> None:
    count = "string(size(object.metadata.?labels.orValue({})))"

    async def case(client: Client) -> None:
        await policy(client, labelled("count", count), name="a", reinvocation_policy="IfNeeded")
        await policy(client, labelled("never", count), name="b")
        await policy(client, labelled("more", "'x'"), name="c")
        made = await client.create(config_map())
        assert made.metadata.labels == {"count": "3", "never": "1", "more": "x"}

    run(case)


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_failures_refuse_unless_they_are_ignored(failure_policy: str) -> None:
    async def case(client: Client) -> None:
        await policy(client, labelled("a", "object.data.nope"), labelled("b", "'2'"), failure_policy=failure_policy)
        if failure_policy == "Ignore":
            assert (await client.create(config_map())).metadata.labels == {"b": "2"}
            return
        with pytest.raises(ApiError) as refused:
            await client.create(config_map())
        start = "policy 'pol' with binding 'pol' denied request: expression '"
        assert refused.value.status.message.startswith(start)
        assert refused.value.status.message.endswith("resulted in error: no such key: data")
        assert (refused.value.reason, refused.value.code) == ("Invalid", 403)

    run(case)


def test_what_a_policy_adds_is_defaulted() -> None:
    async def case(client: Client) -> None:
        port = "Object.spec.template.spec.containers.ports{containerPort: 80, protocol: 'TCP'}"
        container = f"Object.spec.template.spec.containers{{name: 's', image: 'y:1', ports: [{port}]}}"
        template = f"Object.spec.template{{spec: Object.spec.template.spec{{containers: [{container}]}}}}"
        about = rule(api_groups=("apps",), resources=("deployments",))
        await policy(
            client,
            applied(f"Object{{spec: Object.spec{{template: {template}}}}}"),
            match_constraints=types.MatchResources(resource_rules=(about,)),
        )
        made: apps_v1.Deployment = await client.create(deployment())
        added = made.spec.template.spec.containers[1]
        assert (added.name, added.image_pull_policy, added.ports[0].protocol) == ("s", "IfNotPresent", "TCP")

    run(case)


def test_deletions_are_not_changed() -> None:
    async def case(client: Client) -> None:
        about = rule(operations=("*",))
        await policy(client, labelled("a", "'1'"), match_constraints=types.MatchResources(resource_rules=(about,)))
        assert (await client.create(config_map())).metadata.labels == {"a": "1"}
        await client.delete(core_v1.ConfigMap, "one", namespace="default")
        await client.create(config_map())

    run(case)


def test_a_policy_about_deletions_is_refused() -> None:
    async def case(client: Client) -> None:
        about = rule(operations=("DELETE",))
        constraints = types.MatchResources(resource_rules=(about,))
        with pytest.raises(ApiError, match='Unsupported value: "DELETE"'):
            await policy(client, labelled("a", "'1'"), match_constraints=constraints)

    run(case)


def patched(expression: str) -> types.Mutation:
    return types.Mutation(patch_type="JSONPatch", json_patch=types.JSONPatch(expression=expression))


def test_what_a_policy_makes_of_an_update_is_restored_and_counted_like_what_clients_do() -> None:
    async def case(client: Client) -> None:
        made = await client.create(deployment())
        expression = "Object{spec: Object.spec{replicas: 1}, status: Object.status{replicas: 5}}"
        rules = (rule(api_groups=("apps",), resources=("deployments",)),)
        await policy(client, applied(expression), match_constraints=types.MatchResources(resource_rules=rules))
        made.spec.replicas = 7
        updated = await client.update(made)
        assert (updated.spec.replicas, updated.metadata.generation, updated.status.replicas) == (1, 1, 0)

    run(case)


def test_a_patch_does_not_add_what_the_kind_does_not_have() -> None:
    async def case(client: Client) -> None:
        await policy(client, patched("[JSONPatch{op: 'add', path: '/nosuch', value: 1}]"))
        with pytest.raises(ApiError, match='strict decoding error: unknown field "nosuch"') as refused:
            await client.create(config_map())
        assert refused.value.code == 500

    run(case)
