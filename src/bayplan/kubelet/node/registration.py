"""Brings the node into the API: made anew, or adopted if it is there (pkg/kubelet/kubelet_node_status.go)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.client.errors import TransportError
from bayplan.kubelet.errors import ConfigurationError
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

ATTACH_ANNOTATION: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
_DEFAULT_LABELS: Final = (
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_ALLOWED_PREFIXES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_LONGEST_WAIT = 7.0


def check_labels(labels: Mapping[str, str]) -> None:
    """Labels that a kubelet may give its node: of Kubernetes' own only the known ones and those of kubelets. Raises ConfigurationError."""
    wrong = []
    for name in labels:
        prefix = name.partition("/")[0] if "/" in name else ""
        theirs = any(prefix == each or prefix.endswith(f".{each}") for each in ("kubernetes.io", "k8s.io"))
        fine = any(prefix == each or prefix.endswith(f".{each}") for each in _ALLOWED_PREFIXES)
        if theirs and not fine and name not in _DEFAULT_LABELS:
            wrong.append(name)
    if wrong:
        raise ConfigurationError(
            f"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{' '.join(sorted(wrong))}]; "
            "--node-labels in the 'kubernetes.io' namespace must begin with an allowed prefix "
            f"({', '.join(_ALLOWED_PREFIXES)}) or be in the specifically allowed set ({', '.join(sorted(_DEFAULT_LABELS))})"
        )


def initial_node(
    name: str,
    hostname: str,
    architecture: str,
    *,
    labels: Mapping[str, str],
    taints: Iterable[core_v1.Taint] = (),
    provider_id: str = "",
    attach_by_controller: bool = True,
) -> core_v1.Node:
    """The node as it is registered, without its status."""
    own = {
        "kubernetes.io/hostname": hostname,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture,
    }
    annotations = {ATTACH_ANNOTATION: "true"} if attach_by_controller else {}
    metadata = meta_v1.ObjectMeta(name=name, labels={**own, **labels}, annotations=annotations)
    return core_v1.Node(metadata=metadata, spec=core_v1.NodeSpec(taints=tuple(taints), provider_id=provider_id))


async def register(client: Client, node: core_v1.Node, clock: Clock) -> None:
    """Return when the node is in the API, however long that takes; the server may not be there yet."""
    wait = 0.1
    while not await _try(client, node):
        await clock.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT)


async def _try(client: Client, node: core_v1.Node) -> bool:
    name = node.metadata.name
    try:
        try:
            await client.create(node)
        except ApiError as error:
            if error.code != 409:
                raise
            await _adopt(client, node, await client.get(core_v1.Node, name))
    except (ApiError, TransportError) as error:
        logger.warning("cannot register node %s: %s", name, error)
        return False
    return True


async def _adopt(client: Client, wanted: core_v1.Node, existing: core_v1.Node) -> None:
    """A node of this name is there: correct what belongs to the kubelet, and leave all else."""
    labels = {
        name: value
        for name, value in wanted.metadata.labels.items()
        if name in _DEFAULT_LABELS and existing.metadata.labels.get(name) != value
    }
    annotation = wanted.metadata.annotations.get(ATTACH_ANNOTATION)
    patch: dict[str, object] = {}
    if labels:
        patch["labels"] = labels
    if existing.metadata.annotations.get(ATTACH_ANNOTATION) != annotation:
        patch["annotations"] = {ATTACH_ANNOTATION: annotation}
    if patch:
        name = wanted.metadata.name
        await client.patch(core_v1.Node, name, "", {"metadata": patch}, patch_type=STRATEGIC_PATCH)
