"""Flags about HTTP/2, with kube-apiserver's names and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from bayplan.cli.output import Failure

HTTP2_FLAGS: Final = {
    "--disable-http2-serving": "whether clients that offer HTTP/2 get HTTP/1.1 (the default; false needs the extra `http2` of the package)",
    "--http2-max-streams-per-connection": "requests that a client may have open at once on a connection of HTTP/2; 0 for 100",
    "--goaway-chance": "chance that a connection of HTTP/2 ends after a response, so that its client may find another server: 0 to 0.02",
}
"""Name -> meaning."""
_MOST_CHANCE: Final = 0.02


def http2_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags as options of a command."""
    meanings = {name: f"{text[0].upper()}{text[1:]}." for name, text in HTTP2_FLAGS.items()}
    disabled, streams, chance = HTTP2_FLAGS
    for decorate in (
        click.option(chance, default="0", show_default=True, help=meanings[chance]),
        click.option(streams, default="0", show_default=True, help=meanings[streams]),
        click.option(disabled, default="", is_flag=False, flag_value="true", metavar="BOOL", help=meanings[disabled]),
    ):
        function = decorate(function)
    return function


def is_http2_spoken(text: str) -> bool:
    """Whether `--disable-http2-serving` leaves HTTP/2. Raises Failure if it cannot be spoken."""
    from bayplan.apiserver.http.http2_support import has_http2

    is_spoken = text.lower() not in ("true", "1", "t")
    if is_spoken and not has_http2():
        raise Failure("--disable-http2-serving=false needs the library h2: pip install 'bayplan[http2]'")
    return is_spoken


def goaway_chance(text: str) -> float:
    """Raises UsageError, ValueError."""
    chance = float(text)
    if not 0 <= chance <= _MOST_CHANCE:
        raise click.UsageError(f"--goaway-chance can not be less than 0 or greater than {_MOST_CHANCE}")
    return chance
