"""Look-ups of namespaces that several plugins share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.errors import internal_error
from bayplan.apiserver.admission.chain import AdmissionRequest
from bayplan.apiserver.reads.cache import ResourceCache


def namespace_cache(request: AdmissionRequest) -> ResourceCache:
    """The cache of namespaces."""
    context: Any = request.call.context
    kind = context.kinds.of_kind("v1", "Namespace")
    if kind is None:
        raise internal_error("this server has no namespaces")
    cache: ResourceCache = context.objects.cache(kind)
    return cache


def namespace_annotations(request: AdmissionRequest) -> Mapping[str, str]:
    """Annotations of the request's namespace; none if it is not there."""
    cache = namespace_cache(request)
    entry = cache.get("", request.namespace)
    annotations: Mapping[str, str] = cache.shared(entry).metadata.annotations if entry is not None else {}
    return annotations
