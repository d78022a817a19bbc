"""`bayplan dns`: help, and what is said of wrong input."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from bayplan.cli.main import main

HTTP = ("--health-port", "0", "--ready-port", "0", "--metrics-port", "0")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("dns", *arguments))


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """A cluster that nobody serves."""
    path = tmp_path / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--domain", "a..b"), "--domain: 'a..b' is no domain"),
        (("--listen", "localhost"), "--listen: 'localhost' is no IP address"),
        (("--forward", "nowhere"), "--forward: 'nowhere' is neither ADDRESS"),
        (("--forward", "/missing"), "--forward: /missing cannot be read"),
        (("--port", "65536"), "--port"),
        (("--cache-seconds", "-1"), "--cache-seconds"),
        (("--domian", "x"), "--domain"),
    ],
)
def test_wrong_options_are_named(arguments: tuple[str, ...], message: str) -> None:
    result = run("--forward", "none", *arguments)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    result = run("--forward", "none", "--port", "0", *HTTP, "--kubeconfig", str(tmp_path / "missing"))
    assert result.exit_code == 2
    assert "missing: No such file or directory; name a kubeconfig with --kubeconfig" in result.output


def test_a_port_in_use_is_named(kubeconfig: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        with socket.socket() as free:  # the port has to be free for TCP, which is tried first
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            other.bind(("127.0.0.1", port))
        result = run("--forward", "none", "--port", str(port), *HTTP, "--kubeconfig", kubeconfig)
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1:{port} (UDP)" in result.output
    assert "choose another with --port or --listen" in result.output


def test_a_port_of_http_in_use_is_named(kubeconfig: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        options = ("--ready-port", "0", "--metrics-port", "0", "--health-port", str(port))
        result = run("--forward", "none", "--port", "0", *options, "--kubeconfig", kubeconfig)
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1:{port} for /health" in result.output
    assert "choose another port with --health-port" in result.output


def free_port() -> int:
    """A port that nobody has, neither for datagrams nor for streams."""
    while True:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as streams,
        ):
            datagrams.bind(("127.0.0.1", 0))
            port: int = datagrams.getsockname()[1]
            with contextlib.suppress(OSError):
                streams.bind(("127.0.0.1", port))
                return port


def test_a_server_that_would_ask_itself_is_refused(kubeconfig: str) -> None:
    port = str(free_port())
    result = run("--forward", f"127.0.0.1:{port}", "--port", port, *HTTP, "--kubeconfig", kubeconfig)
    assert result.exit_code == 1
    assert f"--forward: 127.0.0.1:{port} is this server itself" in result.output


def test_a_missing_package_is_named(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one == "dns" or one.startswith(("dns.", "bayplan.dns."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dns", None)
    result = run("--forward", "none", "--port", "0", *HTTP, "--kubeconfig", kubeconfig)
    assert result.exit_code == 1
    assert "pip install 'bayplan[dns]'" in result.output
