"""`bayplan proxy`: flags, and what is said of wrong input and missing requirements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from bayplan.cli.components import proxy
from bayplan.cli.main import main
from bayplan.proxy.configuration import KubeProxyConfiguration
from bayplan.proxy.errors import RequirementError
from bayplan.proxy.system import requirements
from bayplan.support.configuration import to_tree

HEAD = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("proxy", *arguments))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[KubeProxyConfiguration, Any, Any, dict[str, Any]]]:
    """What the command would run with."""
    found: list[Any] = []

    async def record(*what: Any) -> None:
        found.append(what)

    monkeypatch.setattr(proxy, "_run", record)
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--proxy-mode", "iptables"), "mode: 'iptables': bayplan proxy has the mode nftables only"),
        (("--cluster-cidr", "x"), "clusterCIDR: 'x': must be a valid CIDR block"),
        (("--nftables-masquerade-bit", "32"), "nftables.masqueradeBit: 32"),
        (("--nftables-sync-period", "soon"), "'soon' is no duration"),
        (("--nodeport-addresses", "10.0.0.1"), "nodePortAddresses[0]: '10.0.0.1': must be a valid CIDR"),
        (("--detect-local-mode", "BridgeInterface"), "detectLocal.bridgeInterface: must not be empty"),
        (("--feature-gates", "A"), "--feature-gates: missing bool value for A"),
        (("--conntrack-min", "many"), "--conntrack-min"),
        (("--cluster-cird", "x"), "--cluster-cird"),
    ],
)
def test_wrong_options_are_named(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_wrong_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    result = run("--config", str(path))
    assert (result.exit_code, f"{path}: " in result.output) == (1, True), result.output
    path.write_text(json.dumps({**HEAD, "mode": "ipvs"}))
    result = run("--config", str(path))
    assert (result.exit_code, f"{path}: mode: 'ipvs'" in result.output) == (1, True), result.output


def test_flags_stand_for_fields(started: list[Any]) -> None:
    result = run(
        "--cluster-cidr=10.0.0.0/8,fd00::/16",
        "--nodeport-addresses=192.0.2.0/24,2001:db8::/32",
        "--masquerade-all",
        "--conntrack-tcp-be-liberal=true",
        "--nftables-min-sync-period=2s",
        "--nftables-sync-period=1m",
        "--nftables-masquerade-bit=5",
        "--conntrack-max-per-core=0",
        "--conntrack-udp-timeout=10s",
        "--pod-interface-name-prefix=cali",
        "--detect-local-mode=InterfaceNamePrefix",
        "--healthz-bind-address=",
        "--metrics-bind-address=0.0.0.0",
        "--feature-gates=HPAScaleToZero=true,AllBeta=false",
        "--hostname-override=N",
    )
    assert result.exit_code == 0, result.output
    ((configuration, kubeconfig, master, options),) = started
    tree = to_tree(configuration)
    assert (kubeconfig, master, options["hostname_override"]) == (None, "", "N")
    assert tree["clusterCIDR"] == "10.0.0.0/8,fd00::/16"
    assert tree["nodePortAddresses"] == ["192.0.2.0/24", "2001:db8::/32"]
    assert tree["nftables"] == {
        "masqueradeBit": 5,
        "masqueradeAll": True,
        "syncPeriod": "1m0s",
        "minSyncPeriod": "2s",
    }
    assert tree["conntrack"]["maxPerCore"] == 0
    assert tree["conntrack"]["tcpBeLiberal"] is True
    assert tree["conntrack"]["udpTimeout"] == "10s"
    assert tree["detectLocal"]["interfaceNamePrefix"] == "cali"
    assert (tree["healthzBindAddress"], tree["metricsBindAddress"]) == ("", "0.0.0.0:10249")
    assert tree["featureGates"] == {"HPAScaleToZero": True, "AllBeta": False}


def test_with_a_file_the_flags_of_fields_do_not_count(started: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        json.dumps({**HEAD, "clientConnection": {"kubeconfig": "/a/kubeconfig"}, "clusterCIDR": "10.0.0.0/8"})
    )
    assert run("--config", str(path), "--cluster-cidr", "172.16.0.0/12").exit_code == 0
    assert run("--config", str(path), "--kubeconfig", "/another").exit_code == 0
    assert [(one[0].cluster_cidr, str(one[1])) for one in started] == [
        ("10.0.0.0/8", "/a/kubeconfig"),
        ("10.0.0.0/8", "/another"),
    ]


def test_the_url_of_master_replaces_the_kubeconfigs(tmp_path: Path) -> None:
    from bayplan.client.errors import KubeconfigError
    from bayplan.client.http import HttpTransport
    from bayplan.support.metrics.instruments import Registry

    client = proxy._client(None, "http://192.0.2.9:8080", Registry())
    assert isinstance(client.transport, HttpTransport)
    assert client.transport._base == "http://192.0.2.9:8080"
    with pytest.raises(KubeconfigError, match="missing: No such file"):
        proxy._client(tmp_path / "missing", "http://192.0.2.9:8080", Registry())


def test_nodes_are_named_in_lower_case() -> None:
    assert proxy._node_name(" Node-1 ") == "node-1"
    assert proxy._node_name("") == proxy._node_name("").lower() != ""


def test_versions_are_found_in_what_programs_print() -> None:
    assert requirements.numbers("nftables v1.0.6 (Lester Gooch #5)") == (1, 0, 6)
    assert requirements.numbers("6.1.0-28-amd64") == (6, 1, 0)
    assert requirements.numbers("none") == ()


def check_error(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> str:
    """Why the proxy cannot start where something is another way."""
    import asyncio

    monkeypatch.setattr(requirements, "has_net_admin", lambda: True)
    monkeypatch.setattr("bayplan.proxy.system.requirements.shutil.which", lambda _: "/usr/sbin/nft")

    async def version(*_: str) -> str:
        return "nftables v1.0.6"

    monkeypatch.setattr(requirements, "run", version)
    monkeypatch.setattr("bayplan.proxy.system.requirements.platform.release", lambda: "6.1.0")
    asyncio.run(requirements.check_requirements())
    monkeypatch.setattr(f"bayplan.proxy.system.requirements.{name}", value)
    with pytest.raises(RequirementError) as caught:
        asyncio.run(requirements.check_requirements())
    return str(caught.value)


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def old(*_: str) -> str:
        return "nftables v1.0.0"

    assert "CAP_NET_ADMIN" in check_error(monkeypatch, "has_net_admin", lambda: False)
    assert "install the package nftables" in check_error(monkeypatch, "shutil.which", lambda _: None)
    assert "nft 1.0.0 is too old: install nftables 1.0.1 or later" in check_error(monkeypatch, "run", old)
    assert "kernel 5.12.9 is too old: 5.13 or later" in check_error(monkeypatch, "platform.release", lambda: "5.12.9")
    monkeypatch.setenv("KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK", "1")
    with pytest.raises(pytest.fail.Exception):
        check_error(monkeypatch, "platform.release", lambda: "5.12.9")


def test_every_flag_is_an_option() -> None:
    names = {
        option for parameter in proxy.command.params if isinstance(parameter, click.Option) for option in parameter.opts
    }
    assert names >= {*proxy._CONFIGURED, *proxy._SWITCHES, "--cleanup", "--init-only", "--master"}
