"""What plugins note in the audit log."""

from __future__ import annotations

import asyncio
import json

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.webhooks.calling import Target
from tests.apiserver.audit.recording import record
from tests.apiserver.serving import client_of, opened
from tests.apiserver.webhooks.senders import (
    CONFIGURATIONS,
    MAPS,
    Tree,
    config_map,
    configure,
    create,
    patch,
    webhooks,
)

PODS = "/api/v1/namespaces/strict/pods"
METADATA: Tree = {"level": "Metadata"}


def notes(found: Tree) -> dict[str, str]:
    """The annotations of an event, without those of authorization."""
    given: dict[str, str] = found.get("annotations", {})
    return {key: value for key, value in given.items() if not key.startswith("authorization.k8s.io/")}


def add(path: str, value: object) -> Tree:
    return {"op": "add", "path": path, "value": value}


@pytest.mark.parametrize("level", ["Metadata", "Request"])
def test_mutating_webhooks(level: str) -> None:
    async def main() -> None:
        async with webhooks() as (api, client, sender):
            operation = add("/metadata/labels", {"made": "so"})
            said = {"auditAnnotations": {"why": "because", "no name!": "x"}}
            await configure(
                client, sender, "a-label", lambda _: {**patch(operation), **said}, reinvocationPolicy="IfNeeded"
            )
            await configure(client, sender, "b-look", lambda _: {})
            await configure(client, sender, "c-data", lambda asked: patch(add("/data", {"more": "1"})))
            await configure(client, sender, "d-gone", lambda _: {}, failurePolicy="Ignore")
            del sender.hooks["https://hooks.test/d-gone"]
            log = record(api, {"level": level})
            await create(client, MAPS, config_map("one"))
            found = notes(await log.last())
            prefix, patches = "mutation.webhook.admission.k8s.io/", "patch.webhook.admission.k8s.io/"
            assert found["a-label.example.com/why"] == "because"
            assert "a-label.example.com/no name!" not in found
            assert found[f"{prefix}round_0_index_0"] == (
                '{"configuration":"a-label","webhook":"a-label.example.com","mutated":true}'
            )
            mutated = {key: json.loads(value)["mutated"] for key, value in found.items() if key.startswith(prefix)}
            assert mutated == {
                f"{prefix}round_0_index_0": True,
                f"{prefix}round_0_index_1": False,
                f"{prefix}round_0_index_2": True,
                f"{prefix}round_0_index_3": False,
                f"{prefix}round_1_index_0": False,
            }
            assert found[f"failed-open.{prefix}round_0_index_3"] == "d-gone.example.com"
            patched = {key: json.loads(value) for key, value in found.items() if key.startswith(patches)}
            if level == "Metadata":
                assert patched == {}
            else:
                assert patched[f"{patches}round_0_index_0"] == {
                    "configuration": "a-label",
                    "webhook": "a-label.example.com",
                    "patch": [operation],
                    "patchType": "JSONPatch",
                }

    asyncio.run(main())


def test_validating_webhooks() -> None:
    async def main() -> None:
        async with webhooks() as (api, client, sender):
            said: Tree = {"allowed": False, "auditAnnotations": {"seen": "yes"}}
            await configure(client, sender, "a", lambda _: {}, mutating=False, failurePolicy="Ignore")
            await configure(client, sender, "b", lambda _: said, mutating=False)
            del sender.hooks["https://hooks.test/a"]
            log = record(api, METADATA)
            with pytest.raises(ApiError):
                await create(client, MAPS, config_map("one"))
            key = "failed-open.validating.webhook.admission.k8s.io/round_0_index_0"
            assert notes(await log.last()) == {"b.example.com/seen": "yes", key: "a.example.com"}

    asyncio.run(main())


def test_slow_webhooks_are_told() -> None:
    async def main() -> None:
        async with webhooks() as (api, client, sender):
            await configure(client, sender, "a", lambda _: {})
            await configure(client, sender, "b", lambda _: {}, mutating=False)
            post = sender.post

            async def slow(target: Target, body: bytes, seconds: float) -> bytes:
                await asyncio.sleep(0.3)
                return await post(target, body, seconds)

            sender.post = slow  # type: ignore[method-assign]
            log = record(api, METADATA)
            await create(client, MAPS, config_map("one"))
            found = notes(await log.last())
            prefix = "apiserver.latency.k8s.io/"
            assert {key for key in found if key.startswith(prefix)} == {
                f"{prefix}mutating-webhook",
                f"{prefix}validating-webhook",
                f"{prefix}total",
            }
            assert found[f"{prefix}mutating-webhook"].endswith("ms")

    asyncio.run(main())


