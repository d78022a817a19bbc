"""Real nodes of `bayplan up`: what its options say of them, and their first steps."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.clusters.data_directory import REAL_NODES
from bayplan.cli.output import Failure
from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.requirements import check
from bayplan.cluster.real_nodes.settings import REGISTRY_CONFIG, RealNodeSettings
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.runtime.pause_image import PAUSE_IMAGE
from bayplan.support.clock import SystemClock

if TYPE_CHECKING:
    from bayplan.cluster.real_nodes.service import RealNodes

_WITHOUT_DATA_DIRECTORY = Path("/var/lib/bayplan")


def real_node_settings(
    count: int,
    directory: Path | None,
    cluster: ClusterSettings,
    *,
    mode: str,
    outbound: bool,
    sandbox_image: str | None,
    data_plane: str,
    registry_config: Path | None,
    oci_runtime: str | None,
    without: tuple[str, ...],
) -> RealNodeSettings:
    """Settings of real nodes. directory: the data directory; None for a cluster without. sandbox_image: None for the built-in one. registry_config: None for
    containerd's usual directory. oci_runtime: None for one that is installed. without: what the cluster brings itself. Raises UsageError, and Failure if the
    machine cannot have them."""
    try:
        settings = RealNodeSettings(
            count,
            (directory or _WITHOUT_DATA_DIRECTORY).absolute() / REAL_NODES,
            mode,
            sandbox_image=sandbox_image or PAUSE_IMAGE,
            outbound=outbound,
            data_plane=data_plane,
            registry_config=registry_config or REGISTRY_CONFIG,
            oci_runtime=oci_runtime or "",
            without=frozenset(without),
            service_network=cluster.api.service_cluster_ip_range,
            pod_network=",".join(cluster.controller.cluster_cidr),
        )
    except ValueError as error:
        raise click.UsageError(f"--real-nodes: {error}") from error
    try:
        check(settings, os.geteuid())
    except RealNodeError as error:
        raise Failure(str(error)) from error
    return settings


async def prepared(settings: RealNodeSettings, cluster: ClusterSettings) -> tuple[RealNodes, ClusterSettings]:
    """Real nodes whose network is there, and the cluster's settings with their addresses. Raises RealNodeError."""
    # Only now, as it needs packages whose absence `check` has named.
    from bayplan.cluster.real_nodes.service import RealNodes

    nodes = RealNodes(settings, SystemClock())
    await nodes.prepare()
    return nodes, replace(cluster, further_addresses=nodes.addresses)
