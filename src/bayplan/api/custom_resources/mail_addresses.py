"""Mail addresses as Go's `net/mail` understands them: RFC 5322, with a display name or without, and letters of any language.

Source of the behaviour: Go's `mail.ParseAddress`.
"""

from __future__ import annotations

from bayplan.api.custom_resources.network_formats import is_ip

_SPECIALS = frozenset('()<>[]:;@\\,"')
_BLANKS = (" ", "\t")


class _Malformed(Exception):
    """This is no address."""


def is_mail_address(text: str) -> bool:
    """Whether a text is one address, such as `ann@example.com` or `Ann <ann@example.com>`."""
    reader = _Reader(text)
    try:
        return reader.addresses() == 1 and reader.is_at_end()
    except _Malformed:
        return False


def _is_visible(letter: str) -> bool:
    return "!" <= letter <= "~" or letter > "\x7f"


def _is_atom(letter: str) -> bool:
    return _is_visible(letter) and letter not in _SPECIALS


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def addresses(self, *, in_group: bool = False) -> int:
        """One address, or the members of a group; how many these are. Raises _Malformed."""
        self._skip_blanks()
        start = self.at
        try:
            self._plain_address()
        except _Malformed:
            self.at = start
        else:
            self._comments_and_blanks()
            return 1
        if not self._looks_at("<"):
            self._phrase()
        self._skip_blanks()
        if not in_group and self._takes(":"):
            return self._members()
        self._in_brackets()
        return 1

    def _in_brackets(self) -> None:
        if not self._takes("<"):
            raise _Malformed
        self._plain_address()
        if not self._takes(">"):
            raise _Malformed

    def _members(self) -> int:
        count = 0
        self._skip_blanks()
        if self._takes(";"):
            return 0
        while True:
            count += self.addresses(in_group=True)
            self._comments_and_blanks()
            if self._takes(";"):
                return count
            if not self._takes(","):
                raise _Malformed

    def _plain_address(self) -> None:
        self._skip_blanks()
        if not self._looks_at('"'):
            self._atom()
        elif not self._quoted():
            raise _Malformed
        if not self._takes("@"):
            raise _Malformed
        self._skip_blanks()
        if self._looks_at("["):
            self._domain_literal()
        else:
            self._atom()

    def _phrase(self) -> None:
        """Words, at least one; it ends where no further one begins."""
        words = 0
        while True:
            if words:
                self._comments_and_blanks()
            try:
                if self._looks_at('"'):
                    self._quoted()
                else:
                    self._atom(permissive=True)
            except _Malformed:
                break
            words += 1
        if not words:
            raise _Malformed

    def _quoted(self) -> str:
        """The text in quotation marks."""
        self.at += 1
        found = []
        while True:
            letter = self._next()
            if letter == '"':
                break
            if letter == "\\":
                letter = self._next()
            if not (_is_visible(letter) or letter in _BLANKS):
                raise _Malformed
            found.append(letter)
        return "".join(found)

    def _atom(self, *, permissive: bool = False) -> None:
        """A word with dots in it; permissive: dots may be anywhere."""
        start = self.at
        while self.at < len(self.text) and _is_atom(self.text[self.at]):
            self.at += 1
        atom = self.text[start : self.at]
        if not atom or (not permissive and (atom[0] == "." or atom[-1] == "." or ".." in atom)):
            raise _Malformed

    def _domain_literal(self) -> None:
        """`[192.0.2.1]`, or another address of IP."""
        self.at += 1
        start = self.at
        while (letter := self._next()) != "]":
            if letter in "[\\" or not _is_visible(letter):
                raise _Malformed
        if not is_ip(self.text[start : self.at - 1]):
            raise _Malformed

    def _comments_and_blanks(self) -> None:
        self._skip_blanks()
        while self._takes("("):
            depth = 1
            while depth:
                letter = self._next()
                if letter == "\\":
                    self._next()
                depth += {"(": 1, ")": -1}.get(letter, 0)
            self._skip_blanks()

    def is_at_end(self) -> bool:
        """Whether nothing is left but comments. Raises _Malformed for comments without end."""
        self._comments_and_blanks()
        return self.at == len(self.text)

    def _skip_blanks(self) -> None:
        while self.text[self.at : self.at + 1] in _BLANKS:
            self.at += 1

    def _looks_at(self, letter: str) -> bool:
        return self.text.startswith(letter, self.at)

    def _takes(self, letter: str) -> bool:
        if not self._looks_at(letter):
            return False
        self.at += 1
        return True

    def _next(self) -> str:
        if self.at == len(self.text):
            raise _Malformed
        self.at += 1
        return self.text[self.at - 1]
