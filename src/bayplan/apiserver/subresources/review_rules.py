"""Rules for access reviews. Source: Kubernetes' `pkg/apis/authorization/validation`."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from bayplan.api.errors import FieldError, forbidden, invalid, required
from bayplan.api.types import authorization_v1, meta_v1


def review_errors(review: Any, *, has_user: bool, namespace: str | None) -> list[FieldError]:
    """What is wrong with a review. has_user: it names whom it is about. namespace: the one that it is about; None for any."""
    spec, errors = review.spec, []
    wanted, other = spec.resource_attributes, spec.non_resource_attributes
    if wanted is not None and other is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(_invalid("spec.nonResourceAttributes", other, text))
    if wanted is None and other is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid("spec.resourceAttributes", None, text))
    if has_user and not spec.user and not spec.groups:
        errors.append(invalid("spec.user", spec.user, "at least one of user or group must be specified"))
    if wanted is not None:
        errors += _selector_errors(wanted)
    metadata = replace(
        review.metadata, managed_fields=(), namespace="" if namespace is not None else review.metadata.namespace
    )
    if metadata != meta_v1.ObjectMeta():
        text = "must be empty" if namespace is None else "must be empty except for namespace"
        errors.append(invalid("metadata", review.metadata, text))
    if namespace is not None:
        if wanted is not None and wanted.namespace != review.metadata.namespace:
            errors.append(
                invalid("spec.resourceAttributes.namespace", wanted.namespace, "must match metadata.namespace")
            )
        if other is not None:
            errors.append(_invalid("spec.nonResourceAttributes", other, "disallowed on this kind of request"))
    return errors


def _invalid(path: str, other: authorization_v1.NonResourceAttributes, text: str) -> FieldError:
    """Kubernetes prints this struct with the names of its Go fields."""
    return invalid(path, {"Path": other.path, "Verb": other.verb}, text)


def _selector_errors(wanted: authorization_v1.ResourceAttributes) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, selector in (("fieldSelector", wanted.field_selector), ("labelSelector", wanted.label_selector)):
        if selector is None:
            continue
        path = f"spec.resourceAttributes.{name}"
        if selector.raw_selector and selector.requirements:
            text = "may not specified at the same time as requirements"
            errors.append(invalid(f"{path}.rawSelector", selector.raw_selector, text))
            continue
        if not selector.raw_selector and not selector.requirements:
            text = f"when {path} is specified, requirements or rawSelector is required"
            errors.append(required(f"{path}.requirements", text))
        for index, one in enumerate(selector.requirements):
            errors += _requirement_errors(f"{path}.requirements[{index}]", one)
    return errors


def _requirement_errors(path: str, requirement: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    if not requirement.key:
        errors.append(required(f"{path}.key", "must be specified"))
    operator = requirement.operator
    if operator in ("In", "NotIn"):
        if not requirement.values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if requirement.values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", text))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return errors
