"""Limit ranges."""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.api.defaults.quantities import canonical_list
from bayplan.api.errors import FieldError, duplicate, forbidden, invalid, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.resources import allows_overcommit, container_resource_messages, resource_name_messages
from bayplan.api.validation.values import formats

_TYPES = ("Container", "Pod", "PersistentVolumeClaim")
_PARTS = (
    ("max", "max"),
    ("min", "min"),
    ("default", "default"),
    ("default_request", "defaultRequest"),
    ("max_limit_request_ratio", "maxLimitRequestRatio"),
)


class LimitRangeStrategy(Strategy):
    """Rules of limit ranges."""

    update_checks = UpdateChecks(whole=1, change=0)
    allow_create_on_update = True
    names_unnamed = True

    def default(self, obj: core_v1.LimitRange) -> None:
        for item in obj.spec.limits:
            for attribute, _ in _PARTS:
                canonical_list(getattr(item, attribute))
            if item.type == "Container":
                for name, value in item.max.items():
                    item.default.setdefault(name, value)
                for name, value in (*item.default.items(), *item.min.items()):
                    item.default_request.setdefault(name, value)

    def validate(self, obj: core_v1.LimitRange) -> list[FieldError]:
        errors: list[FieldError] = []
        types: set[str] = set()
        for index, item in enumerate(obj.spec.limits):
            path = f"spec.limits[{index}]"
            messages = formats.label_key(item.type)
            if not messages and "/" not in item.type and item.type not in _TYPES:
                messages = ("must be a standard limit type or fully qualified",)
            errors.extend(invalid(f"{path}.type", item.type, message) for message in messages)
            if item.type in types:
                errors.append(duplicate(f"{path}.type", item.type))
            types.add(item.type)
            _check_names(errors, path, item)
            _check_amounts(errors, path, item)
        return errors


def _check_names(errors: Errors, path: str, item: core_v1.LimitRangeItem) -> None:
    rule = container_resource_messages if item.type in ("Pod", "Container") else resource_name_messages
    for attribute, field in _PARTS:
        amounts = getattr(item, attribute)
        if item.type == "Pod" and field in ("default", "defaultRequest"):
            if amounts:
                errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in sorted(amounts):
            errors.extend(invalid(f"{path}.{field}[{name}]", name, message) for message in rule(name))
    if item.type == "PersistentVolumeClaim" and "storage" not in item.min and "storage" not in item.max:
        text = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", text))


def _check_amounts(errors: Errors, path: str, item: core_v1.LimitRangeItem) -> None:
    names = sorted({name for attribute, _ in _PARTS for name in getattr(item, attribute)})
    for name in names:
        low, high, default, request, ratio = (
            quantity.parse(amounts[name]) if name in amounts else None
            for amounts in (
                item.min,
                item.max,
                item.default if item.type != "Pod" else {},
                item.default_request if item.type != "Pod" else {},
                item.max_limit_request_ratio,
            )
        )

        def wrong(field: str, value: object, text: str, name: str = name) -> None:
            errors.append(invalid(f"{path}.{field}[{name}]", str(value), text))

        if low is not None and high is not None and low > high:
            wrong("min", low, f"min value {low} is greater than max value {high}")
        if request is not None:
            if low is not None and low > request:
                wrong("defaultRequest", request, f"min value {low} is greater than default request value {request}")
            if high is not None and request > high:
                wrong("defaultRequest", request, f"default request value {request} is greater than max value {high}")
            if default is not None and request > default:
                wrong(
                    "defaultRequest",
                    request,
                    f"default request value {request} is greater than default limit value {default}",
                )
        if default is not None:
            if low is not None and low > default:
                wrong("default", low, f"min value {low} is greater than default value {default}")
            if high is not None and default > high:
                wrong("default", high, f"default value {default} is greater than max value {high}")
        if ratio is not None:
            if ratio < quantity.parse("1"):
                wrong("maxLimitRequestRatio", ratio, f"ratio {ratio} is less than 1")
            if low is not None and high is not None and low.sign():
                limit = high.milli_value() / low.milli_value()
                if ratio.milli_value() / 1000 > limit:
                    wrong("maxLimitRequestRatio", ratio, f"ratio {ratio} is greater than max/min = {limit:f}")
        if default is not None and request is not None and default != request and not allows_overcommit(name):
            wrong(
                "defaultRequest",
                request,
                f"default value {default} must equal to defaultRequest value {request} in {name}",
            )


STRATEGY = LimitRangeStrategy()
