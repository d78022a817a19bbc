"""Priority levels of priority and fairness."""

from __future__ import annotations

import math

import msgspec

from bayplan.api.errors import FieldError, forbidden, invalid, required, unsupported
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import flowcontrol_v1
from bayplan.api.validation.fields import Errors
from bayplan.api.validation.flow_control import check_condition_types, fixed_priority_levels
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats

_SHARES = 30
_QUEUES = 64
_HAND_SIZE = 8
_QUEUE_LENGTH = 50
_MAX_QUEUES = 10_000_000
_MAX_HASH_BITS = 60
"""Bits of a flow's hash, from which its hand of queues is dealt."""


class PriorityLevelConfigurationStrategy(Strategy):
    """Rules of priority levels."""

    update_checks = UpdateChecks(whole=1, change=0)
    status_checks = UpdateChecks(change=0)
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))
    counts_generation = True
    has_status = True

    def default(self, obj: flowcontrol_v1.PriorityLevelConfiguration) -> None:
        limited, exempt = obj.spec.limited, obj.spec.exempt
        if exempt is not None:
            if exempt.nominal_concurrency_shares is None:
                exempt.nominal_concurrency_shares = 0
            if exempt.lendable_percent is None:
                exempt.lendable_percent = 0
        if limited is None:
            return
        if limited.nominal_concurrency_shares is None:
            limited.nominal_concurrency_shares = _SHARES
        if limited.lendable_percent is None:
            limited.lendable_percent = 0
        queuing = limited.limit_response.queuing
        if queuing is not None:
            queuing.queues = queuing.queues or _QUEUES
            queuing.hand_size = queuing.hand_size or _HAND_SIZE
            queuing.queue_length_limit = queuing.queue_length_limit or _QUEUE_LENGTH

    def validate(self, obj: flowcontrol_v1.PriorityLevelConfiguration) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        if (obj.metadata.name == "exempt") != (spec.type == "Exempt"):
            errors.append(invalid("spec.type", spec.type, "must be 'Exempt' if and only if `name` is 'exempt'"))
        if spec.type == "Exempt":
            if spec.limited is not None:
                errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
            if spec.exempt is not None:
                _check_shares(errors, "spec.exempt", spec.exempt)
        elif spec.type == "Limited":
            if spec.exempt is not None:
                errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
            if spec.limited is None:
                errors.append(required("spec.limited", "must not be empty when type is Limited"))
            else:
                _check_limited(errors, "spec.limited", spec.limited)
        else:
            errors.append(unsupported("spec.type", spec.type, ("Exempt", "Limited")))
        _check_fixed(errors, obj.metadata.name, spec)
        return errors

    def validate_status_update(
        self, obj: flowcontrol_v1.PriorityLevelConfiguration, old: flowcontrol_v1.PriorityLevelConfiguration
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_condition_types(errors, obj.status.conditions)
        return errors


def _check_fixed(errors: Errors, name: str, spec: flowcontrol_v1.PriorityLevelConfigurationSpec) -> None:
    """The levels `exempt` and `catch-all` stay as they are, but for what is in `exempt`."""
    fixed = fixed_priority_levels().get(name)
    if fixed is None:
        return
    if name == "exempt":
        if msgspec.structs.replace(spec, exempt=None) != fixed:
            text = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
            errors.append(invalid("spec", spec, text))
    elif spec != fixed:
        errors.append(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))


def _check_shares(
    errors: Errors,
    path: str,
    part: flowcontrol_v1.LimitedPriorityLevelConfiguration | flowcontrol_v1.ExemptPriorityLevelConfiguration,
) -> None:
    shares, lendable = part.nominal_concurrency_shares, part.lendable_percent
    if shares is not None and shares < 0:
        errors.append(invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer"))
    if isinstance(part, flowcontrol_v1.LimitedPriorityLevelConfiguration):
        _check_response(errors, f"{path}.limitResponse", part.limit_response)
    if lendable is not None and not 0 <= lendable <= 100:
        errors.append(invalid(f"{path}.lendablePercent", lendable, formats.range_message(0, 100)))


def _check_limited(errors: Errors, path: str, limited: flowcontrol_v1.LimitedPriorityLevelConfiguration) -> None:
    _check_shares(errors, path, limited)
    borrowed = limited.borrowing_limit_percent
    if borrowed is not None and borrowed < 0:
        text = "if specified, must be a non-negative integer"
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowed, text))


def _check_response(errors: Errors, path: str, response: flowcontrol_v1.LimitResponse) -> None:
    queuing = response.queuing
    if response.type == "Reject":
        if queuing is not None:
            errors.append(forbidden(f"{path}.queuing", "must be nil if limited.limitResponse.type is not Limited"))
    elif response.type == "Queue":
        if queuing is None:
            errors.append(required(f"{path}.queuing", "must not be empty if limited.limitResponse.type is Limited"))
        else:
            _check_queuing(errors, f"{path}.queuing", queuing)
    else:
        errors.append(unsupported(f"{path}.type", response.type, ("Queue", "Reject")))


def _check_queuing(errors: Errors, path: str, queuing: flowcontrol_v1.QueuingConfiguration) -> None:
    if queuing.queue_length_limit <= 0:
        errors.append(invalid(f"{path}.queueLengthLimit", queuing.queue_length_limit, "must be positive"))
    if queuing.queues <= 0:
        errors.append(invalid(f"{path}.queues", queuing.queues, "must be positive"))
    elif queuing.queues > _MAX_QUEUES:
        errors.append(invalid(f"{path}.queues", queuing.queues, f"must not be greater than {_MAX_QUEUES}"))
    if queuing.hand_size <= 0:
        errors.append(invalid(f"{path}.handSize", queuing.hand_size, "must be positive"))
    elif queuing.hand_size > queuing.queues:
        text = f"should not be greater than queues ({queuing.queues})"
        errors.append(invalid(f"{path}.handSize", queuing.hand_size, text))
    elif math.ceil(math.log2(queuing.queues) * queuing.hand_size) > _MAX_HASH_BITS:
        text = (
            f"required entropy bits of deckSize {queuing.queues} and handSize {queuing.hand_size} should not be greater "
            f"than {_MAX_HASH_BITS}"
        )
        errors.append(invalid(f"{path}.handSize", queuing.hand_size, text))


STRATEGY = PriorityLevelConfigurationStrategy()
