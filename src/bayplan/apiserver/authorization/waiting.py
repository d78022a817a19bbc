"""Decisions that a webhook has to be asked for.

Authorizers do not wait. One that has to ask somebody raises `Undecided`; `decided` asks, and repeats the step that wanted to know: until it is through, the
step must not have changed anything. What was answered is remembered for the step's next run, however long answers are kept otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from bayplan.api.errors import internal_error
from bayplan.apiserver.authorization.interface import Verdict

T = TypeVar("T")


class Answers(dict[tuple[object, bytes], Verdict]):
    """Verdicts by who gave them, and what they are about."""

    seconds = 0.0
    """How long they were waited for."""


_answers: ContextVar[Answers | None] = ContextVar("answers of webhooks", default=None)
_MOST_QUESTIONS: Final = 1000
"""That a step may need answers to."""


class Undecided(Exception):
    """An authorizer has to ask somebody first."""

    def __init__(self, key: tuple[object, bytes], ask: Callable[[], Awaitable[Verdict]]) -> None:
        """key: who has to ask, and what about. ask: does it."""
        super().__init__("authorization needs an answer that nobody waits for")
        self.key = key
        self.ask = ask


def waited() -> float:
    """How many seconds the present step has waited for answers."""
    answers = _answers.get()
    return 0.0 if answers is None else answers.seconds


def note_waiting(seconds: float) -> None:
    """An answer that the present step needs was waited for."""
    answers = _answers.get()
    if answers is not None:
        answers.seconds += seconds


def known(key: tuple[object, bytes]) -> Verdict | None:
    """What was answered already while the present step was repeated."""
    answers = _answers.get()
    return None if answers is None else answers.get(key)


async def decided(step: Callable[..., T], *arguments: Any) -> T:
    """The outcome of a step whose decisions may have to be asked for. Raises what it raises, and ApiError (500) if it never ends."""
    before = _answers.get()
    answers = Answers() if before is None else before
    token = _answers.set(answers)
    try:
        for _ in range(_MOST_QUESTIONS):
            try:
                return step(*arguments)
            except Undecided as undecided:
                answers[undecided.key] = await undecided.ask()
        raise internal_error("authorization needs too many answers")
    finally:
        _answers.reset(token)
