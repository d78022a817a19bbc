"""What a copy keeps of an object: what bears on where pods go, who owns them, and whether they may be moved.

What can hold secrets (environment, commands, arguments, probes, annotations, attributes of volumes) is left out, and so
are managed fields and the parts of a status that nothing here reads. Equal templates stay equal, so that owners find
their pods up to date. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from bayplan.api.codec import DecodeError, from_tree, to_tree
from bayplan.api.types import core_v1, meta_v1, storage_v1

_KEPT_ANNOTATIONS: Final = frozenset(
    {
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "controller.kubernetes.io/pod-deletion-cost",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deployment.kubernetes.io/revision",
        "deprecated.daemonset.template.generation",
        "kubernetes.io/config.mirror",
        "kubernetes.io/config.source",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/provisioned-by",
        "resource.kubernetes.io/pod-claim-name",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "storageclass.kubernetes.io/is-default-class",
        "volume.beta.kubernetes.io/storage-class",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/controller-managed-attach-detach",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
    }
)
_KEPT_PREFIXES: Final = ("bayplan.dev/", "simulation.bayplan.dev/")

_UNPLACED_VOLUMES: Final = ("secret", "config_map", "projected", "downward_api", "git_repo", "image")
"""Kinds of volumes that every node can have, and that name what is not copied."""


def kept_annotation(key: str) -> bool:
    """Whether an annotation bears on placement, eviction or ownership."""
    return key in _KEPT_ANNOTATIONS or key.startswith(_KEPT_PREFIXES)


def thin(obj: Any) -> Any:
    """The object as a copy keeps it."""
    change = _BY_KIND.get(type(obj).__name__)
    if change is not None:
        obj = change(obj)
    return replace(obj, metadata=thin_metadata(obj.metadata))


def without_managed_fields(obj: Any) -> Any:
    """The object whole, for kinds that were asked for by name."""
    metadata = obj.metadata
    return replace(obj, metadata=replace(metadata, managed_fields=(), resource_version="", self_link=""))


def thin_metadata(metadata: meta_v1.ObjectMeta) -> meta_v1.ObjectMeta:
    """Metadata without what only its writers read."""
    annotations = {key: value for key, value in metadata.annotations.items() if kept_annotation(key)}
    return replace(metadata, managed_fields=(), resource_version="", self_link="", annotations=annotations)


def _pod(pod: core_v1.Pod) -> core_v1.Pod:
    return replace(pod, spec=thin_spec(pod.spec), status=_pod_status(pod.status))


def thin_spec(spec: core_v1.PodSpec) -> core_v1.PodSpec:
    """The spec of a pod, or of a template, without what goes on inside its containers."""
    return replace(
        spec,
        volumes=tuple(
            _volume(one) for one in spec.volumes if not any(getattr(one, name) for name in _UNPLACED_VOLUMES)
        ),
        init_containers=tuple(_container(one) for one in spec.init_containers),
        containers=tuple(_container(one) for one in spec.containers),
        ephemeral_containers=(),
        security_context=None,
        image_pull_secrets=(),
        host_aliases=(),
        dns_config=None,
    )


def _volume(volume: core_v1.Volume) -> core_v1.Volume:
    if volume.csi is not None:
        volume = replace(volume, csi=core_v1.CSIVolumeSource(driver=volume.csi.driver))
    if volume.flex_volume is not None:
        volume = replace(volume, flex_volume=core_v1.FlexVolumeSource(driver=volume.flex_volume.driver))
    return volume


def _container(one: core_v1.Container) -> core_v1.Container:
    return core_v1.Container(
        name=one.name,
        image=one.image,
        ports=one.ports,
        resources=one.resources,
        resize_policy=one.resize_policy,
        restart_policy=one.restart_policy,
        termination_message_path=one.termination_message_path,
        termination_message_policy=one.termination_message_policy,
        image_pull_policy=one.image_pull_policy,
    )


def _pod_status(status: core_v1.PodStatus) -> core_v1.PodStatus:
    return replace(
        status,
        message="",
        conditions=tuple(replace(one, message="") for one in status.conditions),
        init_container_statuses=tuple(_container_status(one) for one in status.init_container_statuses),
        container_statuses=tuple(_container_status(one) for one in status.container_statuses),
        ephemeral_container_statuses=(),
    )


def _container_status(one: core_v1.ContainerStatus) -> core_v1.ContainerStatus:
    state = one.state
    if state.waiting is not None:
        state = replace(state, waiting=replace(state.waiting, message=""))
    elif state.terminated is not None:
        state = replace(state, terminated=replace(state.terminated, message="", container_id=""))
    return replace(
        one, state=state, last_state=core_v1.ContainerState(), image_id="", container_id="", volume_mounts=(), user=None
    )


def _node(node: core_v1.Node) -> core_v1.Node:
    status = node.status
    conditions = tuple(replace(one, message="", last_heartbeat_time=None) for one in status.conditions)
    thin_status = replace(
        status,
        conditions=conditions,
        config=None,
        volumes_in_use=(),
        volumes_attached=(),
        daemon_endpoints=core_v1.NodeDaemonEndpoints(),
    )
    return replace(node, status=thin_status)


def _volume_object(volume: core_v1.PersistentVolume) -> core_v1.PersistentVolume:
    spec = volume.spec
    if spec.csi is not None:
        csi = core_v1.CSIPersistentVolumeSource(
            driver=spec.csi.driver,
            volume_handle=spec.csi.volume_handle,
            read_only=spec.csi.read_only,
            fs_type=spec.csi.fs_type,
        )
        spec = replace(spec, csi=csi)
    if spec.flex_volume is not None:
        spec = replace(spec, flex_volume=core_v1.FlexPersistentVolumeSource(driver=spec.flex_volume.driver))
    return replace(volume, spec=replace(spec, mount_options=()))


def _storage_class(one: storage_v1.StorageClass) -> storage_v1.StorageClass:
    return replace(one, parameters={}, mount_options=())


def thin_template(template: core_v1.PodTemplateSpec) -> core_v1.PodTemplateSpec:
    """A pod template as a copy keeps it."""
    return replace(template, metadata=thin_metadata(template.metadata), spec=thin_spec(template.spec))


def _workload(obj: Any) -> Any:
    if obj.spec.template is None:
        return obj
    return replace(obj, spec=replace(obj.spec, template=thin_template(obj.spec.template)))


def _cron_job(obj: Any) -> Any:
    job_template = obj.spec.job_template
    job = replace(job_template.spec, template=thin_template(job_template.spec.template))
    metadata = thin_metadata(job_template.metadata)
    return replace(obj, spec=replace(obj.spec, job_template=replace(job_template, metadata=metadata, spec=job)))


def _revision(obj: Any) -> Any:
    """A revision holds a template as plain data; revisions of other kinds of owners hold what only these understand."""
    data = obj.data if isinstance(obj.data, dict) else {}
    template = (data.get("spec") or {}).get("template")
    if not isinstance(template, dict):
        return replace(obj, data={})
    tree = {key: value for key, value in template.items() if key != "$patch"}
    try:
        thinned = to_tree(thin_template(from_tree(core_v1.PodTemplateSpec, tree)))
    except DecodeError:
        return replace(obj, data={})
    return replace(obj, data={"spec": {"template": {**thinned, "$patch": "replace"}}})


_BY_KIND: Final[dict[str, Callable[[Any], Any]]] = {
    "Pod": _pod,
    "Node": _node,
    "PersistentVolume": _volume_object,
    "StorageClass": _storage_class,
    "Deployment": _workload,
    "ReplicaSet": _workload,
    "ReplicationController": _workload,
    "StatefulSet": _workload,
    "DaemonSet": _workload,
    "Job": _workload,
    "CronJob": _cron_job,
    "ControllerRevision": _revision,
}
"""Kind -> what is left out of it besides metadata."""
