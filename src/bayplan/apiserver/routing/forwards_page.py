"""`/bayplan/forwards`: the forwards of this server, listed, set and removed while it runs.

    GET    /bayplan/forwards                        {"forwards": [{"service": "service/shop/hook", "target": "localhost:9443"}]}
    PUT    /bayplan/forwards/NAMESPACE/NAME[:PORT]  {"target": "localhost:9443"}
    DELETE /bayplan/forwards/NAMESPACE/NAME[:PORT]

A path, and not an object or an annotation: RBAC grants nobody but administrators a path, whatever rights people and operators have on services, config maps and
namespaces. Whoever sets a forward receives what is sent to the service, Secrets in reviews of webhooks included.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bayplan.api.errors import bad_request, failure, method_not_allowed
from bayplan.apiserver.requests import Request, Response
from bayplan.apiserver.routing.forwards import Forward, ForwardError, Forwards, forward_to, parse_service

PATH: Final = "/bayplan/forwards"


class _Wanted(msgspec.Struct):
    """The body of a PUT."""

    target: str


def handle(request: Request, path: str, forwards: Forwards) -> Response | None:
    """The answer to a request; None for paths that there are not. Raises ApiError (400, 404, 405)."""
    if path == PATH:
        if request.method != "GET":
            raise method_not_allowed()
        return _answer({"forwards": [_shown(one) for one in forwards.all()]})
    if not path.startswith(f"{PATH}/"):
        return None
    try:
        service = parse_service(f"service/{path.removeprefix(f'{PATH}/')}")
        if request.method == "PUT":
            wanted = msgspec.json.decode(request.body, type=_Wanted)
            forward = forward_to(service, wanted.target)
            forwards.set(forward)
            return _answer(_shown(forward))
    except (ForwardError, msgspec.DecodeError) as error:
        raise bad_request(str(error)) from error
    if request.method != "DELETE":
        raise method_not_allowed()
    if not forwards.remove(service):
        raise failure(404, "NotFound", f"calls for {service} are not forwarded", details=False)
    return _answer({})


def _shown(forward: Forward) -> dict[str, str]:
    return {"service": str(forward.service), "target": forward.target}


def _answer(tree: dict[str, Any]) -> Response:
    return Response(200, msgspec.json.encode(tree))
