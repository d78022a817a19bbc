"""Which endpoints of a service port are used on this node. Pure.

Ready endpoints are used; without any, those that terminate but still serve, for the policies Cluster and Local each on their own. Hints narrow endpoints
of the policy Cluster: to those for this node if all ready endpoints have node hints and one is for this node, else likewise for the node's zone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bayplan.proxy.objects import Endpoint, ServicePort


class UsableEndpoints(NamedTuple):
    """The endpoints of a service port as one node uses them."""

    cluster: tuple[Endpoint, ...]
    """For traffic of the policy Cluster."""
    local: tuple[Endpoint, ...]
    """For traffic of the policy Local."""
    reachable: tuple[Endpoint, ...]
    """Both, each endpoint once."""
    anywhere: bool
    """Whether some node has an endpoint that could serve."""


_NONE = UsableEndpoints((), (), (), False)


def usable_endpoints(port: ServicePort, endpoints: Sequence[Endpoint], node_name: str, zone: str) -> UsableEndpoints:
    """Choose endpoints by their conditions, by hints and by the policies that the port uses."""
    if not endpoints:
        return _NONE
    ready = tuple(one for one in endpoints if one.ready)
    ending = tuple(one for one in endpoints if not one.ready and one.serving and one.terminating)
    cluster: tuple[Endpoint, ...] = ()
    local: tuple[Endpoint, ...] = ()
    if port.uses_cluster_endpoints:
        # An endpoint may be ready and terminate, too (publishNotReadyAddresses); it is among `ready` then.
        cluster = tuple(filter(_near(ready, node_name, zone), ready)) or ending
    if port.uses_local_endpoints:
        local = tuple(one for one in ready if one.local) or tuple(one for one in ending if one.local)
    reachable = dict.fromkeys((*cluster, *local))
    return UsableEndpoints(cluster, local, tuple(sorted(reachable, key=str)), bool(ready or ending))


def _near(ready: Sequence[Endpoint], node_name: str, zone: str) -> Callable[[Endpoint], bool]:
    """Whether hints allow an endpoint for this node."""
    if ready and all(one.nodes for one in ready) and any(node_name in one.nodes for one in ready):
        return lambda one: node_name in one.nodes
    if ready and all(one.zones for one in ready) and any(zone in one.zones for one in ready):
        return lambda one: zone in one.zones
    return lambda one: True
