"""The programs for envtest, started as controller-runtime starts them: its flags, its certificates, its way to see that they are ready."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes import client

from bayplan.apiserver.certificates import make_authority, sign
from tests.integration.conftest import BAYPLAN


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    end = time.monotonic() + 20
    while True:
        assert process.poll() is None, "it has ended"
        try:
            with urllib.request.urlopen(url, timeout=2, context=context) as answer:
                assert answer.status == 200
                return
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < end, "it is not healthy in time"
            time.sleep(0.05)


@contextmanager
def running(health: str, *command: str) -> Iterator[None]:
    process = subprocess.Popen(command)
    try:
        wait_until_healthy(health, process)
        yield
    finally:
        process.terminate()
        assert process.wait(20) == 0


class Plane:
    """What envtest knows of a control plane."""

    def __init__(self, assets: Path, directory: Path) -> None:
        self.assets = assets
        self.certificates = directory / "certificates"
        self.certificates.mkdir()
        self.data = directory / "etcd"
        self.etcd_url = f"http://127.0.0.1:{free_port()}"
        self.port = free_port()
        now = time.time()
        authority, users, accounts = make_authority(now), make_authority(now), make_authority(now)
        server = sign(authority, now, "localhost", hosts=("localhost", "127.0.0.1"))
        admin = sign(users, now, "admin", organizations=("system:masters",))
        someone = sign(users, now, "someone", organizations=("testers",))
        for name, data in {
            "apiserver.crt": server.certificate,
            "apiserver.key": server.key,
            "ca.crt": authority.certificate,
            "client-cert-auth-ca.crt": users.certificate,
            "sa-signer.crt": accounts.certificate,
            "sa-signer.key": accounts.key,
            "admin.pem": admin.certificate + admin.key,
            "someone.pem": someone.certificate + someone.key,
        }.items():
            (self.certificates / name).write_bytes(data)

    def etcd(self) -> tuple[str, ...]:
        return (
            f"{self.assets}/etcd",
            f"--advertise-client-urls={self.etcd_url}",
            f"--data-dir={self.data}",
            f"--listen-client-urls={self.etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync=true",
        )

    def apiserver(self) -> tuple[str, ...]:
        directory = self.certificates
        return (
            f"{self.assets}/kube-apiserver",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            f"--cert-dir={directory}",
            f"--client-ca-file={directory}/client-cert-auth-ca.crt",
            "--disable-admission-plugins=ServiceAccount",
            f"--etcd-servers={self.etcd_url}",
            f"--secure-port={self.port}",
            f"--service-account-issuer=https://127.0.0.1:{self.port}/",
            f"--service-account-key-file={directory}/sa-signer.crt",
            f"--service-account-signing-key-file={directory}/sa-signer.key",
            "--service-cluster-ip-range=10.0.0.0/24",
        )

    def core(self, user: str) -> client.CoreV1Api:
        configuration = client.Configuration()
        configuration.host = f"https://127.0.0.1:{self.port}"
        configuration.ssl_ca_cert = str(self.certificates / "ca.crt")
        configuration.cert_file = configuration.key_file = str(self.certificates / f"{user}.pem")
        return client.CoreV1Api(client.ApiClient(configuration))


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    directory = tmp_path / "assets"
    subprocess.run([BAYPLAN, "envtest-assets", directory], check=True, capture_output=True)
    return directory


def test_a_control_plane_starts_as_envtest_starts_it_and_keeps_its_objects(assets: Path, tmp_path: Path) -> None:
    plane = Plane(assets, tmp_path)
    healthy = f"https://127.0.0.1:{plane.port}/healthz"
    with running(f"{plane.etcd_url}/health", *plane.etcd()):
        with running(healthy, *plane.apiserver()):
            core = plane.core("admin")
            pod = client.V1Pod(
                metadata=client.V1ObjectMeta(name="p"),
                spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]),
            )
            core.create_namespaced_pod("default", pod)
            with pytest.raises(client.ApiException) as refused:
                plane.core("someone").list_namespaced_pod("default")
            assert refused.value.status == 403
        with running(healthy, *plane.apiserver()):
            assert [each.metadata.name for each in plane.core("admin").list_namespaced_pod("default").items] == ["p"]


def test_envtest_finds_the_flags_that_it_looks_for(assets: Path) -> None:
    for program, there, not_there in (
        ("etcd", "unsafe-no-fsync", "nope"),
        ("kube-apiserver", "service-account-issuer", "insecure-port"),
    ):
        done = subprocess.run([assets / program, "--help"], capture_output=True, text=True, check=True)
        assert there in done.stdout
        assert not_there not in done.stdout


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_is_the_one_that_is_installed(assets: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{assets}:{os.environ['PATH']}"}
    done = subprocess.run(
        [assets / "kubectl", "version", "--client"], capture_output=True, text=True, check=True, env=environment
    )
    assert "Client Version" in done.stdout
    lacking = subprocess.run(
        [assets / "kubectl"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(assets), "HOME": str(tmp_path)},
    )
    assert (lacking.returncode, "not installed" in lacking.stderr) == (1, True)


def test_programs_of_others_are_not_overwritten(tmp_path: Path) -> None:
    other = tmp_path / "etcd"
    other.write_text("#!/bin/sh\n")
    done = subprocess.run([BAYPLAN, "envtest-assets", tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, "was not written by Bayplan" in done.stderr) == (1, True)
    assert [each.name for each in tmp_path.iterdir()] == ["etcd"]
    other.unlink()
    for _ in range(2):
        subprocess.run([BAYPLAN, "envtest-assets", tmp_path], check=True, capture_output=True)


def test_a_port_that_is_taken_is_told(assets: Path, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        done = subprocess.run(
            [assets / "etcd", f"--listen-client-urls={url}", f"--data-dir={tmp_path / 'data'}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
    assert (done.returncode, f"cannot listen on {url}" in done.stderr) == (1, True)
