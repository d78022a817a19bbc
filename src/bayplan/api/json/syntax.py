"""What Go says of text that is no JSON, such as `invalid character 'x' looking for beginning of value`.

Mostly input that was refused comes here. Source: the scanner of Go's `encoding/json`.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from typing import Final

import msgspec

from bayplan.api.errors import quoted
from bayplan.api.json.nesting import EXCEEDED, MAX_DEPTH, is_too_deep

END: Final = "unexpected end of JSON input"
_SPACES: Final = b" \t\r\n"
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS: Final = re.compile(rb"[0-9]*")
_WORDS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


class _Wrong(Exception):
    """Something does not belong where it stands."""


def syntax_problem(data: bytes) -> str:
    """What is wrong with text that should be one JSON value; "" if nothing is. Where it ends within a word or a number, a space is read."""
    if not is_too_deep(data):
        with contextlib.suppress(msgspec.DecodeError):
            msgspec.json.decode(data, type=msgspec.Raw)  # which takes nothing that Go does not, and is quick
            return ""
    try:
        _Scanner(data).document()
    except _Wrong as error:
        return str(error)
    return ""


def _shown(byte: int) -> str:
    if byte == ord("'"):
        return r"'\''"
    if byte == ord('"'):
        return "'\"'"
    letter = chr(byte)
    return f"'{quoted(letter)[1:-1]}'"


class _Scanner:
    """One reading of a text."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def document(self) -> None:
        """One value and nothing else. Raises _Wrong."""
        closers: list[int] = []
        while True:
            opened = self._value()
            if opened and self._peek() == opened + 2:  # `[` and `]`, `{` and `}` are two apart
                self.at += 1
            elif opened:
                closers.append(opened + 2)
                if len(closers) > MAX_DEPTH:
                    raise _Wrong(EXCEEDED)
                if opened == ord("{"):
                    self._key()
                continue
            if not self._more(closers):
                break
        if self._peek() is not None:
            raise self._wrong("after top-level value")

    def _more(self, closers: list[int]) -> bool:
        """Behind a value: whether there is another one to read."""
        while closers:
            found = self._peek()
            if found is None:
                raise _Wrong(END)
            if found == ord(","):
                self.at += 1
                if closers[-1] == ord("}"):
                    self._key()
                return True
            if found != closers[-1]:
                raise self._wrong("after object key:value pair" if closers[-1] == ord("}") else "after array element")
            self.at += 1
            closers.pop()
        return False

    def _peek(self) -> int | None:
        """The next byte that is no space; None at the end."""
        self.at = _SPACE.match(self.data, self.at).end()  # type: ignore[union-attr]
        return self.data[self.at] if self.at < len(self.data) else None

    def _wrong(self, where: str) -> _Wrong:
        return _Wrong(f"invalid character {_shown(self.data[self.at])} {where}")

    def _next(self, where: str) -> int:
        """The byte within a word or number."""
        if self.at < len(self.data):
            return self.data[self.at]
        raise _Wrong(f"invalid character ' ' {where}")

    def _key(self) -> None:
        found = self._peek()
        if found is None:
            raise _Wrong(END)
        if found != ord('"'):
            raise self._wrong("looking for beginning of object key string")
        self._string()
        found = self._peek()
        if found is None:
            raise _Wrong(END)
        if found != ord(":"):
            raise self._wrong("after object key")
        self.at += 1

    def _value(self) -> int:
        """Read a value, or the beginning of an object or a list, which is returned then (else 0)."""
        found = self._peek()
        if found is None:
            raise _Wrong(END)
        if found in b"{[":
            self.at += 1
            return found
        if found == ord('"'):
            self._string()
        elif found in b"-0123456789":
            self._number()
        elif found in _WORDS:
            self._word(_WORDS[found])
        else:
            raise self._wrong("looking for beginning of value")
        return 0

    def _word(self, word: bytes) -> None:
        for letter in word:
            where = f"in literal {word.decode()} (expecting '{chr(letter)}')"
            if self._next(where) != letter:
                raise self._wrong(where)
            self.at += 1

    def _number(self) -> None:
        if self.data[self.at] == ord("-"):
            self.at += 1
            if self._next("in numeric literal") not in b"0123456789":
                raise self._wrong("in numeric literal")
        if self.data[self.at] == ord("0"):
            self.at += 1
        else:
            self._digits("in numeric literal")
        if self.data[self.at : self.at + 1] == b".":
            self.at += 1
            self._digits("after decimal point in numeric literal")
        if self.data[self.at : self.at + 1] in (b"e", b"E"):
            self.at += 1
            if self.data[self.at : self.at + 1] in (b"+", b"-"):
                self.at += 1
            self._digits("in exponent of numeric literal")

    def _digits(self, where: str) -> None:
        if self._next(where) not in b"0123456789":
            raise self._wrong(where)
        self.at = _DIGITS.match(self.data, self.at).end()  # type: ignore[union-attr]

    def _string(self) -> None:
        self.at += 1
        while True:
            self.at = _PLAIN.match(self.data, self.at).end()  # type: ignore[union-attr]
            if self.at >= len(self.data):
                raise _Wrong(END)
            found = self.data[self.at]
            if found == ord('"'):
                self.at += 1
                return
            if found != ord("\\"):
                raise self._wrong("in string literal")
            self.at += 1
            self._escape()

    def _escape(self) -> None:
        found = self._next("in string escape code")
        if found not in b'bfnrt\\/"u':
            raise self._wrong("in string escape code")
        self.at += 1
        for _ in range(4 if found == ord("u") else 0):
            if self._next(r"in \u hexadecimal character escape") not in _HEX:
                raise self._wrong(r"in \u hexadecimal character escape")
            self.at += 1


