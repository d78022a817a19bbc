"""Rules for the policy by which devices shared by several claims hand out their capacity.

From `pkg/apis/resource/validation` of Kubernetes. A policy either lists the amounts which may be asked for or gives
their range; with either goes the amount a claim gets that asks for none."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.errors import duplicate, forbidden, invalid, required, too_many
from bayplan.api.quantity import Quantity, parse
from bayplan.api.types import resource_v1
from bayplan.api.validation.fields import Errors, repeats

_MAX_OPTIONS = 10


def check_request_policy(errors: Errors, path: str, total: Quantity, policy: resource_v1.CapacityRequestPolicy) -> None:
    """The policy of a capacity of `total`."""
    values, span = tuple(map(parse, policy.valid_values)), policy.valid_range
    usual = None if policy.default is None else parse(policy.default)
    if values and span is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        errors.append(forbidden(path, text))
    elif values:
        if usual is None:
            errors.append(required(f"{path}.default", "required when validValues is defined"))
        else:
            _check_options(errors, f"{path}.validValues", total, usual, values)
    elif span is not None:
        if usual is None:
            errors.append(required(f"{path}.default", "required when validRange is defined"))
        else:
            _check_range(errors, f"{path}.validRange", total, usual, span)


def _check_options(errors: Errors, path: str, total: Quantity, usual: Quantity, values: Sequence[Quantity]) -> None:
    for index in range(1, len(values)):
        if values[index - 1] > values[index]:
            text = "values must be sorted in ascending order"
            errors.append(invalid(f"{path}[{index}]", str(values[index]), text))
    if len(values) > _MAX_OPTIONS:
        errors.append(too_many(path, len(values), _MAX_OPTIONS))
    else:
        for index, value in enumerate(values):
            if value > total:
                text = f"option is larger than capacity value: {total}"
                errors.append(invalid(f"{path}[{index}]", str(value), text))
        whole = [value.value() for value in values]
        again = repeats(whole)
        for index, amount in enumerate(whole):
            if index in again:
                errors.append(duplicate(f"{path}[{index}]", str(amount)))
    if len(values) > _MAX_OPTIONS or usual not in values:
        errors.append(invalid(path, str(usual), "default value is not valid according to the requestPolicy"))


def _check_range(
    errors: Errors, path: str, total: Quantity, usual: Quantity, span: resource_v1.CapacityRequestPolicyRange
) -> None:
    if span.min is None:
        errors.append(required(f"{path}.min", "required when validRange is defined"))
        return
    low = parse(span.min)
    if low > total:
        errors.append(invalid(f"{path}.min", str(low), f"min is larger than capacity value: {total}"))
    if usual < low:
        errors.append(invalid(f"{path}.min", str(usual), f"default is less than min: {low}"))
    bounds = [usual]
    if span.max is not None:
        high = parse(span.max)
        bounds.append(high)
        if low > high:
            errors.append(invalid(f"{path}.max", str(low), f"min is larger than max: {high}"))
        if high > total:
            errors.append(invalid(f"{path}.max", str(high), f"max is larger than capacity value: {total}"))
        if usual > high:
            errors.append(invalid(f"{path}.max", str(usual), f"default is more than max: {high}"))
    if span.step is not None:
        _check_step(errors, f"{path}.step", total, low, parse(span.step), bounds)


def _check_step(
    errors: Errors, path: str, total: Quantity, low: Quantity, step: Quantity, bounds: Sequence[Quantity]
) -> None:
    """Every bound is a number of steps, counted in whole units, from the least amount."""
    if step.sign() <= 0:
        errors.append(invalid(path, str(step), "must be greater than zero"))
        return
    after = low.add(step)
    if after > total:
        errors.append(invalid(path, str(step), f"one step {after} is larger than capacity value: {total}"))
    for bound in bounds:
        if (bound.value() - low.value()) % step.value():
            text = f"value is not a multiple of a given step ({step}) from ({low})"
            errors.append(invalid(path, str(bound), text))
