"""Features of kubelets that nodes declare in `status.declaredFeatures`, and those that a pod or its change needs (KEP-5328).

Source: Kubernetes' `component-helpers/nodedeclaredfeatures`. Functions of data.
"""

from __future__ import annotations

from typing import Final

from bayplan.api.types.core_v1 import PodSpec

POD_RESIZE: Final = "InPlacePodLevelResourcesVerticalScaling"
INIT_RESIZE: Final = "InPlacePodVerticalScalingInitContainers"
RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
HOST_NETWORK_USERS: Final = "UserNamespacesHostNetworkSupport"
WEBSOCKETS: Final = "ExtendWebSocketsToKubelet"
DECLARED: Final = (POD_RESIZE, INIT_RESIZE, RESTART_ALL)
"""What Bayplan's kubelet declares, sorted: it does each of them.

Not WEBSOCKETS: containerd takes no `v5.channel.k8s.io`, which an API server then translates; HOST_NETWORK_USERS is off in Kubernetes 1.36.
"""


def features_of(spec: PodSpec) -> frozenset[str]:
    """The features that a pod needs of its node from the start."""
    required = []
    containers = (*spec.init_containers, *spec.containers)
    if any(rule.action == "RestartAllContainers" for item in containers for rule in item.restart_policy_rules):
        required.append(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        required.append(HOST_NETWORK_USERS)
    return frozenset(required)


def features_of_change(new: PodSpec, old: PodSpec) -> list[str]:
    """The features that a change of a pod needs of its node, sorted."""
    required = []
    if new.resources != old.resources:
        required.append(POD_RESIZE)
    before = {item.name: item.resources for item in old.init_containers if item.restart_policy != "Always"}
    if any(item.name in before and item.resources != before[item.name] for item in new.init_containers):
        required.append(INIT_RESIZE)
    return required
