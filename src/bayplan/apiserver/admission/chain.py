"""The admission chain: which plugins see a request, in which order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bayplan.api.kinds import Kind

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


class AdmissionRequest:
    """What an admission plugin looks at."""

    __slots__ = ("call", "name", "namespace", "obj", "old", "operation", "subresource")

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
        self.name = name or (obj.metadata.name if obj is not None else call.path.name)
        self.namespace = namespace or call.path.namespace

    @property
    def kind(self) -> Kind:
        """The stored kind."""
        return self.call.stored


class AdmissionPlugin:
    """Base of all plugins. A plugin looks at the caches through `request.call.context` and holds no state of its own."""

    name = ""
    """The name as kube-apiserver's flags know it."""

    keeps_defaults = False
    """Whether what `admit` adds is complete, so that an object that was defaulted before need not be defaulted again."""

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        """Whether the plugin wants to see such requests at all; asked once per combination."""
        return False

    def admit(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Change the object, or raise ApiError. An awaitable is awaited."""
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
    keeps_defaults: bool = True
    """Whether the mutating steps leave nothing to default."""

    async def admit(self, request: AdmissionRequest) -> None:
        """Run the mutating steps in order."""
        await _run(self.mutating, request)

    async def validate(self, request: AdmissionRequest) -> None:
        """Run the validating steps in order."""
        await _run(self.validating, request)

    async def run(self, request: AdmissionRequest) -> None:
        """Run both (deletions, connections)."""
        if self.mutating or self.validating:
            await _run((*self.mutating, *self.validating), request)


async def _run(steps: Sequence[Step], request: AdmissionRequest) -> None:
    for step in steps:
        waiting = step(request)
        if waiting is not None:
            await waiting


def default_plugins() -> tuple[AdmissionPlugin, ...]:
    """The plugins that run by default, in order. First whether the namespace takes objects at all, then what fills in pods (the service account
    before priorities and tolerations, as in kube-apiserver)."""
    from bayplan.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
    from bayplan.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
    from bayplan.apiserver.admission.priority import Priority
    from bayplan.apiserver.admission.service_account import ServiceAccount
    from bayplan.apiserver.admission.storage_object_in_use_protection import StorageObjectInUseProtection
    from bayplan.apiserver.admission.taint_nodes_by_condition import TaintNodesByCondition

    return (
        NamespaceLifecycle(),
        ServiceAccount(),
        TaintNodesByCondition(),
        Priority(),
        DefaultTolerationSeconds(),
        StorageObjectInUseProtection(),
    )


@dataclass(slots=True)
class AdmissionChain:
    """The plugins of one server."""

    plugins: tuple[AdmissionPlugin, ...]
    _plans: dict[tuple[Kind, str, str], Plan] = field(default_factory=dict)

    def plan(self, kind: Kind, operation: str, subresource: str) -> Plan:
        """The steps for such requests."""
        key = (kind, operation, subresource)
        plan = self._plans.get(key)
        if plan is None:
            chosen = [plugin for plugin in self.plugins if plugin.handles(kind, operation, subresource)]
            mutating = [plugin for plugin in chosen if type(plugin).admit is not AdmissionPlugin.admit]
            plan = self._plans[key] = Plan(
                tuple(plugin.admit for plugin in mutating),
                tuple(plugin.validate for plugin in chosen if type(plugin).validate is not AdmissionPlugin.validate),
                all(plugin.keeps_defaults for plugin in mutating),
            )
        return plan


def build_chain(enabled: Sequence[str], disabled: Sequence[str]) -> AdmissionChain:
    """The default plugins without the disabled ones. Raises ValueError for a name that is not known."""
    plugins = default_plugins()
    known = {plugin.name for plugin in plugins}
    for name in (*enabled, *disabled):
        if name not in known:
            raise ValueError(f"unknown admission plugin {name!r}; known: {', '.join(sorted(known))}")
    return AdmissionChain(tuple(plugin for plugin in plugins if plugin.name not in disabled))
