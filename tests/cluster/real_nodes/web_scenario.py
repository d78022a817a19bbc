"""A web server with a volume and its client on another node: it is found by name, and its data outlive its pod."""

from __future__ import annotations

from collections.abc import Sequence

from tests.cluster.real_nodes.kubectl import Kubectl
from tests.kubelet.runtime.real_containerd import BUSYBOX

_SERVER = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: IMAGE
        command: [sh, -c, "echo kept >> /data/index.html; echo serving; exec busybox httpd -f -p 8080 -h /data"]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
"""
_CLIENT = """
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: IMAGE, command: [sh, -c, "trap exit TERM; sleep 3600 & wait"]}
"""


def play(kubectl: Kubectl, nodes: Sequence[str]) -> None:
    """Run it in a cluster that has these nodes, and remove it again. Fails where something is wrong."""
    kubectl.apply(_SERVER.replace("IMAGE", BUSYBOX))
    kubectl.wait_ready("web-0")
    there = kubectl.get("pod/web-0", ".spec.nodeName")
    other = next((name for name in nodes if name != there), there)
    kubectl.apply(_CLIENT.replace("IMAGE", BUSYBOX).replace("NODE", other))
    kubectl.wait_ready("client")
    fetch = "busybox wget -q -O - http://web.default.svc.cluster.local/"
    assert kubectl.sh("client", fetch) == "kept\n"
    assert kubectl("logs", "web-0") == "serving\n"
    before = kubectl.get("pod/web-0", ".metadata.uid")
    kubectl("delete", "pod", "web-0")
    kubectl.until(lambda: kubectl.get("pod/web-0", ".metadata.uid") not in ("", before), "another web-0")
    kubectl.wait_ready("web-0")
    kubectl.until(lambda: kubectl.sh("client", f"{fetch} || true") == "kept\nkept\n", "the data of both pods")
    kubectl("delete", "statefulset/web", "service/web", "pod/client", "pvc/data-web-0")
    kubectl.until(lambda: kubectl("get", "pods,pv", "-o", "name") == "", "no pod and no volume")
