"""Bayplan's parts on Kubernetes' API server, and Kubernetes' kubelet on Bayplan's: pods run there, are found by name and keep their data.

    python -m tests.cluster.real_nodes.mixed --kube-apiserver PATH   # needs etcd; kubelet, network, proxy, DNS, storage, scheduler and controllers are Bayplan's
    python -m tests.cluster.real_nodes.mixed --kubelet PATH          # all but the kubelet is Bayplan's

Needs root, and what docs/real-nodes.md names.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.apiserver.certificates import KeyPair, make_authority, sign
from bayplan.apiserver.service_account_tokens.keys import public_pem
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load
from bayplan.cluster.real_nodes.kubelet_files import ApiAccess
from bayplan.cluster.real_nodes.service import RealNodes
from bayplan.cluster.real_nodes.settings import RealNodeSettings
from bayplan.kubelet.cgroups.hierarchies import Hierarchies
from bayplan.kubelet.cgroups.mounts import find_mounts
from bayplan.kubelet.core.resources import CgroupResources
from bayplan.kubelet.node.bootstrap import write_kubeconfig
from bayplan.support.clock import SystemClock
from tests.cluster.real_nodes import web_scenario
from tests.cluster.real_nodes.images import give_image
from tests.cluster.real_nodes.kubectl import Kubectl
from tests.integration.conftest import BAYPLAN
from tests.kubelet.waiting import eventually
from tests.store.etcd.server import EtcdServer, free_ports

_OWN_FLAGS = ("--container-log-dir",)
"""Flags of Bayplan's kubelet that Kubernetes' does not have."""
_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class ApiServerFiles:
    """Where an API server that nodes reach at `host` listens, and what it is started with. Certificates are made when it is."""

    directory: Path
    host: str
    port: int
    authority: KeyPair
    now: float

    def write(self, name: str, content: bytes) -> Path:
        """A file; its path."""
        path = self.directory / name
        path.write_bytes(content)
        return path

    def pair(self, name: str, user: str, *, organizations: Sequence[str] = (), hosts: Sequence[str] = ()) -> Path:
        """A file with a new certificate and its key."""
        made = sign(self.authority, self.now, user, organizations=organizations, hosts=hosts)
        return self.write(f"{name}.pem", made.certificate + made.key)

    def kubeconfig(self) -> Path:
        """A kubeconfig of an administrator."""
        authority = self.write("ca.crt", self.authority.certificate)
        cluster = {"server": f"https://{self.host}:{self.port}", "certificate-authority": str(authority)}
        path = self.directory / "admin.kubeconfig"
        write_kubeconfig(path, cluster, self.pair("admin", "admin", organizations=("system:masters",)))
        return path

    def access(self) -> ApiAccess:
        """How nodes reach it."""

        def signed(user: str, groups: tuple[str, ...]) -> KeyPair:
            return sign(self.authority, self.now, user, organizations=groups)

        return ApiAccess(f"https://{self.host}:{self.port}", self.authority.certificate, signed)


@contextlib.contextmanager
def process(log: Path, *command: str) -> Iterator[None]:
    """A process that runs as long as this; it must not have ended by itself."""
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as started:
        try:
            yield
            assert started.poll() is None, f"{command[0]} has ended: {log.read_text()[-2000:]}"
        finally:
            started.send_signal(signal.SIGTERM)
            try:
                started.wait(20)
            except subprocess.TimeoutExpired:
                started.kill()


@contextlib.contextmanager
def kubernetes_api(files: ApiServerFiles, binary: str) -> Iterator[None]:
    """kube-apiserver on an etcd of its own, with Bayplan's scheduler and controllers."""
    store = EtcdServer(files.directory / "etcd", ("--unsafe-no-fsync",))
    tokens = files.write("service-accounts.key", make_authority(files.now).key)
    authority = files.write("ca.crt", files.authority.certificate)
    flags = _kube_apiserver_flags(files, tokens, authority)
    components = {"scheduler": (), "controller-manager": _controller_flags(files, tokens, authority)}
    with contextlib.ExitStack() as stack:
        stack.callback(store.stop)
        store.start()
        log = files.directory / "kube-apiserver.log"
        stack.enter_context(process(log, binary, f"--etcd-servers=http://{store.endpoint}", *flags))
        wait_served(files)
        for verb, own in components.items():
            shared = (f"--kubeconfig={files.kubeconfig()}", "--leader-elect=false", "--secure-port=0")
            stack.enter_context(process(files.directory / f"{verb}.log", BAYPLAN, verb, *shared, *own))
        yield


def _kube_apiserver_flags(files: ApiServerFiles, tokens: Path, authority: Path) -> tuple[str, ...]:
    """Flags of kube-apiserver but those of its store. tokens: key of service accounts' tokens."""
    serving = files.pair("apiserver", "kube-apiserver", hosts=(files.host, "127.0.0.1", "10.96.0.1", "kubernetes"))
    to_kubelets = files.pair("kubelet-client", "kubelet-client", organizations=("system:masters",))
    return (
        f"--secure-port={files.port}",
        "--bind-address=0.0.0.0",
        f"--advertise-address={files.host}",
        f"--tls-cert-file={serving}",
        f"--tls-private-key-file={serving}",
        f"--client-ca-file={authority}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={to_kubelets}",
        f"--kubelet-client-key={to_kubelets}",
        f"--service-account-key-file={files.write('service-accounts.pub', public_pem(tokens.read_bytes()))}",
        f"--service-account-signing-key-file={tokens}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
    )


