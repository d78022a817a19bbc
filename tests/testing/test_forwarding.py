"""A webhook of the test's own answers for a service of simulated pods."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from kubernetes import client as kubernetes
from kubernetes import config
from kubernetes.client.exceptions import ApiException

from bayplan.testing.handle import ClusterHandle

GUARD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: guard}
spec:
  selector: {matchLabels: {app: guard}}
  template:
    metadata: {labels: {app: guard}}
    spec: {containers: [{name: guard, image: guard:1}]}
---
apiVersion: v1
kind: Service
metadata: {name: guard}
spec: {selector: {app: guard}, ports: [{port: 443, targetPort: 9443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: guard.example.com
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: default, name: guard, path: /validate}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [namespaces]}]
"""


class Guard(BaseHTTPRequestHandler):
    """A webhook that refuses everything."""

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": f"not at {self.path}"}}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def guard() -> Iterator[int]:
    """The port of a webhook without TLS."""
    server = HTTPServer(("127.0.0.1", 0), Guard)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_of_the_test_answers_for_simulated_pods(bayplan_cluster: ClusterHandle, guard: int) -> None:
    bayplan_cluster.apply(GUARD)

    def is_ready() -> bool:
        return any(
            endpoint.get("conditions", {}).get("ready")
            for one in bayplan_cluster.list("endpointslices", "default", "kubernetes.io/service-name=guard")
            for endpoint in one["endpoints"] or ()
        )

    bayplan_cluster.eventually(is_ready)
    with config.new_client_from_config(str(bayplan_cluster.kubeconfig)) as connection:
        core = kubernetes.CoreV1Api(connection)

        def create(name: str) -> None:
            core.create_namespace(kubernetes.V1Namespace(metadata=kubernetes.V1ObjectMeta(name=name)))

        create("skipped")
        bayplan_cluster.forward(f"service/default/guard=http://localhost:{guard}")
        with pytest.raises(ApiException, match="not at /validate"):
            create("refused")
        assert bayplan_cluster.remove_forward("service/default/guard")
        assert not bayplan_cluster.remove_forward("service/default/guard")
        create("skipped-again")
    assert bayplan_cluster.get("namespace", "refused") is None
