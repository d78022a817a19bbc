"""What is missing is named, with the package that has it; names and paths of nodes; the files that are written for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.api.types import core_v1, discovery_v1
from bayplan.apiserver.certificates import KeyPair
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.cli.components import dns, network, proxy
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.add_ons import (
    dns_command,
    dns_endpoints,
    dns_service,
    network_command,
    proxy_command,
    publish,
)
from bayplan.cluster.real_nodes.commands import run
from bayplan.cluster.real_nodes.containerd import (
    ContainerdSettings,
    containerd_command,
    containerd_config,
    hides_unified,
    oci_runtimes,
    write_config,
)
from bayplan.cluster.real_nodes.kubelet_files import ApiAccess, kubelet_command, write_files
from bayplan.cluster.real_nodes.leftovers import mounts_below
from bayplan.cluster.real_nodes.network import inside, masquerading, overlapping
from bayplan.cluster.real_nodes.requirements import check_port, missing
from bayplan.cluster.real_nodes.settings import HOST, RealNodeSettings
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.configuration import from_tree
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.network.settings import DataPlane
from bayplan.support.system.process_ids import own_program
from bayplan.support.system.programs import succeeds


def settings(directory: Path = Path("/data/real-nodes"), count: int = 2, **more: Any) -> RealNodeSettings:
    """Settings with a kubelet of a test."""
    return RealNodeSettings(count, directory, kubelet=("kubelet",), **more)


def found(mode: str = "namespace", **more: Any) -> list[str]:
    """What is missing on a machine that has all but what is said."""
    of_settings = {name: more.pop(name) for name in ("oci_runtime", "service_network", "pod_network") if name in more}
    machine: dict[str, Any] = {
        "platform": "linux",
        "user": 0,
        "which": lambda name: f"/usr/bin/{name}",
        "plugins": lambda: Path("/usr/lib/cni"),
        "module": lambda name: name,
        "cgroups": lambda: None,
        "ipv6": lambda: True,
    }
    return missing(settings(count=1, mode=mode, **of_settings), **{**machine, **more})


def test_machine_that_has_all_is_fit() -> None:
    assert found() == []


def no_cgroups() -> None:
    """A machine without them."""
    raise CgroupError("none is mounted")


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ({"platform": "darwin"}, ["real nodes need Linux"]),
        ({"user": 1000}, ["real nodes need root: run bayplan up with sudo"]),
        (
            {
                "which": lambda name: None if Path(name).name in ("containerd", "ctr", "ip") else name,
                "plugins": lambda: None,
            },
            [
                "real nodes need containerd, ctr, ip, the CNI plugins ptp, host-local and loopback: apt-get install containerd iproute2"
                " containernetworking-plugins (Debian, Ubuntu) or dnf install containerd iproute containernetworking-plugins (Fedora)"
            ],
        ),
        (
            {"which": lambda name: None if name in ("nft", "bridge", "/usr/local/sbin/nft") else name},
            ["PATH does not lead to bridge, nft: add /usr/local/sbin:/usr/sbin to it, as sudo does"],
        ),
        (
            {"module": lambda name: None if name == "grpc" else name},
            ["real nodes need the packages grpcio: pip install 'bayplan[kubelet,dns]'"],
        ),
        ({"cgroups": no_cgroups}, ["real nodes need cgroups: none is mounted"]),
        (
            {"which": lambda name: None if Path(name).name in ("runc", "crun") else name},
            ["real nodes need runc: apt-get install runc (Debian, Ubuntu) or dnf install runc (Fedora)"],
        ),
        ({"which": lambda name: None if Path(name).name == "runc" else name}, []),
        ({"which": lambda name: None if Path(name).name == "crun" else name}, []),
        (
            {"which": lambda name: None if Path(name).name == "crun" else name, "oci_runtime": "crun"},
            ["real nodes need crun: apt-get install crun (Debian, Ubuntu) or dnf install crun (Fedora)"],
        ),
    ],
)
def test_what_is_missing_is_named(lacks: dict[str, Any], said: list[str]) -> None:
    assert found(**lacks) == said


@pytest.mark.parametrize("program", ["nsenter", "unshare"])
def test_machines_network_needs_fewer_programs(program: str) -> None:
    lacks: dict[str, Any] = {"which": lambda name: None if Path(name).name == program else name}
    assert found(HOST, **lacks) == []
    assert program in " ".join(found(**lacks))


def test_names_follow_from_the_directory() -> None:
    one, other = settings(), settings(Path("/data/other"))
    assert one.id == settings().id != other.id
    first, second = one.nodes()
    assert (first.name, second.name) == ("real-1", "real-2")
    assert second.addresses[0] == str(one.networks[0][12])
    assert one.gateways[0] == str(one.networks[0][1])
    assert len(second.link) <= 15
    assert len(settings(count=200).nodes()[-1].link) <= 15
    assert second.cgroup == f"/bayplan-{one.id}/real-2"
    assert inside(settings(count=1, mode=HOST).nodes()[0], ("x",)) == ("x",)
    assert inside(first, ("x",))[:3] == ("nsenter", f"--net=/run/netns/bayplan-{one.id}-1", "--")
    assert inside(first, ("x", "y"))[-3:] == ("real-1", "x", "y")
    assert f'ip saddr {{ {one.networks[0]}, 10.128.0.0/9 }} oifname != "{one.bridge}" masquerade;' in masquerading(one)


def test_nodes_have_addresses_of_the_ip_versions_that_pods_have() -> None:
    both = settings(service_network="fd96::/108,10.96.0.0/16", pod_network="fd80::/48,10.128.0.0/9")
    assert both.versions == (6, 4)
    assert both.cluster_dns == ("fd96::a", "10.96.0.10")
    assert both.gateways == (f"fd64:{both.id[:4]}:{both.id[4:]}00::1", settings().gateways[0])
    assert both.nodes()[1].addresses == (f"fd64:{both.id[:4]}:{both.id[4:]}00::c", settings().nodes()[1].addresses[0])
    assert f'ip6 saddr {{ {both.networks[0]}, fd80::/48 }} oifname != "{both.bridge}" masquerade;' in masquerading(both)
    assert f"--listen={both.gateways[0]} --listen={both.gateways[1]}" in " ".join(dns_command(both))
    slices = [dns_endpoints(each) for each in both.gateways]
    assert [(one.metadata.name, one.address_type) for one in slices] == [
        ("kube-dns-ipv6", "IPv6"),
        ("kube-dns", "IPv4"),
    ]
    assert dns_service(both).spec.cluster_ips == both.cluster_dns
    (place,) = settings(count=1, mode=HOST, service_network="fd96::/108", pod_network="fd80::/48").nodes()
    assert "--nodeport-addresses=::/0" in proxy_command(place)
    (place,) = settings(count=1, mode=HOST, pod_network="10.128.0.0/9,fd80::/48").nodes()
    assert "--nodeport-addresses=0.0.0.0/0,::/0" in proxy_command(place)
    assert f"--node-ip={','.join(place.settings.gateways)}" in kubelet_command(place)


@pytest.mark.parametrize("services", ["fd96::/108", "10.96.0.0/16,fd96::/108", "fd96::/108,10.96.0.0/16"])
def test_services_and_pods_have_the_same_ip_versions(services: str) -> None:
    with pytest.raises(ValueError, match="differ in their IP versions: give both to --service-cluster-ip-range"):
        settings(service_network=services)


def test_a_machine_without_ipv6_is_told_where_it_is_needed() -> None:
    two = {"service_network": "10.96.0.0/16,fd96::/108", "pod_network": "10.128.0.0/9,fd80::/48"}
    assert found(ipv6=lambda: False) == found(ipv6=lambda: True, **two) == []
    assert found(ipv6=lambda: False, **two) == [
        "real nodes with IPv6 need a machine that has it: sysctl net.ipv6.conf.all.disable_ipv6=0"
    ]


@pytest.mark.parametrize(
    ("count", "mode", "said"),
    [(2, HOST, "only one"), (1, "other", "host or namespace"), (201, "namespace", "at most 200")],
)
def test_settings_are_checked(count: int, mode: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        settings(count=count, mode=mode)


def test_oci_runtimes_are_those_that_containerd_can_use() -> None:
    with pytest.raises(ValueError, match="runc or crun, not 'kata'"):
        settings(oci_runtime="kata")


@pytest.mark.parametrize(
    ("installed", "wanted", "version", "expected"),
    [
        (("runc", "crun"), "", "crun version 1.8.1\ncommit: f8a0", ("crun", "runc")),
        (("runc", "crun"), "", "crun version 1.14\n", ("crun", "runc")),
        (("runc", "crun"), "", "crun version 1.7.2\n", ("runc", "crun")),
        (("runc", "crun"), "", "crun version 0.17\n", ("runc", "crun")),
        (("runc", "crun"), "", "no crun at all", ("runc", "crun")),
        (("runc", "crun"), "runc", "crun version 1.8.1\n", ("runc", "crun")),
        (("runc", "crun"), "crun", "crun version 0.17\n", ("crun", "runc")),
        (("runc",), "", "", ("runc",)),
        (("crun",), "", "crun version 0.17\n", ("crun",)),
    ],
)
def test_faster_oci_runtime_is_the_first_where_it_is_new_enough(
    installed: tuple[str, ...], wanted: str, version: str, expected: tuple[str, ...]
) -> None:
    assert oci_runtimes(wanted, lambda name: name if name in installed else None, lambda: version) == expected


@pytest.mark.parametrize(
    ("runtimes", "controllers", "hides"),
    [
        (("crun", "runc"), "hugetlb\n", True),
        (("runc", "crun"), "hugetlb\n", True),
        (("runc",), "hugetlb\n", False),
        (("crun",), "\n", False),
        (("crun",), None, False),
    ],
)
def test_crun_does_not_see_the_controllers_of_a_second_hierarchy(
    tmp_path: Path, runtimes: tuple[str, ...], controllers: str | None, hides: bool
) -> None:
    containerd = ContainerdSettings(tmp_path, tmp_path, tmp_path, tmp_path, oci_runtimes=runtimes)
    if controllers is not None:
        (tmp_path / "cgroup.controllers").write_text(controllers)
    assert hides_unified(containerd, tmp_path) is hides
    command = containerd_command(containerd, tmp_path)
    assert command[-3:] == ("containerd", "--config", str(containerd.config_file))
    assert command[:-3:8] == (("unshare", str(tmp_path)) if hides else ())


def test_data_planes_are_those_of_the_pod_network() -> None:
    with pytest.raises(ValueError, match="overlay or routed, not 'flat'"):
        settings(data_plane="flat")
    assert {settings(data_plane=each).data_plane for each in DataPlane} == {"overlay", "routed"}


def test_the_pod_network_takes_its_command_line() -> None:
    for place in (settings().nodes()[0], settings(count=1, mode=HOST).nodes()[0]):
        arguments = network_command(place)
        assert arguments[:4] == own_program("network")
        made = network.command.make_context("network", list(arguments[4:]))
        assert made.params["hostname_override"] == "real-1"
        arguments = proxy_command(place)
        assert arguments[:4] == own_program("proxy")
        assert proxy.command.make_context("proxy", list(arguments[4:])).params["hostname_override"] == "real-1"
    context = dns.command.make_context("dns", list(dns_command(settings())[4:]))
    assert (context.params["port"], context.params["forward"]) == (10053, ("/etc/resolv.conf",))


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ("default", ""),
        ("0.0.0.0/0", ""),
        ("192.0.2.0/24", ""),
        ("10.64.0.0/16", "the network of real nodes, 10.64."),
        ("10.128.0.0/20", "the network of pods, 10.128.0.0/9, overlaps with 10.128.0.0/20 (device eth0)"),
        ("10.200.1.7", "--cluster-cidr"),
        ("fe80::/64", ""),
        ("::/0", ""),
        ("fd64::/16", "the network of real nodes, fd64:"),
        ("fd80:0:0:1::/64", "the network of pods, fd80::/48, overlaps with fd80:0:0:1::/64 (device eth0)"),
    ],
)
def test_networks_that_the_machine_has_already_are_refused(route: str, said: str) -> None:
    both = settings(service_network="10.96.0.0/16,fd96::/108", pod_network="10.128.0.0/9,fd80::/48")
    found = overlapping(both, [{"dst": route, "dev": "eth0"}])
    assert said in found
    assert bool(found) is bool(said)


def test_containerds_configuration(tmp_path: Path) -> None:
    containerd = ContainerdSettings(
        tmp_path / "lib",
        tmp_path / "run",
        Path("/usr/lib/cni"),
        tmp_path / "cni",
        "native",
        oci_runtimes=("crun", "runc"),
    )
    write_config(containerd)
    import tomllib

    config = tomllib.loads(containerd.config_file.read_text())
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert config["grpc"]["address"] == str(containerd.socket)
    assert cri["sandbox_image"] == "bayplan.dev/pause:1"
    assert cri["containerd"]["snapshotter"] == "native"
    assert cri["containerd"]["default_runtime_name"] == "crun"
    assert cri["containerd"]["runtimes"] == {
        name: {
            "runtime_type": "io.containerd.runc.v2",
            "options": {"BinaryName": name, "SystemdCgroup": False, "Root": str(tmp_path / "run" / name)},
        }
        for name in ("crun", "runc")
    }
    assert cri["cni"] == {"bin_dir": "/usr/lib/cni", "conf_dir": str(tmp_path / "cni")}
    assert cri["registry"] == {"config_path": "/etc/containerd/certs.d"}
    assert config["plugins"]["io.containerd.nri.v1.nri"] == {"socket_path": str(tmp_path / "run" / "nri.sock")}
    assert config == tomllib.loads(containerd_config(containerd))
    long = ContainerdSettings(tmp_path, Path("/" + "x" * 100), Path("/"), tmp_path)
    with pytest.raises(RealNodeError, match="shorter path"):
        write_config(long)


def test_kubelet_is_told_all_it_needs(tmp_path: Path) -> None:
    place = settings(tmp_path, service_network="10.96.0.0/16,fd96::/108", pod_network="10.128.0.0/9,fd80::/48").nodes()[
        0
    ]
    signed: list[tuple[str, tuple[str, ...]]] = []

    def sign(user: str, groups: tuple[str, ...]) -> KeyPair:
        signed.append((user, groups))
        return KeyPair(b"certificate\n", b"key\n")

    write_files(place, "unix:///run/c.sock", ApiAccess("https://10.0.0.1:1", b"authority", sign))
    assert signed == [("system:node:real-1", ("system:nodes",))]
    tree = yaml.safe_load((place.directory / "kubelet.yaml").read_text())
    configuration = from_tree(tree, "kubelet.yaml")
    assert configuration.container_runtime_endpoint == "unix:///run/c.sock"
    assert configuration.cgroup_root == place.cgroup
    assert configuration.cluster_dns == ["10.96.0.10", "fd96::a"]
    assert Path(configuration.authentication.x509.client_ca_file).read_bytes() == b"authority"
    kubeconfig = yaml.safe_load((place.directory / "kubeconfig").read_text())
    assert kubeconfig["clusters"][0]["cluster"]["server"] == "https://10.0.0.1:1"
    client = Path(kubeconfig["users"][0]["user"]["client-key"])
    assert client.read_bytes() == b"certificate\nkey\n"
    assert client.stat().st_mode & 0o777 == 0o600
    command = kubelet_command(place)
    assert command[0] == "kubelet"
    assert f"--node-ip={','.join(place.addresses)}" in command
    assert "--hostname-override=real-1" in command
    assert not any("node-ip" in word for word in kubelet_command(settings(tmp_path, count=1, mode=HOST).nodes()[0]))


def test_a_machine_that_is_a_node_must_have_the_port_of_kubelets_free(tmp_path: Path) -> None:
    host = settings(tmp_path, count=1, mode=HOST)
    with pytest.raises(RealNodeError, match=r"port 10250 .* is taken by process 812 \(kubelet\): end that"):
        check_port(host, lambda _: "process 812 (kubelet)")
    check_port(host, lambda _: "")
    check_port(settings(tmp_path, count=1), lambda _: "process 812 (kubelet)")


def test_innermost_and_latest_mounts_come_first() -> None:
    paths = ["/", "/data", "/data/a", "/data/a/b\\040c", "/data/a", "/database", "/run/x"]
    mountinfo = "".join(f"1 0 8:1 / {path} rw - ext4 d rw\n" for path in paths)
    found = mounts_below(mountinfo, Path("/data"), Path("/run"))
    assert found == ["/data/a/b c", "/run/x", "/data/a", "/data/a", "/data"]


def test_programs_that_fail_say_why() -> None:
    async def steps() -> None:
        assert await run("cat", stdin=b"text") == "text"
        with pytest.raises(RealNodeError, match="sh -c 'echo no >&2; exit 3' failed: no"):
            await run("sh", "-c", "echo no >&2; exit 3")
        with pytest.raises(RealNodeError, match="failed: exit code 3"):
            await run("sh", "-c", "exit 3")
        with pytest.raises(RealNodeError, match="no-such-program cannot be run"):
            await run("no-such-program")
        assert await succeeds("true")
        assert not await succeeds("false")

    asyncio.run(steps())


def test_a_cluster_that_gets_a_second_ip_version_gives_its_dns_a_second_address(tmp_path: Path) -> None:
    both = settings(tmp_path, service_network="10.96.0.0/16,fd96::/108", pod_network="10.128.0.0/9,fd80::/48")
    ranges = ApiServerSettings(service_cluster_ip_range=both.service_network)

    async def steps() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=0), api=ranges, run_scheduler=False))
        await cluster.start()
        try:
            client = cluster.client()
            for each, addresses in ((settings(tmp_path), ("10.96.0.10",)), (both, ("10.96.0.10", "fd96::a"))):
                for _ in range(2):  # it finds its own of an earlier run
                    await publish(client, each)
                    service = await client.get(core_v1.Service, "kube-dns", "kube-system")
                    assert service.spec.cluster_ips == addresses
            slices = (await client.list(discovery_v1.EndpointSlice, "kube-system")).items
            led_to = [address for one in slices for endpoint in one.endpoints for address in endpoint.addresses]
            assert sorted(led_to) == sorted(both.gateways)
        finally:
            await cluster.stop()

    asyncio.run(steps())
