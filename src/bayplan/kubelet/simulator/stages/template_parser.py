"""From the text of a Go template to a tree: what of `text/template` occurs in descriptions of what simulated objects do.

    text {{ action }} text        action: pipeline | $x := pipeline | $x = pipeline | if | range | with | else | end
    pipeline: command | command   command: function or value, and arguments     value: .a.b  $x.a  "text"  `text`  12  true  nil  ( pipeline ).a

`define`, `template`, `block`, `break` and `continue` are refused with their line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

_ACTION = re.compile(r"\{\{(-(?=\s))?(.*?)((?<=\s)-)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<number>[-+]?\d+(?:\.\d+)?)|(?P<variable>\$\w*)
    |(?P<field>\.\w+)|(?P<word>\w+)|(?P<sign>:=|=|\||\(|\)|,|\.))""",
    re.VERBOSE,
)
_REFUSED = frozenset(("define", "template", "block", "break", "continue"))


class TemplateError(ValueError):
    """A template cannot be understood or carried out; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value: `base` is "dot", "root", a variable's name, "literal" or a pipeline; then fields."""

    base: Any
    fields: tuple[str, ...] = ()
    literal: Any = None


@dataclass(frozen=True, slots=True)
class Command:
    """A function with arguments, or a single value."""

    function: str
    arguments: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each of which gets the result of the one before it as its last argument."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """Text as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Print:
    """The result of a pipeline."""

    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class Assign:
    """A variable gets a value; `new` if it is declared here."""

    name: str
    pipeline: Pipeline
    new: bool


@dataclass(slots=True)
class Branch:
    """`if`, `range` or `with`, and what comes instead."""

    kind: str
    pipeline: Pipeline
    variables: tuple[str, ...] = ()
    body: list[Any] = field(default_factory=list)
    instead: list[Any] = field(default_factory=list)


def parse(text: str, functions: Collection[str]) -> list[Any]:
    """The tree of a template that uses no other functions than these. Raises TemplateError."""
    parser = _Parser(text, functions)
    nodes, end = parser.block()
    if end:
        raise TemplateError(f"line {parser.line}: unexpected {{{{{end}}}}}")
    return nodes


class _Parser:
    def __init__(self, text: str, functions: Collection[str]) -> None:
        self._functions = functions
        self._pieces = _pieces(text)
        self.line = 1
        self._else = ""
        """What follows `else` in the action that ended the last block: `if ...`, or nothing."""

    def block(self) -> tuple[list[Any], str]:
        """Nodes up to an action that ends them, and the word of that action; "" at the end of the text."""
        nodes: list[Any] = []
        for line, is_action, piece in self._pieces:
            self.line = line
            if not is_action:
                nodes.append(Text(piece))
                continue
            word, _, rest = piece.partition(" ")
            if word in ("end", "else"):
                self._else = rest.strip()
                return nodes, word
            if word in _REFUSED:
                raise TemplateError(f"line {self.line}: {word} is not supported")
            nodes.append(self._branch(word, rest) if word in ("if", "range", "with") else self._simple(piece))
        return nodes, ""

    def _branch(self, kind: str, rest: str) -> Branch:
        line, tokens = self.line, _Tokens(rest, self.line)
        variables: list[str] = []
        if ":=" in rest:
            while tokens.kind == "variable":
                variables.append(tokens.take())
                if tokens.text == ",":
                    tokens.take()
            tokens.expect(":=")
        branch = Branch(kind, self._pipeline(tokens), tuple(variables))
        tokens.expect_end()
        branch.body, end = self.block()
        if end == "else":
            word, _, more = self._else.partition(" ")
            if word in ("if", "with"):
                branch.instead = [self._branch(word, more)]
                return branch
            branch.instead, end = self.block()
        if end != "end":
            raise TemplateError(f"line {line}: {kind} has no end")
        return branch

    def _simple(self, piece: str) -> Print | Assign:
        tokens = _Tokens(piece, self.line)
        if tokens.kind == "variable" and tokens.following in (":=", "="):
            name = tokens.take()
            new = tokens.take() == ":="
            found: Print | Assign = Assign(name, self._pipeline(tokens), new)
        else:
            found = Print(self._pipeline(tokens))
        tokens.expect_end()
        return found

    def _pipeline(self, tokens: _Tokens) -> Pipeline:
        commands = [self._command(tokens)]
        while tokens.text == "|" and tokens.kind == "sign":
            tokens.take()
            commands.append(self._command(tokens))
        return Pipeline(tuple(commands))

    def _command(self, tokens: _Tokens) -> Command:
        function = ""
        if tokens.kind == "word" and tokens.text not in ("true", "false", "nil"):
            function = tokens.take()
            if function not in self._functions:
                known = ", ".join(sorted(self._functions))
                raise TemplateError(f"line {tokens.line}: function {function!r} is not supported; supported: {known}")
        arguments = []
        while (tokens.kind and tokens.text not in ("|", ")")) or tokens.kind == "string":
            arguments.append(self._value(tokens))
        if not function and len(arguments) != 1:
            raise TemplateError(f"line {tokens.line}: expected one value in {tokens.source!r}")
        return Command(function, tuple(arguments))

    def _value(self, tokens: _Tokens) -> Value:
        kind, text = tokens.kind, tokens.take()
        if kind == "string":
            return Value("literal", literal=json.loads(text, strict=False) if text[0] == '"' else text[1:-1])
        if kind == "number":
            return Value("literal", literal=float(text) if "." in text else int(text))
        if kind == "word" and text in ("true", "false", "nil"):
            return Value("literal", literal={"true": True, "false": False, "nil": None}[text])
        if kind == "word":  # a function without arguments, as an argument
            if text not in self._functions:
                raise TemplateError(f"line {tokens.line}: function {text!r} is not supported")
            return Value(Pipeline((Command(text, ()),)))
        if kind == "field":
            return Value("dot", (text[1:], *tokens.take_fields()))
        if kind == "variable":
            return Value("root" if text == "$" else text, tokens.take_fields())
        if text == ".":
            return Value("dot")
        if text == "(":
            inner = self._pipeline(tokens)
            tokens.expect(")")
            return Value(inner, tokens.take_fields())
        raise TemplateError(f"line {tokens.line}: unexpected {text!r} in {tokens.source!r}")


