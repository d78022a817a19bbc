"""Options of the topology manager's policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bayplan.kubelet.resource_managers.errors import ResourceManagerError

PREFER_CLOSEST: Final = "prefer-closest-numa-nodes"
MOST_NODES: Final = "max-allowable-numa-nodes"
DEFAULT_MOST_NODES: Final = 8
"""NUMA nodes of a machine: with more, the combinations are too many to be tried."""
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """What `topologyManagerPolicyOptions` says."""

    prefer_closest: bool = False
    most_nodes: int = DEFAULT_MOST_NODES


def parse_topology_options(options: Mapping[str, str]) -> TopologyOptions:
    """Raises ResourceManagerError."""
    closest, most = False, DEFAULT_MOST_NODES
    for name, value in options.items():
        if name == PREFER_CLOSEST:
            closest = parse_bool(name, value)
        elif name == MOST_NODES:
            most = _most_nodes(value)
        else:
            raise ResourceManagerError(f'unknown Topology Manager Policy option: "{name}"')
    return TopologyOptions(closest, most)


def _most_nodes(value: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", value):
        raise ResourceManagerError(f'unable to convert policy option to integer "{MOST_NODES}": {value!r} is no number')
    if int(value) < DEFAULT_MOST_NODES:
        raise ResourceManagerError(f'the minimum value of "{MOST_NODES}" should not be less than {DEFAULT_MOST_NODES}')
    return int(value)


def parse_bool(name: str, value: str) -> bool:
    """An option's value as Go's strconv.ParseBool reads it. Raises ResourceManagerError."""
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ResourceManagerError(f'bad value for option "{name}": strconv.ParseBool: parsing "{value}": invalid syntax')
