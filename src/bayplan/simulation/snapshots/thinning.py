"""What a copy keeps of an object: what bears on where pods go, who owns them, and whether they may be moved.

What can hold secrets (environment, commands, arguments, probes, annotations, attributes of volumes and of their
attachments, parameters of devices) is left out, and so are managed fields and the parts of a status that nothing here
reads. Equal templates stay equal, so that owners find their pods up to date. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from bayplan.api.codec import DecodeError, from_tree, to_tree
from bayplan.api.types import apps_v1, autoscaling_v2, core_v1, meta_v1, resource_v1, storage_v1

_KEPT_ANNOTATIONS: Final = frozenset(
    {
        "batch.kubernetes.io/cronjob-scheduled-timestamp",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-index-failure-count",
        "batch.kubernetes.io/job-index-ignored-failure-count",
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
_KEPT_PREFIX: Final = "bayplan.dev/"

_UNPLACED_VOLUMES: Final = ("secret", "config_map", "projected", "downward_api", "git_repo", "image")
"""Kinds of volumes that every node can have, and that name what is not copied."""


def kept_annotation(key: str) -> bool:
    """Whether an annotation bears on placement, eviction or ownership."""
    return key in _KEPT_ANNOTATIONS or key.startswith(_KEPT_PREFIX)


def thin(obj: Any) -> Any:
    """The object as a copy keeps it."""
    change = _BY_KIND.get(type(obj).__name__)
    if change is not None:
        obj = change(obj)
    return _with_thin_metadata(obj)


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
    if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
        claim = _with_thin_metadata(volume.ephemeral.volume_claim_template)
        volume = replace(volume, ephemeral=core_v1.EphemeralVolumeSource(volume_claim_template=claim))
    return volume


def _with_thin_metadata(obj: Any) -> Any:
    return replace(obj, metadata=thin_metadata(obj.metadata))


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
    return replace(volume, spec=_volume_spec(volume.spec))


def _volume_spec(spec: core_v1.PersistentVolumeSpec) -> core_v1.PersistentVolumeSpec:
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
    return replace(spec, mount_options=())


def _attachment(one: storage_v1.VolumeAttachment) -> storage_v1.VolumeAttachment:
    source = one.spec.source
    if source.inline_volume_spec is not None:
        source = replace(source, inline_volume_spec=_volume_spec(source.inline_volume_spec))
    status = storage_v1.VolumeAttachmentStatus(attached=one.status.attached)
    return replace(one, spec=replace(one.spec, source=source), status=status)


def _storage_class(one: storage_v1.StorageClass) -> storage_v1.StorageClass:
    return replace(one, parameters={}, mount_options=())


def thin_template(template: core_v1.PodTemplateSpec) -> core_v1.PodTemplateSpec:
    """A pod template as a copy keeps it."""
    return replace(template, metadata=thin_metadata(template.metadata), spec=thin_spec(template.spec))


def _workload(obj: Any) -> Any:
    if obj.spec.template is None:
        return obj
    return replace(obj, spec=replace(obj.spec, template=thin_template(obj.spec.template)))


def _stateful_set(obj: apps_v1.StatefulSet) -> apps_v1.StatefulSet:
    claims = tuple(_with_thin_metadata(one) for one in obj.spec.volume_claim_templates)
    workload: apps_v1.StatefulSet = _workload(obj)
    return replace(workload, spec=replace(workload.spec, volume_claim_templates=claims))


def _cron_job(obj: Any) -> Any:
    job_template = obj.spec.job_template
    job = replace(job_template.spec, template=thin_template(job_template.spec.template))
    metadata = thin_metadata(job_template.metadata)
    return replace(obj, spec=replace(obj.spec, job_template=replace(job_template, metadata=metadata, spec=job)))


def _autoscaler(one: autoscaling_v2.HorizontalPodAutoscaler) -> autoscaling_v2.HorizontalPodAutoscaler:
    conditions = tuple(replace(condition, message="") for condition in one.status.conditions)
    return replace(one, status=replace(one.status, conditions=conditions))


def _device_class(one: resource_v1.DeviceClass) -> resource_v1.DeviceClass:
    return replace(one, spec=replace(one.spec, config=()))


def _claim_spec(spec: resource_v1.ResourceClaimSpec) -> resource_v1.ResourceClaimSpec:
    return replace(spec, devices=replace(spec.devices, config=()))


def _resource_claim(one: resource_v1.ResourceClaim) -> resource_v1.ResourceClaim:
    allocation = one.status.allocation
    if allocation is not None:
        allocation = replace(allocation, devices=replace(allocation.devices, config=()))
    return replace(one, spec=_claim_spec(one.spec), status=replace(one.status, allocation=allocation, devices=()))


def _resource_claim_template(one: resource_v1.ResourceClaimTemplate) -> resource_v1.ResourceClaimTemplate:
    inner: resource_v1.ResourceClaimTemplateSpec = _with_thin_metadata(one.spec)
    return replace(one, spec=replace(inner, spec=_claim_spec(inner.spec)))


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
    "VolumeAttachment": _attachment,
    "DeviceClass": _device_class,
    "ResourceClaim": _resource_claim,
    "ResourceClaimTemplate": _resource_claim_template,
    "Deployment": _workload,
    "ReplicaSet": _workload,
    "ReplicationController": _workload,
    "StatefulSet": _stateful_set,
    "DaemonSet": _workload,
    "Job": _workload,
    "CronJob": _cron_job,
    "ControllerRevision": _revision,
    "HorizontalPodAutoscaler": _autoscaler,
}
"""Kind -> what is left out of it besides metadata."""
