"""Files with variables, of which `fileKeyRef` takes one (pkg/kubelet/util/env; KEP-3721).

A line is `NAME='value'`, as a shell would read it; a value may go on over lines. Blank lines and those that begin with `#` say nothing. What stands after the line
that is looked for is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

_BLANKS = " \t"


class EnvFileError(ValueError):
    """A line is not in the format; names it."""


def value_in_env_file(text: str, name: str) -> str:
    """The value of a variable; empty if it is not there. Raises EnvFileError."""
    lines = enumerate(text.removesuffix("\n").split("\n"), 1)
    for number, raw in lines:
        line = raw.removesuffix("\r").lstrip(_BLANKS)
        if not line or line.startswith("#"):
            continue
        found, value = _name_and_rest(line, number)
        if value.startswith("'"):
            value = _quoted(value[1:], number, lines)
        elif value.lstrip(_BLANKS) != value:
            value = ""  # `NAME= 'value'`: a shell takes the value for a command
        else:
            raise _error(number, "value must be enclosed in single quotes")
        if found == name:
            return value
    return ""


def _name_and_rest(line: str, number: int) -> tuple[str, str]:
    name, equals, rest = line.partition("=")
    if not equals:
        raise _error(number, "missing '='")
    if not name.strip(_BLANKS):
        raise _error(number, "empty variable name")
    if name.rstrip(_BLANKS) != name:
        raise _error(number, "whitespace before '=' is not allowed")
    return name, rest


def _quoted(rest: str, start: int, lines: Iterator[tuple[int, str]]) -> str:
    """The value up to its closing quote, on this line or one of the next."""
    parts: list[str] = []
    number = start
    while True:
        value, quote, after = rest.partition("'")
        if quote:
            comment = after.lstrip(_BLANKS)
            if comment and not comment.startswith("#"):
                raise _error(number, "unexpected content after closing quote")
            return "".join((*parts, value))
        parts.append(f"{rest}\n")
        following = next(lines, None)
        if following is None:
            raise EnvFileError(f"invalid environment variable format starting at line {start}: unclosed single quote")
        number, raw = following
        rest = raw.removesuffix("\r")


def _error(number: int, text: str) -> EnvFileError:
    return EnvFileError(f"invalid environment variable format at line {number}: {text}")
