"""What users of kubectl do and see. Conformance: Kubectl client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conformance.workloads import OTHER_IMAGE, PAUSE, SERVER_IMAGE
from tests.integration.conftest import LiveCluster

LABELS = {"app": "berths", "role": "primary"}
CONTROLLER = {
    "apiVersion": "v1",
    "kind": "ReplicationController",
    "metadata": {"name": "berths-primary", "labels": LABELS},
    "spec": {
        "replicas": 1,
        "selector": LABELS,
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "main", "image": SERVER_IMAGE, "ports": [{"containerPort": 6379}]}]},
        },
    },
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "berths-primary", "labels": LABELS},
    "spec": {"ports": [{"port": 6379, "targetPort": 6379}], "selector": LABELS},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pause", "labels": {"name": "pause"}},
    "spec": {"containers": [{"name": "pause", "image": PAUSE}]},
}
POD_LINES = (
    "Name: berths-primary-",
    "Node:",
    "Labels: app=berths",
    "role=primary",
    "Annotations:",
    "Status: Running",
    "IP:",
    "Controlled By: ReplicationController/berths-primary",
    f"Image: {SERVER_IMAGE}",
    "State: Running",
    "QoS Class: BestEffort",
)
CONTROLLER_LINES = (
    "Name: berths-primary",
    "Selector: app=berths,role=primary",
    "Labels: app=berths",
    "role=primary",
    "Annotations:",
    "Replicas: 1 current / 1 desired",
    "Pods Status: 1 Running / 0 Waiting / 0 Succeeded / 0 Failed",
    "Pod Template:",
    f"Image: {SERVER_IMAGE}",
    "Events:",
)
SERVICE_LINES = (
    "Name: berths-primary",
    "Labels: app=berths",
    "role=primary",
    "Annotations:",
    "Selector: app=berths,role=primary",
    "Type: ClusterIP",
    "IP:",
    "Port: <unset> 6379/TCP",
    "Endpoints:",
    "Session Affinity: None",
)
NODE_LINES = (
    "Labels:",
    "Annotations:",
    "CreationTimestamp:",
    "Conditions:",
    "Type Status LastHeartbeatTime LastTransitionTime Reason Message",
    "Addresses:",
    "Capacity:",
    "Kernel Version:",
    "OS Image:",
    "Container Runtime Version:",
    "Kubelet Version: v1.36",
    "Pods:",
)


class Kubectl:
    """One kubectl in one namespace."""

    def __init__(self, cluster: LiveCluster, binary: str, namespace: str, directory: Path) -> None:
        self._cluster, self._binary = cluster, binary
        self.namespace, self._directory = namespace, directory

    def __call__(self, *arguments: str, **options: Any) -> str:
        return self._cluster.kubectl(self._binary, "-n", self.namespace, *arguments, **options)

    def with_input(self, verb: str, *objects: object, options: tuple[str, ...] = ()) -> str:
        """Create, replace or delete objects."""
        path = self._directory / "input.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return self(verb, *options, "-f", str(path))

    def pods(self, selector: str) -> list[Any]:
        """Pods with these labels."""
        found: list[Any] = json.loads(self("get", "pods", "-l", selector, "-o", "json"))["items"]
        return found

    def wait_for_controller(self) -> list[Any]:
        """The pods of the controller, when they are ready."""
        self("wait", "--for=jsonpath={.status.readyReplicas}=1", "rc/berths-primary")
        return self.pods("app=berths")


@pytest.fixture
def kubectl(
    live_cluster: LiveCluster, binary: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Kubectl]:
    version = Path(binary).name.removeprefix("kubectl").strip(".").replace(".", "-")
    name = f"{request.function.__name__.removeprefix('test_').replace('_', '-')[:50]}-{version or 'plain'}"
    live_cluster.kubectl(binary, "create", "namespace", name)
    yield Kubectl(live_cluster, binary, name, tmp_path)
    live_cluster.kubectl(binary, "delete", "namespace", name)


def check_lines(shown: str, *wanted: str) -> None:
    """All these follow each other in what was printed, whatever blanks are between words."""
    text = " ".join(shown.split())
    for line in wanted:
        assert line in text, f"{line} is not (or not here) in\n{shown}"
        text = text[text.index(line) + len(line) :]


def test_objects_are_described(kubectl: Kubectl) -> None:
    """Kubectl client Kubectl describe should check if kubectl describe prints relevant information for rc and pods."""
    kubectl.with_input("create", CONTROLLER, SERVICE)
    namespace = f"Namespace: {kubectl.namespace}"
    for pod in kubectl.wait_for_controller():
        first, *others = POD_LINES
        check_lines(kubectl("describe", "pod", pod["metadata"]["name"]), first, namespace, *others)
    first, *others = CONTROLLER_LINES
    check_lines(kubectl("describe", "rc", "berths-primary"), first, namespace, *others)
    first, *others = SERVICE_LINES
    check_lines(kubectl("describe", "service", "berths-primary"), first, namespace, *others)
    node = json.loads(kubectl("get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"]
    check_lines(kubectl("describe", "node", node), f"Name: {node}", *NODE_LINES)
    check_lines(
        kubectl("describe", "namespace", kubectl.namespace),
        f"Name: {kubectl.namespace}",
        "Labels:",
        "Annotations:",
        "Status: Active",
    )


def test_a_label_comes_and_goes(kubectl: Kubectl) -> None:
    """Kubectl client Kubectl label should update the label on a resource."""
    kubectl.with_input("create", POD)
    kubectl("wait", "--for=condition=Ready", "pod/pause")
    kubectl("label", "pods", "pause", "trial-label=trial-value")
    assert "trial-value" in kubectl("get", "pod", "pause", "-L", "trial-label")
    kubectl("label", "pods", "pause", "trial-label-")
    assert "trial-value" not in kubectl("get", "pod", "pause", "-L", "trial-label")
    kubectl.with_input("delete", POD, options=("--grace-period=0", "--force"))
    assert not kubectl.pods("name=pause")


def test_pods_of_a_controller_are_annotated(kubectl: Kubectl) -> None:
    """Kubectl client Kubectl patch should add annotations for pods in rc."""
    kubectl.with_input("create", CONTROLLER)
    pods = kubectl.wait_for_controller()
    assert len(pods) == 1
    for pod in pods:
        kubectl("patch", "pod", pod["metadata"]["name"], "-p", '{"metadata":{"annotations":{"x":"y"}}}')
    assert [one["metadata"]["annotations"]["x"] for one in kubectl.pods("app=berths")] == ["y"]


def test_the_image_of_a_pod_is_replaced(kubectl: Kubectl) -> None:
    """Kubectl client Kubectl replace should update a single-container pod's image."""
    kubectl("run", "web", f"--image={SERVER_IMAGE}", "--pod-running-timeout=2m0s", "--labels=run=web")
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/web")
    shown = kubectl("get", "pod", "web", "-o", "json")
    kubectl.with_input("replace", json.loads(shown.replace(SERVER_IMAGE, OTHER_IMAGE, 1)))
    (found,) = kubectl.pods("run=web")
    assert found["spec"]["containers"][0]["image"] == OTHER_IMAGE
    kubectl("delete", "pods", "web")
