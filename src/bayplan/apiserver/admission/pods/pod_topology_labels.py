"""PodTopologyLabels: a pod that gets a node gets the node's zone and region as labels, so that the downward API can tell them.

Source: KEP-4742, on by default since Kubernetes 1.35. What somebody else wrote under these keys is overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, AdmissionPlugin, AdmissionRequest

LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(AdmissionPlugin):
    """See the module."""

    name = "PodTopologyLabels"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation == CREATE and subresource in ("", "binding")

    def admit(self, request: AdmissionRequest) -> None:
        """Copy the labels, onto a pod that is created on a node or onto a binding, from where they reach the pod."""
        obj = request.obj
        node_name = obj.target.name if request.subresource == "binding" else obj.spec.node_name
        if not node_name:
            return
        copied = {key: value for key, value in _labels(request, node_name).items() if key in LABELS}
        if copied:
            obj.metadata.labels = {**obj.metadata.labels, **copied}


def _labels(request: AdmissionRequest, node_name: str) -> Mapping[str, str]:
    """The labels of a node; none if there is no such node."""
    context: Any = request.call.context
    kind = context.kinds.of_kind("v1", "Node")
    entry = context.objects.cache(kind).get("", node_name) if kind is not None else None
    labels: Mapping[str, str] = entry.labels if entry is not None else {}
    return labels
