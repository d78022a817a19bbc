"""The admission chain: which plugins see a request, in which order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from bayplan.api.conversions.kinds import WebhookNeeded
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.metrics import ADMIT, VALIDATE
from bayplan.apiserver.authorization.waiting import Undecided

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


class AdmissionRequest:
    """What an admission plugin looks at."""

    __slots__ = ("_left", "call", "name", "namespace", "obj", "object_name", "old", "operation", "subresource")

    def __init__(
        self,
        call: Call,
        operation: str,
        obj: Any,
        old: Any,
        subresource: str = "",
        *,
        name: str = "",
        namespace: str = "",
    ) -> None:
        self.call = call
        self.operation = operation
        self.obj = obj
        """The object as it would be written, in the stored version; None for deletions."""
        self.old = old
        """The object as it is; None for creations. Shared: do not change it."""
        self.subresource = subresource
        self.object_name = name or (obj.metadata.name if obj is not None else call.path.name)
        """Empty where a name will be generated after everybody has changed the object."""
        self.name = self.object_name or (obj.metadata.generate_name if obj is not None else "") or "Unknown"
        """What refusals call the object."""
        self.namespace = namespace or call.path.namespace
        self._left: Plan | None = None

    def has_name(self, name: str) -> None:
        """The object has got its name."""
        self.object_name = self.name = name

    @property
    def kind(self) -> Kind:
        """The stored kind."""
        return self.call.stored

    def left(self, plan: Plan) -> Plan:
        """The steps of a plan without those of plugins of which is known that they let it pass without a look at the object."""
        call = self.call
        if self.namespace != call.path.namespace:
            return plan
        if self._left is None:
            self._left = call.context.idle_admission.plan(call, self.operation, self.subresource)
        return self._left


class AdmissionPlugin:
    """Base of all plugins.

    What decides besides the object comes from `request.call`: the requester, and through its `context` other objects, the clock and randomness. A plugin
    keeps nothing of these from one request to the next but what it computes from objects anew when the revision of their cache changes: what it reads is
    recorded (`observation`), and while all of that is the same, its answer may be repeated without asking it. It may be asked about an object that is not there
    to be looked at, to see whether it looks: what it does for a request, it does when it has looked at it.
    """

    name = ""
    """The name as kube-apiserver's flags know it."""
    needs_configuration = False
    """Whether there has to be something for it in the admission configuration file."""

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        """Whether the plugin wants to see such requests at all; asked once per combination."""
        return False

    def configure(self, configuration: Mapping[str, Any]) -> None:
        """Take what the admission configuration file says for this plugin. Raises ValueError."""
        raise ValueError(f"admission plugin {self.name} takes no configuration")

    def admit(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Change the object, or raise ApiError. An awaitable is awaited. Objects are defaulted before, and not again: what is added is complete."""
        return None

    def validate(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Raise ApiError to refuse the request."""
        return None


Step = Callable[[AdmissionRequest], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps for one combination of kind, operation and subresource."""

    mutating: tuple[Step, ...] = ()
    validating: tuple[Step, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.mutating or self.validating)

    async def admit(self, request: AdmissionRequest) -> None:
        """Run the mutating steps in order."""
        if self.mutating:
            await _run(request.left(self).mutating, request, ADMIT)

    async def validate(self, request: AdmissionRequest) -> None:
        """Run the validating steps in order."""
        if self.validating:
            await _run(request.left(self).validating, request, VALIDATE)

    async def run(self, request: AdmissionRequest) -> None:
        """Run both (deletions, connections)."""
        await self.admit(request)
        await self.validate(request)

    def run_at_once(self, request: AdmissionRequest) -> bool:
        """Run both, if there is nothing to wait for; False if there is. Raises ApiError."""
        for step in (*self.mutating, *self.validating):
            try:
                waiting = step(request)
            except (WebhookNeeded, Undecided):
                return False
            if waiting is not None:
                if isinstance(waiting, Coroutine):
                    waiting.close()
                return False
        return True


async def _run(steps: Sequence[Step], request: AdmissionRequest, kind: str) -> None:
    context = request.call.context
    metrics, now = context.admission_metrics, context.clock.monotonic
    started, rejected = now(), True
    try:
        for step in steps:
            try:
                waiting = step(request)
            except (WebhookNeeded, Undecided):
                waiting = await _with_answers(step, request)
            if waiting is not None:
                await _waited(step, waiting, request, kind)
        rejected = False
    finally:
        metrics.step(kind, request.operation, rejected=rejected).observe(now() - started)


async def _waited(step: Step, waiting: Awaitable[None], request: AdmissionRequest, kind: str) -> None:
    """Wait for a plugin."""
    context = request.call.context
    started, rejected = context.clock.monotonic(), True
    try:
        await waiting
        rejected = False
    finally:
        name = str(getattr(getattr(step, "__self__", None), "name", ""))
        series = context.admission_metrics.controller(name, kind, request.operation, rejected=rejected)
        series.observe(context.clock.monotonic() - started)


async def _with_answers(step: Step, request: AdmissionRequest) -> Awaitable[None] | None:
    """What comes of a step that wants to see objects in versions that only a webhook knows, or to know what only one allows. Raises ApiError."""
    from bayplan.apiserver.custom_resources.conversion import resolved  # which imports the context of requests

    call = request.call
    waiting = await resolved(call, partial(step, request))
    call.warnings[:] = dict.fromkeys(call.warnings)
    return waiting


class Row(NamedTuple):
    """One plugin of the table."""

    plugin: str
    """`module:Class` in this package; loaded when a chain is built with it."""
    is_default: bool
    """Whether it runs without being asked for."""
    why_here: str
    """The reason for its place."""

    @property
    def name(self) -> str:
        """The name as kube-apiserver's flags know it."""
        return self.plugin.partition(":")[2]

    def make(self) -> AdmissionPlugin:
        """A plugin of its own for one server."""
        module, _, name = self.plugin.partition(":")
        made: AdmissionPlugin = getattr(import_module(f"bayplan.apiserver.admission.{module}"), name)()
        return made


TABLE = (
    Row("always:AlwaysAdmit", False, "does nothing, in any place"),
    Row(
        "namespaces.namespace_auto_provision:NamespaceAutoProvision",
        False,
        "makes the namespace that the next ones look for",
    ),
    Row(
        "namespaces.namespace_lifecycle:NamespaceLifecycle",
        True,
        "whether the namespace takes objects at all comes first",
    ),
    Row("namespaces.namespace_exists:NamespaceExists", False, "as the former, for servers that run without it"),
    Row(
        "pods.limit_pod_hard_anti_affinity_topology:LimitPodHardAntiAffinityTopology",
        False,
        "looks at what users wrote",
    ),
    Row("pods.limit_ranger:LimitRanger", True, "resources of containers, before anybody counts them"),
    Row("pods.service_account:ServiceAccount", True, "adds volumes, which policies then see"),
    Row("access.node_restriction:NodeRestriction", False, "refuses nodes early; the account of a pod is known"),
    Row("taint_nodes_by_condition:TaintNodesByCondition", True, "nodes only, in any place"),
    Row("pods.always_pull_images:AlwaysPullImages", False, "changes containers before policies see them"),
    Row("pods.image_policy:ImagePolicyWebhook", False, "validates only: it sees the images as they will be"),
    Row("pods.pod_security:PodSecurity", True, "sees the containers and volumes as they will be"),
    Row("pods.pod_node_selector:PodNodeSelector", False, "the namespace's selector before that of the runtime class"),
    Row("pods.priority:Priority", True, "the priority decides which tolerations are added"),
    Row(
        "pods.default_toleration_seconds:DefaultTolerationSeconds",
        True,
        "default tolerations before those of a namespace",
    ),
    Row(
        "pods.pod_toleration_restriction:PodTolerationRestriction",
        False,
        "judges all tolerations but those of resources",
    ),
    Row("event_rate_limit:EventRateLimit", False, "events only, in any place"),
    Row(
        "pods.extended_resource_toleration:ExtendedResourceToleration",
        False,
        "is not subject to the namespace's allow list",
    ),
    Row("default_storage_class:DefaultStorageClass", True, "the class of a claim, before it is counted"),
    Row("storage_object_in_use_protection:StorageObjectInUseProtection", True, "finalizers, in any place"),
    Row("pods.pod_groups:PodGroupProtection", True, "finalizers, in any place"),
    Row(
        "access.owner_references_permission_enforcement:OwnerReferencesPermissionEnforcement",
        False,
        "metadata as it will be",
    ),
    Row("persistent_volume_claim_resize:PersistentVolumeClaimResize", True, "the class of the claim is known"),
    Row("pods.runtime_class:RuntimeClass", True, "overhead and tolerations, behind the defaults and before quotas"),
    Row("access.certificates:CertificateApproval", True, "certificate requests only, in any place"),
    Row("access.certificates:CertificateSigning", True, "certificate requests only, in any place"),
    Row("access.certificates:ClusterTrustBundleAttest", True, "bundles of trust anchors only, in any place"),
    Row("access.certificates:CertificateSubjectRestriction", True, "certificate requests only, in any place"),
    Row("default_ingress_class:DefaultIngressClass", True, "ingresses only, in any place"),
    Row("deny_service_external_ips:DenyServiceExternalIPs", False, "services only, in any place"),
    Row("pods.pod_topology_labels:PodTopologyLabels", True, "labels that nothing above reads"),
    Row("pods.pod_groups:PodGroupWorkloadExists", True, "pod groups only, in any place"),
    Row(
        "pods.node_declared_features:NodeDeclaredFeatureValidator", True, "changes of pods on nodes only, in any place"
    ),
    Row("pods.pod_groups:JobValidation", True, "changes of Jobs only, in any place"),
    Row("pods.pod_resize:PodResizeValidator", True, "resizes of pods only, in any place"),
    Row(
        "extensions.mutating_admission_policy:MutatingAdmissionPolicy",
        True,
        "sees what all of the above made of the object",
    ),
    Row("extensions.webhooks:MutatingAdmissionWebhook", True, "sees what all of the above made of the object"),
    Row(
        "extensions.validating_admission_policy:ValidatingAdmissionPolicy",
        True,
        "sees the object as it will be; webhooks need not be asked about what it refuses",
    ),
    Row("extensions.webhooks:ValidatingAdmissionWebhook", True, "sees the object as it will be"),
    Row(
        "namespaces.resource_quota:ResourceQuota",
        True,
        "behind all that judge: it charges what all others have let pass",
    ),
    Row("always:AlwaysDeny", False, "last, as in kube-apiserver: what it refuses has been through everything else"),
)
"""All plugins in the order in which they run, which is kube-apiserver's."""


@dataclass(slots=True)
class AdmissionChain:
    """The plugins of one server."""

    plugins: tuple[AdmissionPlugin, ...]
    _plans: WeakKeyDictionary[Kind, dict[tuple[str, str], Plan]] = field(default_factory=WeakKeyDictionary)
    """By kind (custom ones come and go), operation and subresource."""

    def plan(self, kind: Kind, operation: str, subresource: str) -> Plan:
        """The steps for such requests."""
        plans = self._plans.get(kind)
        if plans is None:
            plans = self._plans[kind] = {}
        plan = plans.get((operation, subresource))
        if plan is None:
            chosen = [plugin for plugin in self.plugins if plugin.handles(kind, operation, subresource)]
            plan = plans[operation, subresource] = Plan(
                tuple(plugin.admit for plugin in chosen if type(plugin).admit is not AdmissionPlugin.admit),
                tuple(plugin.validate for plugin in chosen if type(plugin).validate is not AdmissionPlugin.validate),
            )
        return plan


def build_chain(
    enabled: Sequence[str], disabled: Sequence[str], configuration: Mapping[str, Mapping[str, Any]] | None = None
) -> AdmissionChain:
    """The default plugins without the disabled ones, and the enabled optional ones.

    configuration: by plugin name, what the configuration file says. Raises ValueError for a name that is not known and for what a plugin refuses.
    """
    from bayplan.apiserver.admission.access.certificates import CertificateConditionTimes, PodCertificateIssue
    from bayplan.apiserver.admission.access.create_on_update import CreateOnUpdate
    from bayplan.apiserver.admission.access.role_escalation import RoleEscalation

    given = configuration or {}
    known = {row.name for row in TABLE}
    for name in (*enabled, *disabled, *given):
        if name not in known:
            raise ValueError(f"unknown admission plugin {name!r}; known: {', '.join(sorted(known))}")
    chosen = [row.make() for row in TABLE if (row.is_default or row.name in enabled) and row.name not in disabled]
    for plugin in chosen:
        if plugin.name in given:
            plugin.configure(given[plugin.name])
        elif plugin.needs_configuration:
            raise ValueError(f"admission plugin {plugin.name} needs a configuration: none is given for it")
    return AdmissionChain(
        (CreateOnUpdate(), *chosen, CertificateConditionTimes(), PodCertificateIssue(), RoleEscalation())
    )
