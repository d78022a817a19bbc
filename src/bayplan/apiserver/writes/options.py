"""The options of writes, which are query parameters: `fieldManager`, `dryRun`, `fieldValidation`, and `force` of patches.

Source: Kubernetes' `apimachinery/pkg/apis/meta/v1/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.errors import FieldError, forbidden, invalid_object, required, unsupported_text
from bayplan.api.validation.meta import check_manager
from bayplan.apiserver.requests import parameters

_KINDS = {"create": "CreateOptions", "update": "UpdateOptions"}
_FIELD_VALIDATION = ("", "Ignore", "Strict", "Warn")


def check_write_options(verb: str, query: Mapping[str, str]) -> None:
    """The options of a create or update. Raises ApiError (422)."""
    kind = _KINDS.get(verb)
    if kind is not None and query:
        _refuse(kind, _problems(query))


def check_patch_options(query: Mapping[str, str], *, is_apply: bool) -> None:
    """The options of a patch; server-side apply needs a manager, and only it may use force. Raises ApiError (422)."""
    problems = []
    if is_apply and not query.get("fieldManager"):
        problems.append(required("fieldManager", "is required for apply patch"))
    elif not is_apply and "force" in query:
        problems.append(forbidden("force", "may not be specified for non-apply patch"))
    _refuse("PatchOptions", problems + _problems(query) if query else problems)


def _refuse(kind: str, problems: list[FieldError]) -> None:
    if problems:
        raise invalid_object(kind, "meta.k8s.io", "", problems)


def _problems(query: Mapping[str, str]) -> list[FieldError]:
    problems: list[FieldError] = []
    check_manager(problems, "fieldManager", query.get("fieldManager", ""))
    dry_run = parameters(query, "dryRun")
    if any(one != "All" for one in dry_run):
        problems.append(unsupported_text("dryRun", dry_run, ("All",)))
    validation = query.get("fieldValidation", "")
    if validation not in _FIELD_VALIDATION:
        problems.append(unsupported_text("fieldValidation", validation, _FIELD_VALIDATION))
    return problems
