"""Attaching CSI volumes to the nodes that need them: a VolumeAttachment per volume and node, which the driver's attacher fulfils, and the node's list of attached
volumes. Decisions are in `attach_detach_rules`.

Nothing is followed before the first CSI volume is there.
"""

from __future__ import annotations

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, storage_v1
from bayplan.api.volume_attachments import needs_attach, unique_name
from bayplan.controllers.base import Controller
from bayplan.controllers.pods import claims_of, index_by_node
from bayplan.controllers.volumes import attach_detach_rules as rules
from bayplan.controllers.volumes.attach_detach_rules import Wanted
from bayplan.informers.cache import SPEC, key_of

_BLOCKED_SECONDS = 15.0
"""Between two looks at a volume that another node has; and at what may be mounted still."""
_FORCED = "attach_detach_controller_attachdetach_controller_forced_detaches"
_FORCED_HELP = "Number of times the A/D Controller performed a forced detach"


class AttachDetachController(Controller):
    """See the module. Keys are names of nodes."""

    name = "persistentvolume-attach-detach-controller"
    event_source = "attachdetach-controller"
    workers = 2

    def setup(self) -> None:
        self.volumes = self.informer(core_v1.PersistentVolume)
        self._following = False
        self._unwanted: dict[str, float] = {}
        """Name of an attachment that nobody wants -> monotonic time since when."""
        registry = self.context.metrics
        self._forced = registry.counter(_FORCED, _FORCED_HELP, ("reason",)) if registry is not None else None
        self.volumes.on_change(add=self._volume_seen, update=lambda old, new: self._volume_seen(new))

    def _volume_seen(self, volume: core_v1.PersistentVolume) -> None:
        if volume.spec.csi is None:
            return
        if not self._following:
            self._following = True
            self._follow()
        reference = volume.spec.claim_ref
        if reference is not None:
            self._touch_users(f"{reference.namespace}/{reference.name}")

    def _follow(self) -> None:
        """Begin to work."""
        self.nodes = self.informer(core_v1.Node)
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.drivers = self.informer(storage_v1.CSIDriver)
        self.attachments = self.informer(storage_v1.VolumeAttachment)
        self.pods = self.informer(core_v1.Pod)
        self.attachments.add_index("node", lambda one: (one.spec.node_name,))
        self.attachments.add_index("volume", lambda one: (one.spec.source.persistent_volume_name or "",))
        index_by_node(self.pods)
        self.pods.add_index("claim", claims_of, SPEC)
        self.pods.on_change(add=self._pod_touched, update=self._pod_changed, delete=self._pod_touched)
        self.claims.on_change(update=self._claim_changed)
        self.drivers.on_change(add=lambda new: self._touch_all(), update=lambda old, new: self._touch_all())
        self.attachments.on_change(
            add=self._attachment_touched, update=self._attachment_changed, delete=self._attachment_gone
        )
        self.nodes.on_change(add=self._node_touched, update=self._node_changed, delete=self._node_touched)

    def _pod_touched(self, pod: core_v1.Pod) -> None:
        if pod.spec.node_name and claims_of(pod):
            self.queue.add(pod.spec.node_name)

    def _pod_changed(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        if (old.spec.node_name, old.status.phase) != (new.spec.node_name, new.status.phase) or (
            new.metadata.deletion_timestamp
        ):
            self._pod_touched(new)

    def _touch_users(self, claim_key: str) -> None:
        for pod in self.pods.cache.by_index("claim", claim_key):
            self._pod_touched(pod)

    def _claim_changed(self, old: core_v1.PersistentVolumeClaim, new: core_v1.PersistentVolumeClaim) -> None:
        if (old.spec.volume_name, old.status.phase) != (new.spec.volume_name, new.status.phase):
            self._touch_users(key_of(new))

    def _touch_all(self) -> None:
        for node in self.nodes.cache:
            self.queue.add(node.metadata.name)

    def _node_touched(self, node: core_v1.Node) -> None:
        self.queue.add(node.metadata.name)

    def _node_changed(self, old: core_v1.Node, new: core_v1.Node) -> None:
        before, after = old.status, new.status
        if (
            before.volumes_in_use != after.volumes_in_use
            or before.volumes_attached != after.volumes_attached
            or old.spec.taints != new.spec.taints
            or rules.is_healthy(old) != rules.is_healthy(new)
        ):
            self._node_touched(new)

    def _attachment_touched(self, one: storage_v1.VolumeAttachment) -> None:
        self.queue.add(one.spec.node_name)

    def _attachment_changed(self, old: storage_v1.VolumeAttachment, new: storage_v1.VolumeAttachment) -> None:
        self._attachment_touched(new)
        name = new.spec.source.persistent_volume_name or ""
        if new.status.attached and not old.status.attached:
            text = f'AttachVolume.Attach succeeded for volume "{name}" '
            self._tell(new, "Normal", "SuccessfulAttachVolume", text)
        error = new.status.attach_error
        if error is not None and error != old.status.attach_error:
            text = f'AttachVolume.Attach failed for volume "{name}" : {error.message}'
            self._tell(new, "Warning", "FailedAttachVolume", text)

    def _attachment_gone(self, one: storage_v1.VolumeAttachment) -> None:
        self._unwanted.pop(one.metadata.name, None)
        self._attachment_touched(one)
        volume = self.volumes.cache.get("", one.spec.source.persistent_volume_name or "")
        if volume is not None:
            self._volume_seen(volume)  # other nodes may have waited for it

    def _tell(self, one: storage_v1.VolumeAttachment, kind: str, reason: str, text: str) -> None:
        """Tell the pods that need an attachment."""
        for wanted in self._wanted(one.spec.node_name).values():
            if wanted.volume.metadata.name == one.spec.source.persistent_volume_name:
                for pod in wanted.pods:
                    self.recorder.event(pod, kind, reason, text)

    async def reconcile(self, key: str) -> None:
        for informer in (self.nodes, self.claims, self.drivers, self.attachments, self.pods):
            await informer.wait_for_sync()
        node: core_v1.Node | None = self.nodes.cache.get("", key)
        if node is not None and rules.MANAGED not in node.metadata.annotations:
            return
        wanted = self._wanted(key) if node is not None else {}
        attached = self._attached(key)
        now = self.clock.monotonic()
        for name, one in attached:
            if name in wanted:
                self._unwanted.pop(one.metadata.name, None)
            else:
                self._unwanted.setdefault(one.metadata.name, now)
        plan = rules.plan(
            node,
            wanted,
            attached,
            self._elsewhere(key, wanted),
            self._unwanted,
            now,
            force_on_timeout=not self.context.settings.disable_force_detach_on_timeout,
        )
        try:
            await self._carry_out(key, node, plan)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            self.queue.add_rate_limited(key)
        if plan.blocked or plan.waits:
            self.queue.add_after(key, _BLOCKED_SECONDS)

    async def _carry_out(self, node_name: str, node: core_v1.Node | None, plan: rules.Plan) -> None:
        if node is not None and plan.report != node.status.volumes_attached:
            patch = {"metadata": {"uid": node.metadata.uid}, "status": {"volumesAttached": list(plan.report)}}
            await self.client.patch(core_v1.Node, node_name, "", patch, subresource="status")
        for one in plan.detach:
            metadata = one.attachment.metadata
            await self.client.delete(storage_v1.VolumeAttachment, metadata.name, uid=metadata.uid)
            if one.forced and self._forced is not None:
                self._forced.labels(one.forced).inc()
        for wanted in plan.attach:
            await self.client.create(wanted.attachment(node_name))
        for wanted in plan.blocked:
            self._tell_blocked(wanted, node_name)

    def _tell_blocked(self, wanted: Wanted, node_name: str) -> None:
        name = wanted.volume.metadata.name
        users = sorted(
            other.metadata.name
            for pod in wanted.pods[:1]
            for claim in claims_of(pod)
            for other in self.pods.cache.by_index("claim", claim)
            if other.spec.node_name not in ("", node_name) and self._volume_of(claim) is wanted.volume
        )
        where = f"Volume is already used by pod(s) {', '.join(users)}"
        if not users:
            where = "Volume is already exclusively attached to one node and can't be attached to another"
        for pod in wanted.pods:
            text = f'Multi-Attach error for volume "{name}" {where}'
            self.recorder.event(pod, "Warning", "FailedAttachVolume", text)

    def _volume_of(self, claim_key: str) -> core_v1.PersistentVolume | None:
        """The volume that is bound to a claim."""
        claim: core_v1.PersistentVolumeClaim | None = self.claims.cache.by_key(claim_key)
        if claim is None or not claim.spec.volume_name:
            return None
        volume: core_v1.PersistentVolume | None = self.volumes.cache.get("", claim.spec.volume_name)
        if volume is None or volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid:
            return None
        return volume

    def _wanted(self, node_name: str) -> dict[str, Wanted]:
        """The volumes that pods on a node need, by unique name."""
        node: core_v1.Node | None = self.nodes.cache.get("", node_name)
        keep = node is not None and node.metadata.annotations.get(rules.KEEP_TERMINATED) == "true"
        found: dict[str, Wanted] = {}
        for pod in self.pods.cache.by_index("node", node_name):
            keys = claims_of(pod)
            if not keys or not rules.uses_volumes(pod, keep_terminated=keep):
                continue
            for key in keys:
                volume = self._volume_of(key)
                source = volume.spec.csi if volume is not None else None
                if volume is None or source is None:
                    continue
                if needs_attach(self.drivers.cache.get("", source.driver)):
                    name = unique_name(source.driver, source.volume_handle)
                    known = found.get(name)
                    found[name] = Wanted(volume, source, (*(known.pods if known else ()), pod))
        return found

    def _attached(self, node_name: str) -> list[tuple[str, storage_v1.VolumeAttachment]]:
        """The attachments that this controller made for a node by unique name; those of volumes that nobody knows any more go by their own name."""
        found = []
        for one in self.attachments.cache.by_index("node", node_name):
            volume = self.volumes.cache.get("", one.spec.source.persistent_volume_name or "")
            source = volume.spec.csi if volume is not None else None
            if rules.is_own(one, source):
                found.append(
                    (unique_name(source.driver, source.volume_handle) if source is not None else one.metadata.name, one)
                )
        return found

    def _elsewhere(self, node_name: str, wanted: dict[str, Wanted]) -> set[str]:
        return {
            name
            for name, one in wanted.items()
            if any(
                other.spec.node_name != node_name
                for other in self.attachments.cache.by_index("volume", one.volume.metadata.name)
            )
        }
