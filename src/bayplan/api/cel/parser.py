"""Expressions as trees: CEL's grammar with optional syntax, as cel-go parses it. Macros are expanded on the way.

Syntax errors are worded as those of cel-go's parser generator, as far as one look ahead decides: of a text that goes wrong in several places the later ones
may be missing. An API server refuses policies that do not parse.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from bayplan.api.cel.issues import NOWHERE, Issue, SyntaxIssue
from bayplan.api.cel.macros import bind, expand, is_binding
from bayplan.api.cel.nodes import (
    Call,
    Entry,
    FieldValue,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from bayplan.api.cel.numbers import whole_number
from bayplan.api.cel.tokens import RESERVED, Token, literal_value, tokens
from bayplan.api.cel.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT

_LITERALS = {
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    "true": BOOL,
    "false": BOOL,
    "null": NULL,
}
_OPERATORS = (
    ("||",),
    ("&&",),
    ("<", "<=", ">=", ">", "==", "!=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Operators between two values, those that bind least first. All are left-associative."""
_SHOWN = {"name": "IDENTIFIER"}
_BEGIN = frozenset(("[", "{", "(", ".", "-", "!", "name", *_LITERALS))
"""Kinds of words with which an expression can begin."""
_BEHIND_VALUE = frozenset((".", "[", "?", *(one for level in _OPERATORS for one in level)))
"""Kinds of words that go on behind a value."""
_BEGINNINGS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_LOGICAL = 2
"""So many of these are the logical ones, whose terms may stand in any tree."""
_LONGEST = 100_000
"""Characters."""
_DEEPEST = 60
"""Expressions inside each other, so that the stack is enough; Kubernetes stops at 250, people long before."""


def parse(source: str, *, has_bindings: bool = False) -> Node:
    """The tree of an expression. has_bindings: whether it may use the macro `cel.bind`. Raises SyntaxIssue."""
    if len(source) > _LONGEST:
        text = f"expression code point size exceeds limit: size: {len(source)}, limit {_LONGEST}"
        raise SyntaxIssue(NOWHERE, text)
    words, unknown = tokens(source)
    try:
        found = _Parser(source, words, has_bindings=has_bindings).whole()
    except SyntaxIssue as error:
        last = error.issues[-1]
        raise SyntaxIssue(last.offset, last.message, (*unknown, *error.issues[:-1])) from None
    if unknown:
        raise SyntaxIssue(unknown[-1].offset, unknown[-1].message, unknown[:-1])
    return found


def _function_of(operator: str) -> str:
    """The name of an operator's function."""
    return "@in" if operator == "in" else f"_{operator}_"


def _is_in_range(word: Token, negative: bool) -> bool:
    """Whether a literal is no number, or one that fits its type."""
    if word.kind == "double":
        return math.isfinite(float(word.text))
    if word.kind not in ("int", "uint"):
        return True
    digits = word.text.rstrip("uU")
    value = int(digits, 16) if digits.startswith("0x") else whole_number(digits)
    return value < 2**64 if word.kind == "uint" else value < 2**63 + negative


def _balanced(terms: list[Node], signs: list[Token]) -> Node:
    """A tree of low depth, so that long conditions stay cheap to walk: cel-go's, of an odd number the left half is the larger."""
    if len(terms) == 1:
        return terms[0]
    middle = (len(terms) + 1) // 2
    sign = signs[middle - 1]
    halves = (_balanced(terms[:middle], signs[: middle - 1]), _balanced(terms[middle:], signs[middle:]))
    return Call(sign.offset, _function_of(sign.text), None, halves)


