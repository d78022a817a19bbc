"""Real kubectl on a live cluster: StatefulSets, DaemonSets, Jobs, CronJobs, budgets and volumes from their creation to their end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.test_kubectl import Kubectl, kubectl

pytestmark = pytest.mark.xdist_group("live-cluster")
__all__ = ["kubectl"]

_SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: "db:1"}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: {rollingUpdate: {maxUnavailable: 3}}
  template:
    metadata: {labels: {app: agent}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: "agent:1"}]}
"""


def apply(kubectl: Kubectl, directory: Path, text: str) -> str:
    path = directory / "manifest.yaml"
    path.write_text(text)
    return kubectl("apply", "-f", str(path))


def test_sets_are_rolled_out_changed_taken_back_and_scaled(kubectl: Kubectl, tmp_path: Path) -> None:
    apply(kubectl, tmp_path, _SET)
    for target in ("statefulset/db", "daemonset/agent"):
        assert "rol" in kubectl("rollout", "status", target, "--timeout=40s")
    kubectl("wait", "pvc", "-l", "app=db", "--for=jsonpath={.status.phase}=Bound", "--timeout=20s")
    for target in ("statefulset/db", "daemonset/agent"):
        kubectl("set", "image", target, "main=other:2")
        kubectl("rollout", "status", target, "--timeout=40s")
        assert len(kubectl("rollout", "history", target).split("REVISION")[1].split()) >= 4
        assert "other:2" in kubectl("rollout", "history", target, "--revision=2")
        kubectl("rollout", "undo", target)
        kubectl("rollout", "status", target, "--timeout=40s")
        assert "other:2" not in kubectl("get", target, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
        kubectl("rollout", "restart", target)
        kubectl("rollout", "status", target, "--timeout=40s")
    kubectl("scale", "statefulset/db", "--replicas=1")
    kubectl("wait", "--for=delete", "pod/db-1", "--timeout=20s")
    assert "2/2" not in kubectl("get", "statefulset/db", "--no-headers")


def test_jobs_run_to_their_end_and_a_cron_job_is_run_by_hand(kubectl: Kubectl) -> None:
    kubectl("create", "job", "once", "--image=busybox", "--", "true")
    kubectl("wait", "job/once", "--for=condition=complete", "--timeout=40s")
    assert "1/1" in kubectl("get", "job/once", "--no-headers")
    described = kubectl("describe", "job/once")
    assert "SuccessfulCreate" in described
    assert "Completed" in described
    kubectl("create", "cronjob", "often", "--image=busybox", "--schedule=0 0 1 1 *", "--", "true")
    kubectl("create", "job", "by-hand", "--from=cronjob/often")
    kubectl("wait", "job/by-hand", "--for=condition=complete", "--timeout=40s")
    owner = json.loads(kubectl("get", "job/by-hand", "-o", "json"))["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("CronJob", "often")
    kubectl("delete", "cronjob/often")
    kubectl("wait", "--for=delete", "job/by-hand", "--timeout=20s")


def test_a_budget_is_shown_with_what_it_allows(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    kubectl("rollout", "status", "deployment/web", "--timeout=40s")
    kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=2")
    kubectl("wait", "pdb/web", "--for=jsonpath={.status.disruptionsAllowed}=1", "--timeout=20s")
    assert kubectl("get", "pdb/web", "--no-headers").split()[:4] == ["web", "2", "N/A", "1"]


def test_a_quota_is_described_with_what_is_used(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "small", "--hard=pods=2,configmaps=10")
    kubectl("wait", "quota/small", "--for=jsonpath={.status.used.pods}=0", "--timeout=20s")
    kubectl("run", "one", "--image=nginx")
    kubectl("run", "two", "--image=nginx")
    refused = kubectl("run", "three", "--image=nginx", check=False)
    assert "exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2" in refused
    lines = [line.split() for line in kubectl("describe", "quota/small").splitlines()]
    assert ["pods", "2", "2"] in lines


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_jobs_and_sets_are_deleted_with_every_cascade(kubectl: Kubectl, tmp_path: Path, cascade: str) -> None:
    apply(kubectl, tmp_path, _SET)
    kubectl("rollout", "status", "statefulset/db", "--timeout=40s")
    kubectl("delete", "statefulset/db", f"--cascade={cascade}")
    if cascade == "orphan":
        pods = json.loads(kubectl("get", "pods", "-l", "app=db", "-o", "json"))["items"]
        assert [pod["metadata"].get("ownerReferences") for pod in pods] == [None, None]
    else:
        kubectl("wait", "--for=delete", "pod", "-l", "app=db", "--timeout=20s")
