"""Constraints between the devices of a claim: one attribute equal on all of them, or different.

They follow kube-scheduler where that is less than one would think: of several devices for one request, only the last
is remembered by `distinctAttribute`. Source: `k8s.io/dynamic-resource-allocation/structured`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from bayplan.scheduler.snapshot.device_expressions import split_name

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import DeviceAttribute, DeviceConstraint
    from bayplan.scheduler.snapshot.devices import Offer

Value = tuple[str, object]
"""Type and value of an attribute; values of different types are never equal."""


def _value(attribute: DeviceAttribute) -> Value | None:
    """The value of an attribute; None for a list, which cannot be compared."""
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    return ("version", attribute.version) if attribute.version is not None else None


class Constraint(ABC):
    """Which devices go together, as they are added to a claim and taken from it again."""

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute
        self._count = 0

    def concerns(self, request: str, name: str) -> bool:
        """Whether a request is bound by it; `name` is `request/alternative` for an alternative."""
        return not self._requests or request in self._requests or name in self._requests

    def add(self, request: str, name: str, offer: Offer) -> bool:
        """Take a device in, if it goes with those that are in."""
        if not self.concerns(request, name):
            return True
        attribute = self._of(offer)
        if attribute is None or not self._fits(request, _value(attribute)):
            return False
        self._count += 1
        return True

    def remove(self, request: str, name: str) -> None:
        """Take a device out again."""
        if self.concerns(request, name):
            self._count -= 1
            self._forget(request)

    def _of(self, offer: Offer) -> DeviceAttribute | None:
        found = offer.device.attributes.get(self._attribute)
        domain, plain = split_name(self._attribute, "")
        return found if found is not None or domain != offer.id.driver else offer.device.attributes.get(plain)

    @abstractmethod
    def _fits(self, request: str, value: Value | None) -> bool:
        """Whether a value goes with those of the devices that are in; if so it is remembered."""

    @abstractmethod
    def _forget(self, request: str) -> None:
        """A device of a request is out."""


class Match(Constraint):
    """The attribute is the same everywhere."""

    _common: Value | None = None

    def _fits(self, request: str, value: Value | None) -> bool:
        if not self._count:
            self._common = value
            return True
        return value is not None and value == self._common

    def _forget(self, request: str) -> None:
        """The first device says what the value is, whichever goes."""


class Distinct(Constraint):
    """The attribute is different everywhere."""

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, Value | None] = {}

    def _fits(self, request: str, value: Value | None) -> bool:
        if self._count and self._values and (value is None or value in self._values.values()):
            return False
        self._values[request] = value
        return True

    def _forget(self, request: str) -> None:
        self._values.pop(request, None)


def constraint_of(constraint: DeviceConstraint) -> Constraint:
    """A constraint of a claim, with no device in yet."""
    if constraint.match_attribute is not None:
        return Match(constraint.requests, constraint.match_attribute)
    return Distinct(constraint.requests, constraint.distinct_attribute or "")
