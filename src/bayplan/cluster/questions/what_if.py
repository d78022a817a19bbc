"""Questions to the scheduler about pods that are not there, as requests: HTTP status and JSON body of the responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from bayplan.api.errors import ApiError, bad_request, failure
from bayplan.scheduler.errors import NotReadyError, QuestionError

if TYPE_CHECKING:
    from bayplan.scheduler.service import SchedulerService

SERVER_PATH: Final = "/bayplan/what-if"
"""Where the API server of a cluster of one's own takes questions."""


def refused(error: ApiError) -> tuple[int, bytes]:
    """The response to a question that is refused."""
    return error.code, msgspec.json.encode(error.status)


Ask = Callable[[bytes, str, bool], Awaitable[tuple[int, bytes]]]
"""Asks a scheduler: body, namespace of objects that name none, and whether to explain; status and JSON."""
NO_SCHEDULER: Final = refused(failure(503, "ServiceUnavailable", "no scheduler runs here that could answer"))


async def take(ask: Ask, method: str, body: bytes, namespace: str, explain: bool) -> tuple[int, bytes]:
    """The response of an API server at `SERVER_PATH`: that of the scheduler, or to `GET` the description."""
    if method == "GET":
        from bayplan.scheduler.questions.openapi import openapi_document  # few ask for it

        return 200, openapi_document(SERVER_PATH)
    return await ask(body, namespace, explain)


async def respond(
    scheduler: SchedulerService | None, body: bytes, *, namespace: str, explain: bool
) -> tuple[int, bytes]:
    """HTTP status and JSON body: a PlacementAnswer, or a Status."""
    if scheduler is None:
        return NO_SCHEDULER
    try:
        return 200, msgspec.json.encode(await scheduler.questions.answer(body, namespace=namespace, explain=explain))
    except QuestionError as error:
        return refused(bad_request(str(error)))
    except NotReadyError as error:
        return refused(failure(503, "ServiceUnavailable", str(error)))
