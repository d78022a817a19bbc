"""`bayplan network` from the command line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.components.network import command
from tests.integration.conftest import BAYPLAN
from tests.network.namespaces import needs_networks


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mtu", "3"], "--mtu: 3 is not between 576 and 65535"),
        (["--cni-chain", "portmap, tuning"], "--cni-chain: 'tuning' is none of portmap, bandwidth, firewall"),
        (["--cluster-cidr", "10.0.0.0/8,nowhere"], "--cluster-cidr: 'nowhere' does not appear to be"),
        (["--data-plane", "flat"], "'flat' is not one of 'overlay', 'routed'"),
    ],
)
def test_options_that_make_no_sense(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert said in result.output


@needs_networks
def test_what_was_made_is_removed(tmp_path: Path) -> None:
    (tmp_path / "10-bayplan.conflist").write_text("{}")
    (tmp_path / "20-other.conflist").write_text("{}")
    script = (
        "ip link set lo up; ip link add bayplan-vxlan type vxlan id 1 dev lo dstport 8472;"
        "ip route add unreachable 10.128.0.0/9 proto 145; ip route add unreachable 10.1.0.0/16;"
        "nft add table inet bayplan-network; nft add table inet other;"
        f"{BAYPLAN} network --cleanup --cni-conf-dir {tmp_path} || exit 9;"
        "ip link; ip route; nft list tables"
    )
    shell = shutil.which("sh")
    assert shell is not None
    done = subprocess.run(
        ["unshare", "-n", shell, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "removed" in done.stdout
    assert "bayplan" not in done.stdout
    assert "10.128" not in done.stdout
    assert "unreachable 10.1.0.0/16" in done.stdout
    assert "table inet other" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["20-other.conflist"]


@needs_networks
def test_a_machine_without_plugins_is_told_what_to_install(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: a, user: {token: t}}]\n"
    )
    done = subprocess.run(
        [BAYPLAN, "network", "--kubeconfig", str(kubeconfig), "--cni-bin-dir", str(tmp_path), "--metrics-port", "0"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "apt-get install containernetworking-plugins" in done.stderr
