"""What selects a pod together with others of its kind: its services, and the controller that made it.

Source of the behaviour: `helper.DefaultSelector` of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from bayplan.api.selectors import labels as selectors
from bayplan.api.selectors.labels import LabelSelector
from bayplan.scheduler.snapshot.counters import PodCounter
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.shape import PodShape, compiled_or_nothing
from bayplan.scheduler.snapshot.snapshot import Snapshot

_EVERYTHING: Final = selectors.from_map({})
_SELECTOR: Final = "default-spread-selector"
"""Where shapes keep what their services and controllers select."""


def default_selector(snapshot: Snapshot, pod: PodShape) -> LabelSelector:
    """Everything that the pod's services and its controller select together; everything if there are none.

    Found once per shape and state of the catalog, since all services are looked at.
    """
    version = snapshot.catalog.version
    known = pod.cache.get(_SELECTOR)
    if isinstance(known, tuple) and known[0] == version:
        selector: LabelSelector = known[1]
        return selector
    selector = _found(snapshot, pod)
    pod.cache[_SELECTOR] = (version, selector)
    return selector


def pods_selected(snapshot: Snapshot, counter: PodCounter | None, rows: Rows) -> Ints:
    """How many pods of a counter each node has; none without a counter."""
    if counter is None:
        return np.zeros(snapshot.select(rows), dtype=np.int64)
    counts: Ints = counter.per_row[: snapshot.size][rows]
    return counts


def services_selector(snapshot: Snapshot, pod: PodShape) -> LabelSelector:
    """What the pod's services select together; everything if it has none."""
    return selectors.from_map(_labels_of_services(snapshot, pod))


def selectors_of_services(snapshot: Snapshot, pod: PodShape) -> list[LabelSelector]:
    """The selectors of the services that select a pod, in order of the services' names."""
    services = sorted(snapshot.catalog.services.items())
    return [
        selectors.from_map(service.spec.selector)
        for _, service in services
        if service.metadata.namespace == pod.namespace
        and service.spec.selector
        and all(pod.labels.get(key) == value for key, value in service.spec.selector.items())
    ]


def _labels_of_services(snapshot: Snapshot, pod: PodShape) -> dict[str, str]:
    labels: dict[str, str] = {}
    for service in snapshot.catalog.services.values():
        wanted = service.spec.selector
        same = service.metadata.namespace == pod.namespace
        if same and wanted and all(pod.labels.get(key) == value for key, value in wanted.items()):
            labels |= wanted
    return labels


def _found(snapshot: Snapshot, pod: PodShape) -> LabelSelector:
    catalog, labels, owner = snapshot.catalog, _labels_of_services(snapshot, pod), pod.owner
    if owner is None:
        return selectors.from_map(labels) if labels else _EVERYTHING
    key = f"{pod.namespace}/{owner.name}"
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        controller = catalog.replication_controllers.get(key)
        if controller is not None:
            labels |= controller.spec.selector
        return selectors.from_map(labels)
    selector = selectors.from_map(labels)
    if owner.api_version == "apps/v1" and owner.kind in ("ReplicaSet", "StatefulSet"):
        tables: dict[str, Mapping[str, Any]] = {
            "ReplicaSet": catalog.replica_sets,
            "StatefulSet": catalog.stateful_sets,
        }
        workload = tables[owner.kind].get(key)
        if workload is not None:
            selector = selector.merged(compiled_or_nothing(workload.spec.selector))
    return selector
