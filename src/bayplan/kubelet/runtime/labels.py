"""Labels and annotations by which a kubelet finds its pods again in what a runtime says: Kubernetes' own names.

A kubelet remembers nothing that it cannot read from here after a restart.
"""

from __future__ import annotations

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

CONTAINER_HASH = "io.kubernetes.container.hash"
"""Changes if, and only if, the container must be made anew because of its spec (its image, for one)."""
RESTART_COUNT = "io.kubernetes.container.restartCount"
TERMINATION_PATH = "io.kubernetes.container.terminationMessagePath"
TERMINATION_POLICY = "io.kubernetes.container.terminationMessagePolicy"
POD_GRACE_PERIOD = "io.kubernetes.pod.terminationGracePeriod"
POD_DELETION_GRACE_PERIOD = "io.kubernetes.pod.deletionGracePeriod"
PRE_STOP_HANDLER = "io.kubernetes.container.preStopHandler"
CONTAINER_PORTS = "io.kubernetes.container.ports"
