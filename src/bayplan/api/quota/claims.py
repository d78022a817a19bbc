"""Claims count for themselves and for the storage that they ask for, in total and per storage class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.api.quantity import Quantity, parse
from bayplan.api.quota.amounts import ONE, Amounts
from bayplan.api.quota.evaluators import CREATE, UPDATE, Evaluator
from bayplan.api.quota.scopes import Requirement, attributes_classes, claim_matches
from bayplan.api.types import core_v1

_CLAIMS, _STORAGE = "persistentvolumeclaims", "requests.storage"
_CLASS = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


class ClaimEvaluator(Evaluator):
    """See the module."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.names = (self.count_name, _CLAIMS, _STORAGE)

    def handles(self, operation: str, subresource: str) -> bool:
        return operation in (CREATE, UPDATE) and not subresource

    def moves(self, old: Any, new: Any) -> bool:
        return attributes_classes(old) != attributes_classes(new)

    def matching(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.names or name.endswith((_CLASS + _CLAIMS, _CLASS + _STORAGE))]

    def in_scope(self, obj: Any, scope: Requirement) -> bool:
        return claim_matches(obj, scope)

    def usage(self, obj: Any, now: float) -> Amounts:
        result = {self.count_name: ONE, _CLAIMS: ONE}
        storage_class = class_of(obj)
        if storage_class:
            result[f"{storage_class}{_CLASS}{_CLAIMS}"] = ONE
        amount = _storage(obj)
        if amount is not None:
            result[_STORAGE] = amount
            if storage_class:
                result[f"{storage_class}{_CLASS}{_STORAGE}"] = amount
        return result


def class_of(claim: core_v1.PersistentVolumeClaim) -> str:
    """The storage class that a claim names; the old annotation goes first."""
    if _CLASS_ANNOTATION in claim.metadata.annotations:
        return claim.metadata.annotations[_CLASS_ANNOTATION]
    return claim.spec.storage_class_name or ""


def _storage(claim: core_v1.PersistentVolumeClaim) -> Quantity | None:
    """What the claim asks for, or holds if that is more (a failed expansion), in whole bytes."""
    wanted = claim.spec.resources.requests.get("storage")
    if wanted is None:
        return None
    amount = parse(wanted)
    held = claim.status.allocated_resources.get("storage")
    if held is not None and parse(held) > amount:
        amount = parse(held)
    return amount if amount.scale == 0 else Quantity(amount.value(), 0, amount.format)
