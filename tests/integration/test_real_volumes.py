"""What containers of a real node see: volumes of all kinds, variables, files; and that nothing of it stays when they go."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from bayplan.cluster.real_nodes.settings import RealNodeSettings
from tests.cluster.real_nodes.images import give_image
from tests.cluster.real_nodes.test_real_nodes import traces
from tests.integration.conftest import start, stop
from tests.integration.test_real_nodes import eventually
from tests.kubelet.runtime.real_containerd import BUSYBOX, needs_containerd

pytestmark = [
    needs_containerd,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
    pytest.mark.xdist_group("real nodes"),
]


class RealNode:
    """One node of this machine."""

    def __init__(self, top: Path) -> None:
        self.settings = RealNodeSettings(1, top / "data" / "real-nodes")
        self.place = self.settings.nodes()[0]
        self.kubeconfig = top / "data" / "kubeconfig"
        self.core: Any = None

    def connect(self) -> None:
        """Wait until pods can run."""
        self.core = client.CoreV1Api(config.new_client_from_config(str(self.kubeconfig)))
        eventually(lambda: [each for each in self.core.list_node().items if _is_ready(each)])
        give_image(self.place)
        eventually(lambda: self.core.list_namespaced_service_account("default").items)
        eventually(lambda: self.core.list_namespaced_config_map("default").items)  # the root certificate

    def run(self, name: str, spec: dict[str, Any], wanted: str = "Running", **metadata: Any) -> Any:
        """Make a pod, and wait until it is in a phase."""
        spec = {"nodeName": "real-1", "terminationGracePeriodSeconds": 1, "restartPolicy": "Never", **spec}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
        self.core.create_namespaced_pod("default", body)

        def reached() -> Any:
            found = self.core.read_namespaced_pod(name, "default")
            return found if found.status.phase == wanted else None

        return eventually(reached)

    def sh(self, name: str, script: str, container: str = "main") -> str:
        """What a script prints in a container."""
        command = [
            "kubectl",
            "--kubeconfig",
            str(self.kubeconfig),
            "exec",
            name,
            "-c",
            container,
            "--",
            "sh",
            "-c",
            script,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr.replace("command terminated with exit code 1\n", "")

    def remove(self, name: str) -> None:
        """Delete a pod, and wait until nothing of it is left on the node."""
        uid = self.core.read_namespaced_pod(name, "default").metadata.uid
        pods = self.place.directory / "kubelet" / "pods"
        assert pods.is_dir()
        self.core.delete_namespaced_pod(name, "default")
        eventually(lambda: name not in [each.metadata.name for each in self.core.list_namespaced_pod("default").items])
        eventually(lambda: not (pods / uid).exists())
        assert uid not in Path("/proc/self/mountinfo").read_text()


def _is_ready(node: Any) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions or ())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    """A node for all tests here."""
    top = tmp_path_factory.mktemp("node")
    found = RealNode(top)
    process = start("--data-dir", str(top / "data"), "--port", "0", "--real-nodes", "1", "--no-real-node-outbound")
    try:
        found.connect()
        yield found
        found.core.api_client.rest_client.pool_manager.clear()
    finally:
        code, _ = stop(process)
    assert code == 0
    assert traces(found.settings) == []


def main(**fields: Any) -> dict[str, Any]:
    """A container that stays."""
    return {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", "trap exit TERM; sleep 1000 & wait"], **fields}


def mounts(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "mountPath": f"/{name}"} for name in names]


def test_objects_of_the_api_are_files_that_change(node: RealNode) -> None:
    meta = client.V1ObjectMeta(name="settings")
    node.core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=meta, data={"a": "1", "b": "2"}))
    secret = {"password": base64.b64encode(b"xyz").decode()}
    node.core.create_namespaced_secret("default", client.V1Secret(metadata=meta, data=secret))
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    volumes = [
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "secret", "secret": {"secretName": "settings", "defaultMode": 0o400}},
        {"name": "down", "downwardAPI": {"items": [labels]}},
    ]
    environment = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "settings", "key": "password"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "BOTH", "value": "$(A)-$(PASSWORD)"},
    ]
    container = main(volumeMounts=mounts("config", "secret", "down"), env=environment)
    pod = node.run("files", {"volumes": volumes, "containers": [container]}, labels={"app": "x"})
    assert node.sh("files", "cat /config/a /config/b /secret/password /down/labels") == '12xyzapp="x"'
    assert node.sh("files", "echo $BOTH $IP").split() == ["1-xyz", pod.status.pod_ip]
    assert "tmpfs" in node.sh("files", "grep ' /secret ' /proc/mounts")
    assert "Read-only" in node.sh("files", "touch /config/x")
    assert f"{pod.status.pod_ip}\tfiles" in node.sh("files", "cat /etc/hosts")
    node.core.patch_namespaced_config_map("settings", "default", {"data": {"a": "new", "b": None, "c": "3"}})
    eventually(lambda: node.sh("files", "ls /config; cat /config/a") == "a\nc\nnew", 20)
    node.core.patch_namespaced_pod("files", "default", {"metadata": {"labels": {"app": "y"}}})
    eventually(lambda: node.sh("files", "cat /down/labels") == 'app="y"', 20)
    node.remove("files")


def test_a_pod_knows_the_api_server_by_its_token(node: RealNode) -> None:
    node.run("token", {"containers": [main(securityContext={"runAsUser": 1000})]})
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert node.sh("token", f"cat {place}/namespace") == "default"
    assert node.sh("token", f"cat {place}/token").count(".") == 2
    assert "BEGIN CERTIFICATE" in node.sh("token", f"cat {place}/ca.crt")
    assert node.sh("token", f"stat -L -c '%a %u' {place}/token").split() == ["600", "1000"]
    assert node.sh("token", "echo $KUBERNETES_SERVICE_HOST").strip()
    node.remove("token")


def test_containers_share_a_directory_in_their_group(node: RealNode) -> None:
    other = {**main(volumeMounts=mounts("shared")), "name": "other"}
    volumes = [
        {"name": "shared", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    ]
    spec = {
        "securityContext": {"runAsUser": 1000, "fsGroup": 2000},
        "volumes": volumes,
        "containers": [main(volumeMounts=mounts("shared", "memory")), other],
    }
    node.run("shared", spec)
    assert "2000" in node.sh("shared", "id -G").split()
    node.sh("shared", "echo hello > /shared/file")
    assert node.sh("shared", "cat /shared/file; stat -c '%u %g' /shared/file", "other") == "hello\n1000 2000\n"
    assert "No space left" in node.sh("shared", "dd if=/dev/zero of=/memory/x bs=1M count=2")
    node.remove("shared")


def test_parts_of_volumes_and_paths_of_the_node(node: RealNode, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o777)
    (tmp_path / "data" / "file").write_text("of the node")
    (tmp_path / "data" / "escape").symlink_to("/etc")
    volumes = [
        {"name": "host", "hostPath": {"path": str(tmp_path / "data"), "type": "Directory"}},
        {"name": "work", "emptyDir": {}},
    ]
    parts = [
        {"name": "host", "mountPath": "/file", "subPath": "file"},
        {"name": "host", "mountPath": "/host", "readOnly": True},
        {"name": "work", "mountPath": "/work", "subPathExpr": "of/$(NAME)"},
    ]
    container = main(volumeMounts=parts, env=[{"name": "NAME", "value": "me"}])
    node.run("parts", {"volumes": volumes, "containers": [container]})
    assert node.sh("parts", "cat /file /host/file") == "of the nodeof the node"
    assert "Read-only" in node.sh("parts", "touch /host/x")
    assert node.sh("parts", "touch /work/x && ls /work") == "x\n"
    node.remove("parts")
    assert (tmp_path / "data" / "file").read_text() == "of the node"
    escaping = main(volumeMounts=[{"name": "host", "mountPath": "/x", "subPath": "escape"}])
    node.run("escape", {"volumes": volumes, "containers": [escaping]}, wanted="Pending")

    def refused() -> bool:
        states = node.core.read_namespaced_pod("escape", "default").status.container_statuses or ()
        text = 'failed to prepare subPath for volumeMount "host" of container "main"'
        return any(each.state.waiting is not None and each.state.waiting.message == text for each in states)

    eventually(refused)
    node.remove("escape")


def test_data_of_a_persistent_volume_outlives_its_pods(node: RealNode, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    node.core.create_persistent_volume(
        {
            "metadata": {"name": "local"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "local": {"path": str(data)},
                "claimRef": {"namespace": "default", "name": "claim"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["real-1"]}
                                ]
                            }
                        ]
                    }
                },
            },
        }
    )
    node.core.create_namespaced_persistent_volume_claim(
        "default",
        {
            "metadata": {"name": "claim"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "volumeName": "local",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
    for number in range(2):
        node.run(f"claim-{number}", {"volumes": volumes, "containers": [main(volumeMounts=mounts("data"))]})
        node.sh(f"claim-{number}", f"echo {number} >> /data/file")
        node.remove(f"claim-{number}")
    assert (data / "file").read_text() == "0\n1\n"


def test_last_words_and_logs_of_earlier_runs(node: RealNode) -> None:
    script = "echo run; echo to the file > /dev/termination-log; exit 3"
    node.run("words", {"containers": [{**main(), "command": ["sh", "-c", script]}]}, wanted="Failed")
    ended = node.core.read_namespaced_pod("words", "default").status.container_statuses[0].state.terminated
    assert (ended.exit_code, ended.message) == (3, "to the file\n")
    node.remove("words")
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError", "command": ["sh", "-c", "echo to the log; exit 1"]}
    node.run("again", {"restartPolicy": "Always", "containers": [{**main(), **fallback}]})

    def restarted() -> Any:
        found = node.core.read_namespaced_pod("again", "default").status.container_statuses[0]
        return found if found.restart_count and found.last_state.terminated is not None else None

    last = eventually(restarted).last_state.terminated
    assert last.message == "to the log\n"
    assert node.core.read_namespaced_pod_log("again", "default", previous=True) == "to the log\n"
    shown = node.core.read_namespaced_pod_log("again", "default", timestamps=True, tail_lines=1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d) to the log\n", shown)
    node.remove("again")


def test_what_is_missing_is_told_and_waited_for(node: RealNode) -> None:
    volumes = [{"name": "late", "configMap": {"name": "late"}}]
    node.run("late", {"volumes": volumes, "containers": [main(volumeMounts=mounts("late"))]}, wanted="Pending")
    text = 'MountVolume.SetUp failed for volume "late" : configmap "late" not found'
    eventually(lambda: text in [each.message for each in node.core.list_namespaced_event("default").items])
    meta = client.V1ObjectMeta(name="late")
    node.core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=meta, data={"a": "1"}))
    eventually(lambda: node.core.read_namespaced_pod("late", "default").status.phase == "Running")
    assert node.sh("late", "cat /late/a") == "1"
    node.remove("late")


def test_mounts_propagate_as_asked_for(node: RealNode, tmp_path: Path) -> None:
    volumes = [{"name": "work", "emptyDir": {}}]
    mount = {"name": "work", "mountPath": "/work"}
    maker = main(securityContext={"privileged": True}, volumeMounts=[{**mount, "mountPropagation": "Bidirectional"}])
    seer = {**main(volumeMounts=[{**mount, "mountPropagation": "HostToContainer"}]), "name": "seer"}
    blind = {**main(volumeMounts=[mount]), "name": "blind"}
    node.run("propagate", {"volumes": volumes, "containers": [maker, seer, blind]})
    node.sh("propagate", "mkdir /work/inner && mount -t tmpfs inner /work/inner && echo x > /work/inner/file")
    assert node.sh("propagate", "cat /work/inner/file", "seer") == "x\n"
    assert "No such file" in node.sh("propagate", "cat /work/inner/file", "blind")
    node.remove("propagate")
