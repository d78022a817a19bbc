"""Escapes in double quotes on which go-yaml and libyaml differ: the one knows `\\'` and not `\\/`, the other `\\/` and not `\\'`.

Source: `yaml_parser_scan_flow_scalar` of both.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

UNKNOWN_ESCAPE: Final = "found unknown escape character"
_SLASH: Final = re.compile(r"(?<!\\)(?:\\\\)*+\\/")
_QUOTE: Final = re.compile(rb"(?<!\\)((?:\\\\)*+)\\'")
_AS_NUMBER: Final = b"\\U00000027"
"""A single quote as both know it."""


class Escapes:
    """The escapes of one document."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._has_slashes, self._has_numbers = b"\\/" in data, False
        self._text = ""

    @property
    def are_odd(self) -> bool:
        """Whether `text_of` has to see each scalar."""
        return self._has_slashes or self._has_numbers

    def with_quotes(self) -> bytes | None:
        """The document with single quotes in a form that libyaml knows, if it has others. None if that cannot be done."""
        if self._has_numbers or _AS_NUMBER in self._data:
            return None
        mended = _QUOTE.sub(lambda found: found[1] + _AS_NUMBER, self._data)
        if mended == self._data:
            return None
        self._data, self._has_numbers = mended, True
        return mended

    def text_of(self, event: Any) -> str:
        """What a scalar says. Raises ScannerError."""
        text: str = event.value
        if event.style != '"':
            return text.replace(_AS_NUMBER.decode(), "\\'") if self._has_numbers else text
        start, end = event.start_mark, event.end_mark
        self._text = self._text or self._data.decode("utf-8-sig")
        if self._has_slashes and (found := _SLASH.search(self._text, start.index, end.index)):
            line = start.line + self._text.count("\n", start.index, found.start())
            mark = yaml.Mark(start.name, found.start(), line, 0, None, 0)
            raise yaml.scanner.ScannerError("while parsing a quoted scalar", start, UNKNOWN_ESCAPE, mark)
        return text
