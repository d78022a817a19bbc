"""The pods that manifests stand for: pods, templates, the pods that workloads would make, with the groups and claims that go with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from bayplan.api.codec import DecodeError, decode, decode_reporting, encode
from bayplan.api.feature_gates import ALL_GATES, may_have_gated_fields
from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.api.optional_kinds import COMPOSITE_POD_GROUP, NEWER, POD_GROUP
from bayplan.api.strategies import strategy_for
from bayplan.api.types import apps_v1, batch_v1, core_v1, meta_v1
from bayplan.scheduler.errors import QuestionError
from bayplan.scheduler.snapshot.group_trees import CompositeGroup
from bayplan.scheduler.snapshot.newer_groups import read_composite, read_group

MOST_PODS: Final = 5_000
"""Pods of one question: the scheduler places nothing else meanwhile."""
_CLAIM = "PersistentVolumeClaim"
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PRESSURE = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")


@dataclass(frozen=True, slots=True)
class AskedPod:
    """One pod that is asked about."""

    pod: core_v1.Pod
    workload: str
    """`Kind namespace/name` of what would make it; its own for a pod."""
    everywhere: bool = False
    """It stands for one pod on each node that fits, as a DaemonSet makes them."""


@dataclass(slots=True)
class Question:
    """What is asked about."""

    pods: list[AskedPod] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)
    """PodGroups that are not there yet."""
    composites: list[CompositeGroup] = field(default_factory=list)
    """CompositePodGroups that are not there yet."""
    claims: list[core_v1.PersistentVolumeClaim] = field(default_factory=list)
    """Claims that are not there yet, such as those that a StatefulSet would make."""


def read_question(body: bytes, namespace: str = "default", gates: Collection[str] = ALL_GATES) -> Question:
    """What a JSON document asks about: one object, or a List of them. namespace: of objects that name none. Raises QuestionError.

    gates: the feature gates that are on; fields of others are dropped, as they would be if the objects were created.
    """
    question = Question()
    for name, api_version, data in _objects(body):
        _add(question, name, api_version, data, namespace, gates)
    if not question.pods:
        raise QuestionError("nothing is asked about: give a pod, or a workload that makes pods")
    return question


class _Head(msgspec.Struct):
    """What is read of an object before its kind is known."""

    kind: Any = None
    api_version: Any = msgspec.field(name="apiVersion", default=None)


_read_head: Final = msgspec.json.Decoder(_Head).decode


def _objects(body: bytes) -> Iterator[tuple[str, Any, bytes]]:
    """Kind, apiVersion and JSON of the objects of a document; one that is no List is its own JSON, which saves a tree of it."""
    try:
        try:
            head = _read_head(body)
        except msgspec.ValidationError:  # no object
            head = _Head()
        if isinstance(head.kind, str) and head.kind != "List":
            yield head.kind, head.api_version, body
            return
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise QuestionError(f"the question is no JSON: {error}") from error
    for item in _items(tree):
        yield item["kind"], item.get("apiVersion"), encode(item)


def _items(tree: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(tree, dict) or not isinstance(tree.get("kind"), str):
        raise QuestionError("an object with apiVersion and kind is expected")
    if tree["kind"] != "List":
        yield tree
        return
    items = tree.get("items")
    if not isinstance(items, list):
        raise QuestionError("items of the List: a list is expected")
    for item in items:
        yield from _items(item)


def _add(question: Question, name: str, api_version: Any, data: bytes, namespace: str, gates: Collection[str]) -> None:
    kind = _kind_of(name, api_version)
    if kind is None:
        raise QuestionError(f"{api_version} {name} makes no pods; ask about: {', '.join(sorted(_EXPANDED))}")
    obj = _decoded(kind, data, namespace, gates)
    if name == POD_GROUP.kind:
        question.groups.append(read_group(obj, has_trees=True))
        return
    if name == COMPOSITE_POD_GROUP.kind:
        try:
            question.composites.append(read_composite(obj))
        except ValueError as error:
            raise QuestionError(f"{name} {obj.metadata.name}: {error}") from error
        return
    if name == _CLAIM:
        question.claims.append(obj)
        return
    _EXPANDED[name](question, obj)
    if len(question.pods) > MOST_PODS:
        raise QuestionError(f"{len(question.pods):,} pods are asked about; {MOST_PODS:,} are allowed in one question")


def _kind_of(name: str, api_version: Any) -> Kind | None:
    if name == POD_GROUP.kind:
        return next((one for one in NEWER if (one.api_version, one.kind) == (api_version, name)), POD_GROUP)
    if name == COMPOSITE_POD_GROUP.kind:
        return COMPOSITE_POD_GROUP if api_version == COMPOSITE_POD_GROUP.api_version else None
    kind = DEFAULT_KINDS.of_kind(api_version, name) if isinstance(api_version, str) else None
    return kind if kind is not None and (name in _EXPANDED or name == _CLAIM) else None


def _decoded(kind: Kind, data: bytes, namespace: str, gates: Collection[str]) -> Any:
    """The object with its defaults. Raises QuestionError."""
    try:
        is_gated = may_have_gated_fields(data, gates)
        obj = decode_reporting(kind.type, data, gates)[0] if is_gated else decode(kind.type, data)
        strategy_for(kind).default(obj)
    except (DecodeError, msgspec.ValidationError) as error:
        metadata = msgspec.json.decode(data).get("metadata")
        named = metadata if isinstance(metadata, dict) else {}
        shown = named.get("name") or named.get("generateName") or "?"
        raise QuestionError(f"{kind.kind} {shown}: {error}") from error
    if not (obj.metadata.name or obj.metadata.generate_name):
        raise QuestionError(f"{kind.kind}: metadata.name is missing")
    obj.metadata.name = obj.metadata.name or f"{obj.metadata.generate_name}0"
    obj.metadata.namespace = obj.metadata.namespace or namespace
    return obj


def _named(obj: Any) -> str:
    return f"{type(obj).__name__} {obj.metadata.namespace}/{obj.metadata.name}"


def _pod(question: Question, pod: core_v1.Pod) -> None:
    if pod.spec.node_name:
        raise QuestionError(f"{_named(pod)}: spec.nodeName is set, so no scheduler decides about it")
    question.pods.append(AskedPod(pod, _named(pod)))


def _template(question: Question, owner: Any, template: core_v1.PodTemplateSpec, count: int, api_version: str) -> None:
    """Add so many pods of a template."""
    if count > MOST_PODS:
        raise QuestionError(f"{_named(owner)}: {count:,} pods; {MOST_PODS:,} are allowed in one question")
    for number in range(count):
        pod = _of_template(owner, template, f"{owner.metadata.name}-{number}", api_version)
        question.pods.append(AskedPod(pod, _named(owner)))


def _of_template(owner: Any, template: core_v1.PodTemplateSpec, name: str, api_version: str) -> core_v1.Pod:
    reference = meta_v1.OwnerReference(
        api_version=api_version, kind=type(owner).__name__, name=owner.metadata.name, controller=True
    )
    metadata = meta_v1.ObjectMeta(
        name=name,
        namespace=owner.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(reference,) if api_version else (),
    )
    return core_v1.Pod(metadata=metadata, spec=template.spec)


def _replicas(api_version: str) -> Callable[[Question, Any], None]:
    def expand(question: Question, owner: Any) -> None:
        wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
        _template(question, owner, owner.spec.template or core_v1.PodTemplateSpec(), wanted, api_version)

    return expand


def _stateful_set(question: Question, owner: apps_v1.StatefulSet) -> None:
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    first = owner.spec.ordinals.start if owner.spec.ordinals is not None else 0
    for number in range(first, first + wanted):
        name = f"{owner.metadata.name}-{number}"
        pod = _of_template(owner, owner.spec.template, name, "apps/v1")
        own = [f"{item.metadata.name}-{name}" for item in owner.spec.volume_claim_templates]
        mounted = tuple(
            core_v1.Volume(
                name=item.metadata.name,
                persistent_volume_claim=core_v1.PersistentVolumeClaimVolumeSource(claim_name=claim),
            )
            for item, claim in zip(owner.spec.volume_claim_templates, own, strict=True)
        )
        names = {volume.name for volume in mounted}
        others = tuple(volume for volume in pod.spec.volumes if volume.name not in names)
        pod.spec = msgspec.structs.replace(pod.spec, volumes=(*others, *mounted))
        question.pods.append(AskedPod(pod, _named(owner)))
        for item, claim in zip(owner.spec.volume_claim_templates, own, strict=True):
            metadata = meta_v1.ObjectMeta(name=claim, namespace=owner.metadata.namespace, labels=item.metadata.labels)
            question.claims.append(core_v1.PersistentVolumeClaim(metadata=metadata, spec=item.spec))
        if len(question.pods) > MOST_PODS:
            break


def _job(question: Question, owner: batch_v1.Job) -> None:
    _template(question, owner, owner.spec.template, _at_once(owner.spec), "batch/v1")


def _cron_job(question: Question, owner: batch_v1.CronJob) -> None:
    spec = owner.spec.job_template.spec
    _template(question, owner, spec.template, _at_once(spec), "")


def _at_once(spec: batch_v1.JobSpec) -> int:
    wanted = 1 if spec.parallelism is None else spec.parallelism
    return wanted if spec.completions is None else min(wanted, spec.completions)


def _pod_template(question: Question, owner: core_v1.PodTemplate) -> None:
    _template(question, owner, owner.template, 1, "")


def _daemon_set(question: Question, owner: apps_v1.DaemonSet) -> None:
    """One pod that stands for all, with the tolerations that a DaemonSet gives its pods."""
    pod = _of_template(owner, owner.spec.template, owner.metadata.name, "apps/v1")
    tolerations = [core_v1.Toleration(key=key, operator="Exists", effect="NoExecute") for key in _NOT_READY]
    tolerations += [
        core_v1.Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect="NoSchedule") for key in _PRESSURE
    ]
    if pod.spec.host_network:
        key = "node.kubernetes.io/network-unavailable"
        tolerations.append(core_v1.Toleration(key=key, operator="Exists", effect="NoSchedule"))
    pod.spec = msgspec.structs.replace(pod.spec, tolerations=(*pod.spec.tolerations, *tolerations))
    question.pods.append(AskedPod(pod, _named(owner), everywhere=True))


_EXPANDED: Final[dict[str, Callable[[Question, Any], None]]] = {
    "Pod": _pod,
    "PodTemplate": _pod_template,
    "Deployment": _replicas(""),
    "ReplicaSet": _replicas("apps/v1"),
    "ReplicationController": _replicas("v1"),
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "CronJob": _cron_job,
}
"""How the pods of a kind are made. A Deployment and a CronJob make them through others, which are not there to be named as owners."""
