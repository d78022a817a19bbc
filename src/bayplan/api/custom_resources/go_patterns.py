r"""Regular expressions in Go's syntax, written anew in the syntax of the library that runs them (Rust's `regex`, inside the CEL library).

The two agree but for a few places, which this takes care of:

    Go                          here                    because
    \d \w \s                    [0-9] ...               there they mean Unicode's digits, letters and blanks
    \b \B                       (?-u:\b) ...            the same
    [[] [a&&b] [a--b] [~~]      [\[] [a\&\&b] ...       there classes nest, and have set operations
    {a} a{,2}                   \{a} a\{,2}             there a brace has to begin a repetition
    \Q.*\E                      \.\*                    there is no quoting
    \123                        \x{53}                  there are no octal digits
    \p{^Greek}                  \P{Greek}               there it is written like that
    a** a{2}{3} a{1001} \Z \<   (refused)               there they are allowed

Source of the behaviour: Go's `regexp/syntax`.
"""

from __future__ import annotations

import re

_MOST_REPEATS = 1000
_PERL = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_PLAIN_ESCAPES = frozenset("afnrtv")
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}", re.ASCII)
_UNICODE = re.compile(r"[pP](?:\{(\^?)(\w+)\}|([A-Z]))", re.ASCII)
_SET_ESCAPE = re.compile(r"\\[dDwWsSpP]")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEX = re.compile(r"x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")
_GROUP = re.compile(r"\(\?(?:P?<([A-Za-z_0-9]+)>|([imsU]*(?:-[imsU]+)?)(:|\)))", re.ASCII)
_POSIX = re.compile(
    r"\[:\^?(?:alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]"
)


class PatternError(ValueError):
    """Go would not take this for a regular expression."""


def translated(pattern: str) -> str:
    """The pattern in the other syntax. Raises PatternError for some that Go refuses; others are refused by whoever runs the result."""
    return _Translation(pattern).whole()


class _Translation:
    """One pass over a pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.repeats = True
        """Whether the last token was a repetition, or nothing that could be repeated."""

    def whole(self) -> str:
        parts = []
        while self.at < len(self.pattern):
            parts.append(self._token())
        return "".join(parts)

    def _token(self) -> str:
        letter = self.pattern[self.at]
        if letter == "\\":
            self.repeats = False
            return self._escape(in_class=False)
        if letter == "[":
            self.repeats = False
            return self._class()
        if letter == "(":
            return self._group()
        if letter in "*+?":
            return self._repetition(letter)
        if letter == "{":
            return self._brace()
        self.at += 1
        self.repeats = letter == "|"
        return "\\" + letter if letter in "]}" else letter

    def _repetition(self, text: str) -> str:
        if self.repeats:
            raise PatternError(f"missing argument to repetition operator: `{text}`")
        self.at += len(text)
        if self.pattern[self.at : self.at + 1] == "?":
            self.at += 1
            text += "?"
        self.repeats = True
        return text

    def _brace(self) -> str:
        found = _REPEAT.match(self.pattern, self.at)
        if found is None:
            self.at += 1
            self.repeats = False
            return r"\{"
        fewest, most = int(found[1]), int(found[3] or found[1])
        if fewest > _MOST_REPEATS or most > _MOST_REPEATS or most < fewest:
            raise PatternError(f"invalid repeat count: `{found[0]}`")
        return self._repetition(found[0])

    def _group(self) -> str:
        self.repeats = True
        if not self.pattern.startswith("(?", self.at):
            self.at += 1
            return "("
        found = _GROUP.match(self.pattern, self.at)
        if found is None or (found[3] == ")" and not found[2]):
            raise PatternError(f"invalid or unsupported Perl syntax: `{self.pattern[self.at :]}`")
        self.at = found.end()
        return f"(?P<_{found[1]}>" if found[1] else found[0]

    def _class(self) -> str:
        self.at += 1
        parts = ["["]
        if self.pattern.startswith("^", self.at):
            self.at += 1
            parts.append("^")
        is_first = True
        while is_first or not self.pattern.startswith("]", self.at):
            if self.at >= len(self.pattern):
                raise PatternError("missing closing ]")
            parts.append(self._member())
            is_first = False
        self.at += 1
        return "".join([*parts, "]"])

    def _member(self) -> str:
        posix = _POSIX.match(self.pattern, self.at)
        if posix is not None:
            self.at = posix.end()
            return posix[0]
        if self.pattern.startswith("[:", self.at) and ":]" in self.pattern[self.at + 2 :]:
            raise PatternError(f"invalid character class range: `{self.pattern[self.at :]}`")
        is_set = _SET_ESCAPE.match(self.pattern, self.at) is not None
        lowest = self._single()
        follows = self.pattern[self.at : self.at + 2]
        if is_set or len(follows) < 2 or follows[0] != "-" or follows[1] == "]":
            return lowest
        self.at += 1
        return f"{lowest}-{self._single()}"

    def _single(self) -> str:
        """One character of a class, or an escape that stands for several."""
        letter = self.pattern[self.at]
        if letter == "\\":
            return self._escape(in_class=True)
        self.at += 1
        return "\\" + letter if letter in "[]&~^-" else letter

    def _escape(self, *, in_class: bool) -> str:
        self.at += 1
        rest = self.pattern[self.at : self.at + 1]
        for form, make in ((_UNICODE, _unicode), (_OCTAL, _octal), (_HEX, _hex)):
            found = form.match(self.pattern, self.at)
            if found is not None:
                self.at = found.end()
                return make(found)
        if rest == "Q" and not in_class:
            return self._quoted()
        self.at += 1
        if rest.lower() in _PERL and rest:
            return _perl(rest, in_class=in_class)
        if rest in ("b", "B") and not in_class:
            return rf"(?-u:\{rest})"
        if rest in ("A", "z") and not in_class:
            return "\\" + rest
        if rest in _PLAIN_ESCAPES or (rest.isascii() and rest and not rest.isalnum()):
            return rf"\x{{{ord(rest):x}}}" if rest in "<>_" else "\\" + rest
        raise PatternError(f"invalid escape sequence: `\\{rest}`")

    def _quoted(self) -> str:
        end = self.pattern.find("\\E", self.at)
        text = self.pattern[self.at + 1 : end if end >= 0 else len(self.pattern)]
        self.at = end + 2 if end >= 0 else len(self.pattern)
        return "".join(rf"\x{{{ord(letter):x}}}" for letter in text)


def _unicode(found: re.Match[str]) -> str:
    negated = bool(found[1]) != (found[0][0] == "P")
    return rf"\{'P' if negated else 'p'}{{{found[2] or found[3]}}}"


def _octal(found: re.Match[str]) -> str:
    return rf"\x{{{int(found[0], 8):x}}}"


def _hex(found: re.Match[str]) -> str:
    return rf"\x{{{found[1] or found[2]}}}"


def _perl(letter: str, *, in_class: bool) -> str:
    members = _PERL[letter.lower()]
    if letter.isupper():
        return f"[^{members}]"
    return members if in_class else f"[{members}]"
