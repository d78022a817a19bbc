"""The load on workloads that are scaled by what they use, in a cluster that begins with a copy.

Nobody measures what pods of a copy use, so without further words they would all be idle, and every autoscaler would
take its workload down to the minimum. Instead they use what their autoscaler saw last, as far as that keeps it where it
is; else, and where it saw nothing, its target. So autoscalers begin at rest, and act on what is done to the cluster.

    target 60% of cpu, seen 57%, 4 replicas  ->  pods use 57% of what they request, and 4 remain
    target 60%, seen 10%, 4 replicas, at least 2  ->  60%; as load does not follow the pods, 10% would end at 2

Pods and templates that say themselves what they use (`bayplan.dev/cpu-usage`) are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any, Final

from msgspec.structs import replace

from bayplan.api.codec import DecodeError
from bayplan.api.quantity import parse
from bayplan.api.simulated_usage import ANNOTATIONS
from bayplan.api.types import apps_v1, autoscaling_v2, core_v1, meta_v1
from bayplan.controllers.autoscaling.hpa_rules import minimum, tolerances
from bayplan.controllers.base import controller_of
from bayplan.controllers.workloads.revisions import data_of, template_in
from bayplan.simulation.snapshots.snapshot import Objects

_TOLERANCE: Final = 0.1
"""Of autoscalers that do not say themselves how far off usage may be."""
_TARGETS: Final = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")


def give_load(objects: Objects) -> None:
    """Annotate the pods of autoscaled workloads, and what makes them, with what they use. Changes them in place."""
    targets = {(kind, *_name(one)): one for kind in _TARGETS for one in objects.get(kind, [])}
    for hpa in objects.get("HorizontalPodAutoscaler", []):
        reference = hpa.spec.scale_target_ref
        target = targets.get((reference.kind, hpa.metadata.namespace, reference.name))
        if target is not None:
            usage = dict(_usage(hpa, target.spec.replicas))
            if usage:
                _annotate(objects, target, usage)


def _name(one: Any) -> tuple[str, str]:
    return one.metadata.namespace, one.metadata.name


def _usage(hpa: autoscaling_v2.HorizontalPodAutoscaler, replicas: int | None) -> Iterator[tuple[str, str]]:
    """Annotations of a pod."""
    for spec in hpa.spec.metrics:
        source = spec.resource or spec.container_resource
        if source is None or source.name not in ANNOTATIONS:
            continue
        container = spec.container_resource.container if spec.container_resource is not None else ""
        key = ANNOTATIONS[source.name] + (f".{container}" if container else "")
        text = _amount(hpa, source.target, _seen(hpa, source.name, container), 1 if replicas is None else replicas)
        if text:
            yield key, text


def _seen(
    hpa: autoscaling_v2.HorizontalPodAutoscaler, resource: str, container: str
) -> autoscaling_v2.MetricValueStatus | None:
    """What an autoscaler saw of a resource when the copy was taken."""
    for one in hpa.status.current_metrics:
        if not container and one.resource is not None and one.resource.name == resource:
            return one.resource.current
        of_one = one.container_resource
        if of_one is not None and (of_one.name, of_one.container) == (resource, container):
            return of_one.current
    return None


def _amount(
    hpa: autoscaling_v2.HorizontalPodAutoscaler,
    wanted: autoscaling_v2.MetricTarget,
    seen: autoscaling_v2.MetricValueStatus | None,
    replicas: int,
) -> str:
    """What each pod uses, as its annotation says it; empty if the target is of another type."""
    if wanted.average_utilization is not None:
        now = seen.average_utilization if seen is not None else None
        stays = now is not None and _stays(hpa, now / max(wanted.average_utilization, 1), replicas)
        return f"{now if stays else wanted.average_utilization}%"
    if wanted.average_value is None:
        return ""
    goal, value = parse(wanted.average_value), seen.average_value if seen is not None else None
    stays = value is not None and _stays(hpa, parse(value).milli_value() / max(goal.milli_value(), 1), replicas)
    return str(value if stays else wanted.average_value)


def _stays(hpa: autoscaling_v2.HorizontalPodAutoscaler, ratio: float, replicas: int) -> bool:
    """Whether an autoscaler leaves the replicas as they are if its pods use so many times the target."""
    allowed = tolerances(hpa, _TOLERANCE)
    if 1 - allowed.down <= ratio <= 1 + allowed.up:
        return True
    return min(max(ceil(replicas * ratio), minimum(hpa)), hpa.spec.max_replicas) == replicas


# Pods and templates


def _annotate(objects: Objects, target: Any, usage: dict[str, str]) -> None:
    target.spec.template = _loaded(target.spec.template, usage)
    makers = {target.metadata.uid}
    for one in objects.get("ReplicaSet", []):
        if _owner(one) == target.metadata.uid:
            makers.add(one.metadata.uid)
            one.spec.template = _loaded(one.spec.template, usage)
    for revision in objects.get("ControllerRevision", []):
        if _owner(revision) == target.metadata.uid:
            _load_revision(revision, usage)
    for pod in objects.get("Pod", []):
        if _owner(pod) in makers:
            pod.metadata = _with_usage(pod.metadata, usage)


def _owner(one: Any) -> str:
    owner = controller_of(one)
    return owner.uid if owner is not None else ""


def _loaded(template: core_v1.PodTemplateSpec, usage: dict[str, str]) -> core_v1.PodTemplateSpec:
    return replace(template, metadata=_with_usage(template.metadata, usage))


def _load_revision(revision: apps_v1.ControllerRevision, usage: dict[str, str]) -> None:
    try:
        revision.data = data_of(_loaded(template_in(revision), usage))
    except (DecodeError, KeyError, TypeError):
        return  # of a kind of owner that only itself understands


def _with_usage(metadata: meta_v1.ObjectMeta, usage: dict[str, str]) -> meta_v1.ObjectMeta:
    if any(key.startswith(tuple(ANNOTATIONS.values())) for key in metadata.annotations):
        return metadata
    return replace(metadata, annotations={**metadata.annotations, **usage})
