"""Whether a node reaches what the machine reaches, and what it is called.

It is run in a network namespace that stands for the machine, with one beside it that stands for the outside. The outside knows no way
back to the nodes: an answer comes only to the machine's own address.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bayplan.cluster.real_nodes.commands import run
from bayplan.cluster.real_nodes.network import FORWARDING, inside, make_bridge, make_node_network, remove_network
from bayplan.cluster.real_nodes.settings import RealNodeSettings
from bayplan.support.system.programs import succeeds
from tests.cluster.real_nodes.directories import short
from tests.kubelet.waiting import eventually

_HOSTNAME = "/proc/sys/kernel/hostname"
_HERE, _THERE = ("192.0.2.1/24", "2001:db8::1/64"), ("192.0.2.2", "2001:db8::2")
_SERVER = ("busybox", "nc", "-ll", "-p", "8080", "-e", "busybox", "echo", "hi")
_LEARNS = Path("/proc/sys/net/ipv6/conf/wan/accept_ra")


def _ask(there: str) -> tuple[str, ...]:
    return "busybox", "nc", "-w", "2", there, "8080"


async def _answers(there: str) -> bool:
    return await succeeds(*_ask(there))


async def main(directory: Path, outbound: bool) -> None:
    """Print whether the outside answers, what node and machine are called, whether the machine forwards, and whether rules are left."""
    settings = RealNodeSettings(
        1,
        directory / "nodes",
        outbound=outbound,
        runtime_directory=short(directory),
        service_network="10.96.0.0/16,fd96::/108",
        pod_network="10.128.0.0/9,fd80::/48",
    )
    settings.state.mkdir(parents=True)
    (place,) = settings.nodes()
    outside = f"outside-{settings.id}"
    listener = None
    try:
        await run("ip", "link", "set", "lo", "up")
        await run("ip", "netns", "add", outside)
        await run("ip", "link", "add", "wan", "type", "veth", "peer", "name", "eth0", "netns", outside)
        for here, there in zip(_HERE, _THERE, strict=True):
            await run("ip", "address", "add", here, "dev", "wan")
            address = f"{there}/{here.partition('/')[2]}"
            await run("ip", "-n", outside, "address", "add", address, "dev", "eth0")
        await run("ip", "link", "set", "wan", "up")
        await run("ip", "-n", outside, "link", "set", "eth0", "up")
        listener = await asyncio.create_subprocess_exec("nsenter", f"--net=/run/netns/{outside}", "--", *_SERVER)
        for there in _THERE:
            await eventually(lambda to=there: _answers(to), f"an answer of {there} to the machine")  # type: ignore[misc]
        await make_bridge(settings)
        await make_node_network(place)
        print("answered", *[await succeeds(*inside(place, _ask(there))) for there in _THERE])
        print("node", (await run(*inside(place, ("cat", _HOSTNAME)))).strip())
        print("machine", (await run("cat", _HOSTNAME)).strip())
        print("forwards", forwards())
        print("bridge learns", (_LEARNS.parents[1] / settings.bridge / "accept_ra").read_text().strip())
    finally:
        await remove_network(settings)
        if listener is not None:
            listener.kill()
            await listener.wait()
        await run("ip", "netns", "delete", outside)
    print("forwards", forwards())
    print("rules", await run("nft", "list", "tables") or "none")


def forwards() -> str:
    """Whether the machine forwards packets of each IP version, and whether it learns from IPv6 routers."""
    return " ".join(each.read_text().strip() for each in (*FORWARDING.values(), _LEARNS))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "outbound"))
