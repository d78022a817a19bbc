"""Pods of one template: whatever the fast path makes of a body is what the slow path would have made of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.feature_gates import GANG_SCHEDULING, GENERIC_WORKLOAD
from bayplan.api.types import core_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Request
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.verbs import create as create_verb
from bayplan.apiserver.writes.create_templates import CreateTemplates
from bayplan.apiserver.writes.shared_parts import Copy, copy_of
from tests.apiserver.instances import note_instances, recorded_creates
from tests.apiserver.standing_still import ADMIN, CORE, PODS, Server


@pytest.fixture
def instances(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the pods that took the fast path ("" where one was generated)."""
    made: list[str] = []

    def note(one: Any) -> None:
        if isinstance(one, core_v1.Pod):
            made.append("" if one.metadata.generate_name else one.metadata.name)

    note_instances(monkeypatch, note)
    return made


def no_request_key(self: CreateTemplates, call: Call) -> None:
    """The fast path is switched off."""


def pod(name: str = "", spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    named = {"name": name} if name else {}
    containers = [{"name": "c", "image": "registry.example/i:1", "resources": {"requests": {"cpu": "0.10"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**named, **metadata},
        "spec": {"containers": containers, **(spec or {})},
    }


def recorded() -> Iterator[dict[str, Any]]:
    """The different pods that the transcripts create."""
    found: dict[str, dict[str, Any]] = {}
    for path, body in recorded_creates():
        # the server would wait for another account
        if path.endswith("/pods") and (body.get("spec") or {}).get("serviceAccountName", "default") == "default":
            found[json.dumps([body.get("spec"), body["metadata"].get("annotations")])] = body
    yield from found.values()


SPECS: list[dict[str, Any]] = [
    {},
    {"automountServiceAccountToken": False},
    {"initContainers": [{"name": "i", "image": "x"}], "volumes": [{"name": "v", "emptyDir": {}}]},
    {"containers": [{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}, {"name": "b", "image": "y"}],
     "volumes": [{"name": "v", "emptyDir": {}}]},
    {"containers": [{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}],
     "volumes": [{"name": "v", "emptyDir": {}}]},
    {"hostname": "100%b-of-%s".replace("%", "x"), "restartPolicy": "Never", "terminationGracePeriodSeconds": -3},
    {"containers": [{"name": "a", "image": "x", "args": ["100 %b %%", "\u00e9\u2028\\\""]}]},
    {"schedulingGates": [{"name": "example.com/gate"}]},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                    "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["a"]}]},
    {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]},
    {"nodeName": "n1"},
    {"priorityClassName": "system-cluster-critical"},
    {"containers": [{"name": "BAD", "image": "x"}]},
]  # fmt: skip
METADATA: list[dict[str, Any]] = [
    {},
    {"labels": {"a": "b"}, "annotations": {"x": "100 %b"}},
    {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u-1", "controller": True}]},
    {"finalizers": ["example.com/f"]},
    {"resourceVersion": "x", "uid": "mine", "creationTimestamp": "2020-01-01T00:00:00Z"},
    {"managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]},
]  # fmt: skip


async def crowd_of(bodies: list[dict[str, Any]]) -> list[Any]:
    """What a server answers to each, and what is there in the end."""
    async with Server() as server:
        answers: list[Any] = [await server.send("POST", PODS, body, fieldManager="m") for body in bodies]
        return [*answers, await server.send("GET", PODS)]


TEXTS = [
    "one",
    "two",
    "three",
    "",
    "$(A)",
    "not a label!",
    "x" * 64,
    "\u00e9",
    'quo"te',
    "back\\slash",
    "cmd: ",
    ", ",
    "100 %b %%",
    "~~text-1~~",
    "four",
    "true",
]
"""Values of labels, annotations and variables; the first are those that a template is learned from."""


def _with_texts(number: int, text: str) -> list[dict[str, Any]]:
    """Bodies that have a text at different places."""
    name = f"p{number}"
    env = [{"name": "A", "value": "a"}, {"name": "B", "value": text}, {"name": "B", "value": "$(B) b"}]
    spread = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["app"],
    }  # fmt: skip
    containers = [{"name": "c", "image": "i", "env": env}]
    return [
        pod(name, labels={"app": text, "index": "1"}),
        pod(name, labels={"name": "one", "app": text}, annotations={"example.com/a": text, "b": "c"}),
        pod(name, annotations={"kubernetes.io/config.mirror": text}),
        pod(name, annotations={"controller.kubernetes.io/pod-deletion-cost": text}),
        pod(name, {"containers": containers}),
        pod(name, {"containers": [{"name": "c", "image": "i", "env": env[:2]}]}),
        pod(name, {"containers": [{"name": "c", "image": "i", "env": [*env[:2], {"name": "B", "value": "again"}]}]}),
        pod(name, {"containers": [{"name": "c", "image": "i", "env": [env[1], {"name": "B", "value": ("$(B)" if number < 3 else "") + text}]}]}),
        pod(name, {"containers": [{"name": "c", "image": "i", "args": ['{"a": "b"}', "é", "c: "], "env": env[:2]}]}),
        pod(name, {"containers": [{"name": "c", "image": "i", "args": ['{"a": "b"}', "é"], "env": env[:2]}]}),
        pod(name, annotations={"controller.kubernetes.io/pod-deletion-cost": str(number) if number < 3 else text}),
        pod(name, {"initContainers": containers}, labels={"app": name, "other": text}),
        pod(name, {"topologySpreadConstraints": [spread]}, labels={"app": text}),
        pod(name, {"tolerations": [{"key": "a", "value": text}], "containers": [{"name": "c", "image": "cmd: ", "args": [text, ": "]}]}),
        pod("", {"containers": containers}, labels={"app": text}, generateName="g-"),
        pod(name, {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": text}}]}),
        pod(name, {"schedulingGroup": {"podGroupName": text}}, labels={"app": text}),
        pod(name, {"nodeSelector": {"labels": text}, "hostname": text, "containers": containers}),
    ]  # fmt: skip


def create_templates() -> list[list[dict[str, Any]]]:
    names = ["one", "two", "three", "two", "BAD", "with.dot", "x" * 70, "four"]
    found = [[pod(name, spec) for name in names] for spec in SPECS]
    found += [[pod(name, **metadata) for name in names] for metadata in METADATA]
    found += [[pod("", {}, generateName=base) for _ in range(4)] for base in ("g-", "with.dot-", "Bad-", "y" * 80)]
    found += [[pod(name, {"hostname": "one"}, generateName="one") for name in ("one", "", "two", "", "")]]
    found += [list(bodies) for bodies in zip(*(_with_texts(*each) for each in enumerate(TEXTS)), strict=True)]
    for body in recorded():
        found.append(
            [{**body, "metadata": {**body["metadata"], "name": name, "namespace": "default"}} for name in names]
        )
    return found


@pytest.mark.parametrize("bodies", create_templates())
def test_instances_of_a_template_are_what_they_would_be_alone(
    bodies: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = asyncio.run(crowd_of(bodies))
    monkeypatch.setattr(CreateTemplates, "request_key", no_request_key)
    assert short == asyncio.run(crowd_of(bodies))


def test_the_third_of_a_template_takes_the_fast_path(instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            for name in ("one", "two", "three", "BAD", "x" * 70, "four"):
                await server.send("POST", PODS, pod(name))
            assert instances == ["three", "four"]
            for _ in range(3):
                assert (await server.send("POST", PODS, pod(generateName="g-")))[0] == 201
            assert instances == ["three", "four", ""]
            assert (await server.send("POST", PODS, pod("three")))[1]["reason"] == "AlreadyExists"
            assert (await server.send("POST", PODS, pod("five"), dryRun="All"))[0] == 201
            assert (await server.send("GET", f"{PODS}/five"))[0] == 404

    asyncio.run(run())


def test_of_pods_that_come_at_a_time_one_is_learned_from(
    instances: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    learned: list[str] = []

    def noted(call: Any, *arguments: Any) -> Any:
        learned.append(json.loads(call.request.body)["metadata"]["name"])
        return make(call, *arguments)

    make = create_verb._make_with_stand_ins
    monkeypatch.setattr(create_verb, "_make_with_stand_ins", noted)

    async def run() -> None:
        async with Server(store=f"sqlite:{tmp_path}/store.db") as server:
            together = [server.send("POST", PODS, pod(f"p{number}")) for number in range(6)]
            assert [code for code, _ in await asyncio.gather(*together)] == [201] * 6
            assert (await server.send("POST", PODS, pod("later")))[0] == 201

    asyncio.run(run())
    assert (learned, instances) == (["p1"], ["later"])


def test_what_pods_share_is_found_out_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[Any] = []

    def noted(obj: Any, slots: dict[str, int]) -> Copy | None:
        copies.append(obj)
        return copy_of(obj, slots)

    templates = "bayplan.apiserver.writes.create_templates"
    monkeypatch.setattr(f"{templates}.copy_of", noted)
    monkeypatch.setattr(f"{templates}._DECODED", 2)

    async def run() -> None:
        async with Server() as server:
            made: list[int] = []
            for name in ("one", "two", "three", "four", "five", "six"):
                assert (await server.send("POST", PODS, pod(name)))[0] == 201
                made.append(len(copies))
            assert made == [0, 0, 0, 1, 1, 1]

    asyncio.run(run())


def test_pods_with_labels_annotations_and_variables_of_their_own_take_the_fast_path(instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            for number, text in enumerate(["one", "two", "three", "four", "$(A)", "not a label!", "five"]):
                labels, variables = {"index": text.strip("$()"), "app": "a"}, [{"name": "INDEX", "value": text}]
                spec = {"containers": [{"name": "c", "image": "i", "env": variables}]}
                await server.send("POST", PODS, pod(f"p{number}", spec, labels=labels, annotations={"a": text}))
            assert instances == ["p2", "p3", "p6"]
            made = (await server.send("GET", f"{PODS}/p6"))[1]
            assert (made["metadata"]["labels"], made["metadata"]["annotations"]) == (
                {"index": "five", "app": "a"},
                {"a": "five"},
            )
            assert made["spec"]["containers"][0]["env"] == [{"name": "INDEX", "value": "five"}]
            found = (await server.send("GET", PODS, labelSelector="index in (three,five)"))[1]
            assert [each["metadata"]["name"] for each in found["items"]] == ["p2", "p6"]

    asyncio.run(run())


@pytest.mark.parametrize("has_templates", [True, False])
def test_pods_of_groups_and_with_claims_of_their_own_take_the_fast_path(
    instances: list[str], has_templates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with Server(ApiServerSettings(feature_gates=frozenset((GENERIC_WORKLOAD, GANG_SCHEDULING)))) as server:
            for number, group in enumerate(["g-1", "g-2", "g-3", "NO NAME", "", "g-4"]):
                volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]
                spec = {"schedulingGroup": {"podGroupName": group}, "volumes": volumes}
                code, made = await server.send("POST", PODS, pod(f"p{number}", spec))
                if code == 201:
                    assert made["spec"]["schedulingGroup"] == {"podGroupName": group}
                    assert made["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == f"data-{number}"
            kept = (await server.send("GET", PODS))[1]["items"]
            assert [one["metadata"]["name"] for one in kept][:3] == ["p0", "p1", "p2"]
            assert instances == (["p2", "p5"] if has_templates else [])

    if not has_templates:
        monkeypatch.setattr(CreateTemplates, "request_key", no_request_key)
    asyncio.run(run())


def test_what_is_fixed_has_a_template_each(instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            for number, image in enumerate(["a", "a", "b", "b", "a", "b"]):
                spec = {"containers": [{"name": "c", "image": image}]}
                made = (await server.send("POST", PODS, pod(f"p{number}", spec)))[1]
                assert made["spec"]["containers"][0]["image"] == image
            assert instances == ["p4", "p5"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "body", "changed"),
    [
        ("/apis/scheduling.k8s.io/v1/priorityclasses", {"value": 9, "globalDefault": True}, {"priority": 9}),
        (f"{CORE}/limitranges", {"spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}}, {}),
    ],
)
def test_what_other_objects_decide_holds_until_they_change(
    path: str, body: dict[str, Any], changed: dict[str, Any], instances: list[str]
) -> None:
    async def run() -> None:
        async with Server() as server:
            for name in "abc":
                await server.send("POST", PODS, pod(name))
            assert instances == ["c"]
            assert (await server.send("POST", path, {"metadata": {"name": "new"}, **body}))[0] == 201
            specs = [(await server.send("POST", PODS, pod(name)))[1]["spec"] for name in "de"]
            assert instances == ["c", "e"]
            for spec in specs:
                assert {key: spec[key] for key in changed} == changed
                assert "limits" in spec["containers"][0]["resources"] or changed

    asyncio.run(run())


def test_a_name_that_is_written_otherwise_is_not_taken_for_another_text(instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            for container in ("one", "one", "two"):
                data = b'{"metadata":{"name":"\\u006fne"},"spec":{"containers":[{"name":"%b","image":"i"}]}}'
                request = Request("POST", PODS, {}, ADMIN, data % container.encode(), "application/json")
                made = json.loads((await server.api.handle(request)).body)
                assert made["metadata"]["name"] == "one"
                assert made["spec"]["containers"][0]["name"] == container
                await server.send("DELETE", f"{PODS}/one", {"gracePeriodSeconds": 0})
            assert instances == []

    asyncio.run(run())


def test_a_quota_counts_the_instances(instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            await server.send(
                "POST", f"{CORE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "4"}}}
            )
            quota = f"{CORE}/resourcequotas/q"
            found = (await server.send("GET", quota))[1]
            status = {"hard": {"pods": "4"}, "used": {"pods": "0"}}
            assert (await server.send("PUT", f"{quota}/status", {**found, "status": status}))[0] == 200
            codes = [(await server.send("POST", PODS, pod(name)))[0] for name in "abcdef"]
            assert codes == [201] * 4 + [403] * 2
            assert instances == ["c", "d", "e", "f"]

    asyncio.run(run())


def test_nothing_is_created_in_a_namespace_that_went(instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            await server.send("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
            await server.send("POST", "/api/v1/namespaces/n/serviceaccounts", {"metadata": {"name": "default"}})
            for name in "abc":
                assert (await server.send("POST", "/api/v1/namespaces/n/pods", pod(name)))[0] == 201
            assert instances == ["c"]
            await server.send("DELETE", "/api/v1/namespaces/n")
            code, refusal = await server.send("POST", "/api/v1/namespaces/n/pods", pod("d"))
            assert (code, refusal["reason"]) == (403, "Forbidden")
            assert instances == ["c"]

    asyncio.run(run())


CHOSEN = {"matchLabels": {"chosen": "yes"}}


@pytest.mark.parametrize(
    ("resource", "more", "expected"),
    [
        ("pods", {}, []),
        ("deployments", {}, ["c", "d", "e", "f"]),
        ("pods", {"namespaceSelector": CHOSEN}, ["c", "d", "e", "f"]),
        ("pods", {"objectSelector": CHOSEN}, ["c", "d"]),
    ],
)
def test_webhooks_that_are_asked_about_a_pod_close_the_fast_path(
    resource: str, more: dict[str, Any], expected: list[str], instances: list[str]
) -> None:
    async def run() -> None:
        async with Server() as server:
            rule = {"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["v1"], "resources": [resource]}
            hook = {
                "name": "a.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "admissionReviewVersions": ["v1"],
                "rules": [rule],
                **more,
            }
            path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
            assert (await server.send("POST", path, {"metadata": {"name": "w"}, "webhooks": [hook]}))[0] == 201
            for name, chosen in zip("abcdef", ["no"] * 4 + ["yes"] * 2, strict=True):
                body = pod(name, labels={"chosen": chosen, "index": name})
                assert (await server.send("POST", PODS, body))[0] == 201
            assert instances == expected
            await server.send("DELETE", f"{path}/w")
            del instances[:]
            for name in "ghi":
                body = pod(name, labels={"chosen": "yes", "index": name})
                assert (await server.send("POST", PODS, body))[0] == 201
            assert instances[-1] == "i"

    asyncio.run(run())


def test_writers_have_templates_of_their_own(instances: list[str]) -> None:
    async def run() -> None:
        async with Server() as server:
            for name, manager in (("p", "x"), ("q", "y"), ("r", "x"), ("s", "y"), ("t", "x"), ("u", "y")):
                made = (await server.send("POST", PODS, pod(name), fieldManager=manager))[1]
                assert made["metadata"]["managedFields"][0]["manager"] == manager
            assert instances == ["t", "u"]

    asyncio.run(run())
