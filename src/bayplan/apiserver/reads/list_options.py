"""Which options of lists and watches there may be, and which of them go together.

Source: Kubernetes' `apimachinery/pkg/apis/meta/internalversion`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.errors import FieldError, bad_request, forbidden, invalid_object, unsupported
from bayplan.api.selectors.fields import parse_fields
from bayplan.api.selectors.labels import SelectorError
from bayplan.api.selectors.syntax import parse_labels
from bayplan.apiserver.requests import int_parameter

_MATCH = "resourceVersionMatch"


def check_list_options(query: Mapping[str, str], *, watch: bool) -> None:
    """The options of a list, of the deletion of a collection, or of a watch. Raises ApiError (400, 422)."""
    if not query:
        return
    for name in ("timeoutSeconds", "limit"):
        int_parameter(query, name)
    match, initial = query.get(_MATCH, ""), "sendInitialEvents" in query
    if watch and not match and not initial and query.get("resourceVersion", "") in ("", "0"):
        match, initial = "NotOlderThan", True  # what such a watch stands for
    errors = (_watch_problems if watch else _list_problems)(query, match, initial=initial)
    if errors:
        _check_selectors(query)
        raise invalid_object("ListOptions", "meta.k8s.io", "", errors)


def _check_selectors(query: Mapping[str, str]) -> None:
    """Selectors are read before options are compared with each other. Raises ApiError (400)."""
    try:
        parse_labels(query.get("labelSelector", ""))
        parse_fields(query.get("fieldSelector", ""))
    except SelectorError as error:
        raise bad_request(str(error)) from None


def _list_problems(query: Mapping[str, str], match: str, *, initial: bool) -> list[FieldError]:
    errors = []
    if match:
        if not query.get("resourceVersion"):
            errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided"))
        if query.get("continue"):
            errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            errors.append(unsupported(_MATCH, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and query.get("resourceVersion") == "0":
            errors.append(forbidden(_MATCH, f'{_MATCH} "exact" is forbidden for resourceVersion "0"'))
    if initial:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_problems(query: Mapping[str, str], match: str, *, initial: bool) -> list[FieldError]:
    errors = []
    if initial and match != "NotOlderThan":
        errors.append(forbidden(_MATCH, f"sendInitialEvents requires setting {_MATCH} to NotOlderThan"))
    if match:
        if not initial:
            errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided"))
        if match != "NotOlderThan":
            errors.append(unsupported(_MATCH, match, ("NotOlderThan",)))
        if query.get("continue"):
            errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
    return errors
