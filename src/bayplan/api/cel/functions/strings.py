"""Functions on text, which count characters. Source: cel-go's `ext/strings.go`, version 2."""

from __future__ import annotations

from typing import Any

from bayplan.api.cel.functions.formatting import formatted
from bayplan.api.cel.functions.registry import INT, LIST, STRING, Table
from bayplan.api.cel.values import EvaluationError, text_of

TABLE = Table()
_LONGEST = 64 * 1024 * 1024
"""Characters of a text that `replace` may make; costs do not see what it makes until it is there."""
_BLANK = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space of Unicode, which is less than what Python strips."""
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = {low: high for high, low in _LOWER.items()}
_QUOTED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


@TABLE.member("contains", STRING, STRING)
def _contains(text: str, part: str) -> bool:
    return part in text


@TABLE.member("endsWith", STRING, STRING)
def _ends_with(text: str, end: str) -> bool:
    return text.endswith(end)


@TABLE.member("startsWith", STRING, STRING)
def _starts_with(text: str, start: str) -> bool:
    return text.startswith(start)


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


@TABLE.member("charAt", STRING, INT)
def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


@TABLE.member("indexOf", STRING, STRING)
def _index_of(text: str, part: str) -> int:
    return text.find(part)


@TABLE.member("indexOf", STRING, STRING, INT)
def _index_of_from(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


@TABLE.member("lastIndexOf", STRING, STRING)
def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


@TABLE.member("lastIndexOf", STRING, STRING, INT)
def _last_index_of_from(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


@TABLE.member("lowerAscii", STRING)
def _lower_ascii(text: str) -> str:
    return text.translate(_LOWER)


@TABLE.member("upperAscii", STRING)
def _upper_ascii(text: str) -> str:
    return text.translate(_UPPER)


@TABLE.member("replace", STRING, STRING, STRING)
def _replace(text: str, old: str, new: str) -> str:
    return _replace_some(text, old, new, -1)


@TABLE.member("replace", STRING, STRING, STRING, INT)
def _replace_some(text: str, old: str, new: str, count: int) -> str:
    found = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + found * (len(new) - len(old)) > _LONGEST:
        raise EvaluationError(f"replace: result is longer than {_LONGEST} characters")
    return text.replace(old, new, found)


@TABLE.member("split", STRING, STRING)
def _split(text: str, separator: str) -> list[str]:
    return _split_some(text, separator, -1)


@TABLE.member("split", STRING, STRING, INT)
def _split_some(text: str, separator: str, count: int) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


@TABLE.member("substring", STRING, INT)
def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


@TABLE.member("substring", STRING, INT, INT)
def _substring_between(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


@TABLE.member("trim", STRING)
def _trim(text: str) -> str:
    return text.strip(_BLANK)


@TABLE.function("strings.quote", STRING)
def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


@TABLE.member("join", LIST)
def _join(parts: Any) -> str:
    return _join_with(parts, "")


@TABLE.member("join", LIST, STRING)
def _join_with(parts: Any, separator: str) -> str:
    texts = list(parts)
    for one in texts:
        if type(one) is not str:
            raise EvaluationError(f"join: invalid input: {text_of(one)}")
    return separator.join(texts)


@TABLE.member("format", STRING, LIST)
def _format(text: str, given: Any) -> str:
    return formatted(text, list(given))


@TABLE.function("jsonpatch.escapeKey", STRING)
def _escape_key(text: str) -> str:
    return text.replace("~", "~0").replace("/", "~1")
