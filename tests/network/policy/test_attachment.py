"""Policies of pods that the real network plugins have attached."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bayplan.network.policy.addresses import Family
from bayplan.network.policy.objects import pod_entry, policy_entry
from bayplan.network.policy.state import PolicyState
from bayplan.network.policy.table import whole
from tests.namespaces import Namespace, needs_namespaces
from tests.network.policy import objects as make
from tests.network.policy.namespaces import reached
from tests.network.policy.objects import apps, from_pods, port

PLUGINS = next((one for one in ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni") if Path(one, "ptp").exists()), "")
pytestmark = [needs_namespaces, pytest.mark.skipif(not PLUGINS, reason="there are no network plugins")]

ATTACHMENTS: dict[str, dict[str, Any]] = {
    "ptp": {"type": "ptp"},
    "bridge": {"type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "hairpinMode": True},
}


def attach(plugin: str, node: Namespace, pod: Namespace, name: str, addresses: Path) -> list[str]:
    """Attach a pod as the container runtime does. Returns its addresses."""
    ranges = [[{"subnet": "10.9.1.0/24"}], [{"subnet": "fd09:1::/64"}]]
    routes = [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}] if plugin == "ptp" else []
    config = {
        "cniVersion": "0.4.0",
        "name": "pods",
        **ATTACHMENTS[plugin],
        "ipam": {"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": str(addresses)},
    }
    variables = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": name, "CNI_NETNS": pod.path, "CNI_IFNAME": "eth0"}
    done = node.run(
        lambda: subprocess.run(
            [f"{PLUGINS}/{plugin}"],
            input=json.dumps(config),
            env={**os.environ, **variables, "CNI_PATH": PLUGINS},
            capture_output=True,
            text=True,
            check=False,
        )
    )
    assert done.returncode == 0, done.stdout
    return [one["address"].partition("/")[0] for one in json.loads(done.stdout)["ips"]]


@pytest.mark.parametrize("plugin", ATTACHMENTS)
def test_policies_hold_between_pods_of_a_node(plugin: str, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        node, *namespaces = made = [Namespace() for _ in range(4)]
        for one in made:
            stack.callback(one.close)
        node.write("ipv4/ip_forward", "1")
        node.write("ipv6/conf/all/forwarding", "1")
        pods = dict(zip(("web", "api", "db"), namespaces, strict=True))
        state, targets = PolicyState(Family), []
        for name, namespace in pods.items():
            addresses = attach(plugin, node, namespace, name, tmp_path)
            entry = pod_entry(make.pod(name, *addresses, ports=[("http", "TCP", 80)]), "here")
            assert entry is not None
            state.put_pod(entry)
            if name == "web":
                targets = addresses
        for address in targets:
            listener = stack.enter_context(pods["web"].socket(address))
            listener.bind((address, 80))
            listener.listen()
        tries = [(one, address, 80) for address in targets for one in (pods["api"], pods["db"], node)]
        assert reached(tries, [True] * 6) == [True] * 6
        policy = policy_entry(make.policy("p", apps("web"), ingress=[([from_pods("api")], [port("http")])]))
        assert policy is not None
        state.put_policy(policy)
        state.update()
        node.nft("".join(map(whole, state.tables)))
        expected = [True, False, True] * 2
        assert reached(tries, expected) == expected