_LONE_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def has_valid_texts(data: bytes) -> bool:
    """Whether JSON needs no `repaired`; False if that is not certain."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\\u" not in data


def repaired(data: bytes) -> bytes:
    """Valid JSON in which every text is valid Unicode: what is not is replaced, as Go does."""
    tree = json.loads(data.decode(errors="replace"), parse_int=_short_integer)
    return _LONE_SURROGATES.sub("\ufffd", json.dumps(tree, ensure_ascii=False)).encode()


def _short_integer(text: str) -> float:
    return int(text) if len(text) <= _LONG_NUMBER else float(text)


_LONG_NUMBER: Final = 309
"""Digits from which on a number may be too large for a float."""
_STRIDE: Final = _LONG_NUMBER // 4
"""Of so many digits in a row, at least four are met in steps of this length."""
_ZEROS: Final = b"0" * _LONG_NUMBER
_AS_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_NUMBERS: Final = re.compile(rb"[-+.0-9eE]+")
_SHOWN_DIGITS: Final = 400


def large_number(data: bytes) -> str:
    """The first number in JSON that has more than 308 digits and is too large for a float; "" if there is none. Such a number fits nowhere.

    Numbers with exponents are left to the decoder, which refuses them.
    """
    if b"0000" not in data[::_STRIDE].translate(_AS_ZEROS) or _ZEROS not in data.translate(_AS_ZEROS):
        return ""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    for outside in data.split(b'"')[::2]:
        for number in _NUMBERS.findall(outside) if len(outside) >= _LONG_NUMBER else ():
            if len(number) >= _LONG_NUMBER and _is_infinite(number):
                return str(number[:_SHOWN_DIGITS].decode())
    return ""


def too_large(number: str, place: str = "value") -> str:
    """What Go says of a number that no float can hold. place: where it should go."""
    return f"json: cannot unmarshal number {number} into Go {place} of type float64"


def infinite_number(data: bytes) -> str:
    """The first number in JSON that is too large for a float, however it is written; "" if there is none, or another error (`syntax_problem`) comes first."""
    found: list[str] = []

    def read(text: str) -> float:
        if not found and _is_infinite(text.encode()):
            found.append(text[:_SHOWN_DIGITS])
        return 0.0

    try:
        json.loads(data.decode(errors="replace"), parse_int=read, parse_float=read)
    except ValueError:
        return ""
    return found[0] if found else ""


def _is_infinite(number: bytes) -> bool:
    try:
        return math.isinf(float(number))
    except ValueError:
        return False