class _Parser:
    """Reads tokens from left to right, one function per rule of the grammar."""

    def __init__(self, source: str, words: list[Token], *, has_bindings: bool) -> None:
        self._source, self._words = source, words
        self._has_bindings = has_bindings
        self._at = 0
        self._depth = 0
        self._ends = [frozenset(("end",))]
        """What ends the expressions that are being read, the innermost last."""
        self._passed: list[Issue] = []
        """What is wrong, but does not end reading: single words too many before something that could be an expression, macros and literals that make no sense."""

    def whole(self) -> Node:
        """Everything up to the end."""
        found = self._expression()
        word = self._words[self._at]
        if word.kind != "end":
            verb = "extraneous" if self._next(1) == "end" else "mismatched"
            raise self._refused(word, f"{verb} input '{word.text}' expecting <EOF>")
        if self._passed:
            passed = sorted(self._passed, key=lambda issue: issue.offset)
            raise SyntaxIssue(passed[-1].offset, passed[-1].message, passed[:-1])
        return found

    def _pass(self, found: SyntaxIssue) -> Node:
        """Go on behind something that makes no sense, unless it is too much. Raises SyntaxIssue."""
        if found.issues[-1].offset == NOWHERE:
            raise found
        self._passed += found.issues
        return Ident(found.issues[-1].offset, "")

    def _refused(self, word: Token, text: str) -> SyntaxIssue:
        """A syntax error at a word, behind those that were passed over."""
        passed = sorted(self._passed, key=lambda issue: issue.offset)
        return SyntaxIssue(word.offset, f"Syntax error: {text}", passed)

    def _next(self, ahead: int = 0) -> str:
        """The kind of a word that is still to come."""
        return self._words[min(self._at + ahead, len(self._words) - 1)].kind

    def _take(self, *kinds: str, follows: Collection[str] = ()) -> Token:
        """The next word, of one of these kinds. One word too many before it is passed over, and so is that it misses where the next one may follow it."""
        word = self._words[self._at]
        if word.kind not in kinds:
            wanted = " or ".join(_SHOWN.get(kind) or f"'{kind}'" for kind in kinds)
            if word.kind != "end" and self._next(1) in kinds:
                self._passed.append(
                    Issue(word.offset, f"Syntax error: extraneous input '{word.text}' expecting {wanted}")
                )
                self._at += 1
                word = self._words[self._at]
            elif word.kind in follows:
                self._passed.append(Issue(word.offset, f"Syntax error: missing {wanted} at '{word.text}'"))
                return word
            else:
                raise self._refused(word, f"mismatched input '{word.text}' expecting {wanted}")
        self._at += 1
        return word

    @contextmanager
    def _inside(self, *ends: str) -> Iterator[None]:
        """Read what ends with one of these kinds of words."""
        self._ends.append(frozenset(ends))
        yield
        self._ends.pop()

    @property
    def _follow(self) -> frozenset[str]:
        """What may follow a value here."""
        return _BEHIND_VALUE | self._ends[-1]

    def _close(self, kind: str) -> None:
        """Take what ends a list or map, which could go on as well."""
        word = self._words[self._at]
        if word.kind != kind:
            wanted = f"{{'{kind}', ','}}"
            if word.kind == "end" or self._next(1) != kind:
                raise self._refused(word, f"mismatched input '{word.text}' expecting {wanted}")
            self._passed.append(Issue(word.offset, f"Syntax error: extraneous input '{word.text}' expecting {wanted}"))
            self._at += 1
        self._at += 1

    def _took(self, kind: str) -> bool:
        """Whether the next word is of a kind; it is taken then."""
        if self._next() != kind:
            return False
        self._at += 1
        return True

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SyntaxIssue(NOWHERE, f"expression recursion limit exceeded: {_DEEPEST}")
        condition = self._binary(0)
        if self._next() == "?":
            offset = self._take("?").offset
            with self._inside(":"):
                chosen = self._binary(0)
            self._take(":", follows=_BEGIN)
            condition = Call(offset, "_?_:_", None, (condition, chosen, self._expression()))
        self._depth -= 1
        return condition

    def _binary(self, level: int) -> Node:
        if level == len(_OPERATORS):
            return self._unary()
        terms = [self._binary(level + 1)]
        signs: list[Token] = []
        while self._next() in _OPERATORS[level]:
            signs.append(self._take(*_OPERATORS[level]))
            terms.append(self._binary(level + 1))
        if level < _LOGICAL:
            return _balanced(terms, signs)
        found = terms[0]
        for sign, term in zip(signs, terms[1:], strict=True):
            found = Call(sign.offset, _function_of(sign.text), None, (found, term))
        return found

    def _pass_over_one(self) -> None:
        """A word that begins no expression is passed over if the next one does."""
        word = self._words[self._at]
        if word.kind not in _BEGIN and self._next(1) in _BEGIN:
            text = f"Syntax error: extraneous input '{word.text}' expecting {_BEGINNINGS}"
            self._passed.append(Issue(word.offset, text))
            self._at += 1

    def _unary(self) -> Node:
        self._pass_over_one()
        sign = self._next()
        if sign not in ("!", "-") or (sign == "-" and self._next(1) in ("int", "double")):
            return self._member()
        first = self._words[self._at].offset
        count = 0
        while self._next() == sign and not (sign == "-" and self._next(1) in ("int", "double")):
            self._at += 1
            count += 1
        operand = self._member()
        return Call(first, f"{sign}_", None, (operand,)) if count % 2 else operand

    def _member(self) -> Node:
        found = self._primary()
        while True:
            if self._next() == ".":
                found = self._selected(found, self._take(".").offset)
            elif self._next() == "[":
                offset = self._take("[").offset
                function = "_[?_]" if self._took("?") else "_[_]"
                with self._inside("]"):
                    index = self._expression()
                self._take("]", follows=self._follow)
                found = Call(offset, function, None, (found, index))
            else:
                return found

    def _selected(self, operand: Node, offset: int) -> Node:
        """What stands behind a dot: a field, an optional field, or a call."""
        if self._took("?"):
            name = self._take("name")
            return Call(offset, "_?._", None, (operand, Literal(name.offset, STRING, name.text, name.text)))
        if self._next() == "quoted":
            return self._pass(SyntaxIssue(self._take("quoted").offset, "unsupported syntax: '`'"))
        if self._next() != "name":
            word = self._words[self._at]
            if word.kind in ("true", "false", "null", "in"):
                raise self._refused(word, f"mismatched input '{word.text}' expecting IDENTIFIER")
            raise self._no_alternative(offset, word)
        name = self._take("name")
        if self._next() != "(":
            return Select(offset, operand, name.text)
        opening = self._take("(").offset
        arguments = self._arguments()
        try:
            if self._has_bindings and is_binding(name.text, operand, arguments):
                return bind(opening, *arguments)
            return expand(opening, name.text, operand, arguments)
        except SyntaxIssue as error:
            return self._pass(error)

    def _no_alternative(self, dot: int, word: Token) -> SyntaxIssue:
        """No rule goes on like this behind a dot. What stands between is told too."""
        end = word.offset + (0 if word.kind == "end" else len(word.text))
        seen = self._source[dot:end].replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
        return self._refused(word, f"no viable alternative at input '{seen}'")

    def _arguments(self) -> tuple[Node, ...]:
        """Arguments up to the closing parenthesis."""
        found: list[Node] = []
        if self._took(")"):
            return ()
        with self._inside(")", ","):
            found.append(self._expression())
            while self._took(","):
                found.append(self._expression())
        self._take(")", follows=self._follow)
        return tuple(found)

    def _primary(self) -> Node:
        kind = self._next()
        if kind == "(":
            self._at += 1
            with self._inside(")"):
                found = self._expression()
            self._take(")", follows=self._follow)
            return found
        if kind == "[":
            return self._list()
        if kind == "{":
            return self._map()
        if kind in ("name", "."):
            return self._named()
        return self._literal()

    def _literal(self) -> Node:
        offset = self._words[self._at].offset
        negative = self._took("-")
        word = self._take("int", "double") if negative else self._words[self._at]
        if negative:
            self._at -= 1
        if word.kind not in _LITERALS:
            raise self._refused(word, f"mismatched input '{word.text}' expecting {_BEGINNINGS}")
        self._at += 1
        if not _is_in_range(word, negative):
            return self._pass(SyntaxIssue(offset, f"invalid {word.kind} literal"))
        try:
            value = literal_value(word, negative=negative)
        except ValueError:
            return self._pass(SyntaxIssue(offset, "invalid unicode code point"))
        return Literal(offset, _LITERALS[word.kind], value if word.kind == "string" else "", value)

    def _named(self) -> Node:
        """A name, a call, or a new object."""
        dot = self._words[self._at].offset
        leading = "." if self._took(".") else ""
        if leading and self._next() != "name":
            raise self._no_alternative(dot, self._words[self._at])
        if self._begins_struct():
            return self._struct(leading)
        name = self._take("name")
        if name.text in RESERVED:
            return self._pass(SyntaxIssue(name.offset, f"reserved identifier: {name.text}"))
        if self._next() == "(":
            opening = self._take("(").offset
            arguments = self._arguments()
            try:
                return expand(opening, leading + name.text, None, arguments)
            except SyntaxIssue as error:
                return self._pass(error)
        return Ident(name.offset, leading + name.text)

    def _begins_struct(self) -> bool:
        """Whether a dotted name and an opening brace follow."""
        ahead = 1
        while self._next(ahead) == "." and self._next(ahead + 1) == "name":
            ahead += 2
        return self._next() == "name" and self._next(ahead) == "{"

    def _struct(self, leading: str) -> Node:
        name = leading + self._take("name").text
        while self._took("."):
            name += f".{self._take('name').text}"
        offset = self._take("{").offset
        fields: list[FieldValue] = []
        if self._next() not in ("}", "?", "name"):
            word = self._words[self._at]
            wanted = "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"
            raise self._refused(word, f"mismatched input '{word.text}' expecting {wanted}")
        while self._next() != "}":
            optional = self._took("?")
            field = self._take("name").text
            colon = self._take(":", follows=_BEGIN).offset
            with self._inside("}", ","):
                fields.append(FieldValue(colon, field, self._expression(), optional))
            if not self._took(","):
                self._close("}")
                break
            if self._next() not in ("?", "name"):
                self._take("}", follows=self._follow)
                break
        else:
            self._take("}")
        return StructLiteral(offset, name, tuple(fields))

    def _list(self) -> Node:
        offset = self._take("[").offset
        items: list[Node] = []
        optional: set[int] = set()
        while self._next() != "]":
            if self._took("?"):
                optional.add(len(items))
            with self._inside("]", ","):
                items.append(self._expression())
            if not self._took(","):
                self._close("]")
                break
            if self._next() == "end":
                self._take("]", follows=self._follow)
                break
        else:
            self._take("]")
        return ListLiteral(offset, tuple(items), frozenset(optional))

    def _map(self) -> Node:
        offset = self._take("{").offset
        entries: list[Entry] = []
        while self._next() != "}":
            optional = self._took("?")
            with self._inside(":"):
                key = self._expression()
            colon = self._take(":", follows=_BEGIN).offset
            with self._inside("}", ","):
                entries.append(Entry(colon, key, self._expression(), optional))
            if not self._took(","):
                break
        self._close("}")
        return MapLiteral(offset, tuple(entries))
