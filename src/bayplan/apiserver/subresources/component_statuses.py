"""`componentstatuses`, the old health listing: the components of the same cluster, the store, and what runs beside kubelets of real nodes."""

from __future__ import annotations

from bayplan.api.codec import encode
from bayplan.api.errors import not_found_error
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.reads.list_options import check_list_options
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs.read import selection

_COMPONENTS = {"scheduler": ("scheduler", 10259), "controller-manager": ("controllers", 10257)}
"""Name in Kubernetes -> name in a cluster, and the port at which kube-apiserver looks for it."""


async def handle(call: Call) -> Response:
    """get and list."""
    failures = {name: _failure(call, *found) for name, found in _COMPONENTS.items()}
    failures |= {name: failure() for name, failure in call.context.add_on_failures.items()}
    conditions = {name: _condition(message=text or "ok", is_healthy=not text) for name, text in failures.items()}
    problem = next(filter(None, call.context.objects.store_errors), "")
    conditions["etcd-0"] = _condition(error=problem, is_healthy=False) if problem else _condition(message="ok")
    if call.path.name:
        if call.path.name not in conditions:
            raise not_found_error("componentstatus", "", call.path.name)
        return call.answer(200, _entry(call.path.name, conditions[call.path.name]))
    check_list_options(call.request.query, watch=False)
    select, _ = selection(call)
    entries = [_entry(name, condition) for name, condition in sorted(conditions.items())]
    shown = [each for each in entries if select is None or select(each)]
    return await call.shape(is_list=True).list(shown, meta_v1.ListMeta(), call.warnings)


def _failure(call: Call, name: str, port: int) -> str:
    """Why a component is not healthy; "" if it is. A component that this process knows nothing of is not reached, in kube-apiserver's words."""
    failure = call.context.component_failures.get(name)
    if failure is None:
        return f'Get "https://127.0.0.1:{port}/healthz": dial tcp 127.0.0.1:{port}: connect: connection refused'
    return failure()


def _condition(*, message: str = "", error: str = "", is_healthy: bool = True) -> core_v1.ComponentCondition:
    return core_v1.ComponentCondition(
        type="Healthy", status="True" if is_healthy else "False", message=message, error=error
    )


def _entry(name: str, condition: core_v1.ComponentCondition) -> Entry:
    """A component as an entry of its own."""
    found = core_v1.ComponentStatus(metadata=meta_v1.ObjectMeta(name=name), conditions=(condition,))
    return Entry("", name, 0, 0, encode(found)[1:], {}, {"metadata.name": name}, "")
