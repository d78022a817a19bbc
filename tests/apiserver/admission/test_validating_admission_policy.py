"""ValidatingAdmissionPolicy: which requests policies see, with which parameters, and what their bindings make of violations."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bayplan.api.codec import encode
from bayplan.api.errors import ApiError
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.types import apps_v1, autoscaling_v1, core_v1, meta_v1
from bayplan.apiserver.requests import Request
from bayplan.client import Client
from tests.apiserver.admission.running import named, run
from tests.apiserver.serving import ADMIN, client_of, opened

MAPS = {"api_groups": ("",), "api_versions": ("v1",), "operations": ("CREATE", "UPDATE"), "resources": ("configmaps",)}


def rule(**more: Any) -> types.NamedRuleWithOperations:
    return types.NamedRuleWithOperations(**{**MAPS, **more})


async def policy(
    client: Client, expression: str = "false", *, match: Any = None, binding: Any = None, **spec: Any
) -> None:
    constraints = match or types.MatchResources(resource_rules=(rule(),))
    validations = spec.pop("validations", (types.Validation(expression=expression),))
    await client.create(
        types.ValidatingAdmissionPolicy(
            metadata=meta_v1.ObjectMeta(name="pol"),
            spec=types.ValidatingAdmissionPolicySpec(match_constraints=constraints, validations=validations, **spec),
        )
    )
    given = {"policy_name": "pol", "validation_actions": ("Deny",), **(binding or {})}
    await client.create(
        types.ValidatingAdmissionPolicyBinding(
            metadata=meta_v1.ObjectMeta(name="bind"), spec=types.ValidatingAdmissionPolicyBindingSpec(**given)
        )
    )


def config_map(name: str = "one", **more: Any) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=named(name, labels=more.pop("labels", {})), **more)


async def refusal(client: Client, obj: Any) -> ApiError:
    with pytest.raises(ApiError, match="denied request") as refused:
        await client.create(obj)
    return refused.value


START = "ValidatingAdmissionPolicy 'pol' with binding 'bind' denied request:"


def test_a_violation_is_told_with_policy_and_binding() -> None:
    async def case(client: Client) -> None:
        await policy(client, "object.metadata.name != 'one'")
        error = await refusal(client, config_map())
        message = f"{START} failed expression: object.metadata.name != 'one'"
        assert error.status.message == f'configmaps "one" is forbidden: {message}'
        assert (error.code, error.reason) == (422, "Invalid")
        assert error.status.details is not None
        assert [cause.message for cause in error.status.details.causes] == [message]
        await client.create(config_map("two"))

    run(case)


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("RequestEntityTooLarge", 413)])
def test_reasons_have_codes(reason: str, code: int) -> None:
    async def case(client: Client) -> None:
        await policy(client, validations=(types.Validation(expression="false", reason=reason),))
        error = await refusal(client, config_map())
        assert (error.code, error.reason) == (code, reason)

    run(case)


@pytest.mark.parametrize(
    ("match", "is_matched"),
    [
        (types.MatchResources(), True),
        (types.MatchResources(resource_rules=(rule(operations=("UPDATE",)),)), False),
        (types.MatchResources(resource_rules=(rule(resource_names=("one", "other")),)), True),
        (types.MatchResources(resource_rules=(rule(resource_names=("other",)),)), False),
        (types.MatchResources(resource_rules=(rule(resources=("*",)),), exclude_resource_rules=(rule(),)), False),
        (
            types.MatchResources(
                resource_rules=(rule(),), object_selector=meta_v1.LabelSelector(match_labels={"check": "yes"})
            ),
            False,
        ),
        (
            types.MatchResources(
                resource_rules=(rule(),),
                namespace_selector=meta_v1.LabelSelector(match_labels={"kubernetes.io/metadata.name": "default"}),
            ),
            True,
        ),
    ],
)
def test_bindings_choose_among_what_a_policy_is_about(match: types.MatchResources, is_matched: bool) -> None:
    async def case(client: Client) -> None:
        await policy(client, binding={"match_resources": match})
        if is_matched:
            await refusal(client, config_map())
        else:
            await client.create(config_map())

    run(case)


def test_policies_without_binding_are_not_asked_and_changes_count_at_once() -> None:
    async def case(client: Client) -> None:
        await policy(client)
        await refusal(client, config_map())
        await client.delete(types.ValidatingAdmissionPolicyBinding, "bind")
        await client.create(config_map())

    run(case)


def test_policies_are_not_about_policies() -> None:
    async def case(client: Client) -> None:
        everything = rule(api_groups=("*",), api_versions=("*",), operations=("*",), resources=("*",))
        await policy(client, match=types.MatchResources(resource_rules=(everything,)))
        await refusal(client, config_map())
        await client.delete(types.ValidatingAdmissionPolicy, "pol")

    run(case)


def test_deletions_have_an_old_object_only() -> None:
    async def case(client: Client) -> None:
        await client.create(config_map(data={"keep": "yes"}))
        await policy(
            client,
            "object == null && oldObject.data.keep != 'yes' && request.operation == 'DELETE'",
            match=types.MatchResources(resource_rules=(rule(operations=("DELETE",)),)),
        )
        with pytest.raises(ApiError, match="denied request"):
            await client.delete(core_v1.ConfigMap, "one", namespace="default")

    run(case)


@pytest.mark.parametrize(
    "expression",
    [
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps' && request.name == 'one'",
        "request.namespace == 'default' && request.userInfo.username == 'gold-admin' && request.dryRun == false",
        "namespaceObject.metadata.name == 'default'",
        "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
        "authorizer.requestResource.check('create').allowed()",
        "!authorizer.serviceAccount('default', 'default').path('/healthz').check('get').errored()",
    ],
)
def test_expressions_see_request_namespace_and_permissions(expression: str) -> None:
    async def case(client: Client) -> None:
        await policy(client, expression)
        await client.create(config_map())

    run(case)


PARAM_KIND = types.ParamKind(api_version="v1", kind="ConfigMap")
SECRETS = types.MatchResources(resource_rules=(rule(resources=("secrets",)),))


def reference(**more: Any) -> dict[str, Any]:
    return {"param_ref": types.ParamRef(**{"parameter_not_found_action": "Deny", **more})}


def test_parameters_are_found_by_name_in_the_namespace_of_the_request() -> None:
    async def case(client: Client) -> None:
        await policy(
            client,
            "size(object.metadata.name) <= int(params.data.most)",
            match=SECRETS,
            param_kind=PARAM_KIND,
            binding=reference(name="bounds"),
        )
        error = await refusal(client, core_v1.Secret(metadata=named("s")))
        missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        assert error.status.message == f'secrets "s" is forbidden: {START} {missing}'
        await client.create(config_map("bounds", data={"most": "3"}))
        await client.create(core_v1.Secret(metadata=named("abc")))
        await refusal(client, core_v1.Secret(metadata=named("abcd")))

    run(case)


def test_each_selected_parameter_may_deny() -> None:
    async def case(client: Client) -> None:
        selector = meta_v1.LabelSelector(match_labels={"bounds": "yes"})
        await policy(
            client,
            "object.metadata.name != params.data.forbidden",
            match=SECRETS,
            param_kind=PARAM_KIND,
            binding=reference(selector=selector, parameter_not_found_action="Allow"),
        )
        await client.create(core_v1.Secret(metadata=named("a")))
        for name in ("b", "c"):
            await client.create(config_map(name, labels={"bounds": "yes"}, data={"forbidden": name}))
        await refusal(client, core_v1.Secret(metadata=named("c")))
        await client.create(core_v1.Secret(metadata=named("d")))

    run(case)


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_unknown_kinds_of_parameters_are_failures(failure_policy: str) -> None:
    async def case(client: Client) -> None:
        kind = types.ParamKind(api_version="example.com/v1", kind="Bounds")
        await policy(client, "true", param_kind=kind, failure_policy=failure_policy, binding=reference(name="b"))
        if failure_policy == "Ignore":
            await client.create(config_map())
            return
        error = await refusal(client, config_map())
        assert error.status.message.endswith(
            "'pol' denied request: failed to configure policy: failed to find resource referenced by paramKind: "
            "'example.com/v1, Kind=Bounds'"
        )

    run(case)


def test_bindings_may_only_warn() -> None:
    async def main() -> None:
        async with opened() as api:
            await policy(client_of(api), binding={"validation_actions": ("Warn", "Audit")})
            path = "/api/v1/namespaces/default/configmaps"
            body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}'
            answer = await api.handle(Request("POST", path, {}, ADMIN, body, "application/json"))
            text = "Validation failed for ValidatingAdmissionPolicy 'pol' with binding 'bind': failed expression: false"
            assert (answer.code, list(answer.warnings)) == (201, [text])

    asyncio.run(main())


def deployment() -> apps_v1.Deployment:
    labels = {"a": "b"}
    template = core_v1.PodTemplateSpec(
        metadata=meta_v1.ObjectMeta(labels=labels),
        spec=core_v1.PodSpec(containers=(core_v1.Container(name="c", image="x"),)),
    )
    selector = meta_v1.LabelSelector(match_labels=labels)
    return apps_v1.Deployment(
        metadata=named("web"), spec=apps_v1.DeploymentSpec(replicas=1, selector=selector, template=template)
    )


@pytest.mark.parametrize(("resource", "is_matched"), [("deployments", False), ("deployments/scale", True)])
def test_scaling_is_seen_as_a_change_of_the_scale(resource: str, is_matched: bool) -> None:
    async def case(client: Client) -> None:
        await client.create(deployment())
        about = rule(api_groups=("apps",), operations=("UPDATE",), resources=(resource,))
        await policy(
            client,
            "object.kind != 'Scale' || object.spec.replicas < 5",
            match=types.MatchResources(resource_rules=(about,)),
        )
        scale = autoscaling_v1.Scale(metadata=named("web"), spec=autoscaling_v1.ScaleSpec(replicas=9))
        head = b'{"kind":"Scale","apiVersion":"autoscaling/v1",'
        path = "/apis/apps/v1/namespaces/default/deployments/web/scale"
        changing = client.raw("PUT", path, body=head + encode(scale)[1:])
        if is_matched:
            with pytest.raises(ApiError, match="denied request"):
                await changing
        else:
            await changing

    run(case)
