"""What the rules depend on besides services and endpoints: the node and the settings. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.proxy.families import Family


@dataclass(frozen=True, slots=True)
class LocalTraffic:
    """How packets of the node's own pods are recognized, as matches of a rule."""

    is_local: str
    """Such as `ip saddr 10.0.0.0/8`."""
    is_not_local: str


def local_by_range(family: Family, pods: str) -> LocalTraffic:
    """By their source address. pods: a canonical range."""
    return LocalTraffic(f"{family.nft} saddr {pods}", f"{family.nft} saddr != {pods}")


def local_by_interface(name: str) -> LocalTraffic:
    """By the interface that they come from. name: may end in `*`."""
    return LocalTraffic(f'iifname "{name}"', f'iifname != "{name}"')


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The options of one family's table."""

    family: Family
    node_name: str
    zone: str = ""
    """Value of the node's label topology.kubernetes.io/zone."""
    node_address: str = ""
    """Primary address of the node in the family; "" if it is not known."""
    node_port_addresses: tuple[str, ...] | None = None
    """Addresses at which node ports are open, sorted; None: at all of the machine but loopback ones."""
    service_ranges: tuple[str, ...] = ()
    """Canonical ranges of cluster IPs, sorted."""
    masquerade_bit: int = 14
    masquerade_all: bool = False
    local_traffic: LocalTraffic | None = None
    """None: the node's own pods cannot be told from others."""

    @property
    def masquerade_mark(self) -> str:
        """The mark of packets whose source address is to be replaced."""
        return f"{1 << self.masquerade_bit:#08x}"

    @property
    def masquerade(self) -> str:
        """The statement that sets the mark."""
        return f"mark set mark or {self.masquerade_mark}"
