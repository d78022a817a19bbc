"""nftables rules that give what pods send to the world the node's address. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bayplan.network.peers import Peer, ip_version
from bayplan.network.settings import Masquerade

TABLE: Final = "bayplan-network"
_MULTICAST: Final = {4: "224.0.0.0/4", 6: "ff00::/8"}


def masquerading(node: Peer, peers: Iterable[Peer], mode: Masquerade) -> str:
    """A transaction for `nft -f -` after which the table has the rules for these nodes, or is gone."""
    begin = f"add table inet {TABLE}\ndelete table inet {TABLE}\n"
    if mode == Masquerade.OFF or not node.pod_networks:
        return begin
    everybody = [node, *peers]
    inside = [network for each in everybody for network in each.pod_networks]
    if mode == Masquerade.EXTERNAL:
        inside += [address for each in everybody for address in each.addresses]
    lines = [begin, f"table inet {TABLE} {{\n"]
    rules = []
    for version, family in ((4, "ip"), (6, "ip6")):
        own = [one for one in node.pod_networks if ip_version(one) == version]
        if not own:
            continue
        elements = sorted({one for one in inside if ip_version(one) == version} | {_MULTICAST[version]})
        lines.append(
            f"  set inside{version} {{\n    type ipv{version}_addr; flags interval; auto-merge;\n"
            f"    elements = {{ {', '.join(elements)} }}\n  }}\n"
        )
        rules.append(
            f"    {family} saddr {{ {', '.join(own)} }} {family} daddr != @inside{version} masquerade fully-random\n"
        )
    lines.append("  chain postrouting {\n    type nat hook postrouting priority srcnat - 5; policy accept;\n")
    return "".join([*lines, *rules, "  }\n}\n"])
