"""Admission of custom resources that a webhook converts: webhooks and policies see the version that they want."""

from __future__ import annotations

from typing import Any

from tests.apiserver.custom_resources.converters import Converter, converting
from tests.apiserver.custom_resources.test_conversion import HERE, THERE, two
from tests.apiserver.custom_resources.things import GROUP, Door, path, thing
from tests.apiserver.webhooks.senders import patch

ADMISSION = "admissionregistration.k8s.io/v1"
RULE = {"operations": ["*"], "apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["things"]}


async def make(door: Door, kind: str, name: str, **fields: Any) -> None:
    """Something of admission."""
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    tree = {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, **fields}
    await door.create(f"/apis/{ADMISSION}/{plural.lower()}", tree)


async def configure(door: Door, converter: Converter, kind: str, **more: Any) -> None:
    """Ask the converter about version 1 of everything that is written, in whichever version."""
    webhook = {
        "name": f"{kind.lower()}.example.com",
        "clientConfig": converter.config(path="/admit")["webhook"]["clientConfig"],
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    await make(door, f"{kind}WebhookConfiguration", "admit", webhooks=[webhook])


def test_policies_see_the_version_that_they_want() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        spec = {
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [{"expression": "object.spec.hostPort != 'secret:1'"}],
        }
        await make(door, "ValidatingAdmissionPolicy", "no-secrets", spec=spec)
        spec = {"policyName": "no-secrets", "validationActions": ["Deny"]}
        await make(door, "ValidatingAdmissionPolicyBinding", "no-secrets", spec=spec)
        secret = {"host": "secret", "port": "1"}
        refused = await door.send("POST", two(), thing(version="v2", spec=secret))
        assert (refused.code, "no-secrets" in refused.message) == (422, True)
        assert (await door.send("POST", two(), thing(version="v2", spec=THERE))).code == 201
        assert (await door.patch(two("x"), {"spec": secret})).code == 422
        converter.fail()
        failed = await door.patch(two("x"), {"spec": secret})
        assert (failed.code, "my custom error" in failed.message) == (500, True)

    converting(scenario)


def test_policies_change_objects_in_the_version_that_they_want() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        for name, version, expression in (
            ("a", "v2", "Object{spec: Object.spec{host: object.spec.host + '-two'}}"),
            ("b", "v1", "Object{spec: Object.spec{n: 7}}"),
        ):
            spec = {
                "matchConstraints": {
                    "matchPolicy": "Equivalent",
                    "resourceRules": [{**RULE, "apiVersions": [version], "operations": ["CREATE"]}],
                },
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
            }
            await make(door, "MutatingAdmissionPolicy", name, spec=spec)
            await make(door, "MutatingAdmissionPolicyBinding", name, spec={"policyName": name})
        made = await door.create(two(), thing(version="v2", spec=THERE))
        assert made["spec"] == {"host": "localhost-two", "port": "8080", "replicas": 7}

    converting(scenario)


def test_parameters_of_policies_are_converted() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing("limits", spec={"hostPort": "only:1"}))
        maps = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        spec = {
            "paramKind": {"apiVersion": f"{GROUP}/v2", "kind": "Thing"},
            "matchConstraints": {"resourceRules": [maps]},
            "validations": [{"expression": "object.metadata.name == params.spec.host"}],
        }
        await make(door, "ValidatingAdmissionPolicy", "named", spec=spec)
        reference = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}
        spec = {"policyName": "named", "paramRef": reference, "validationActions": ["Deny"]}
        await make(door, "ValidatingAdmissionPolicyBinding", "named", spec=spec)
        where = "/api/v1/namespaces/default/configmaps"
        assert (await door.send("POST", where, {"metadata": {"name": "other"}})).code == 422
        assert (await door.send("POST", where, {"metadata": {"name": "only"}})).code == 201

    converting(scenario)


def test_webhooks_see_and_change_the_version_that_they_want() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        conditions = [{"name": "seen", "expression": "object.spec.hostPort != 'unseen:1'"}]
        await configure(door, converter, "Mutating", matchConditions=conditions)
        converter.admit = patch({"op": "add", "path": "/spec/n", "value": 7})
        made = await door.create(two(), thing(version="v2", spec=THERE))
        assert made["spec"] == {**THERE, "replicas": 7}
        [asked] = converter.admitted
        assert (asked["kind"]["version"], asked["requestKind"]["version"]) == ("v1", "v2")
        assert (asked["object"]["apiVersion"], asked["object"]["spec"]) == (f"{GROUP}/v1", HERE)
        converter.admit = {}
        await door.patch(two("x"), {"spec": {"host": "other"}})
        assert [one["object"]["spec"]["hostPort"] for one in converter.admitted[1:]] == ["other:8080"]
        assert converter.admitted[1]["oldObject"]["spec"]["hostPort"] == "localhost:8080"
        unseen = {"host": "unseen", "port": "1"}
        await door.create(two(), thing("y", version="v2", spec=unseen))
        assert len(converter.admitted) == 2

    converting(scenario)


def test_webhooks_that_only_look_see_the_version_that_they_want() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await configure(door, converter, "Validating")
        await door.create(path(), thing("a", spec=HERE))
        await door.create(two(), thing("b", version="v2", spec=THERE))
        await door.patch(two("b"), {"spec": {"host": "other"}})
        changed = {"hostPort": "other:8080"}
        assert [one["object"]["spec"] for one in converter.admitted] == [HERE, HERE, changed]
        assert [one["oldObject"] and one["oldObject"]["spec"] for one in converter.admitted] == [None, None, HERE]
        converter.admit = {"allowed": False, "status": {"message": "no"}}
        refused = await door.send("POST", two(), thing("c", version="v2", spec=THERE))
        assert (refused.code, refused.message) == (
            400,
            'admission webhook "validating.example.com" denied the request: no',
        )

    converting(scenario)
