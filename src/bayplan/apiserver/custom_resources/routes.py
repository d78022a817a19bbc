"""What requests on custom resources mean whose path or method fits no route: their handler has no table of routes as that of other kinds, so the answers differ.

Source: apiextensions-apiserver's `pkg/apiserver/customresource_handler.go`.
"""

from __future__ import annotations

from bayplan.api.errors import ApiError, bad_request, failure
from bayplan.api.kinds import Kind
from bayplan.apiserver.requests import Request, ResourcePath


def verb_not_supported(verb: str, kind: Kind) -> ApiError:
    """405: the resource exists, but does not do this."""
    message = f'{verb} is not supported on resources of kind "{kind.group_resource}"'
    return failure(405, "MethodNotAllowed", message, group=kind.group, kind=kind.plural)


def settled_path(request: Request, path: ResourcePath) -> ResourcePath | None:
    """The path that a request on a custom resource is about; None if there is no such page. Raises ApiError (400, 405)."""
    verb = path.verb
    if path.kind.namespaced and not path.namespace and verb not in ("list", "watch"):
        return None
    if path.subresource is not None:
        if verb not in path.subresource.verbs:
            raise verb_not_supported(verb, path.kind)
    elif verb == "create" and path.name:  # the body says which
        return ResourcePath(path.kind, path.namespace, "", None, verb=verb)
    elif verb in ("update", "patch") and not path.name:
        raise bad_request("name must be provided")
    elif not verb or (verb == "watch" and request.method != "GET"):
        raise verb_not_supported(verb, path.kind)
    return path
