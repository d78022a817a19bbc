"""Rules for resource names, quantities and requirements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from bayplan.api import quantity
from bayplan.api.defaults.pods import container_limits, container_requests
from bayplan.api.errors import FieldError, duplicate, forbidden, invalid, not_found, required, unsupported
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import NOT_NEGATIVE, Errors
from bayplan.api.validation.values import formats
from bayplan.support.memory.memo import memoized

Resources = Mapping[str, str | int | float]

_STANDARD_CONTAINER = frozenset(("cpu", "memory", "ephemeral-storage"))
_STANDARD = frozenset(
    (
        *_STANDARD_CONTAINER,
        "storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_QUOTA = frozenset((*_STANDARD - {"storage"},))
_INTEGER = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
HUGE_PAGES = "hugepages-"
_CONTAINER_TEXT = "must be a standard resource for containers"


def is_native(name: str) -> bool:
    """Whether a resource belongs to Kubernetes itself."""
    return "/" not in name or "kubernetes.io/" in name


@memoized(4096)
def is_extended(name: str) -> bool:
    """Whether a name can be that of an extended resource (`example.com/gpu`)."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not formats.label_key("requests." + name)


@memoized(4096)
def is_integer_resource(name: str) -> bool:
    """Whether amounts must be whole numbers."""
    return name in _INTEGER or is_extended(name)


def allows_overcommit(name: str) -> bool:
    """Whether a request may be below its limit."""
    return is_native(name) and not name.startswith(HUGE_PAGES)


def resource_name_messages(name: str) -> formats.Messages:
    """What is wrong with the name of any resource."""
    messages = formats.label_key(name)
    if messages:
        return messages
    if "/" not in name and name not in _STANDARD and not name.startswith((HUGE_PAGES, "requests." + HUGE_PAGES)):
        return ("must be a standard resource type or fully qualified",)
    return formats.OK


@memoized(4096)
def container_resource_messages(name: str) -> formats.Messages:
    """What is wrong with a resource that a container asks for."""
    messages = resource_name_messages(name)
    if "/" not in name:
        if name not in _STANDARD_CONTAINER and not name.startswith(HUGE_PAGES):
            messages += (_CONTAINER_TEXT,)
    elif not is_native(name) and not is_extended(name):
        messages += ("doesn't follow extended resource name standard",)
    return messages


@memoized(4096)
def quota_resource_messages(name: str) -> formats.Messages:
    """What is wrong with a resource that a quota limits."""
    messages = resource_name_messages(name)
    if "/" not in name and name not in _QUOTA and not name.startswith((HUGE_PAGES, "requests." + HUGE_PAGES)):
        messages += ("must be a standard resource for quota",)
    return messages


def check_amount(errors: Errors, path: str, name: str, value: str | int | float) -> None:
    """An amount is not negative, and whole where it must be."""
    parsed = quantity.parse(value)
    if parsed.sign() < 0:
        errors.append(invalid(path, str(parsed), NOT_NEGATIVE))
    if is_integer_resource(name) and parsed.scaled_value(-9) % 10**9:
        errors.append(invalid(path, str(parsed), "must be an integer"))


@memoized(65536)
def _plain(name: str, value: str | int | float) -> bool:
    """Whether nothing can be wrong with this amount by itself."""
    errors: list[FieldError] = []
    check_amount(errors, "", name, value)
    return not errors and not container_resource_messages(name) and not name.startswith(HUGE_PAGES)


@memoized(65536)
def _at_most(request: str | int | float, limit: str | int | float) -> bool:
    return quantity.parse(request).compare(quantity.parse(limit)) <= 0


def check_container_resources(
    errors: Errors, path: str, resources: core_v1.ResourceRequirements, claims: frozenset[str]
) -> None:
    """Requests and limits of a container. `claims`: names of the pod's resource claims."""
    limits, requests = resources.limits, resources.requests
    if not _all_plain(limits, requests):
        check_requirements(errors, path, limits, requests, _check_container_name)
    if resources.claims:
        _check_claims(errors, f"{path}.claims", resources.claims, claims)


def _all_plain(limits: Resources, requests: Resources) -> bool:
    """Whether nothing can be wrong with these amounts."""
    return all(_plain(name, value) for name, value in limits.items()) and all(
        _plain(name, value) and is_native(name) and (name not in limits or _at_most(value, limits[name]))
        for name, value in requests.items()
    )


def _check_container_name(errors: Errors, path: str, name: str) -> None:
    for message in container_resource_messages(name):
        errors.append(invalid(path, name, message))


def _check_pod_name(errors: Errors, path: str, name: str) -> None:
    if messages := resource_name_messages(name):
        errors.extend(invalid(path, name, message) for message in messages)
    elif name not in ("cpu", "memory") and not name.startswith(HUGE_PAGES):
        errors.append(unsupported(path, name, ("cpu", HUGE_PAGES, "memory")))


