"""Kubernetes' csi-driver-host-path under Bayplan's kubelet and `bayplan csi-controller`, as it comes.

    python -m tests.cluster.real_nodes.third_party_driver HOSTPATHPLUGIN CSI_NODE_DRIVER_REGISTRAR

Both programs are built from the repositories of these names of github.com/kubernetes-csi (`make`). Claims are provisioned, attached, mounted,
expanded while they are used, cloned, taken as snapshots and restored; a block volume and an inline volume are used; at the end nothing of them is left. Needs root,
kubectl, and what docs/real-nodes.md names.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bayplan.cluster.real_nodes.settings import NodePlace, RealNodeSettings
from tests.cluster.real_nodes.images import give_image
from tests.cluster.real_nodes.kubectl import Kubectl
from tests.cluster.real_nodes.mixed import process
from tests.integration.conftest import BAYPLAN, start
from tests.kubelet.runtime.real_containerd import BUSYBOX

DRIVER = "hostpath.csi.k8s.io"
_CLASSES = """
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: hostpath.csi.k8s.io}
spec: {volumeLifecycleModes: [Persistent, Ephemeral], podInfoOnMount: true, fsGroupPolicy: File, attachRequired: true}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: hostpath}
provisioner: hostpath.csi.k8s.io
allowVolumeExpansion: true
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: hostpath}
driver: hostpath.csi.k8s.io
deletionPolicy: Delete
"""
_CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec: {storageClassName: hostpath, accessModes: [ReadWriteOnce], volumeMode: MODE, resources: {requests: {storage: 16Mi}}, dataSource: SOURCE}
"""
_POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 1234}
  containers:
  - {name: main, image: IMAGE, command: [sh, -c, "trap exit TERM; sleep 3600 & wait"], USE}
  volumes: [{name: data, VOLUME}]
"""
_SNAPSHOT = """
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: taken}
spec: {volumeSnapshotClassName: hostpath, source: {persistentVolumeClaimName: data}}
"""
_MOUNTED = "volumeMounts: [{name: data, mountPath: /data}]"
_DEVICE = "volumeDevices: [{name: data, devicePath: /dev/data}]"


def claim(name: str, *, source: str = "null", mode: str = "Filesystem") -> str:
    """A claim of the driver's class."""
    return _CLAIM.replace("NAME", name).replace("SOURCE", source).replace("MODE", mode)


def pod(name: str, volume: str, use: str = _MOUNTED) -> str:
    """A pod that stays, with one volume."""
    return _POD.replace("NAME", name).replace("IMAGE", BUSYBOX).replace("USE", use).replace("VOLUME", volume)


def of_claim(name: str) -> str:
    """The volume of a claim."""
    return f"persistentVolumeClaim: {{claimName: {name}}}"


def play(kubectl: Kubectl) -> None:
    """Use the driver in each way. Fails where something is wrong."""
    kubectl.apply(claim("data") + "---" + pod("first", of_claim("data")))
    kubectl.wait_ready("first")
    kubectl.sh("first", "echo one > /data/file")
    assert kubectl("get", "volumeattachments", "-o", "jsonpath={.items[0].status.attached}") == "true"
    kubectl("patch", "pvc/data", "-p", '{"spec": {"resources": {"requests": {"storage": "32Mi"}}}}')
    kubectl.wait("pvc/data", ".status.capacity.storage", "32Mi")
    kubectl.apply(_SNAPSHOT)
    kubectl.wait("volumesnapshot/taken", ".status.readyToUse", "true")
    kubectl.sh("first", "echo two > /data/file")
    snapshot = "{apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: taken}"
    larger = "storage: 32Mi"
    restored = claim("restored", source=snapshot).replace("storage: 16Mi", larger)
    cloned = claim("cloned", source="{kind: PersistentVolumeClaim, name: data}").replace("storage: 16Mi", larger)
    kubectl.apply("---".join((restored, pod("second", of_claim("restored")), cloned, pod("third", of_claim("cloned")))))
    kubectl.apply(claim("raw", mode="Block") + "---" + pod("block", of_claim("raw"), _DEVICE))
    kubectl.apply(pod("inline", f"csi: {{driver: {DRIVER}}}"))
    for name, file in (("second", "one"), ("third", "two")):
        kubectl.wait_ready(name)
        assert kubectl.sh(name, "cat /data/file") == f"{file}\n"
    kubectl.wait_ready("block")
    assert kubectl.sh("block", "test -b /dev/data && echo hello > /dev/data && busybox head -c 5 /dev/data") == "hello"
    kubectl.wait_ready("inline")
    kubectl.sh("inline", "echo x > /data/file")
    assert kubectl.sh("first", "busybox stat -c %g /data").strip() == "1234"
    kubectl("delete", "pods", "--all")
    kubectl("delete", "volumesnapshots,pvc", "--all")
    left = "pods,pv,volumeattachments,volumesnapshotcontents"
    kubectl.until(lambda: kubectl("get", left, "-o", "name") == "", "no pod, volume, attachment or snapshot")


