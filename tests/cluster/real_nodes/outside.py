"""Whether a node reaches what the machine reaches, and what it is called.

It is run in a network namespace that stands for the machine, with one beside it that stands for the outside. The outside knows no way
back to the nodes: an answer comes only to the machine's own address.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bayplan.cluster.real_nodes.commands import run
from bayplan.cluster.real_nodes.network import inside, make_bridge, make_node_network, remove_network
from bayplan.cluster.real_nodes.settings import RealNodeSettings
from bayplan.support.system.programs import succeeds
from tests.cluster.real_nodes.directories import short
from tests.kubelet.waiting import eventually

_HOSTNAME = "/proc/sys/kernel/hostname"
_HERE, _THERE = "192.0.2.1", "192.0.2.2"


async def main(directory: Path, outbound: bool) -> None:
    """Print whether the outside answers, what node and machine are called, whether the machine forwards, and whether rules are left."""
    settings = RealNodeSettings(1, directory / "nodes", outbound=outbound, runtime_directory=short(directory))
    settings.state.mkdir(parents=True)
    (place,) = settings.nodes()
    outside = f"outside-{settings.id}"
    listener = None
    try:
        await run("ip", "link", "set", "lo", "up")
        await run("ip", "netns", "add", outside)
        await run("ip", "link", "add", "wan", "type", "veth", "peer", "name", "eth0", "netns", outside)
        await run("ip", "address", "add", f"{_HERE}/24", "dev", "wan")
        await run("ip", "link", "set", "wan", "up")
        await run("ip", "-n", outside, "address", "add", f"{_THERE}/24", "dev", "eth0")
        await run("ip", "-n", outside, "link", "set", "eth0", "up")
        listener = await asyncio.create_subprocess_exec(
            "nsenter",
            f"--net=/run/netns/{outside}",
            "--",
            "busybox",
            "nc",
            "-ll",
            "-p",
            "8080",
            "-e",
            "busybox",
            "echo",
            "hi",
        )
        await eventually(lambda: succeeds("busybox", "nc", "-w", "2", _THERE, "8080"), "an answer to the machine")
        await make_bridge(settings)
        await make_node_network(place)
        print("answered", await succeeds(*inside(place, ("busybox", "nc", "-w", "2", _THERE, "8080"))))
        print("node", (await run(*inside(place, ("cat", _HOSTNAME)))).strip())
        print("machine", (await run("cat", _HOSTNAME)).strip())
        print("forwards", forwards())
    finally:
        await remove_network(settings)
        if listener is not None:
            listener.kill()
            await listener.wait()
        await run("ip", "netns", "delete", outside)
    print("forwards", forwards())
    print("rules", await run("nft", "list", "tables") or "none")


def forwards() -> str:
    """Whether the machine forwards packets: 1 or 0."""
    return Path("/proc/sys/net/ipv4/ip_forward").read_text().strip()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "outbound"))
