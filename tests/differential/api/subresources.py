"""What pods and service accounts have besides themselves: bindings, evictions under budgets, tokens, ephemeral containers, resizes; and scales of workloads."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from tests.differential.api.bodies import Bodies, Tree, clean
from tests.differential.api.steps import PATCHES, Step, patch, some, step

_PODS = "/api/v1/namespaces/${ns}/pods"
_OPTIONS = {
    "dryRun": ["All", "All", "x"],
    "fieldManager": ["m"],
    "fieldValidation": ["Strict", "Warn"],
    "pretty": ["true"],
}
_RESOURCES: tuple[Tree, ...] = (
    {"requests": {"cpu": "1"}}, {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}, {}, {"limits": {"cpu": "1"}},
    {"requests": {"cpu": "x"}}, {"requests": {"cpu": "-1"}}, {"requests": {"nosuch": "1"}}, {"requests": {"cpu": "3"}, "limits": {"cpu": "1"}},
)  # fmt: skip


def subresources(bodies: Bodies) -> Iterator[Step]:
    """A few pods and what is asked of them."""
    chance = bodies.chance
    for number in range(4):
        container = {"name": "c", "image": "i", "resources": chance.choice(_RESOURCES[:2])}
        container |= some(chance, {"resizePolicy": [[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]]}, 1)
        pod = {"metadata": {"name": f"p{number}", "labels": {"app": "a"}}, "spec": {"containers": [container]}}
        yield step("POST", _PODS, "create", pod)
    yield from _bindings(bodies)
    yield from _evictions(chance)
    yield from _tokens(bodies)
    yield from _containers(bodies)
    yield from _scales(bodies)


def _spoilt(bodies: Bodies, body: Tree) -> Any:
    if bodies.chance.random() < 0.25:
        bodies.spoil(body)
    return clean(body)


def _bindings(bodies: Bodies) -> Iterator[Step]:
    chance = bodies.chance
    for _ in range(10):
        target = chance.choice(
            (
                {"kind": "Node", "name": "n"},
                {"name": "n"},
                {"kind": "Pod", "name": "n"},
                {},
                {"kind": "Node", "name": ""},
                {"name": "other"},
            )
        )
        name = chance.choice(("p0", "p0", "p1", "none"))
        metadata: Tree = {"name": name} | some(
            chance, {"annotations": [{"a": "b"}], "labels": [{"x": "y"}], "uid": ["x"], "namespace": ["other"]}, 1
        )
        body = _spoilt(bodies, {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})
        path = chance.choice(
            (
                f"{_PODS}/{name}/binding",
                f"{_PODS}/{name}/binding",
                f"{_PODS}/p1/binding",
                "/api/v1/namespaces/${ns}/bindings",
            )
        )
        yield step("POST", path, "binding", body, query=some(chance, _OPTIONS, 1))
        yield step("GET", f"{_PODS}/p0", "get after binding", managedFields=True)


def _evictions(chance: Random) -> Iterator[Step]:
    budgets = "/apis/policy/v1/namespaces/${ns}/poddisruptionbudgets"
    spec: Tree = {"selector": chance.choice(({"matchLabels": {"app": "a"}}, {}, {"matchLabels": {"app": "none"}}))}
    spec |= chance.choice(({"minAvailable": 1}, {"maxUnavailable": "50%"}, {"minAvailable": "0%"}))
    yield step(
        "POST",
        budgets,
        "budget",
        {
            "metadata": {"name": "b"},
            "spec": spec | some(chance, {"unhealthyPodEvictionPolicy": ["AlwaysAllow", "IfHealthyBudget"]}, 1),
        },
    )
    status = {
        "disruptionsAllowed": chance.choice((0, 1, 2)),
        "observedGeneration": chance.choice((0, 1, 5)),
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    yield patch(f"{budgets}/b/status", "merge", {"status": status}, name="budget status")
    yield patch(
        f"{_PODS}/p2/status",
        "merge",
        {
            "status": {
                "phase": chance.choice(("Running", "Pending", "Succeeded")),
                "conditions": [{"type": "Ready", "status": chance.choice(("True", "False"))}],
            }
        },
        name="pod status",
    )
    for _ in range(8):
        name = chance.choice(("p2", "p2", "p3", "none"))
        options = chance.choice(
            (
                None,
                {},
                {"gracePeriodSeconds": 0},
                {"preconditions": {"uid": "x"}},
                {"dryRun": ["All"]},
                {"dryRun": ["x"]},
                {"propagationPolicy": "x"},
                {"gracePeriodSeconds": -1},
            )
        )
        body: Tree = {
            "apiVersion": chance.choice(("policy/v1", "policy/v1", "policy/v1beta1", "v1")),
            "kind": "Eviction",
            "metadata": {"name": chance.choice((name, name, "other"))},
        }
        if options is not None:
            body["deleteOptions"] = options
        query = some(chance, _OPTIONS, 1)
        if options in (
            {"dryRun": ["x"]},
            {"propagationPolicy": "x"},
        ):  # which cost a disruption in kube-apiserver, and nothing here
            query = {"dryRun": "All"}
        yield step("POST", f"{_PODS}/{name}/eviction", "eviction", body, query=query)
        yield step("GET", f"{budgets}/b", "budget after eviction", managedFields=True)


def _tokens(bodies: Bodies) -> Iterator[Step]:
    chance = bodies.chance
    for _ in range(8):
        spec: Tree = some(chance, {
            "audiences": [["a"], [], ["a", "a"], [""]], "expirationSeconds": [600, 599, 3600, 2**33, -1, "x"],
            "boundObjectRef": [{"kind": "Pod", "apiVersion": "v1", "name": "p1"}, {"kind": "Secret", "apiVersion": "v1", "name": "none"},
                               {"kind": "Node", "apiVersion": "v1", "name": "n"},
                               {"kind": "x", "apiVersion": "v1", "name": "p"}, {"kind": "Pod", "apiVersion": "v1", "name": "p1", "uid": "x"}, {}],
        }, 3)  # fmt: skip
        body: Tree = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec} | some(
            chance, {"metadata": [{"name": "x"}, {"name": "default"}]}, 1
        )
        path = f"/api/v1/namespaces/${{ns}}/serviceaccounts/{chance.choice(('default', 'default', 'none'))}/token"
        ignored = ["/status/token", "/status/expirationTimestamp"]
        yield step("POST", path, "token", _spoilt(bodies, body), query=some(chance, _OPTIONS, 1), ignore=ignored)


def _containers(bodies: Bodies) -> Iterator[Step]:
    chance = bodies.chance
    for _ in range(10):
        added: Tree = {"name": chance.choice(("e", "c", "e2", "")), "image": chance.choice(("i", "", " i"))}
        added |= some(chance, {
            "targetContainerName": ["c", "x"], "stdin": [True], "resources": [{"limits": {"cpu": "1"}}], "ports": [[{"containerPort": 80}]],
            "livenessProbe": [{"exec": {"command": ["a"]}}],
            "volumeMounts": [[{"name": "x", "mountPath": "/x"}]], "env": [[{"name": "A"}]], "restartPolicy": ["Always"], "imagePullPolicy": ["x", "Always"],
        }, 2)  # fmt: skip
        form = chance.choice(("strategic", "strategic", "merge", "json", "apply"))
        body: Any = {"spec": {"ephemeralContainers": [added]}}
        if form == "json":
            body = [
                {
                    "op": "add",
                    "path": chance.choice(("/spec/ephemeralContainers", "/spec/ephemeralContainers/-")),
                    "value": [added],
                }
            ]
        elif form == "apply":
            body |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1"}}
        query = some(chance, _OPTIONS, 1) | ({"fieldManager": "m"} if form == "apply" else {})
        yield patch(
            f"{_PODS}/p1/ephemeralcontainers",
            form,
            _spoilt(bodies, body) if isinstance(body, dict) else body,
            query=query,
            name=f"ephemeral containers {form}",
            managedFields=True,
        )
        resources = chance.choice(_RESOURCES)
        resized: Tree = {
            "spec": {"containers": [{"name": chance.choice(("c", "c", "c", "x")), "resources": resources}]}
        } | some(chance, {"metadata": [{"labels": {"x": "y"}}]}, 1)
        form = chance.choice(("strategic", "strategic", "merge"))
        yield patch(
            f"{_PODS}/p1/resize",
            form,
            (changed := _spoilt(bodies, resized)),
            query=some(chance, _OPTIONS, 1),
            name=f"resize {form}",
            managedFields=True,
        )
        yield patch(f"{_PODS}/p1", "strategic", changed, query={"dryRun": "All"}, name="resize of the pod itself")
    yield step("GET", f"{_PODS}/p1/ephemeralcontainers", "get ephemeral containers")
    yield step("GET", f"{_PODS}/p1/resize", "get resize")


def _scales(bodies: Bodies) -> Iterator[Step]:
    chance = bodies.chance
    template = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    rest = {"selector": {"matchLabels": {"app": "w"}}, "template": template}
    kinds = (
        ("apps/v1", "deployments", "Deployment"),
        ("apps/v1", "replicasets", "ReplicaSet"),
        ("apps/v1", "statefulsets", "StatefulSet"),
        ("v1", "replicationcontrollers", "ReplicationController"),
    )
    version, plural, kind = chance.choice(kinds)
    spec: Tree = (
        {**rest, "selector": {"app": "w"}}
        if version == "v1"
        else {**rest, **({"serviceName": "s"} if plural == "statefulsets" else {})}
    )
    collection = f"/{'api' if version == 'v1' else 'apis'}/{version}/namespaces/${{ns}}/{plural}"
    yield step(
        "POST",
        collection,
        "workload",
        {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec},
        capture={"rv": "/metadata/resourceVersion"},
    )
    for _ in range(10):
        found: Tree = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "w"},
            "spec": {"replicas": chance.choice((0, 1, 3, -1, 2**31 - 1))},
        }
        found["metadata"] |= some(
            chance,
            {"resourceVersion": ["${rv}", "1", ""], "uid": ["x"], "namespace": ["other"], "labels": [{"a": "b"}]},
            1,
        )
        form = chance.choice(("put", "merge", "strategic", "json", "apply", "merge"))
        query = some(chance, _OPTIONS, 1)
        if form == "put":
            yield step("PUT", f"{collection}/w/scale", "scale put", _spoilt(bodies, found), query=query)
        elif form == "json":
            value = chance.choice((2, "x", None, -1, 1.5))
            yield patch(
                f"{collection}/w/scale",
                "json",
                [{"op": chance.choice(("replace", "add", "test", "remove")), "path": "/spec/replicas", "value": value}],
                query=query,
                name="scale json",
            )
        else:
            query |= (
                {"fieldManager": chance.choice(("m1", "m2")), **some(chance, {"force": ["true"]}, 1)}
                if form == "apply"
                else {}
            )
            yield patch(
                f"{collection}/w/scale",
                form,
                _spoilt(bodies, found if form == "apply" else {"spec": found["spec"]}),
                query=query,
                name=f"scale {form}",
            )
        yield step("GET", f"{collection}/w", "get after scale", managedFields=True)
    headers = {
        "Accept": chance.choice(
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io",
                "application/yaml",
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            )
        )
    }
    yield step("GET", f"{collection}/w/scale", "get scale", headers=headers)
    yield step("GET", f"{collection}/w/status", "get status", headers={"Content-Type": PATCHES["merge"]})
