"""Two `bayplan apiserver` processes over one etcd: one is killed, and clients go on with the other."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import urllib3
from kubernetes import client, config, watch

from bayplan.apiserver.service_account_tokens.keys import make_signing_key
from tests.integration.conftest import BAYPLAN
from tests.store.etcd.clients import running as running_etcd
from tests.store.etcd.server import EtcdServer, needs_etcd

pytestmark = [needs_etcd, pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is not there by itself")]
_FAILURES = (client.ApiException, urllib3.exceptions.HTTPError, OSError)
_PATIENCE = 60.0


@dataclass
class Server:
    """An API server process."""

    process: subprocess.Popen[str]
    kubeconfig: Path

    @property
    def core(self) -> client.CoreV1Api:
        """A new client, which tries nothing twice."""
        settings = client.Configuration()
        config.load_kube_config(str(self.kubeconfig), client_configuration=settings)
        settings.retries = False
        return client.CoreV1Api(client.ApiClient(settings))

    def kill(self) -> None:
        """End it as a power failure would."""
        self.process.kill()
        self.process.wait()


def start(directory: Path, etcd: EtcdServer, address: str, key: Path) -> Server:
    """Start a server at an address of loopback; returns when it is ready."""
    directory.mkdir()
    kubeconfig = directory / "kubeconfig"
    command = [
        BAYPLAN, "apiserver", f"--etcd-servers=http://{etcd.endpoint}", "--secure-port=0", f"--bind-address={address}", f"--cert-dir={directory}",
        f"--service-account-signing-key-file={key}", f"--service-account-key-file={key}", f"--kubeconfig={kubeconfig}",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("ready"):
            return Server(process, kubeconfig)
    raise AssertionError("".join(lines))


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Server]]:
    """Two of them, with one key for service account tokens."""
    key = tmp_path / "sa.key"
    key.write_bytes(make_signing_key())
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(running_etcd(tmp_path / "etcd"))
        found: list[Server] = []
        for number in (1, 2):
            server = start(tmp_path / f"server{number}", etcd, f"127.0.0.{number}", key)
            stack.callback(server.kill)
            assert server.process.stdout is not None
            stack.callback(server.process.stdout.close)
            found.append(server)
        yield found


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a condition. Fails the test if it does not come true."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def config_map(name: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"test": "ha"}))


def published(api: client.CoreV1Api) -> list[str]:
    """The addresses of the service `kubernetes`."""
    subsets = api.read_namespaced_endpoints("kubernetes", "default").subsets or []
    return [address.ip for subset in subsets for address in subset.addresses]


class Writer:
    """Creates config maps until told to stop, at whichever server answers."""

    def __init__(self, apis: list[client.CoreV1Api]) -> None:
        self.acknowledged: list[str] = []
        self._apis = apis
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            name = f"map-{number}"
            number += 1
            try:
                self._apis[0].create_namespaced_config_map("default", config_map(name))
            except _FAILURES:
                self._apis.append(self._apis.pop(0))
                continue
            self.acknowledged.append(name)

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()
        self._thread.join()


def test_writers_go_on_when_a_server_is_killed_and_nothing_is_lost(servers: list[Server]) -> None:
    first, second = servers
    api = second.core
    eventually(lambda: published(api) == ["127.0.0.1", "127.0.0.2"])
    start_at = api.list_namespaced_config_map("default").metadata.resource_version
    writer = Writer([first.core, second.core])
    try:
        eventually(lambda: len(writer.acknowledged) > 50)
        first.kill()
        before = len(writer.acknowledged)
        eventually(lambda: len(writer.acknowledged) > before + 50)
    finally:
        writer.stop()
    there = {one.metadata.name for one in api.list_namespaced_config_map("default", label_selector="test=ha").items}
    assert set(writer.acknowledged) <= there
    seen: list[str] = []
    options = {"label_selector": "test=ha", "resource_version": start_at, "timeout_seconds": 60}
    for event in watch.Watch().stream(api.list_namespaced_config_map, "default", **options):
        assert event["type"] == "ADDED"
        seen.append(event["object"].metadata.name)
        if len(seen) == len(there):
            break
    assert (len(seen), set(seen)) == (len(there), there)
    eventually(lambda: published(api) == ["127.0.0.2"])


def test_a_token_of_one_server_is_good_at_the_other(servers: list[Server]) -> None:
    first, second = (server.core for server in servers)
    account = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot"))
    first.create_namespaced_service_account("default", account)
    spec = client.V1TokenRequestSpec(audiences=[], expiration_seconds=600)
    request = client.AuthenticationV1TokenRequest(spec=spec)
    token = first.create_namespaced_service_account_token("robot", "default", request).status.token
    review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token))
    status = client.AuthenticationV1Api(second.api_client).create_token_review(review).status
    assert (status.authenticated, status.user.username) == (True, "system:serviceaccount:default:robot")


def test_a_hundred_rounds_never_show_the_past(servers: list[Server]) -> None:
    first, second = (server.core for server in servers)
    first.create_namespaced_config_map("default", config_map("round"))
    for number in range(100):
        writer, reader = (first, second) if number % 2 else (second, first)
        written = writer.patch_namespaced_config_map("round", "default", {"data": {"n": str(number)}})
        read = reader.read_namespaced_config_map("round", "default")
        assert (read.data, read.metadata.resource_version) == ({"n": str(number)}, written.metadata.resource_version)
        listed = reader.list_namespaced_config_map("default", field_selector="metadata.name=round").items
        assert [one.metadata.resource_version for one in listed] == [written.metadata.resource_version]
