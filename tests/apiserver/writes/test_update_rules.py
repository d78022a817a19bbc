"""What the rules of a kind and those for every kind do together on writes: which parts of metadata count, what comes first, how often it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.types import apps_v1, core_v1, meta_v1
from tests.apiserver.serving import Served, client_of, opened, served

Answer = tuple[int, dict[str, Any], list[str]]
Send = Callable[..., Awaitable[Answer]]
MERGE = "application/merge-patch+json"


def play(scenario: Callable[[Send], Awaitable[None]]) -> None:
    """Run a scenario against a fresh server; `send` answers with the code, the body and the Warning headers."""

    async def run() -> None:
        async with served() as server:
            await scenario(sender(server))

    asyncio.run(run())


def sender(server: Served) -> Send:
    async def send(method: str, path: str, body: object, media_type: str = "application/json", **query: str) -> Answer:
        headers = server.headers("admin") | {"Content-Type": media_type}
        async with server.session.request(
            method, server.url + path, data=json.dumps(body), headers=headers, params=query
        ) as answer:
            return answer.status, json.loads(await answer.read()), answer.headers.getall("Warning", [])

    return send


def config_map(**metadata: object) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("kind", "spec", "kept"),
    [
        ("Deployment", {"selector": {"matchLabels": {"a": "b"}}}, {"labels"}),
        ("StatefulSet", {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s"}, set()),
    ],
)
def test_the_status_door_lets_metadata_through_but_for_what_the_kind_keeps(
    kind: str, spec: dict[str, Any], kept: set[str]
) -> None:
    async def scenario(send: Send) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        path, metadata = f"/apis/apps/v1/namespaces/default/{kind.lower()}s", {"name": "a"}
        body = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {**spec, "template": template}}
        code, _, _ = await send("POST", path, body)
        assert code == 201
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
        given = {
            "labels": {"x": "y"},
            "annotations": {"x": "y"},
            "finalizers": ["example.com/x"],
            "ownerReferences": [owner],
        }
        code, answer, _ = await send("PATCH", f"{path}/a/status", {"metadata": given}, MERGE)
        assert code == 200
        assert {name for name, value in given.items() if answer["metadata"].get(name) != value} == kept

    play(scenario)


def test_a_new_object_has_no_revision_unless_nothing_is_kept() -> None:
    async def scenario(send: Send) -> None:
        code, answer, _ = await send("POST", CONFIG_MAPS, config_map(resourceVersion="5"))
        assert (code, answer["message"]) == (500, "resourceVersion should not be set on objects to be created")
        code, answer, _ = await send("POST", CONFIG_MAPS, config_map(resourceVersion="5"), dryRun="All")
        assert (code, answer["metadata"]["resourceVersion"]) == (201, "5")
        code, answer, _ = await send("POST", CONFIG_MAPS, config_map(resourceVersion="5", labels={"": "x"}))
        assert code == 422
        code, answer, _ = await send("POST", CONFIG_MAPS, config_map(resourceVersion="abc"))
        assert (code, answer["metadata"]["resourceVersion"].isdigit()) == (201, True)

    play(scenario)


def test_a_limit_range_without_a_name_gets_one() -> None:
    async def scenario(send: Send) -> None:
        body = {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": []}}
        code, answer, _ = await send("POST", "/api/v1/namespaces/default/limitranges", body)
        assert (code, len(answer["metadata"]["name"])) == (201, 36)

    play(scenario)


def test_the_metadata_of_kinds_whose_rules_leave_it_alone_is_looked_at_last() -> None:
    async def scenario(send: Send) -> None:
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": -1}}
        _, answer, _ = await send("POST", path, body)
        assert [one["field"] for one in answer["details"]["causes"]] == ["spec.minAvailable"]
        _code, answer, _ = await send("POST", path, body | {"spec": {}})
        assert [one["field"] for one in answer["details"]["causes"]] == ["metadata.name"]

    play(scenario)


@pytest.mark.parametrize(
    ("path", "body", "times"),
    [
        (CONFIG_MAPS, config_map(), 4),
        (
            "/api/v1/namespaces/default/limitranges",
            {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": []}},
            3,
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {}},
            2,
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1},
            3,
        ),
    ],
)
def test_what_is_wrong_with_changed_metadata_is_told_as_often_as_it_is_looked_at(
    path: str, body: dict[str, Any], times: int
) -> None:
    async def scenario(send: Send) -> None:
        _, made, _ = await send("POST", path, {**body, "metadata": {"name": "a"}})
        made["metadata"]["labels"] = {"a": "?"}
        code, answer, _ = await send("PUT", f"{path}/a", made)
        assert (code, [one["field"] for one in answer["details"]["causes"]]) == (422, ["metadata.labels"] * times)

    play(scenario)


def test_the_prefix_of_generated_names_is_checked_when_it_changes() -> None:
    async def scenario(send: Send) -> None:
        await send("POST", CONFIG_MAPS, config_map())
        code, answer, _ = await send("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"generateName": "BB-"}}, MERGE)
        assert (code, answer["details"]["causes"][0]["field"]) == (422, "metadata.generateName")

    play(scenario)


def test_another_namespace_is_told_before_another_name() -> None:
    async def scenario(send: Send) -> None:
        await send("POST", CONFIG_MAPS, config_map())
        code, answer, _ = await send("PUT", f"{CONFIG_MAPS}/a", config_map(name="b", namespace="other"))
        text = "the namespace of the provided object does not match the namespace sent on the request"
        assert (code, answer["message"]) == (400, text)

    play(scenario)


def test_warnings_come_also_with_a_refusal_by_validating_admission() -> None:
    async def scenario(send: Send) -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await send("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        spec = {"containers": [{"name": "c", "image": "i"}], "overhead": {"memory": "1m"}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
        code, answer, warnings = await send("POST", "/api/v1/namespaces/default/pods", body)
        assert (code, "pod rejected" in answer["message"]) == (403, True)
        assert warnings == [
            '299 - "spec.overhead[memory]: fractional byte value \\"1m\\" is invalid, must be an integer"'
        ]

    play(scenario)


def test_quantities_are_read_wherever_they_stand() -> None:
    async def scenario(send: Send) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        status = {"allocatedResources": {"cpu": "abc"}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec, "status": status}
        code, answer, _ = await send("POST", "/api/v1/namespaces/default/pods", body)
        assert (code, "quantities must match the regular expression" in answer["message"]) == (400, True)

    play(scenario)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, {"a": "b", "job-name": "j"}),
        ({"labels": {"a": "b"}}, {"a": "b"}),
        ({"labels": {"own": "x"}}, {"own": "x"}),
    ],
)
def test_a_job_without_labels_gets_those_of_its_template(metadata: dict[str, Any], expected: dict[str, str]) -> None:
    async def scenario(send: Send) -> None:
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        }
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j", **metadata},
            "spec": {"template": template},
        }
        _, answer, _ = await send("POST", "/apis/batch/v1/namespaces/default/jobs", body)
        labels = answer["metadata"]["labels"]
        assert {name: labels[name] for name in expected} == expected
        assert ("controller-uid" in labels) is ("job-name" in expected)

    play(scenario)


def test_devices_for_administrators_are_given_in_marked_namespaces() -> None:
    async def scenario(send: Send) -> None:
        request = {"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "a"},
            "spec": {"devices": {"requests": [request]}},
        }
        path = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
        code, answer, _ = await send("POST", path.format("default"), body)
        assert (code, answer["details"]["causes"][0]["field"]) == (422, "spec.devices.requests[0].adminAccess")
        labels = {"resource.kubernetes.io/admin-access": "true"}
        marked = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "marked", "labels": labels}}
        await send("POST", "/api/v1/namespaces", marked)
        code, _, _ = await send("POST", path.format("marked"), body)
        assert code == 201

    play(scenario)


def test_a_second_range_of_services_may_come_and_the_first_stays() -> None:
    async def scenario(send: Send) -> None:
        path = "/apis/networking.k8s.io/v1/servicecidrs"
        body = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": "a"},
            "spec": {"cidrs": ["198.18.0.0/24"]},
        }
        _, made, _ = await send("POST", path, body)
        for cidrs, field in (
            (["198.18.1.0/24"], "spec.cidrs[0]"),
            (["198.18.0.0/24", "x"], "spec.cidrs[1]"),
            ([], "spec.cidrs"),
        ):
            code, answer, _ = await send("PUT", f"{path}/a", made | {"spec": {"cidrs": cidrs}})
            assert (code, answer["details"]["causes"][0]["field"]) == (422, field)
        code, _, _ = await send("PUT", f"{path}/a", made | {"spec": {"cidrs": ["198.18.0.0/24", "fd00::/112"]}})
        assert code == 200

    play(scenario)


def test_the_labels_that_a_job_is_known_by_belong_to_the_server() -> None:
    async def scenario(send: Send) -> None:
        labels = {"job-name": "x", "batch.kubernetes.io/job-name": "j"}
        spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": spec}},
        }
        path = "/apis/batch/v1/namespaces/default/jobs"
        _, answer, _ = await send("POST", path, body)
        assert [one["field"] for one in answer["details"]["causes"]] == ["spec.template.metadata.labels[job-name]"]
        labels |= {"job-name": "j", "batch.kubernetes.io/job-name": "x"}
        _, answer, _ = await send("POST", path, body)
        fields = [one["field"] for one in answer["details"]["causes"]]
        assert fields == ["spec.template.metadata.labels[batch.kubernetes.io/job-name]"]

    play(scenario)


@pytest.mark.parametrize(("metadata", "shown"), [({"name": "a"}, "a"), ({"generateName": "a-"}, "a-"), ({}, "Unknown")])
def test_an_object_that_has_no_name_yet_is_called_by_its_prefix(metadata: dict[str, str], shown: str) -> None:
    async def scenario(send: Send) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "s/a"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        code, answer, _ = await send("POST", "/api/v1/namespaces/default/pods", body)
        text = "error looking up service account default/s/a: invalid resource name \"s/a\": [may not contain '/']"
        assert (code, answer["message"]) == (403, f'pods "{shown}" is forbidden: {text}')

    play(scenario)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"loadBalancerClass": "x"}, ["spec.loadBalancerClass"]),
        ({"loadBalancerClass": ".."}, ["spec.loadBalancerClass"] * 3),
        ({"loadBalancerClass": "x", "type": "NodePort"}, ["spec.loadBalancerClass"] * 2),
        ({"healthCheckNodePort": 31234, "sessionAffinity": "x"}, ["spec.healthCheckNodePort", "spec.sessionAffinity"]),
        ({"clusterIP": "", "clusterIPs": ["x"]}, ["spec.clusterIPs", "spec.clusterIPs[0]"]),
    ],
)
def test_the_changes_of_a_service_are_looked_at_before_the_service(change: dict[str, Any], fields: list[str]) -> None:
    async def scenario(send: Send) -> None:
        path = "/api/v1/namespaces/default/services"
        spec = {"ports": [{"port": 80}], "type": "LoadBalancer", "externalTrafficPolicy": "Local"}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
        code, _, _ = await send("POST", path, body | {"spec": {**spec, "loadBalancerClass": "a/b"}})
        assert code == 201
        code, answer, _ = await send("PATCH", f"{path}/s", {"spec": change}, MERGE)
        assert (code, [one["field"] for one in answer["details"]["causes"]]) == (422, fields)

    play(scenario)


def test_a_conversion_webhook_that_says_nothing_is_none() -> None:
    async def scenario(send: Send) -> None:
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        conversion = {"strategy": "None", "webhook": {"conversionReviewVersions": []}}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "as.b.c"},
            "spec": {
                "group": "b.c",
                "names": {"plural": "as", "kind": "A"},
                "scope": "Cluster",
                "versions": [version],
                "conversion": conversion,
            },
        }
        code, made, _ = await send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
        assert (code, made["spec"]["conversion"]) == (201, {"strategy": "None"})

    play(scenario)


def test_what_was_kept_before_there_was_a_default_gets_it_when_scaled() -> None:
    async def main() -> None:
        async with opened() as api:
            client = client_of(api)
            labels = {"app": "a"}
            container = core_v1.Container(name="c", image="i")
            template = core_v1.PodTemplateSpec(
                metadata=meta_v1.ObjectMeta(labels=labels), spec=core_v1.PodSpec(containers=(container,))
            )
            spec = apps_v1.DeploymentSpec(selector=meta_v1.LabelSelector(match_labels=labels), template=template)
            metadata = meta_v1.ObjectMeta(name="d", namespace="default")
            made = await client.create(apps_v1.Deployment(metadata=metadata, spec=spec))
            revision = int(made.metadata.resource_version)
            made.spec.progress_deadline_seconds = None
            await api.context.objects.replace(client.kinds.of_type(apps_v1.Deployment), made, revision)
            path = "/apis/apps/v1/namespaces/default/deployments/d/scale"
            await client.raw("PATCH", path, {}, b'{"spec":{"replicas":3}}', MERGE)
            found = await client.get(apps_v1.Deployment, "d", "default")
            assert (found.spec.replicas, found.spec.progress_deadline_seconds) == (3, 600)

    asyncio.run(main())
