"""Command lines as Go programs take them: `--name=value`, `--name value`, also with one dash."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


class ArgumentError(Exception):
    """A command line that makes no sense; the message is for who wrote it."""


def flags_of(words: Sequence[str], switches: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Names and values of flags, in their order. switches: names of flags that need no value; theirs is `true` then. Raises ArgumentError."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or not word.strip("-"):
            raise ArgumentError(f"unexpected argument {word!r}")
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = "true" if name in switches else next(rest, "")
            if not value:
                raise ArgumentError(f"flag needs an argument: --{name}")
        yield name, value
