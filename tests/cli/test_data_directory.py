"""What `bayplan up` and `bayplan apiserver` write is private, and what others wrote stays."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bayplan.client.kubeconfig import load
from bayplan.client.own_kubeconfig import is_own, render

BAYPLAN = str(Path(sys.executable).with_name("bayplan"))
UP = ("up", "--nodes", "0", "--port", "0")


def start_and_stop(*arguments: object, umask: int = 0o022, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a server until it is ready, then end it."""
    command = [BAYPLAN, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, umask=umask, cwd=cwd, text=True) as process:
        assert process.stdout is not None
        lines = []
        while line := process.stdout.readline():
            lines.append(line)
            if line.startswith("ready"):
                break
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, "".join(lines) + out, err)


def modes(directory: Path) -> dict[str, str]:
    """Everything in a directory that others may use, or its owner may not, with its mode."""
    found = [directory, *directory.rglob("*")]
    wrong = {}
    for path in found:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode != (0o700 if path.is_dir() else 0o600):
            wrong[str(path.relative_to(directory))] = oct(mode)
    return wrong


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777], ids=oct)
def test_a_data_directory_is_private_under_every_umask(tmp_path: Path, umask: int) -> None:
    directory = tmp_path / "data"
    audit = directory / "audit.log"
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    flags = (f"--apiserver-flag=--audit-log-path={audit}", f"--apiserver-flag=--audit-policy-file={policy}")
    done = start_and_stop(*UP, "--data-dir", directory, *flags, umask=umask)
    assert done.returncode == 0, done.stderr
    assert {"store.db", "store.db.lock", "kubeconfig", "pki", "audit.log"} <= {one.name for one in directory.iterdir()}
    assert modes(directory) == {}
    assert load(directory / "kubeconfig").token


def test_files_of_a_running_cluster_are_private(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    command = [BAYPLAN, *UP, "--data-dir", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, umask=0) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready")
        names = {one.name for one in directory.iterdir()}
        found = modes(directory)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert {"store.db-wal", "store.db-shm"} <= names
    assert found == {}


def test_an_open_installation_is_corrected_and_told(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    assert start_and_stop(*UP, "--data-dir", directory).returncode == 0
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    done = start_and_stop(*UP, "--data-dir", directory)
    assert done.returncode == 0
    assert modes(directory) == {}
    assert done.stderr.count("others had access, which was taken from them") == 1
    assert "others had access" not in start_and_stop(*UP, "--data-dir", directory).stderr


def test_certificates_of_the_api_server_are_private(tmp_path: Path) -> None:
    store = tmp_path / "own" / "store.db"
    command = ("apiserver", "--secure-port", "0", "--store", f"sqlite:{store}", "--cert-dir", tmp_path / "certificates")
    done = start_and_stop(*command, umask=0, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert modes(tmp_path / "certificates") == {}
    assert modes(tmp_path / "own") == {}
    assert stat.S_IMODE((tmp_path / "bayplan.kubeconfig").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["store.db", "pki", "kubeconfig"])
def test_links_out_of_the_data_directory_are_refused(tmp_path: Path, name: str) -> None:
    directory, outside = tmp_path / "data", tmp_path / "outside"
    directory.mkdir()
    (directory / name).symlink_to(outside)
    done = start_and_stop(*UP, "--data-dir", directory)
    assert done.returncode == 1
    assert f"{directory / name} is a symbolic link" in done.stderr
    assert not outside.exists()


FOREIGN = """apiVersion: v1
kind: Config
current-context: production
clusters: [{name: production, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: admin, user: {token: abc}}]
contexts: [{name: production, context: {cluster: production, user: admin}}]
"""


def test_a_foreign_kubeconfig_stays_as_it_is(tmp_path: Path) -> None:
    directory, kubeconfig = tmp_path / "data", tmp_path / "config"
    kubeconfig.write_text(FOREIGN)
    kubeconfig.chmod(0o640)
    for command in (
        (*UP, "--data-dir", directory, "--kubeconfig", kubeconfig),
        ("apiserver", "--secure-port", "0", "--cert-dir", directory, "--kubeconfig", kubeconfig),
    ):
        done = start_and_stop(*command)
        assert done.returncode == 1
        assert f"{kubeconfig} has entries that Bayplan did not write" in done.stderr
        assert "--kubeconfig" in done.stderr
        assert (kubeconfig.read_text(), stat.S_IMODE(kubeconfig.stat().st_mode)) == (FOREIGN, 0o640)
        assert not directory.exists(), "something was started"


def test_the_default_kubeconfig_is_not_overwritten_either(tmp_path: Path) -> None:
    (tmp_path / "bayplan.kubeconfig").write_text(FOREIGN)
    done = start_and_stop(*UP, "--store", "memory:", cwd=tmp_path)
    assert done.returncode == 1
    assert (tmp_path / "bayplan.kubeconfig").read_text() == FOREIGN


def test_own_kubeconfigs_are_written_again_through_links_that_were_named(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.touch()
    link.symlink_to(real)
    for _ in range(2):
        done = start_and_stop(*UP, "--store", "memory:", "--kubeconfig", link)
        assert done.returncode == 0, done.stderr
    assert link.is_symlink()
    assert load(real).token
    done = start_and_stop(*UP, "--store", "memory:", "--kubeconfig", "/dev/stdout")
    assert done.returncode == 0
    assert "current-context: bayplan" in done.stdout


def older(authority: bytes) -> str:
    """A kubeconfig as it was written before it had a mark."""
    config = yaml.safe_load(render("https://127.0.0.1:6443", authority, "token"))
    for section, member in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        del config[section][0][member]["extensions"]
    return yaml.safe_dump(config)


def test_a_kubeconfig_of_an_older_version_is_known_by_its_authority(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    assert start_and_stop(*UP, "--data-dir", directory).returncode == 0
    authority = (directory / "pki" / "ca.crt").read_bytes()
    (directory / "kubeconfig").write_text(older(authority))
    assert start_and_stop(*UP, "--data-dir", directory).returncode == 0
    (directory / "kubeconfig").write_text(older(b"of another cluster"))
    assert start_and_stop(*UP, "--data-dir", directory).returncode == 1


def edited(change: str) -> str:
    config = yaml.safe_load(render("https://127.0.0.1:6443", b"authority", "token"))
    if change == "another user":
        config["users"].append({"name": "alice", "user": {"token": "t"}})
    elif change == "another context":
        config["contexts"].append({"name": "prod", "context": {"cluster": "prod", "user": "alice"}})
    elif change == "another cluster":
        config["clusters"].append({"name": "prod", "cluster": {"server": "https://10.0.0.1"}})
    elif change == "another namespace":
        config["contexts"][0]["context"]["namespace"] = "kube-system"
    elif change == "nothing left":
        config["clusters"] = []
    return yaml.safe_dump(config)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (edited(""), True),
        (edited("another namespace"), True),
        ("", True),
        (edited("another user"), False),
        (edited("another context"), False),
        (edited("another cluster"), False),
        (edited("nothing left"), False),
        (older(b"x"), False),
        (FOREIGN, False),
        ("just a note", False),
        ("[1, 2]", False),
        ("a: [", False),
        ("kind: Config\nclusters: 7\n", False),
        ("kind: Config\nclusters: [7]\nusers: {a: b}\ncontexts: x\n", False),
    ],
)
def test_a_kubeconfig_is_ours_if_every_entry_is(text: str, expected: bool) -> None:
    assert is_own(text, None) is expected
    assert is_own(text, b"authority") is expected
