"""Errors without the places in which they were raised."""

from __future__ import annotations


def forget_frames(error: BaseException) -> None:
    """Let go of the frames in which an error, and the ones that it came of, were raised.

    To be called when an error has been dealt with. A frame that has the error in a variable keeps itself alive by it, with all its other variables, such as
    the body of a request and what was made of that: thousands of broken requests of some megabytes would fill memory before the garbage collector comes.
    """
    seen: set[int] = set()
    errors: list[BaseException | None] = [error]
    while errors:
        one = errors.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            errors += (one.__cause__, one.__context__)
