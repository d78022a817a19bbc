"""delete of an object that cannot be read, without its finalizers, preconditions and admission: `ignoreStoreReadErrorWithClusterBreakingPotential` in the options.

Kubernetes' feature gate AllowUnsafeMalformedObjectDeletion (alpha, off); KEP-3926. Whoever does it needs a verb of its own on the object, since what the object
stood for (pods, volumes, what it owns) is cleaned up by nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bayplan.api.errors import ErrorType, FieldError, forbidden_error, invalid_object, not_found_error
from bayplan.api.types import meta_v1
from bayplan.apiserver.authorization.attributes import attributes_of
from bayplan.apiserver.authorization.interface import Decision
from bayplan.apiserver.requests import Response
from bayplan.store.errors import Conflict

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call

FIELD = "ignoreStoreReadErrorWithClusterBreakingPotential"
_VERB = "unsafe-delete-ignore-read-errors"
_AUDIT = "apiserver.k8s.io/unsafe-delete-ignore-read-error"
_OTHERS = (
    ("dryRun", "dry_run"),
    ("propagationPolicy", "propagation_policy"),
    ("orphanDependents", "orphan_dependents"),
    ("gracePeriodSeconds", "grace_period_seconds"),
    ("preconditions", "preconditions"),
)


def option_errors(options: meta_v1.DeleteOptions) -> list[FieldError]:
    """What does not go together with such a deletion."""
    return [
        _invalid(f"cannot be set together with .{name}")
        for name, attribute in _OTHERS
        if getattr(options, attribute) not in (None, ())
    ]


def refuse_collections(options: meta_v1.DeleteOptions) -> None:
    """Raises ApiError (422): objects that cannot be read are deleted one by one."""
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        told = "is not allowed with DELETECOLLECTION, try again after removing the option"
        raise invalid_object("DeleteOptions", "meta.k8s.io", "", [_invalid(told)])


async def delete(call: Call) -> Response:
    """Remove the object of a request. Raises ApiError (403, 404; 422 if it can be read)."""
    if call.request.audit is not None:
        call.request.audit.annotate(_AUDIT, "")
    kind, path = call.kind, call.path
    attributes = attributes_of(call.request)
    attributes.verb = _VERB
    verdict = call.context.authorizer.authorize(attributes)
    if verdict.decision is not Decision.ALLOW:
        detail = f'not permitted to do "{_VERB}", reason: {verdict.reason}'
        raise forbidden_error(kind.plural, kind.group, path.name, detail)
    objects, key = call.context.objects, call.stored.storage_key(path.namespace, path.name)
    while True:
        found = objects.cache(call.stored).unreadable.get(key)
        if found is None:
            if call.entry(path.namespace, path.name) is None:
                raise not_found_error(kind.plural, kind.group, path.name)
            told = "is exclusively used to delete corrupt object(s), try again by removing this option"
            raise invalid_object(kind.plural, kind.group, path.name, [_invalid(told)])
        try:
            await objects.remove(call.stored, found)
            break
        except Conflict as race:
            await objects.settle(race)
    details = meta_v1.StatusDetails(name=path.name, group=kind.group, kind=kind.kind)
    status = meta_v1.Status(kind="Status", api_version="v1", status="Success", details=details)
    return Response(200, msgspec.json.encode(status), warnings=call.warnings)


def _invalid(told: str) -> FieldError:
    return FieldError(ErrorType.INVALID, FIELD, True, told)