class _Tokens:
    """The words of one action."""

    def __init__(self, source: str, line: int) -> None:
        self.source, self.line = source, line
        self._tokens: list[tuple[str, str, bool]] = []
        """(kind, text, whether it touches what stands before it)."""
        position = 0
        while source[position:].strip():
            match = _TOKEN.match(source, position)
            if match is None:
                raise TemplateError(f"line {line}: cannot read {source[position:].strip()!r}")
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind], match.start(kind) == position))
            position = match.end()
        self._next = 0

    @property
    def kind(self) -> str:
        """What the next token is; "" at the end."""
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    @property
    def text(self) -> str:
        """The next token."""
        return self._tokens[self._next][1] if self._next < len(self._tokens) else ""

    @property
    def following(self) -> str:
        """The one after it."""
        return self._tokens[self._next + 1][1] if self._next + 1 < len(self._tokens) else ""

    def take(self) -> str:
        """The next token, which is done with. Raises TemplateError at the end."""
        if not self.kind:
            raise TemplateError(f"line {self.line}: {self.source!r} ends too early")
        self._next += 1
        return self._tokens[self._next - 1][1]

    def take_fields(self) -> tuple[str, ...]:
        """Fields that stand directly behind a value."""
        found = []
        while self.kind == "field" and self._tokens[self._next][2]:
            found.append(self.take()[1:])
        return tuple(found)

    def expect(self, text: str) -> None:
        """Raises TemplateError if something else comes next."""
        if self.text != text:
            raise TemplateError(f"line {self.line}: expected {text!r} in {self.source!r}")
        self.take()

    def expect_end(self) -> None:
        """Raises TemplateError if something is left."""
        if self.kind:
            raise TemplateError(f"line {self.line}: unexpected {self.text!r} in {self.source!r}")


def _pieces(text: str) -> Iterator[tuple[int, bool, str]]:
    """(line, whether it is an action, text) one after the other; white space that actions trim is gone, comments too."""
    position, trim_left = 0, False
    for match in _ACTION.finditer(text):
        before = text[position : match.start()]
        before = before.lstrip() if trim_left else before
        before = before.rstrip() if match[1] else before
        line = text.count("\n", 0, match.start()) + 1
        if before:
            yield line, False, before
        action = match[2].strip()
        if not action.startswith("/*"):
            yield line, True, " ".join(action.split()) if '"' not in action and "`" not in action else action
        position, trim_left = match.end(), bool(match[3])
    rest = text[position:]
    if "{{" in rest:
        raise TemplateError(f"line {text.count(chr(10), 0, position) + 1}: an action is not closed")
    rest = rest.lstrip() if trim_left else rest
    if rest:
        yield text.count("\n", 0, position) + 1, False, rest