def check_requirements(
    errors: Errors, path: str, limits: Resources, requests: Resources, check_name: Callable[[Errors, str, str], None]
) -> None:
    """The careful form: names, amounts, and requests against limits."""
    huge = base = False
    for name in sorted(limits):
        where = f"{path}.limits[{name}]"
        check_name(errors, where, name)
        check_amount(errors, where, name, limits[name])
        huge, base = _check_huge_pages(errors, where, name, limits[name], huge), base or name in ("cpu", "memory")
    huge_requests = base_requests = False
    for name in sorted(requests):
        where, parsed = f"{path}.requests[{name}]", quantity.parse(requests[name])
        check_name(errors, where, name)
        check_amount(errors, where, name, requests[name])
        huge_requests = _check_huge_pages(errors, where, name, requests[name], huge_requests)
        base_requests = base_requests or name in ("cpu", "memory")
        if name in limits:
            limit = quantity.parse(limits[name])
            if parsed != limit and not allows_overcommit(name):
                errors.append(invalid(f"{path}.requests", str(parsed), f"must be equal to {name} limit of {limit}"))
            elif parsed > limit:
                errors.append(
                    invalid(f"{path}.requests", str(parsed), f"must be less than or equal to {name} limit of {limit}")
                )
        elif not allows_overcommit(name):
            errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
    if (huge or huge_requests) and not (base or base_requests):
        errors.append(forbidden(path, "HugePages require cpu or memory"))


def _check_huge_pages(errors: Errors, path: str, name: str, value: str | int | float, seen: bool) -> bool:
    if not name.startswith(HUGE_PAGES):
        return seen
    try:
        size = quantity.parse(name.removeprefix(HUGE_PAGES))
    except ValueError:
        size = None
    parsed = quantity.parse(value)
    if size is None or size.sign() <= 0 or parsed.scale or parsed.value() % size.value():
        errors.append(invalid(path, str(parsed), f"{parsed} is not positive integer multiple of {name}"))
    return True


def _check_claims(errors: Errors, path: str, claims: tuple[core_v1.ResourceClaim, ...], known: frozenset[str]) -> None:
    seen: set[tuple[str, str]] = set()
    parts: Counter[str] = Counter()
    whole: set[str] = set()
    names = ": " + ", ".join(sorted(known)) if known else " which is empty"
    for index, claim in enumerate(claims):
        where = f"{path}[{index}]"
        if not claim.name:
            errors.append(required(where))
            continue
        if claim.name in whole:
            errors.append(duplicate(where, claim.name))
        else:
            if claim.request:
                for message in formats.dns_label(claim.request):
                    errors.append(invalid(f"{where}.request", claim.request, message))
            if (claim.name, claim.request) in seen:
                errors.append(duplicate(where, f"{claim.name}/{claim.request}"))
            elif not claim.request:
                errors.extend([duplicate(where, claim.name)] * parts[claim.name])
        if (claim.name, claim.request) not in seen:
            seen.add((claim.name, claim.request))
            parts[claim.name] += 1
        if not claim.request:
            whole.add(claim.name)
        if claim.name not in known:
            missing = not_found(where, claim.name)
            errors.append(
                FieldError(
                    missing.type, where, claim.name, "must be one of the names in pod.spec.resourceClaims" + names
                )
            )


def _check_totals(
    errors: Errors, path: str, what: str, own: Resources, totals: Mapping[str, quantity.Quantity]
) -> None:
    """What the pod as a whole has, where it says so, is not less than what its containers have together."""
    for name in sorted(totals):
        if name in own and totals[name] > quantity.parse(own[name]):
            detail = f"must be greater than or equal to aggregate container {what} of {totals[name]}"
            errors.append(invalid(f"{path}[{name}]", str(quantity.parse(own[name])), detail))


def check_pod_resources(errors: Errors, path: str, spec: core_v1.PodSpec, claims: frozenset[str]) -> None:
    """Resources of a pod as a whole. `claims`: names of its resource claims."""
    resources = spec.resources
    assert resources is not None
    if spec.os is not None and spec.os.name == "windows":
        errors.append(forbidden(path, "may not be set for a windows pod"))
        return
    if resources.claims:
        errors.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    check_requirements(errors, path, resources.limits, resources.requests, _check_pod_name)
    if resources.claims:
        _check_claims(errors, f"{path}.claims", resources.claims, claims)
    _check_totals(errors, f"{path}.requests", "requests", resources.requests, container_requests(spec))
    limits = {name: total for name, total in container_limits(spec).items() if name.startswith(HUGE_PAGES)}
    _check_totals(errors, f"{path}.limits", "limits", resources.limits, limits)
    for index, container in enumerate(spec.containers):
        for name in sorted(container.resources.limits):
            limit, whole = quantity.parse(container.resources.limits[name]), resources.limits.get(name)
            if whole is not None and limit > quantity.parse(whole):
                where = f"{path}.containers[{index}][{name}].limits"
                errors.append(
                    invalid(where, str(limit), f"must be less than or equal to pod limits of {quantity.parse(whole)}")
                )
