"""`pods/eviction`: a deletion that respects disruption budgets."""

from __future__ import annotations

from typing import Any

from bayplan.api.errors import ApiError, bad_request, failure, internal_error, not_found_error, too_many_requests
from bayplan.api.kinds import Kind
from bayplan.api.selectors.labels import compile_selector
from bayplan.api.types import core_v1, meta_v1, policy_v1
from bayplan.apiserver.admission.chain import CREATE, AdmissionRequest
from bayplan.apiserver.context import Call
from bayplan.apiserver.managed_fields.managers import SERVER
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import ResourcePath, Response
from bayplan.apiserver.subresources.binding import CREATED
from bayplan.apiserver.verbs.delete import check_preconditions, delete_entry, validate_options
from bayplan.apiserver.verbs.update import modify
from bayplan.apiserver.writes.bodies import body_object
from bayplan.support.timestamps import rfc3339

_RETRY_SECONDS = 10
_MOST_DISRUPTED = 2000


async def handle(call: Call) -> Response:
    """create on `pods/NAME/eviction`."""
    eviction = body_object(call, policy_v1.Eviction, "Eviction", _api_version(call))
    metadata = eviction.metadata
    if metadata.namespace and metadata.namespace != call.path.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if metadata.name != call.path.name:
        raise bad_request("name in URL does not match name in Eviction object")
    request = AdmissionRequest(call, CREATE, eviction, None, "eviction")
    await call.context.admission.plan(call.stored, CREATE, "eviction").run(request)
    options = eviction.delete_options or meta_v1.DeleteOptions()
    if call.dry_run and options.dry_run not in ((), ("All",)):
        given = " ".join(options.dry_run)
        text = f"Non-matching dry-run options in request and content: [All] and [{given}]"
        raise failure(500, "", text, details=False)
    dry_run = bool(options.dry_run) or call.dry_run
    entry = call.entry(call.path.namespace, call.path.name)
    if entry is None:
        raise not_found_error("pods", "", call.path.name)
    if not dry_run:  # nothing is counted for options that make no sense
        validate_options(options)
    pod = call.decode_stored(entry)
    budget = None if _goes_anyway(pod) else _budget_of(call, pod)
    if budget is not None:
        await _take_disruption(call, pod, budget, dry_run)
    validate_options(options)
    if dry_run or (options.preconditions and (options.preconditions.uid or options.preconditions.resource_version)):
        _check_preconditions(call, pod, entry, budget, options)
    if not dry_run:
        await _evict(call, options)
    return Response(201, CREATED, warnings=call.warnings)


def _check_preconditions(
    call: Call, pod: core_v1.Pod, entry: Entry, budget: Entry | None, options: meta_v1.DeleteOptions
) -> None:
    """Whether the pod is the one that is to go. One that its budget lets go as it is not ready has to be as it was then, whatever revision is wanted.

    Raises ApiError (409, 429).
    """
    wanted = options.preconditions
    if wanted is None:
        return
    is_free = budget is not None and _is_free(pod, call.context.objects.cache(_budget_kind(call)).shared(budget))
    has_revision = wanted.resource_version is not None
    if is_free and has_revision:
        wanted.resource_version = str(entry.revision)
    try:
        check_preconditions(call, pod, entry, options)
    except ApiError:
        if budget is not None and is_free and not has_revision:
            raise _changed(budget.name) from None
        raise


def _api_version(call: Call) -> str:
    """v1beta1 is still taken."""
    return "policy/v1beta1" if b'"policy/v1beta1"' in call.request.body else "policy/v1"


def _goes_anyway(pod: core_v1.Pod) -> bool:
    """Whether no budget protects the pod: it has ended, never started, or is going away."""
    return pod.status.phase in ("Succeeded", "Failed", "Pending") or bool(pod.metadata.deletion_timestamp)


def _is_ready(pod: core_v1.Pod) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)


def _budget_kind(call: Call) -> Kind:
    kind = call.context.kinds.of_kind("policy/v1", "PodDisruptionBudget")
    assert kind is not None
    return kind


