"""Regular expressions in RE2's syntax, which take time in proportion to the text. Texts are searched as bytes: RE2's wrapper would count characters.

Sources: cel-go's `matches`; `k8s.io/apiserver/pkg/cel/library/regex.go`."""

from __future__ import annotations

from typing import Any

from bayplan.api.cel.functions.registry import INT, STRING, Table
from bayplan.api.cel.values import EvaluationError
from bayplan.support.memory.memo import memoized

TABLE = Table()
_IN_GO = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": "expression too large",
    "trailing \\": "trailing backslash at end of expression",
}
"""What Go says of a pattern, by what RE2 says."""


@memoized(2048)
def compiled(pattern: str) -> Any:
    """A pattern, to be searched for. Raises EvaluationError for what is none, in Go's words."""
    import re2  # slow to import, and few expressions have patterns

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0]
        said = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    what, _, part = said.partition(": ")
    raise EvaluationError(f"error parsing regexp: {_IN_GO.get(what, what)}: `{part}`")


def _legal(pattern: str) -> Any:
    try:
        return compiled(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error.message}") from error


def _matches(text: str, pattern: str) -> bool:
    return compiled(pattern).search(text.encode()) is not None


TABLE.add("matches", (STRING, STRING), _matches)
TABLE.add("matches", (STRING, STRING), _matches, member=True)


@TABLE.member("find", STRING, STRING)
def _find(text: str, pattern: str) -> str:
    data = text.encode()
    found = _legal(pattern).search(data)
    return "" if found is None else data[slice(*found.span())].decode()


@TABLE.member("findAll", STRING, STRING)
def _find_all(text: str, pattern: str) -> list[str]:
    return _find_some(text, pattern, -1)


@TABLE.member("findAll", STRING, STRING, INT)
def _find_some(text: str, pattern: str, most: int) -> list[str]:
    """As Go finds them: nothing empty right behind another match.

    Only an empty match can be inside a character, as texts are searched as bytes.
    """
    found: list[str] = []
    data, end = text.encode(), -1
    for match in _legal(pattern).finditer(data):
        if 0 <= most <= len(found):
            break
        start, behind = match.span()
        if behind > start or (start != end and not _is_inside_character(data, start)):
            found.append(data[start:behind].decode())
        end = behind
    return found


def _is_inside_character(data: bytes, at: int) -> bool:
    """Whether a place in UTF-8 is not the begin of a character."""
    return at < len(data) and data[at] & 0xC0 == 0x80
