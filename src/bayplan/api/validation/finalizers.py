"""Names of finalizers that may be somebody else's as well."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.validation.meta import STANDARD_FINALIZERS
from bayplan.api.validation.values.formats import label_key

_PATH = "metadata.finalizers"
_ADVICE = "prefer a domain-qualified finalizer name"


def finalizer_warnings(finalizers: Iterable[str]) -> list[str]:
    """What to tell who gives custom resources these finalizers, as `apiextensions-apiserver/pkg/registry/customresource` words it."""
    found = []
    for one in finalizers:
        found += [f'{_PATH}: "{one}": {message}' for message in label_key(one)]
        if "/" not in one and one not in STANDARD_FINALIZERS:
            path = " including a path (/)" if "." in one else ""
            rest = " to avoid accidental conflicts with other finalizer writers"
            found.append(f'{_PATH}: "{one}": {_ADVICE}{path}{rest}')
    return found
