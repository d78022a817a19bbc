"""Errors as responses."""

from __future__ import annotations

import msgspec

from bayplan.api.errors import ApiError
from bayplan.apiserver.reads.negotiation import JSON, PLAIN, Form, negotiate
from bayplan.apiserver.reads.representation import in_form
from bayplan.apiserver.requests import Request, Response


def refusal(request: Request, error: ApiError) -> Response:
    """An error as an answer in the form that the client takes; indented JSON if it has none of the forms that the client takes, such as a Table."""
    try:
        form = negotiate(request.accept)
    except ApiError:
        form = None
    if form is not None and not form.convert_to:
        return error_response(error, form)
    response = error_response(error)
    response.body = msgspec.json.format(response.body, indent=2)
    response.is_final = True
    return response


def error_response(error: ApiError, form: Form = PLAIN) -> Response:
    """An error as an answer, in the media type that the client asked for."""
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    body = msgspec.json.encode(error.status)
    if form.media_type == JSON:
        return Response(error.code, body, headers=headers)
    return Response(error.code, in_form(body, form.media_type), form.media_type, headers)
