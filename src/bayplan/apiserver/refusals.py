"""Errors as responses."""

from __future__ import annotations

import msgspec

from bayplan.api.errors import ApiError, unauthorized
from bayplan.apiserver.reads.negotiation import JSON, PLAIN, Form, negotiate_error
from bayplan.apiserver.reads.representation import in_form
from bayplan.apiserver.requests import Request, Response, check_timeout
from bayplan.support.memory.tracebacks import forget_frames


def refusal(request: Request, error: ApiError) -> Response:
    """An error as an answer in the form that the client takes; indented JSON if it has none of the forms that the client takes, such as a Table."""
    form = negotiate_error(request.accept)
    if form is not None:
        return error_response(error, form)
    response = error_response(error)
    response.body = msgspec.json.format(response.body, indent=2)
    response.is_final = True
    return response


def unauthenticated(request: Request) -> Response:
    """The answer to a request that comes from nobody known: a parameter that all requests share is looked at before credentials are."""
    try:
        check_timeout(request)
    except ApiError as error:
        return refusal(request, error)
    return refusal(request, unauthorized())


def error_response(error: ApiError, form: Form = PLAIN) -> Response:
    """An error as an answer, in the media type that the client asked for. That is the end of the error: its frames are let go of."""
    forget_frames(error)
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    body = msgspec.json.encode(error.status)
    if form.media_type == JSON:
        return Response(error.code, body, headers=headers)
    return Response(error.code, in_form(body, form.media_type), form.media_type, headers)