def _budget_of(call: Call, pod: core_v1.Pod) -> Entry | None:
    """The budget that covers the pod. Raises ApiError (500) if there are two."""
    cache = call.context.objects.cache(_budget_kind(call))
    found = []
    for entry in cache.ordered(call.path.namespace):
        budget = cache.shared(entry)
        if budget.spec.selector is not None and compile_selector(budget.spec.selector).matches(pod.metadata.labels):
            found.append(entry)
    if len(found) > 1:
        raise internal_error(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    return found[0] if found else None


async def _take_disruption(call: Call, pod: core_v1.Pod, entry: Entry, dry_run: bool) -> None:
    """Count the eviction against the budget. Raises ApiError (429) if it allows none."""
    budget_call = Call.of(
        call.context, call.request, ResourcePath(_budget_kind(call), call.path.namespace, entry.name, None)
    )
    if dry_run:
        _counted(call, pod, budget_call.decode_stored(entry))
        return
    await modify(budget_call, lambda budget: _counted(call, pod, budget), plain=True, manager=SERVER)


def _is_free(pod: core_v1.Pod, budget: policy_v1.PodDisruptionBudget) -> bool:
    """Whether a budget lets a pod go that is not ready, without counting it."""
    status = budget.status
    is_met = status.current_healthy >= status.desired_healthy and status.desired_healthy > 0
    return not _is_ready(pod) and (budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow" or is_met)


def _counted(call: Call, pod: core_v1.Pod, budget: policy_v1.PodDisruptionBudget) -> Any:
    status = budget.status
    if _is_free(pod, budget):
        return budget
    if status.observed_generation < budget.metadata.generation:
        raise _changed(budget.metadata.name)
    if status.disruptions_allowed < 0:
        raise failure(
            403,
            "Forbidden",
            "pdb disruptions allowed is negative",
            name=budget.metadata.name,
            kind="poddisruptionbudgets",
        )
    if len(status.disrupted_pods) > _MOST_DISRUPTED:
        text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise failure(403, "Forbidden", text, name=budget.metadata.name, kind="poddisruptionbudgets")
    if status.disruptions_allowed == 0:
        raise _refusal(_exhausted_text(budget), retry=0)
    now = rfc3339(call.context.clock.now())
    status.disruptions_allowed -= 1
    status.disrupted_pods = {**status.disrupted_pods, pod.metadata.name: now}
    if status.disruptions_allowed == 0:
        status.conditions = _exhausted(budget, now)
    return budget


def _exhausted_text(budget: policy_v1.PodDisruptionBudget) -> str:
    """Why the budget allows no disruption."""
    name, status = budget.metadata.name, budget.status
    condition = next((one for one in status.conditions if one.type == "DisruptionAllowed"), None)
    cause = condition if condition is not None and condition.status == "False" and condition.message else None
    refused = f"The disruption budget {name} does not allow evicting pods currently"
    if cause is not None and cause.reason == "SyncFailed":
        return f"{refused} because it failed sync: {cause.message}"
    if status.current_healthy <= status.desired_healthy:
        return (
            f"The disruption budget {name} needs {status.desired_healthy} healthy pods"
            f" and has {status.current_healthy} currently"
        )
    return refused if cause is None else f"{refused} ({cause.reason}): {cause.message}"


def _exhausted(budget: policy_v1.PodDisruptionBudget, now: str) -> tuple[meta_v1.Condition, ...]:
    """The budget's conditions with the one that says that no further disruption is allowed."""
    kept = [one for one in budget.status.conditions if one.type != "DisruptionAllowed"]
    before = next((one for one in budget.status.conditions if one.type == "DisruptionAllowed"), None)
    since = before.last_transition_time if before is not None and before.status == "False" else now
    condition = meta_v1.Condition(
        type="DisruptionAllowed",
        status="False",
        reason="InsufficientPods",
        observed_generation=budget.status.observed_generation,
        last_transition_time=since,
    )
    return (*kept, condition)


def _changed(name: str) -> ApiError:
    """A budget, or a pod that it lets go, is not known well enough."""
    return _refusal(f"The disruption budget {name} is still being processed by the server.", retry=_RETRY_SECONDS)


def _refusal(cause: str, retry: int) -> ApiError:
    error = too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", retry)
    if error.status.details is not None:
        error.status.details.causes = (meta_v1.StatusCause(reason="DisruptionBudget", message=cause),)
    return error


async def _evict(call: Call, options: meta_v1.DeleteOptions) -> None:
    """Say why in the pod's conditions, then delete it."""
    now = rfc3339(call.context.clock.now())
    condition = core_v1.PodCondition(
        type="DisruptionTarget",
        status="True",
        last_transition_time=now,
        reason="EvictionByEvictionAPI",
        message="Eviction API: evicting",
    )

    def marked(pod: core_v1.Pod) -> core_v1.Pod:
        pod.status.conditions = (*(one for one in pod.status.conditions if one.type != "DisruptionTarget"), condition)
        return pod

    entry = await modify(call, marked, plain=True)
    options.dry_run = ()
    if options.preconditions is not None and options.preconditions.resource_version is not None:
        options.preconditions.resource_version = str(entry.revision)  # which this request has just made
    await delete_entry(call, entry, options)
