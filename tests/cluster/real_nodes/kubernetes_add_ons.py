"""Other projects' pod network, service proxy and DNS server in the place of Bayplan's, as pods of real nodes: a pod is reached by name on another node.

    python -m tests.cluster.real_nodes.kubernetes_add_ons --kube-proxy PATH --coredns PATH --flanneld PATH   # all of them, or some

Needs root, and what docs/real-nodes.md names. The programs are run as they are, from the machine's files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from bayplan.cluster.real_nodes.settings import DNS, POD_NETWORK, PROXY, RealNodeSettings
from tests.cluster.real_nodes import web_scenario
from tests.cluster.real_nodes.images import give_image
from tests.cluster.real_nodes.kubectl import Kubectl
from tests.cluster.real_nodes.mixed import process
from tests.integration.conftest import BAYPLAN
from tests.kubelet.runtime.real_containerd import BUSYBOX

_NAMESPACE: Final = "kube-system"
_TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_PROXY_COMMAND: Final = """
exec /programs/kube-proxy --proxy-mode=nftables --kubeconfig=/files/kubeconfig --hostname-override=$NODE_NAME --cluster-cidr=$PODS
"""
_FLANNEL_COMMAND: Final = """
mkdir -p /node/flannel /run/flannel
rm -f /node/flannel/subnet.env
/programs/flanneld --kube-subnet-mgr --kubeconfig-file=/files/kubeconfig --net-config-path=/files/network --subnet-file=/node/flannel/subnet.env &
trap 'kill $!; wait; exit' TERM
until [ -s /node/flannel/subnet.env ]; do kill -0 $! || exit 1; sleep 0.2; done
. /node/flannel/subnet.env
sed "s,SUBNET,${FLANNEL_SUBNET%.*}.0/24,; s,MTU,$FLANNEL_MTU,; s,NODE,$NODES/$NODE_NAME," /files/cni > /node/cni/10-flannel.conflist
wait
"""
"""flanneld, and the network for the runtime that its subnet is for, of the plugins that the machine has."""
_FLANNEL_CNI: Final = """
{"cniVersion": "0.4.0", "name": "flannel", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "mtu": MTU, "ipam":
    {"type": "host-local", "dataDir": "NODE/flannel/addresses", "ranges": [[{"subnet": "SUBNET"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
"""
_FLANNEL_RULES: Final = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
]
_COREDNS_RULES: Final = [
    {"apiGroups": [""], "resources": ["services", "namespaces", "pods"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
]
_COREFILE: Final = ".:53 {\n errors\n ready\n kubernetes cluster.local in-addr.arpa ip6.arpa\n cache 30\n}\n"
_COREDNS_SERVICE: Final = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "kube-dns", "namespace": _NAMESPACE},
    "spec": {
        "clusterIP": "10.96.0.10",
        "selector": {"k8s-app": "coredns"},
        "ports": [{"name": one.lower(), "port": 53, "protocol": one} for one in ("UDP", "TCP")],
    },
}


@dataclass(frozen=True, slots=True)
class Part:
    """A program in the place of one of Bayplan's: `add_on`. files: of its ConfigMap. is_host: whether it has the node's network."""

    add_on: str
    name: str
    program: Path
    rules: list[dict[str, Any]]
    command: str
    files: dict[str, str]
    is_host: bool = True
    more: list[dict[str, Any]] = field(default_factory=list)

    def objects(self, nodes: Path, pods: str) -> list[dict[str, Any]]:
        """What is applied: a DaemonSet and what it needs. nodes: the directory of the nodes' directories. pods: their network."""
        rbac = "rbac.authorization.k8s.io"
        named = {"metadata": {"name": self.name, "namespace": _NAMESPACE}}
        role = {"apiGroup": rbac, "kind": "ClusterRole", "name": self.name}
        account = {"kind": "ServiceAccount", **named["metadata"]}
        return [
            {"apiVersion": "v1", "kind": "ServiceAccount", **named},
            {"apiVersion": "v1", "kind": "ConfigMap", **named, "data": self.files},
            {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", **named, "rules": self.rules},
            {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", **named, "roleRef": role, "subjects": [account]},
            {"apiVersion": "apps/v1", "kind": "DaemonSet", **named, "spec": self._spec(nodes, pods)},
            *self.more,
        ]

    def _spec(self, nodes: Path, pods: str) -> dict[str, Any]:
        labels = {"k8s-app": self.name}
        fields = {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
        # Programs that a part starts, such as nft and iptables, are the machine's.
        machine = {"/usr": "usr", "/lib": "usr/lib", "/lib64": "usr/lib64", "/etc/alternatives": "etc/alternatives"}
        container = {
            "name": "main",
            "image": BUSYBOX,
            "command": ["/bin/sh", "-c", self.command],
            "env": [
                {"name": "PATH", "value": "/usr/sbin:/usr/bin:/bin"},
                {"name": "NODES", "value": str(nodes)},
                {"name": "PODS", "value": pods},
                *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
            ],
            "securityContext": {"privileged": True},
            "volumeMounts": [
                {"name": "files", "mountPath": "/files"},
                {"name": "program", "mountPath": f"/programs/{self.name}", "readOnly": True},
                {"name": "nodes", "mountPath": "/node", "subPathExpr": "$(NODE_NAME)"},
                *({"name": "machine", "mountPath": at, "subPath": of, "readOnly": True} for at, of in machine.items()),
            ],
        }
        volumes = [
            {"name": "files", "configMap": {"name": self.name}},
            {"name": "program", "hostPath": {"path": str(self.program), "type": "File"}},
            {"name": "nodes", "hostPath": {"path": str(nodes)}},
            {"name": "machine", "hostPath": {"path": "/"}},
        ]
        pod = {
            "serviceAccountName": self.name,
            "hostNetwork": self.is_host,
            "dnsPolicy": "Default",
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 2,
            "containers": [container],
            "volumes": volumes,
        }
        return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}


def kubeconfig(server: str) -> str:
    """One that reaches the API server without the service proxy, as the pod's service account."""
    here = {"cluster": "here", "user": "here"}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": server, "certificate-authority": f"{_TOKEN}/ca.crt"}}],
            "users": [{"name": "here", "user": {"tokenFile": f"{_TOKEN}/token"}}],
            "contexts": [{"name": "here", "context": here}],
            "current-context": "here",
        }
    )


def parts_of(chosen: argparse.Namespace, server: str, proxier: list[dict[str, Any]]) -> list[Part]:
    """The parts that are given. server: the API server's URL. proxier: the rules of Kubernetes' role for service proxies."""
    access = {"kubeconfig": kubeconfig(server)}
    found = []
    if chosen.flanneld:
        network = {"Network": chosen.pods, "EnableNFTables": True, "Backend": {"Type": "vxlan"}}
        files = {**access, "network": json.dumps(network), "cni": _FLANNEL_CNI}
        found.append(Part(POD_NETWORK, "flanneld", chosen.flanneld, _FLANNEL_RULES, _FLANNEL_COMMAND, files))
    if chosen.kube_proxy:
        found.append(Part(PROXY, "kube-proxy", chosen.kube_proxy, proxier, _PROXY_COMMAND, access))
    if chosen.coredns:
        command, files = "exec /programs/coredns -conf /files/Corefile", {"Corefile": _COREFILE}
        more = [_COREDNS_SERVICE]
        found.append(Part(DNS, "coredns", chosen.coredns, _COREDNS_RULES, command, files, is_host=False, more=more))
    return found


@contextlib.contextmanager
def _explained(kubectl: Kubectl, parts: Sequence[Part]) -> Iterator[None]:
    """Print what the parts have said, if something fails."""
    try:
        yield
    except AssertionError:
        for part in parts:
            log = ("logs", "-n", _NAMESPACE, "-l", f"k8s-app={part.name}", "--tail=30", "--prefix")
            with contextlib.suppress(AssertionError):
                print(kubectl(*log), file=sys.stderr)
        raise


def run(directory: Path, chosen: argparse.Namespace) -> None:
    """Start a cluster with the given parts, play the scenario in it, end it. Fails where something is wrong."""
    data, log = directory / "data", directory / "up.log"
    settings = RealNodeSettings(2, data / "real-nodes", outbound=False)
    absent = {POD_NETWORK: chosen.flanneld, PROXY: chosen.kube_proxy, DNS: chosen.coredns}
    without = [f"--real-node-without={name}" for name, path in absent.items() if path]
    pods = f"--controller-manager-flag=--cluster-cidr={chosen.pods}"
    flags = (f"--data-dir={data}", pods, "--port=0", "--nodes=0", "--real-nodes=2", "--no-real-node-outbound", *without)
    with process(log, BAYPLAN, "up", *flags):
        kubectl = Kubectl(data / "kubeconfig")
        names = [place.name for place in settings.nodes()]
        kubectl.until(lambda: "ready: " in log.read_text(), "a cluster that is ready")
        kubectl.until(
            lambda: kubectl("get", "nodes", "-o", "name").split() == [f"node/{one}" for one in names], "nodes"
        )
        for place in settings.nodes():
            give_image(place)
        # Builds of OpenShift put it into each pod; others do not look at it.
        kubectl("create", "configmap", "openshift-service-ca.crt", "--from-literal=service-ca.crt=")
        server = yaml.safe_load(kubectl("config", "view"))["clusters"][0]["cluster"]["server"]
        role = json.loads(kubectl("get", "clusterrole", "system:node-proxier", "-o", "json"))
        parts = parts_of(chosen, f"https://{settings.gateways[0]}:{server.rpartition(':')[2]}", role["rules"])
        for part in parts:
            objects = part.objects(settings.directory, chosen.pods)
            kubectl.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        with _explained(kubectl, parts):
            for part in parts:
                what = f"daemonset/{part.name}"
                ready = ("get", what, "-n", _NAMESPACE, "-o", "jsonpath={.status.numberReady}")
                kubectl.until(lambda ready=ready: kubectl(*ready) == "2", f"{what} is ready on both nodes")  # type: ignore[misc]
            web_scenario.play(kubectl, names)
        print(kubectl("get", "nodes,pods", "-A", "-o", "wide"), flush=True)


def main() -> int:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--kube-proxy", "--coredns", "--flanneld"):
        parser.add_argument(name, type=lambda text: Path(text).absolute(), help="path of the program")
    parser.add_argument("--pods", default="10.128.0.0/9", help="network of the pods  [default: %(default)s]")
    chosen = parser.parse_args()
    if not (chosen.kube_proxy or chosen.coredns or chosen.flanneld):
        parser.error("give at least one of --kube-proxy, --coredns and --flanneld")
    os.environ.pop("KUBECONFIG", None)
    with tempfile.TemporaryDirectory(prefix="bp") as directory:
        run(Path(directory), chosen)
    print("a pod was reached by name on another node, and its data outlived it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
