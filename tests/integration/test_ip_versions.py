"""Real nodes with IPv4 and IPv6, and with IPv6 alone: pods, services, names, node ports and policies have all addresses that they should have."""

from __future__ import annotations

import contextlib
import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayplan.cluster.real_nodes.settings import RealNodeSettings
from bayplan.support.system.machine import has_ipv6
from tests.cluster.real_nodes.images import give_image
from tests.cluster.real_nodes.kubectl import Kubectl
from tests.cluster.real_nodes.test_real_nodes import traces
from tests.integration.conftest import start, stop
from tests.kubelet.runtime.real_containerd import BUSYBOX, needs_containerd

pytestmark = [
    needs_containerd,
    pytest.mark.xdist_group("real nodes"),
    pytest.mark.skipif(shutil.which("kubectl") is None or not has_ipv6(), reason="needs kubectl, IPv6"),
]
_SERVICES = {4: "10.96.0.0/16", 6: "fd96::/108"}
_PODS = {4: "10.128.0.0/9", 6: "fd80::/48"}
_NAME = "web.default.svc.cluster.local"
_WEB = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: real-1
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: IMAGE, command: [sh, -c, "echo hello > /index.html; exec /bin/busybox httpd -f -p 8080 -h /"]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  nodeName: real-2
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: IMAGE, command: [sleep, "3600"]}
"""
_NOBODY = """
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: nobody}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}
"""


@contextlib.contextmanager
def _cluster(directory: Path, versions: tuple[int, ...], *flags: str) -> Iterator[tuple[RealNodeSettings, Kubectl]]:
    """A cluster of two nodes with these IP versions, which has a server and a client. Nothing is left of it."""
    services, pods = (",".join(networks[each] for each in versions) for networks in (_SERVICES, _PODS))
    settings = RealNodeSettings(2, directory / "data" / "real-nodes", service_network=services, pod_network=pods)
    process = start(
        *("--data-dir", str(directory / "data"), "--port", "0", "--real-nodes", "2", "--no-real-node-outbound"),
        f"--apiserver-flag=--service-cluster-ip-range={services}",
        f"--controller-manager-flag=--cluster-cidr={pods}",
        *flags,
    )
    try:
        kubectl = Kubectl(directory / "data" / "kubeconfig")
        for place in settings.nodes():
            give_image(place)
        kubectl.until(lambda: "default" in kubectl("get", "serviceaccounts"), "a service account")
        kubectl.apply(_WEB.replace("IMAGE", BUSYBOX))
        for pod in ("web", "client"):
            kubectl.wait_ready(pod)
        yield settings, kubectl
    finally:
        code, _ = stop(process)
    assert code == 0
    assert traces(settings) == []


def _addresses(kubectl: Kubectl, what: str, path: str) -> list[str]:
    return list(json.loads(kubectl.get(what, path)))


def _await_answer(kubectl: Kubectl, address: str, port: int, *, wanted: bool = True) -> None:
    """Return when the client gets a page, or gets none. Not by wget: a static busybox looks for shared libraries there."""
    script = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | /bin/busybox nc -w 2 {address} {port} || true"
    kubectl.until(lambda: ("hello" in kubectl.sh("client", script)) is wanted, f"an answer of {address}: {wanted}")


def _fetched(address: str, port: int) -> str:
    """What this machine gets there; empty for no answer."""
    url = f"http://[{address}]:{port}/" if ":" in address else f"http://{address}:{port}/"
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("versions", "data_plane"), [((4, 6), "routed"), ((6, 4), "overlay"), ((6,), "routed"), ((6,), "overlay")], ids=str
)
def test_everything_has_addresses_of_all_versions(tmp_path: Path, versions: tuple[int, ...], data_plane: str) -> None:
    with _cluster(tmp_path, versions, "--real-node-network", data_plane) as (settings, kubectl):
        for place in settings.nodes():
            shown = kubectl.get(f"node/{place.name}", '.status.addresses[?(@.type=="InternalIP")].address')
            assert tuple(shown.split()) == place.addresses
        pods = kubectl.get("pod/web", ".status.podIPs[*].ip").split()
        services = _addresses(kubectl, "service/web", ".spec.clusterIPs")
        node_port = int(kubectl.get("service/web", ".spec.ports[0].nodePort"))
        for found in (pods, services, kubectl.get("pod/web", ".status.hostIPs[*].ip").split()):
            assert [6 if ":" in each else 4 for each in found] == list(versions)
        for pod in pods:
            _await_answer(kubectl, pod, 8080)
            assert _fetched(pod, 8080) == "hello\n", "the machine reaches pods, too"
        for service in services:
            _await_answer(kubectl, service, 80)
        for node in settings.nodes()[1].addresses:
            assert _fetched(node, node_port) == "hello\n"
        for server in settings.cluster_dns:
            said = kubectl.sh("client", f"/bin/busybox nslookup {_NAME} {server}")
            assert all(f"Address: {each}" in said for each in services), said
            assert server in kubectl.sh("client", "cat /etc/resolv.conf")
        kubernetes = kubectl.get("endpointslice/kubernetes", ".endpoints[0].addresses[0]")
        assert kubernetes == settings.gateways[0]
        kubectl.apply(_NOBODY)
        for pod in pods:
            _await_answer(kubectl, pod, 8080, wanted=False)