@contextlib.contextmanager
def driver(place: NodePlace, kubeconfig: Path, plugin: str, registrar: str) -> Iterator[Path]:
    """The driver, its registrar and Bayplan's controllers on a node; the directory of its volumes."""
    kubelet, logs = place.directory / "kubelet", place.directory
    socket = kubelet / "plugins" / DRIVER / "csi.sock"
    state = place.directory / "hostpath"
    for each in (socket.parent, state):
        each.mkdir(parents=True, exist_ok=True)
    endpoint = f"unix://{socket}"
    flags = (f"--endpoint={endpoint}", f"--nodeid={place.name}", f"--statedir={state}", "--enable-attach=true")
    registration = (
        f"--kubelet-registration-path={socket}",
        f"--plugin-registration-path={kubelet / 'plugins_registry'}",
    )
    controllers = (f"--kubeconfig={kubeconfig}", f"--csi-address={socket}", "--extra-create-metadata=true")
    with (
        process(logs / "hostpath.log", plugin, f"--drivername={DRIVER}", *flags),
        process(logs / "registrar.log", registrar, f"--csi-address={socket}", *registration),
        process(logs / "hostpath-controller.log", BAYPLAN, "csi-controller", *controllers),
    ):
        yield state


def run(directory: Path, plugin: str, registrar: str) -> None:
    """Start a node with the driver, and use it. Fails where something is wrong."""
    data = directory / "data"
    place = RealNodeSettings(1, data / "real-nodes").nodes()[0]
    kubectl = Kubectl(data / "kubeconfig")
    up = start("--data-dir", str(data), "--nodes", "0", "--real-nodes", "1", "--no-real-node-outbound", "--port", "0")
    try:
        manifests = subprocess.run([BAYPLAN, "csi-controller", "manifests"], capture_output=True, text=True, check=True)
        kubectl.apply(manifests.stdout)
        kubectl.until(
            lambda: kubectl.get("node/real-1", '.status.conditions[?(@.type=="Ready")].status') == "True", "ready"
        )
        kubectl.until(lambda: "volumesnapshotclasses" in kubectl("api-resources", "-o", "name"), "kinds of snapshots")
        kubectl.apply(_CLASSES)
        give_image(place)
        with driver(place, kubectl.kubeconfig, plugin, registrar) as state:
            kubectl.wait("csinode/real-1", f'.spec.drivers[?(@.name=="{DRIVER}")].nodeID', place.name)
            play(kubectl)
            left = [each.name for each in state.iterdir() if each.name != "state.json"]
            assert not left, f"the driver has kept {left}"
    finally:
        up.terminate()
        assert up.wait(60) == 0


def main() -> int:
    """As the module says."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bp") as directory:
        run(Path(directory), sys.argv[1], sys.argv[2])
    print(
        "provisioned, attached, mounted, expanded, cloned, restored from a snapshot; a block and an inline volume; nothing is left"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
