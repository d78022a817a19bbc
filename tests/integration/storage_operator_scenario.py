"""What test_storage_operator.py runs in namespaces of its own: a cluster of three real nodes with the storage operator, one of which is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.stream import stream

from bayplan.cluster.real_nodes.processes import processes_with
from bayplan.cluster.real_nodes.settings import NodePlace, RealNodeSettings
from bayplan.csi_local.loop_devices import LoopDevices
from tests.cluster.real_nodes.images import give_image
from tests.cluster.real_nodes.test_real_nodes import traces
from tests.integration.conftest import EXAMPLES, start, stop
from tests.integration.test_real_nodes import eventually
from tests.kubelet.runtime.real_containerd import BUSYBOX

GROUP, VERSION, NAMESPACE = "storage.example.com", "v1", "replicated-storage"
REPOSITORY = EXAMPLES.parent
DISK_BYTES = 256 << 20


def mounted_python() -> list[tuple[str, str]]:
    """(directory of the machine, where containers have it): Python, Bayplan and the programs for file systems. An image of its own has them in it."""
    system = [(os.path.realpath(one), one) for one in ("/usr", "/lib", "/lib64") if Path(one).exists()]
    own = {sys.base_prefix, sys.prefix, str(REPOSITORY)}
    return system + [(one, one) for one in sorted(own) if not one.startswith("/usr/")]


def manifests(data: Path, disks: Path) -> list[dict[str, Any]]:
    """The example as users have it, but for where its program comes from, and with a storage cluster on files."""
    found = list(yaml.safe_load_all((EXAMPLES / "operators/storage/operator.yaml").read_text()))
    pod = found[-1]["spec"]["template"]["spec"]
    pod["nodeName"] = "real-3"  # the one that is not lost
    (container,) = pod["containers"]
    container["image"] = BUSYBOX
    container["command"] = [sys.executable, "-m", "examples.operators.storage.storage_operator"]
    container["workingDir"] = str(REPOSITORY)
    container["env"] += [
        {"name": "PATH", "value": "/usr/sbin:/usr/bin:/bin"},
        {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
    ]
    mounts = list(enumerate(mounted_python()))
    container["volumeMounts"] = [{"name": f"m{n}", "mountPath": there, "readOnly": True} for n, (_, there) in mounts]
    pod["volumes"] = [{"name": f"m{n}", "hostPath": {"path": here}} for n, (here, _) in mounts]
    spec = {
        "replicas": 2,
        "lostAfterSeconds": 10,
        "kubeletDirectory": f"{data}/real-nodes/$(NODE_NAME)/kubelet",
        "disks": {"directory": f"{disks}/$(NODE_NAME)"},
    }
    cluster = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "StorageCluster",
        "metadata": {"name": "storage"},
        "spec": spec,
    }
    return [*found, cluster]


APPLICATION = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: replicated, resources: {requests: {storage: 32Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - {weight: 100, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [real-1]}]}}
      containers:
        - name: main
          image: registry.test/busybox:1
          command: [sh, -c, "hostname >> /data/log; sync; exec sleep 100000"]
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


class Scenario:
    """The steps, as a user of the cluster sees them."""

    def __init__(self, directory: Path) -> None:
        self.data, self.disks = directory / "data", directory / "disks"
        self.settings = RealNodeSettings(3, self.data / "real-nodes")
        for place in self.settings.nodes():
            (self.disks / place.name).mkdir(parents=True)
            with (self.disks / place.name / "one.img").open("wb") as file:
                file.truncate(DISK_BYTES)
        self.data.mkdir()
        subprocess.run(["mount", "--bind", str(self.data), str(self.data)], check=True)
        subprocess.run(["mount", "--make-shared", str(self.data)], check=True)  # the agents' mounts are for kubelets

    def run(self) -> None:
        """Everything."""
        options = ("--nodes", "0", "--real-nodes", "3", "--no-real-node-outbound", "--port", "0")
        process = start(*options, "--data-dir", str(self.data))
        try:
            self.kubeconfig = self.data / "kubeconfig"
            self.core = client.CoreV1Api(config.new_client_from_config(str(self.kubeconfig)))
            self.custom = client.CustomObjectsApi(self.core.api_client)
            for place in self.settings.nodes():
                give_image(place)
            self.install()
            volume = self.use()
            lost = self.settings.nodes()[0]
            kubelet = self.lose(lost)
            try:
                self.recover(volume, lost)
                self.rebuild_in_place(volume)
            finally:
                os.kill(kubelet, signal.SIGCONT)
            self.remove(volume)
        finally:
            code, _ = stop(process)
        assert code == 0
        assert traces(self.settings) == []
        assert LoopDevices().below(self.disks) == []

    def apply(self, text: str) -> None:
        """kubectl apply."""
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), "apply", "-f", "-"]
        subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.DEVNULL)

    def install(self) -> None:
        """Operator and cluster: each node's disk is found and made ready."""
        *objects, cluster = manifests(self.data, self.disks)
        self.apply(yaml.safe_dump_all(objects))
        command = [
            "kubectl",
            "--kubeconfig",
            str(self.kubeconfig),
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.apply(yaml.safe_dump(cluster))
        eventually(lambda: self.cluster_status().get("disks") == 3)
        eventually(lambda: sorted(one.metadata.name for one in self.drivers()) == ["real-1", "real-2", "real-3"])

    def use(self) -> str:
        """A claim and its pod, on the node that will be lost; gives the volume."""
        self.apply(APPLICATION)
        eventually(lambda: self.running_on("real-1"))
        self.execute(self.application(), "dd if=/dev/urandom of=/data/file bs=1M count=8; sync")
        (volume,) = self.volumes()
        assert volume["status"]["holder"] == "real-1"
        assert "real-1" in volume["status"]["inSync"]
        eventually(lambda: self.volumes()[0]["status"].get("state") == "Healthy")
        self.sum = self.execute(self.application(), "md5sum /data/file")
        return str(volume["metadata"]["name"])

    def lose(self, place: NodePlace) -> int:
        """The node's kubelet stands still, all its containers are killed; its Node is deleted, and its pod by force, for which the controllers would
        take another 40 s to see that the node does not come back. Gives the kubelet's process."""
        (kubelet,) = [one.pid for one in processes_with(("python",), f"--config={place.directory}/")]
        os.kill(kubelet, signal.SIGSTOP)
        ctr = ["ctr", "--address", str(place.state / "containerd.sock"), "--namespace", "k8s.io", "tasks"]
        tasks = subprocess.run([*ctr, "ls", "-q"], capture_output=True, text=True, check=True).stdout.split()
        for one in tasks:
            subprocess.run([*ctr, "kill", "--signal", "SIGKILL", one], check=True)
        self.core.delete_node(place.name)
        self.core.delete_namespaced_pod(self.application(), "default", grace_period_seconds=0)
        return kubelet

    def recover(self, volume: str, lost: NodePlace) -> None:
        """The pod is elsewhere and finds its data; the lost replica is on the third node, equal to the other one."""
        eventually(lambda: self.condition("Healthy") == "False")
        eventually(lambda: self.running_on("real-2", "real-3"), 100)
        assert self.execute(self.application(), "md5sum /data/file") == self.sum
        assert self.execute(self.application(), "wc -l < /data/log") == "2\n", "both pods have written"
        eventually(lambda: self.volume(volume)["status"]["state"] == "Healthy")
        status = self.volume(volume)["status"]
        assert (status["inSync"], status["epoch"]) == (["real-2", "real-3"], 2)
        assert lost.name != status["holder"]
        assert {one["node"] for one in self.volume(volume)["spec"]["placement"]} == {"real-2", "real-3"}
        eventually(lambda: self.condition("Healthy") == "True")

    def rebuild_in_place(self, volume: str) -> None:
        """A replica whose agent was away while the volume was written gets what it has missed."""
        head = self.volume(volume)["status"]["holder"]
        (other,) = {"real-2", "real-3"} - {head}
        self.core.delete_namespaced_pod(self.agent(other), NAMESPACE, grace_period_seconds=0)
        self.execute(self.application(), "dd if=/dev/urandom of=/data/second bs=1M count=4; sync")
        eventually(lambda: self.volume(volume)["status"]["inSync"] == ["real-2", "real-3"])
        eventually(lambda: self.agent(other))
        assert self.digest("real-2", volume) == self.digest("real-3", volume)

    def remove(self, volume: str) -> None:
        """Claim, volume and replicas go."""
        client.AppsV1Api(self.core.api_client).delete_namespaced_deployment("app", "default")
        self.core.delete_namespaced_persistent_volume_claim("data", "default")
        eventually(lambda: not self.volumes())
        for node in ("real-2", "real-3"):
            eventually(lambda node=node: volume not in self.execute_agent(node, "ls", self.directory(node)))  # type: ignore[misc]

    # What is there

    def cluster_status(self) -> Any:
        """The StorageCluster's."""
        found: Any = self.custom.get_cluster_custom_object(GROUP, VERSION, "storageclusters", "storage")
        return found.get("status", {})

    def condition(self, kind: str) -> str:
        """The status of one of its conditions."""
        (found,) = [one["status"] for one in self.cluster_status()["conditions"] if one["type"] == kind]
        return str(found)

    def volumes(self) -> Any:
        """All ReplicatedVolumes."""
        found: Any = self.custom.list_cluster_custom_object(GROUP, VERSION, "replicatedvolumes")
        return found["items"]

    def volume(self, name: str) -> Any:
        """One of them."""
        return self.custom.get_cluster_custom_object(GROUP, VERSION, "replicatedvolumes", name)

    def drivers(self) -> list[Any]:
        """The CSINodes that have the driver."""
        found = client.StorageV1Api(self.core.api_client).list_csi_node().items
        return [one for one in found if any(each.name == f"replicated.{GROUP}" for each in one.spec.drivers or ())]

    def running_on(self, *nodes: str) -> bool:
        """Whether the application runs on one of these nodes."""
        pods = self.core.list_namespaced_pod("default", label_selector="app=app").items
        return [one.status.phase for one in pods if one.spec.node_name in nodes] == ["Running"]

    def application(self) -> str:
        """The pod of the application."""
        (found,) = self.core.list_namespaced_pod("default", label_selector="app=app").items
        return str(found.metadata.name)

    def agent(self, node: str) -> str:
        """The running agent of a node; "" if there is none."""
        found = self.core.list_namespaced_pod(NAMESPACE, label_selector="app=storage-agent").items
        names = [one.metadata.name for one in found if one.spec.node_name == node and one.status.phase == "Running"]
        return names[0] if len(names) == 1 else ""

    def directory(self, node: str) -> str:
        """Where the agent of a node has its replicas."""
        disk = str(self.disks / node / "one.img").strip("/").replace("/", "_")
        return f"/run/replicated-storage/disks/{disk}"

    def digest(self, node: str, volume: str) -> str:
        """Of a replica."""
        return self.execute_agent(node, "md5sum", f"{self.directory(node)}/{volume}.img").split()[0]

    def execute(self, pod: str, command: str, namespace: str = "default") -> str:
        """What a shell in a pod prints."""
        said: str = stream(
            self.core.connect_get_namespaced_pod_exec,
            pod,
            namespace,
            command=["sh", "-c", command],
            stderr=False,
            stdout=True,
        )
        return said

    def execute_agent(self, node: str, *command: str) -> str:
        """What a command in a node's agent prints."""
        return self.execute(self.agent(node), " ".join(command), NAMESPACE)


if __name__ == "__main__":
    Scenario(Path(sys.argv[1])).run()