def test_policies_of_admission() -> None:
    async def main() -> None:
        async with opened() as api:
            client = client_of(api)
            rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
            spec = {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "true"}, {"expression": "has(object.data)", "message": "no data"}],
                "auditAnnotations": [
                    {"key": "name", "valueExpression": "'it is ' + object.metadata.name"},
                    {"key": "none", "valueExpression": "null"},
                ],
            }
            path = f"{CONFIGURATIONS}/validatingadmissionpolicies"
            await create(client, path, {"metadata": {"name": "data.example.com"}, "spec": spec})
            binding = {"policyName": "data.example.com", "validationActions": ["Warn", "Audit"]}
            bindings = f"{CONFIGURATIONS}/validatingadmissionpolicybindings"
            await create(client, bindings, {"metadata": {"name": "watch"}, "spec": binding})
            log = record(api, METADATA)
            await create(client, MAPS, {"metadata": {"name": "one"}})
            found = notes(await log.last())
            assert found["data.example.com/name"] == "it is one"
            assert "data.example.com/none" not in found
            assert json.loads(found["validation.policy.admission.k8s.io/validation_failure"]) == [
                {
                    "message": "no data",
                    "policy": "data.example.com",
                    "binding": "watch",
                    "expressionIndex": 1,
                    "validationActions": ["Warn", "Audit"],
                }
            ]
            await create(client, MAPS, config_map("two", {"a": "b"}))
            assert notes(await log.last()) == {"data.example.com/name": "it is two"}

    asyncio.run(main())


def test_pod_security() -> None:
    async def main() -> None:
        async with opened() as api:
            client = client_of(api)
            labels = {
                "pod-security.kubernetes.io/enforce": "baseline",
                "pod-security.kubernetes.io/audit": "restricted",
            }
            await create(client, "/api/v1/namespaces", {"metadata": {"name": "strict", "labels": labels}})
            await create(client, "/api/v1/namespaces/strict/serviceaccounts", {"metadata": {"name": "default"}})
            log = record(api, METADATA)
            pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
            await create(client, PODS, {"metadata": {"name": "p"}, **pod})
            prefix = "pod-security.kubernetes.io/"
            found = notes(await log.last())
            assert found.keys() == {f"{prefix}enforce-policy", f"{prefix}audit-violations"}
            assert found[f"{prefix}enforce-policy"] == "baseline:latest"
            assert found[f"{prefix}audit-violations"].startswith('would violate PodSecurity "restricted:latest": allow')
            with pytest.raises(ApiError):
                await create(client, PODS, {"metadata": {"name": "q"}, "spec": {**pod["spec"], "hostNetwork": True}})
            assert f"{prefix}audit-violations" in notes(await log.last())
            template = {"metadata": {"labels": {"a": "b"}}, **pod}
            spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
            await create(
                client, "/apis/apps/v1/namespaces/strict/deployments", {"metadata": {"name": "d"}, "spec": spec}
            )
            assert notes(await log.last()).keys() == {f"{prefix}audit-violations"}

    asyncio.run(main())


def test_labels_of_a_namespace_that_are_not_understood() -> None:
    async def main() -> None:
        async with opened() as api:
            client = client_of(api)
            kind = api.context.kinds.of_kind("v1", "Namespace")
            assert kind is not None
            labels = {"pod-security.kubernetes.io/enforce-version": "v9"}  # from before there was a rule
            namespace = core_v1.Namespace(metadata=meta_v1.ObjectMeta(name="strict", uid="u", labels=labels))
            await api.context.objects.insert(kind, namespace)
            await create(client, "/api/v1/namespaces/strict/serviceaccounts", {"metadata": {"name": "default"}})
            log = record(api, METADATA)
            pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            await create(client, PODS, pod)
            assert notes(await log.last())["pod-security.kubernetes.io/error"] == (
                "Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce-version]: "
                'Invalid value: "v9": must be "latest" or "v1.x"'
            )

    asyncio.run(main())


def test_tokens_that_are_made_and_why_somebody_may() -> None:
    async def main() -> None:
        async with opened() as api:
            client = client_of(api)
            await create(client, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "s"}})
            log = record(api, METADATA)
            await create(client, "/api/v1/namespaces/default/serviceaccounts/s/token", {"spec": {}})
            found = await log.last()
            assert found["objectRef"]["subresource"] == "token"
            assert notes(found)["authentication.kubernetes.io/issued-credential-id"].startswith("JTI=")
            assert found["sourceIPs"] == ["127.0.0.1"]
            assert found["requestURI"] == "/api/v1/namespaces/default/serviceaccounts/s/token"

    asyncio.run(main())
