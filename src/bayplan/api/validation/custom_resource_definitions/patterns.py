"""What is wrong with a malformed regular expression, in the words of Go.

Which patterns are malformed is not decided here (`bayplan.api.custom_resources.patterns`); this finds the usual mistakes in one walk.
"""

from __future__ import annotations

import re

_ESCAPES = frozenset("aAbBdDfnrsStvwWxzCQEpP01234567")
_GROUP = re.compile(r"\(\?(?:P<(?P<name>[^>]*)>|<(?P<plain>[^>=!][^>]*)>|(?P<flags>[imsU]*(?:-[imsU]+)?)[:)])")
_REPEAT = re.compile(r"[*+?]|\{(\d+)(?:,(\d*))?\}")
_NAME = re.compile(r"\w+", re.ASCII)
_MOST_REPEATS = 1000


def pattern_problem(pattern: str) -> str:
    """The text of the error with which Go refuses a pattern."""
    what, where = _Walk(pattern).problem()
    return f"error parsing regexp: {what}: `{where}`"


class _Walk:
    """One walk from left to right."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._open = 0

    def problem(self) -> tuple[str, str]:
        """What is wrong, and the part of the pattern that is shown."""
        repeats_at = -1
        """Where the repetition begins that was read last; -1 if something else was."""
        has_operand = False
        while self._at < len(self._text):
            start, character = self._at, self._text[self._at]
            repeat = _REPEAT.match(self._text, start)
            if repeat is not None:
                found = self._repeat_problem(repeat, repeats_at, has_operand)
                self._at = repeat.end() + (self._text[repeat.end() : repeat.end() + 1] == "?")
                repeats_at = start
            else:
                found = self._step(character)
                repeats_at, has_operand = -1, character not in "(|"
            if found is not None:
                return found
        return ("missing closing )", self._text) if self._open else ("invalid or unsupported Perl syntax", self._text)

    def _repeat_problem(self, repeat: re.Match[str], before: int, has_operand: bool) -> tuple[str, str] | None:
        least, most = repeat[1], repeat[2]
        if not has_operand:
            return "missing argument to repetition operator", repeat[0]
        if before >= 0:
            return "invalid nested repetition operator", self._text[before : repeat.end()]
        if least and (int(least) > _MOST_REPEATS or (most and not int(least) <= int(most) <= _MOST_REPEATS)):
            return "invalid repeat count", repeat[0]
        return None

    def _step(self, character: str) -> tuple[str, str] | None:
        if character == "(":
            return self._group()
        if character == "[":
            return self._set()
        if character == "\\":
            return self._escape()
        self._at += 1
        if character != ")":
            return None
        self._open -= 1
        return ("unexpected )", self._text) if self._open < 0 else None

    def _group(self) -> tuple[str, str] | None:
        start = self._at
        self._open += 1
        self._at += 1
        if not self._text.startswith("(?", start):
            return None
        head = _GROUP.match(self._text, start)
        if head is None:
            return "invalid or unsupported Perl syntax", self._text[
                start : start + (4 if self._is_behind(start) else 3)
            ]
        name = head["name"] if head["name"] is not None else head["plain"]
        if name is not None and not _NAME.fullmatch(name):
            return "invalid named capture", head[0]
        self._at = head.end()
        self._open -= head[0].endswith(")")
        return None

    def _is_behind(self, start: int) -> bool:
        return self._text.startswith(("(?<=", "(?<!"), start)

    def _escape(self) -> tuple[str, str] | None:
        start = self._at
        if start + 1 == len(self._text):
            return "trailing backslash at end of expression", ""
        following = self._text[start + 1]
        self._at += 2
        if following.isascii() and following.isalnum() and following not in _ESCAPES:
            return "invalid escape sequence", self._text[start : start + 2]
        if following in "1234567" and not self._text[start + 2 : start + 3].isdigit():
            return "invalid escape sequence", self._text[start : start + 2]
        return None

    def _set(self) -> tuple[str, str] | None:
        start = self._at
        self._at += 1 + self._text.startswith("[^", start)
        is_first, low = True, ""
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == "]" and not is_first:
                self._at += 1
                return None
            is_first = False
            if character == "\\":
                found = self._escape()
                if found is not None:
                    return found
                low = ""
                continue
            if character == "-" and low and self._text[self._at + 1 : self._at + 2] not in ("]", "", "\\"):
                high = self._text[self._at + 1]
                if high < low:
                    return "invalid character class range", f"{low}-{high}"
                self._at += 2
                low = ""
                continue
            low = character
            self._at += 1
        return "missing closing ]", self._text[start:]
