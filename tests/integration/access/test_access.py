"""Who may do what in a live cluster, seen through kubectl."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.integration.conftest import LiveCluster
from tests.integration.test_kubectl import Kubectl, kubectl

pytestmark = pytest.mark.xdist_group("live-cluster")
__all__ = ["kubectl"]


def test_the_administrator_may_do_everything_and_others_nothing(kubectl: Kubectl) -> None:
    assert "kubernetes-admin" in kubectl("auth", "whoami")
    assert kubectl("auth", "can-i", "*", "*").strip() == "yes"
    assert kubectl("auth", "can-i", "get", "pods", "--as", "alice", check=False).strip() == "no"
    denied = kubectl("get", "pods", "--as", "alice", check=False)
    assert f'User "alice" cannot list resource "pods" in API group "" in the namespace "{kubectl.namespace}"' in denied


def test_a_role_is_made_bound_and_listed(kubectl: Kubectl) -> None:
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--user=alice", "--group=ops")
    assert "kube-root-ca.crt" in kubectl("get", "configmaps", "--as", "alice")
    assert "kube-root-ca.crt" in kubectl("get", "configmaps", "--as", "zoe", "--as-group", "ops")
    listed = kubectl("auth", "can-i", "--list", "--as", "alice")
    assert "configmaps" in listed
    assert "selfsubjectreviews.authentication.k8s.io" in listed


def test_a_service_account_uses_its_token(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "robot")
    kubectl("create", "rolebinding", "robot", "--clusterrole=view", f"--serviceaccount={kubectl.namespace}:robot")
    token = kubectl("create", "token", "robot", "--duration=20m").strip()
    assert "No resources found" in kubectl("get", "pods", "--token", token)
    assert "cannot list resource" in kubectl("get", "secrets", "--token", token, check=False)
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    command = [kubectl.binary, "--kubeconfig", str(kubectl.cluster.kubeconfig), "create", "--raw", path, "-f", "-"]
    done = subprocess.run(command, input=json.dumps(review), capture_output=True, text=True, timeout=60, check=True)
    status = json.loads(done.stdout)["status"]
    assert status["authenticated"]
    assert status["user"]["username"] == f"system:serviceaccount:{kubectl.namespace}:robot"


def test_reconcile_adds_what_is_missing(kubectl: Kubectl, live_cluster: LiveCluster) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r", "namespace": kubectl.namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    command = [kubectl.binary, "--kubeconfig", str(live_cluster.kubeconfig), "auth", "reconcile", "-f", "-"]
    for verbs in (["get"], ["list"]):
        role["rules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
        text = subprocess.run(command, input=json.dumps(role), capture_output=True, text=True, timeout=60, check=True)
        assert "reconciled" in text.stdout
    found = json.loads(kubectl("get", "role", "r", "-o", "json"))
    assert {verb for rule in found["rules"] for verb in rule["verbs"]} == {"get", "list"}
