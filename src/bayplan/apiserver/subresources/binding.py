"""`pods/binding` and `bindings`: how a scheduler puts a pod on a node."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from bayplan.api.errors import FieldError, bad_request, conflict, failure, quoted, required, unsupported_text
from bayplan.api.types import core_v1
from bayplan.api.validation.values.formats import path_segment
from bayplan.apiserver.admission.chain import CREATE, AdmissionRequest
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs.create import OTHER_NAMESPACE
from bayplan.apiserver.verbs.update import check_uid, modify, precondition_failed
from bayplan.apiserver.writes.bodies import body_object
from bayplan.apiserver.writes.write_memo import BINDING, Change
from bayplan.support.timestamps import rfc3339

CREATED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


async def handle(call: Call) -> Response:
    """create on `pods/NAME/binding`."""
    await bind(call, _named(call))
    return Response(201, CREATED, warnings=call.warnings)


def known_change(call: Call) -> Change | None:
    """The same as a repeated change; None if it is none, or cannot be without waiting. Raises ApiError."""
    binding = _named(call)
    _check(binding)
    admission = call.context.admission.plan(call.stored, CREATE, "binding")
    if not admission.run_at_once(AdmissionRequest(call, CREATE, binding, None, "binding")):
        return None
    return _change(call, binding)


def _change(call: Call, binding: core_v1.Binding) -> Change | None:
    """The binding as a repeated change; None if it is none, as one for a certain revision."""
    if binding.metadata.resource_version:
        return None
    return call.context.write_memo.change(call, BINDING, labels=binding.metadata.labels)


def _named(call: Call) -> core_v1.Binding:
    """The Binding of a call with a pod's name in its path. Raises ApiError (400)."""
    binding: core_v1.Binding = body_object(call, core_v1.Binding, "Binding", "v1")
    if binding.metadata.namespace not in ("", call.path.namespace):
        raise bad_request(OTHER_NAMESPACE)
    if binding.metadata.name != call.path.name:
        raise bad_request("name in URL does not match name in Binding object")
    return binding


async def create_binding(call: Call) -> Response:
    """create on the old collection `bindings`."""
    binding: core_v1.Binding = body_object(call, core_v1.Binding, "Binding", "v1")
    if binding.metadata.namespace not in ("", call.path.namespace):
        raise bad_request(OTHER_NAMESPACE)
    _check(binding)
    if not binding.metadata.name:
        raise bad_request("Name parameter required.")
    if problems := path_segment(binding.metadata.name):
        raise bad_request(f"Name parameter invalid: {quoted(binding.metadata.name)}: {';'.join(problems)}")
    binding.metadata.uid = ""  # the server's to give, as with all objects that are created
    pods = call.context.kinds.of_kind("v1", "Pod")
    assert pods is not None
    call.kind = call.stored = pods
    path = call.path
    call.path = type(path)(pods, path.namespace, binding.metadata.name, None)
    await bind(call, binding)
    return Response(201, CREATED, warnings=call.warnings)


async def bind(call: Call, binding: core_v1.Binding) -> None:
    """Assign the pod to the node. Raises ApiError (409) if it is assigned or going away."""
    _check(binding)
    admission = call.context.admission.plan(call.stored, CREATE, "binding")
    await admission.run(AdmissionRequest(call, CREATE, binding, None, "binding"))
    change = _change(call, binding)
    if change is not None and await change.write() is not None:
        return
    now = rfc3339(call.context.clock.now())

    def bound(pod: Any) -> Any:
        return _bound(call, pod, binding, now)

    written = await modify(call, bound, plain=True, fresh=False)
    if change is not None and not call.warnings:
        change.learn(written)


def _check(binding: core_v1.Binding) -> None:
    """Raises ApiError (500)."""
    target = binding.target
    errors = []
    if target.kind not in ("", "Node"):
        errors.append(unsupported_text("target.kind", target.kind, ("Node", "<empty>")))
    if not target.name:
        errors.append(required("target.name"))
    if errors:
        raise failure(500, "", _told(errors), details=False)


def _check_revision(call: Call, wanted: str) -> None:
    """A binding may be for the pod as it was at a revision. Raises ApiError (409)."""
    entry = call.entry(call.path.namespace, call.path.name)
    if wanted and entry is not None and wanted != str(entry.revision):
        why = f"ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {entry.revision}"
        raise precondition_failed(call, why)


def _told(errors: list[FieldError]) -> str:
    """Several errors in one line, as Go joins them."""
    texts = list(map(str, errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _bound(call: Call, pod: core_v1.Pod, binding: core_v1.Binding, now: str) -> core_v1.Pod:
    """The pod on its node: a new object that shares what stays the same."""
    metadata, node_name = pod.metadata, binding.target.name
    name = metadata.name
    check_uid(call, binding.metadata.uid, metadata.uid)
    _check_revision(call, binding.metadata.resource_version)
    if metadata.deletion_timestamp:
        raise conflict("pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod.spec.node_name:
        raise conflict("pods/binding", "", name, f"pod {name} is already assigned to node {quoted(pod.spec.node_name)}")
    if pod.spec.scheduling_gates:
        raise conflict("pods/binding", "", name, f"pod {name} has non-empty .spec.schedulingGates")
    scheduled = core_v1.PodCondition(type="PodScheduled", status="True", last_transition_time=now)
    others = tuple(condition for condition in pod.status.conditions if condition.type != "PodScheduled")
    return replace(
        pod,
        metadata=replace(
            metadata,
            annotations={**metadata.annotations, **binding.metadata.annotations},
            labels={**metadata.labels, **binding.metadata.labels},
        ),
        spec=replace(pod.spec, node_name=node_name),
        status=replace(pod.status, nominated_node_name="", conditions=(*others, scheduled)),
    )
