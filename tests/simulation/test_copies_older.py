"""Objects of old API versions: each is read in the form of today, or named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import apps_v1, autoscaling_v2, core_v1
from bayplan.simulation.readers.reading import read
from bayplan.simulation.snapshots.older_versions import older_versions
from bayplan.simulation.snapshots.snapshot import COPIED, KINDS, ClusterSnapshot, SnapshotError, from_tree

TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}


def today(api_version: str, kind: str, **fields: Any) -> Any:
    """The object in the storage version, as the reader takes it."""
    found, obj = from_tree({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields})
    assert found is not None
    assert found.kind == kind
    return obj


def autoscaler(api_version: str, spec: Any, status: Any = None) -> autoscaling_v2.HorizontalPodAutoscaler:
    target = {"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}, "maxReplicas": 5}
    if api_version.startswith("extensions"):
        target = {"maxReplicas": 5}
    one: autoscaling_v2.HorizontalPodAutoscaler = today(
        api_version, "HorizontalPodAutoscaler", spec={**target, **spec}, status=status or {}
    )
    assert (one.spec.scale_target_ref.name, one.spec.max_replicas) == ("web", 5)
    return one


def test_targets_of_autoscaling_v2beta1_are_rebuilt() -> None:
    pods = {"metricName": "hits", "targetAverageValue": "10"}
    described = {"target": {"kind": "Service", "name": "s"}, "metricName": "rate", "targetValue": "7"}
    external = {"metricName": "queue", "metricSelector": {"matchLabels": {"q": "a"}}, "targetAverageValue": "3"}
    spec = {
        "metrics": [
            {"type": "Pods", "pods": pods},
            {"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 60}},
            {"type": "Resource", "resource": {"name": "cpu", "targetAverageValue": "300m"}},
            {"type": "Object", "object": described},
            {"type": "External", "external": external},
        ]
    }
    seen = {"type": "Resource", "resource": {"name": "memory", "currentAverageUtilization": 41}}
    status = {"currentReplicas": 2, "currentMetrics": [seen], "conditions": [{"type": "AbleToScale", "status": "True"}]}
    one = autoscaler("autoscaling/v2beta1", spec, status)
    first, memory, cpu, other, queue = one.spec.metrics
    assert first.pods is not None
    assert memory.resource is not None
    assert cpu.resource is not None
    assert other.object is not None
    assert queue.external is not None
    assert (first.pods.metric.name, first.pods.target.average_value) == ("hits", "10")
    assert (memory.resource.name, memory.resource.target.average_utilization) == ("memory", 60)
    assert (memory.resource.target.type, cpu.resource.target.type) == ("Utilization", "AverageValue")
    assert (cpu.resource.target.average_value, other.object.target.value) == ("300m", "7")
    assert (other.object.described_object.name, queue.external.metric.name) == ("s", "queue")
    assert queue.external.metric.selector is not None
    current = one.status.current_metrics[0].resource
    assert current is not None
    assert current.current.average_utilization == 41
    assert (one.status.current_replicas, one.status.conditions[0].type) == (2, "AbleToScale")
    assert one.metadata.annotations == {}


def test_autoscaling_v2beta2_has_the_form_of_today() -> None:
    target = {"type": "Utilization", "averageUtilization": 70}
    one = autoscaler(
        "autoscaling/v2beta2", {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}
    )
    assert one.spec.metrics[0].resource is not None
    assert one.spec.metrics[0].resource.target.average_utilization == 70


def test_autoscalers_that_know_nothing_but_cpu() -> None:
    for one in (
        autoscaler("autoscaling/v1", {"targetCPUUtilizationPercentage": 40}),
        autoscaler(
            "extensions/v1beta1",
            {
                "scaleRef": {"kind": "Deployment", "name": "web", "subresource": "scale"},
                "cpuUtilization": {"targetPercentage": 40},
            },
        ),
    ):
        assert one.spec.metrics[0].resource is not None
        assert one.spec.metrics[0].resource.target.average_utilization == 40


@pytest.mark.parametrize("api_version", ["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"])
def test_workloads_of_old_groups(api_version: str) -> None:
    selector = {"selector": {"matchLabels": {"app": "x"}}} if api_version == "apps/v1beta2" else {}
    one: apps_v1.Deployment = today(
        api_version, "Deployment", spec={"replicas": 3, "template": TEMPLATE, "rollbackTo": {}, **selector}
    )
    assert (one.spec.replicas, one.spec.selector and dict(one.spec.selector.match_labels)) == (3, {"app": "x"})


def test_what_old_workloads_left_out_meant_something_else() -> None:
    deployment = today("extensions/v1beta1", "Deployment", spec={"template": TEMPLATE})
    assert deployment.spec.strategy.rolling_update.max_surge == 1
    daemons = today("extensions/v1beta1", "DaemonSet", spec={"template": TEMPLATE, "templateGeneration": 2})
    assert daemons.spec.update_strategy.type == "OnDelete"
    stateful = today("apps/v1beta1", "StatefulSet", spec={"template": TEMPLATE, "serviceName": "x"})
    assert stateful.spec.update_strategy.type == "OnDelete"
    said = today(
        "apps/v1beta1", "StatefulSet", spec={"template": TEMPLATE, "updateStrategy": {"type": "RollingUpdate"}}
    )
    assert said.spec.update_strategy.type == "RollingUpdate"


def test_jobs_and_cron_jobs() -> None:
    for api_version in ("batch/v1beta1", "batch/v2alpha1"):
        cron = today(
            api_version, "CronJob", spec={"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}
        )
        assert cron.spec.schedule == "* * * * *"
    selector = {"matchLabels": {"app": "x"}}
    own = today("extensions/v1beta1", "Job", spec={"template": TEMPLATE, "selector": selector})
    made = today("extensions/v1beta1", "Job", spec={"template": TEMPLATE, "selector": selector, "autoSelector": True})
    assert (own.spec.manual_selector, bool(made.spec.manual_selector)) == (True, False)


def test_runtime_classes_of_the_alpha() -> None:
    one = today(
        "node.k8s.io/v1alpha1",
        "RuntimeClass",
        spec={"runtimeHandler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}},
    )
    assert (one.handler, one.overhead.pod_fixed) == ("kata", {"cpu": "250m"})


def test_devices_of_the_alpha() -> None:
    device = {"name": "d", "basic": {"capacity": {"memory": "40Gi"}, "attributes": {"a": {"int": 1}}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    one = today(
        "resource.k8s.io/v1alpha3",
        "ResourceSlice",
        spec={"driver": "d", "pool": pool, "nodeName": "n", "devices": [device]},
    )
    assert str(one.spec.devices[0].capacity["memory"].value) == "40Gi"
    request = {"name": "r", "deviceClassName": "big"}
    claim = today("resource.k8s.io/v1alpha3", "ResourceClaim", spec={"devices": {"requests": [request]}})
    assert claim.spec.devices.requests[0].exactly.device_class_name == "big"


@pytest.mark.parametrize("api_version", ["networking.k8s.io/v1beta1", "extensions/v1beta1"])
def test_backends_of_an_ingress_are_rebuilt(api_version: str) -> None:
    path = {"path": "/", "backend": {"serviceName": "web", "servicePort": "http"}}
    one = today(
        api_version,
        "Ingress",
        spec={"backend": {"serviceName": "rest", "servicePort": 80}, "rules": [{"http": {"paths": [path]}}]},
    )
    backend = one.spec.rules[0].http.paths[0].backend.service
    assert (backend.name, backend.port.name, one.spec.default_backend.service.port.number) == ("web", "http", 80)
    assert one.spec.rules[0].http.paths[0].path_type == "ImplementationSpecific"


def test_topology_of_an_endpoint_becomes_node_and_zone() -> None:
    topology = {"kubernetes.io/hostname": "n", "topology.kubernetes.io/zone": "z", "rack": "7"}
    one = today(
        "discovery.k8s.io/v1beta1",
        "EndpointSlice",
        addressType="IPv4",
        endpoints=[{"addresses": ["10.0.0.1"], "topology": topology}],
    )
    endpoint = one.endpoints[0]
    assert (endpoint.node_name, endpoint.zone, endpoint.deprecated_topology) == ("n", "z", {"rack": "7"})


@pytest.mark.parametrize("name", COPIED)
def test_every_old_version_of_what_is_copied_can_be_read(name: str) -> None:
    kind = KINDS.storage_kind(KINDS.named(name))
    for api_version in older_versions(kind):
        spec = {"template": TEMPLATE} if kind.group in ("apps", "batch") and name != "CronJob" else {}
        assert type(today(api_version, name, spec=spec)) is kind.type, api_version


def test_servers_of_other_releases_are_asked_newest_first() -> None:
    kind = KINDS.storage_kind(KINDS.named("horizontalpodautoscalers"))
    assert older_versions(kind) == (
        "autoscaling/v2beta2",
        "autoscaling/v2beta1",
        "autoscaling/v2alpha1",
        "extensions/v1beta1",
        "autoscaling/v1",
    )
    assert older_versions(KINDS.of_type(core_v1.Node)) == ()


def dump(tmp_path: Path, *objects: tuple[str, str]) -> ClusterSnapshot:
    file = tmp_path / "m.json"
    items = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": f"{number}"}}
        for number, (version, kind) in enumerate(objects)
    ]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return read(file)


def test_versions_that_cannot_be_read_are_named_once_each(tmp_path: Path) -> None:
    copy = dump(
        tmp_path,
        ("v1", "Node"),
        ("resource.k8s.io/v1alpha2", "ResourceClaim"),
        ("resource.k8s.io/v1alpha2", "ResourceClaim"),
        ("policy/v1beta1", "PodSecurityPolicy"),
        ("rbac.authorization.k8s.io/v1beta1", "Role"),
        ("v1", "ConfigMap"),
    )
    assert [f"{one.what}: {one.why}" for one in copy.left_out] == [
        "ResourceClaim resource.k8s.io/v1alpha2 (2 objects): this version of the API is not known",
        "PodSecurityPolicy policy/v1beta1: this kind is not known",
    ]


@pytest.mark.parametrize(
    ("api_version", "kind", "right"),
    [("apps/v1", "Deploymnt", "Deployment in apps/v1"), ("app/v1", "Deployment", "Deployment in apps/v1")],
)
def test_a_misspelt_kind_is_an_error(api_version: str, kind: str, right: str, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=rf"m\.json: document 1: items\[1\]: .*did you mean {right}\?"):
        dump(tmp_path, ("v1", "Node"), (api_version, kind))


def test_custom_resources_are_counted(tmp_path: Path) -> None:
    copy = dump(tmp_path, ("v1", "Node"), ("serving.knative.dev/v1", "Service"), ("serving.knative.dev/v1", "Service"))
    assert copy.unserved.to_list() == [{"kind": "Service", "apiVersion": "serving.knative.dev/v1", "objects": 2}]
    assert copy.left_out == []
