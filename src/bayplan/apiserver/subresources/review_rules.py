"""Rules for access reviews. Source: Kubernetes' `pkg/apis/authorization/validation`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.types import authorization_v1, meta_v1
from bayplan.api.validation.fields import check_label_requirement, check_operator

_Requirement = meta_v1.LabelSelectorRequirement | meta_v1.FieldSelectorRequirement
_Selector = authorization_v1.FieldSelectorAttributes | authorization_v1.LabelSelectorAttributes


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
    selectors: tuple[tuple[str, _Selector | None], ...] = (
        ("fieldSelector", wanted.field_selector),
        ("labelSelector", wanted.label_selector),
    )
    for name, selector in selectors:
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
        for index, one in enumerate(cast("Sequence[_Requirement]", selector.requirements)):
            _check_requirement(errors, f"{path}.requirements[{index}]", one)
    return errors


def _check_requirement(errors: list[FieldError], path: str, requirement: _Requirement) -> None:
    if isinstance(requirement, meta_v1.LabelSelectorRequirement):
        check_label_requirement(errors, path, requirement)
        return
    if not requirement.key:
        errors.append(required(f"{path}.key", "must be specified"))
    check_operator(errors, path, requirement.operator, requirement.values)
