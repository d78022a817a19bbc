"""Label selectors as text, such as `a=b,c!=d,e in (x,y),!f,g>1` in query strings. Syntax and error texts are those of `k8s.io/apimachinery/pkg/labels`."""

from __future__ import annotations

import re
from typing import Final

from bayplan.api.selectors.labels import (
    DOES_NOT_EXIST,
    EQUALS,
    EXISTS,
    GREATER_THAN,
    IN,
    LESS_THAN,
    NOT_EQUALS,
    NOT_IN,
    LabelSelector,
    Requirement,
    SelectorError,
    qualified_name_errors,
    requirement,
)

_TOKEN: Final = re.compile(r"\s*(?:(!=|==|=|!|>|<|\(|\)|,)|([^\s!=<>(),]+))")


class _Parser:
    """Recursive descent over the tokens of a query string; "" is the end."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        position = 0
        while match := _TOKEN.match(text, position):
            self.tokens.append(match[1] or match[2])
            position = match.end()
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            token = self.peek()
            if token == "":
                return requirements
            if token != "!" and not _is_word(token):
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self.requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token = self.next()
            if token == "":
                return requirements
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            following = self.peek()
            if following != "!" and not _is_word(following):
                raise SelectorError(f"found '{following}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        if self.peek() == "!":
            self.next()
            return requirement(self.key(), DOES_NOT_EXIST)
        key = self.key()
        token = self.peek()
        if token in ("", ","):
            return requirement(key, EXISTS)
        operator = self.operator()
        if operator in (IN, NOT_IN):
            return requirement(key, operator, self.values())
        return requirement(key, operator, (self.exact_value(),))

    def key(self) -> str:
        token = self.next()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        errors = qualified_name_errors(token)
        if errors:
            raise SelectorError(f'<nil>: Invalid value: "{token}": {"; ".join(errors)}')
        return token

    def operator(self) -> str:
        token = self.next()
        known = {
            "=": EQUALS,
            "==": EQUALS,
            "!=": NOT_EQUALS,
            "in": IN,
            "notin": NOT_IN,
            ">": GREATER_THAN,
            "<": LESS_THAN,
        }
        if token not in known:
            raise SelectorError(f"found '{token}', expected: in, notin, =, ==, !=, gt, lt")
        return known[token]

    def values(self) -> list[str]:
        if (token := self.next()) != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        token = self.peek()
        if token not in (",", ")") and not _is_word(token):
            raise SelectorError(f"found '{token}', expected: ',', ')' or identifier")
        values: list[str] = []
        expect_value = True
        while True:
            token = self.next()
            if token == ")":
                return [*values, ""] if expect_value else values
            if token == ",":
                if expect_value:
                    values.append("")
                expect_value = True
            elif _is_word(token) and expect_value:
                values.append(token)
                expect_value = False
            else:
                expected = "',', or identifier" if expect_value else "',' or ')'"
                raise SelectorError(f"found '{token}', expected: {expected}")

    def exact_value(self) -> str:
        token = self.peek()
        if token in ("", ","):
            return ""
        self.next()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return token


def _is_word(token: str) -> bool:
    return token not in ("", "!=", "==", "=", "!", ">", "<", "(", ")", ",")


def parse_labels(text: str) -> LabelSelector:
    """The selector of a `labelSelector` query string; an empty string matches everything. Raises SelectorError."""
    requirements = _Parser(text).parse()
    return LabelSelector(tuple(sorted(requirements, key=lambda item: item.key)))
