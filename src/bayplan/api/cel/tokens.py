"""The words of an expression."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.issues import Issue
from bayplan.api.cel.values import UInt

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_PLAIN = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""',
    rf"'''(?:{_ESCAPE}|[^\\])*?'''",
    rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
    rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
)
_RAW = (r'[rR]"""[\s\S]*?"""', r"[rR]'''[\s\S]*?'''", r'[rR]"[^"\n\r]*"', r"[rR]'[^'\n\r]*'")
_STRING = "|".join((*_RAW, *_PLAIN))
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<blank>[\t \r\n\f]+|//[^\n]*)",
            rf"(?P<bytes>[bB](?:{_STRING}))",
            rf"(?P<string>{_STRING})",
            r"(?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)",
            r"(?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])",
            r"(?P<int>0x[0-9a-fA-F]+|\d+)",
            r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)",
            r"(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)",
            r"(?P<sign>==|!=|<=|>=|&&|\|\||[\[\]{}().,\-!?:+*/%<>])",
        )
    ),
    re.ASCII,
)
_KEYWORDS = frozenset(("in", "true", "false", "null"))
RESERVED = frozenset(
    (
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
        "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip
"""Words that cannot be variables."""
FIELD_KEYWORDS = _KEYWORDS | RESERVED
"""Words that are written `__namespace__` where they name a field of a schema."""
_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word: `kind` is `string`, `bytes`, `double`, `uint`, `int`, `name`, `quoted` or `end`; of signs and keywords it is the text itself."""

    kind: str
    text: str
    offset: int


def tokens(source: str) -> tuple[list[Token], list[Issue]]:
    """The words of an expression with an `end` behind, and the characters between them that begin no word."""
    found: list[Token] = []
    unknown: list[Issue] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            text = _unfinished(source, at)
            unknown.append(Issue(at, f"Syntax error: token recognition error at: '{text}'"))
            at += len(text)
            continue
        kind, text = match.lastgroup or "", match.group()
        if kind != "blank":
            found.append(Token(text if kind == "sign" or text in _KEYWORDS else kind, text, at))
        at = match.end()
    found.append(Token("end", "<EOF>", len(source)))
    return found, unknown


def _unfinished(source: str, at: int) -> str:
    """What is passed over where no word begins: a literal without its end, half an operator with what stands in the place of the other half, or a character."""
    if source[at] in "'\"":
        end = _LINE_END.search(source, at)
        return source[at : end.end()] if end else source[at:]
    return source[at : at + 2] if source[at] in "=&|" else source[at]


_LINE_END = re.compile(r"[\r\n]")


def literal_value(word: Token, *, negative: bool) -> Any:
    """What a literal stands for; a number is one with a sign in front if it is negative. Raises ValueError for what is no character."""
    text = word.text
    match word.kind:
        case "int" | "uint":
            number = int(text.rstrip("uU"), 16 if text.startswith("0x") else 10)
            return UInt(number) if word.kind == "uint" else -number if negative else number
        case "double":
            return -float(text) if negative else float(text)
        case "string":
            return string_value(text)
        case "bytes":
            return bytes_value(text[1:])
        case _:
            return None if text == "null" else text == "true"


def bytes_value(text: str) -> bytes:
    """What a bytes literal stands for: UTF-8, where escapes are single bytes unless they name characters."""
    raw, body = _body(text)
    if raw:
        return body.encode()
    parts: list[bytes] = []
    at = 0
    for match in re.finditer(_ESCAPE, body):
        parts.append(body[at : match.start()].encode())
        parts.append(_unescaped_byte(match))
        at = match.end()
    return b"".join((*parts, body[at:].encode()))


def _unescaped_byte(match: re.Match[str]) -> bytes:
    text = match.group()[1:]
    if text[0] in "xX":
        return bytes((int(text[1:], 16),))
    return bytes((int(text, 8),)) if text[0].isdigit() else _unescaped(match).encode()


def _body(text: str) -> tuple[bool, str]:
    """Whether a literal is raw, and what stands between its quotation marks; ends of lines are as everywhere."""
    raw = text[0] in "rR"
    quoted = text[1:] if raw else text
    marks = 3 if quoted[:3] in ('"""', "'''") else 1
    return raw, quoted[marks:-marks].replace("\r\n", "\n").replace("\r", "\n")


def string_value(text: str) -> str:
    """What a string literal stands for. Raises ValueError for what is no character."""
    raw, body = _body(text)
    return body if raw else re.sub(_ESCAPE, _unescaped, body)


def _unescaped(match: re.Match[str]) -> str:
    text = match.group()[1:]
    if text[0] in "xXuU":
        number = int(text[1:], 16)
        if 0xD800 <= number < 0xE000:
            raise ValueError(f"{number:x} is half of a character")
        return chr(number)
    return chr(int(text, 8)) if text[0].isdigit() else _CHARACTERS.get(text, text)