def _controller_flags(files: ApiServerFiles, tokens: Path, authority: Path) -> tuple[str, ...]:
    """Flags of `bayplan controller-manager` that only it has."""
    return (
        f"--root-ca-file={authority}",
        f"--service-account-private-key-file={tokens}",
        f"--cluster-signing-cert-file={authority}",
        f"--cluster-signing-key-file={files.write('ca.key', files.authority.key)}",
        "--allocate-node-cidrs=true",
        "--cluster-cidr=10.128.0.0/9",
    )


def wait_served(files: ApiServerFiles) -> None:
    """Return when the API server is ready."""
    kubectl = Kubectl(files.kubeconfig())
    answers = [""]

    def is_ready() -> bool:
        try:
            answers.append(kubectl("get", "--raw", "/readyz"))
        except AssertionError as error:
            answers.append(str(error))
        return answers[-1] == "ok"

    try:
        kubectl.until(is_ready, "an API server that is ready")
    except AssertionError as error:
        raise AssertionError(f"{error}: {answers[-1]}") from None


@contextlib.contextmanager
def bayplan_api(files: ApiServerFiles) -> Iterator[None]:
    """`bayplan up` without nodes, with the authority that the nodes know."""
    data = files.directory / "data"
    (data / "pki").mkdir(parents=True)
    (data / "pki" / "ca.crt").write_bytes(files.authority.certificate)
    (data / "pki" / "ca.key").write_bytes(files.authority.key)
    flags = ("--nodes=0", f"--bind={files.host}", f"--port={files.port}", f"--data-dir={data}")
    with process(files.directory / "up.log", BAYPLAN, "up", *flags):
        wait_served(files)
        yield


def wrapped_kubelet(directory: Path, binary: str) -> tuple[str, ...]:
    """The command of Kubernetes' kubelet, which leaves out the flags that it does not have."""
    path = directory / "kubelet"
    left_out = "|".join(f"{name}=*" for name in _OWN_FLAGS)
    path.write_text(
        "#!/bin/sh\n"
        'for each in "$@"; do\n  shift\n'
        f'  case "$each" in {left_out}) ;; *) set -- "$@" "$each" ;; esac\ndone\n'
        f'exec {binary} "$@"\n'
    )
    path.chmod(0o755)
    return (str(path),)


@contextlib.asynccontextmanager
async def running_nodes(nodes: RealNodes, files: ApiServerFiles) -> AsyncIterator[None]:
    """Real nodes that are ready and have an image."""
    client = Client(HttpTransport(load(files.kubeconfig())))

    async def are_ready() -> bool:
        with contextlib.suppress(ApiError, TransportError):
            found = (await client.list(core_v1.Node)).items
            accounts = (await client.list(core_v1.ServiceAccount, "default")).items
            conditions = [each for node in found for each in node.status.conditions if each.type == "Ready"]
            return bool(accounts) and [each.status for each in conditions] == ["True"] * len(nodes.nodes)
        return False

    try:
        await nodes.start(files.access(), client)
        for node in nodes.nodes:
            await asyncio.to_thread(give_image, node.place)
        await eventually(are_ready, "the nodes are ready", _SECONDS)
        yield
    finally:
        await client.close()


@contextlib.contextmanager
def _logs_of_failures(directory: Path) -> Iterator[None]:
    """Print how the logs of all processes end, if something fails."""
    try:
        yield
    except BaseException:
        for log in sorted(directory.rglob("*.log")):
            if "kubelet/" not in str(log) and "logs/" not in str(log):
                print(f"== {log.relative_to(directory)}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
        raise


async def run(directory: Path, kube_apiserver: str, kubelet: str) -> None:
    """Start the cluster, play the scenario, remove everything. Fails where something is wrong."""
    settings = RealNodeSettings(2, directory / "real-nodes", outbound=False)
    if kubelet:
        settings = replace(settings, kubelet=wrapped_kubelet(directory, kubelet))
    clock = SystemClock()
    nodes = RealNodes(settings, clock)
    files = ApiServerFiles(directory, settings.gateways[0], free_ports(1)[0], make_authority(clock.now()), clock.now())
    api = kubernetes_api(files, kube_apiserver) if kube_apiserver else bayplan_api(files)
    await nodes.prepare()
    for place in settings.nodes() if kubelet else ():
        # Bayplan's makes it, Kubernetes' wants to find it.
        Hierarchies(find_mounts()).create(place.cgroup, CgroupResources())
    try:
        with _logs_of_failures(directory), api:
            try:
                async with running_nodes(nodes, files):
                    kubectl = Kubectl(files.kubeconfig())
                    names = [place.name for place in settings.nodes()]
                    # Builds of OpenShift put it into each pod; others do not look at it.
                    kubectl("create", "configmap", "openshift-service-ca.crt", "--from-literal=service-ca.crt=")
                    await asyncio.to_thread(web_scenario.play, kubectl, names)
                    print(kubectl("get", "nodes", "-o", "wide"), flush=True)
            finally:
                await nodes.stop()
    finally:
        await nodes.stop()


def main() -> int:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kube-apiserver", default="", help="path of Kubernetes' API server")
    parser.add_argument("--kubelet", default="", help="path of Kubernetes' kubelet")
    chosen = parser.parse_args()
    if bool(chosen.kube_apiserver) == bool(chosen.kubelet):
        parser.error("give one of --kube-apiserver and --kubelet")
    os.environ.pop("KUBECONFIG", None)
    with tempfile.TemporaryDirectory(prefix="bp") as directory:
        asyncio.run(run(Path(directory), chosen.kube_apiserver, chosen.kubelet))
    print("a pod was reached by name on another node, and its data outlived it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
