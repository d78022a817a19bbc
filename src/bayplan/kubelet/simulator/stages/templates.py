"""Go templates carried out over plain data, with the functions that descriptions of simulated objects use.

Besides Go's own functions there are kwok's (`Quote`, `Now`, `YAML`, ...; those about nodes and pods are given by the caller) and those of sprig that are common.
Time is given, so that a template has one result.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from bayplan.kubelet.simulator.stages.template_parser import (
    Assign,
    Branch,
    Command,
    Pipeline,
    Print,
    TemplateError,
    Text,
    Value,
    parse,
)

Function = Callable[..., Any]


def is_true(value: Any) -> bool:
    """Go's idea: nothing, zero and what is empty are false."""
    return bool(value)


def show(value: Any) -> str:
    """A value as Go prints it."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{show(value[key])}' for key in sorted(value))}]"
    if isinstance(value, (list, tuple)):
        return f"[{' '.join(show(one) for one in value)}]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if value is None:
            return None
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(key, int) and 0 <= key < len(value):
            value = value[key]
        else:
            raise TemplateError(f"index out of range: {key}")
    return value


def _and(*values: Any) -> Any:
    return next((one for one in values if not is_true(one)), values[-1])


def _or(*values: Any) -> Any:
    return next((one for one in values if is_true(one)), values[-1])


def _equal(first: Any, *others: Any) -> bool:
    return any(type(first) is type(one) and first == one for one in others)


def _quote(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.startswith('"') else json.dumps(text, ensure_ascii=False)


def _yaml(value: Any, indent: int = 0) -> str:
    text = str(yaml.safe_dump(value, sort_keys=True, default_flow_style=False))
    return ("\n" + text).replace("\n", "\n" + "  " * indent) if indent > 0 else text


def _printf(form: str, *values: Any) -> str:
    parts = form.replace("%%", "\0").split("%")
    text, left = parts[0], list(values)
    for part in parts[1:]:
        if not left or part[:1] not in ("s", "v", "d", "q"):
            raise TemplateError(f"printf: cannot do %{part[:1]} in {form!r}")
        value = left.pop(0)
        text += (json.dumps(show(value)) if part[0] == "q" else show(value)) + part[1:]
    return text.replace("\0", "%")


def _dict(*pairs: Any) -> dict[str, Any]:
    return {str(key): value for key, value in zip(pairs[::2], pairs[1::2], strict=False)}


def _number(value: Any) -> int:
    try:
        return int(float(value or 0))
    except (TypeError, ValueError):
        return 0


FUNCTIONS: Mapping[str, Function] = {
    "and": _and,
    "or": _or,
    "not": lambda value: not is_true(value),
    "eq": _equal,
    "ne": lambda first, second: not _equal(first, second),
    "lt": lambda first, second: first < second,
    "le": lambda first, second: first <= second,
    "gt": lambda first, second: first > second,
    "ge": lambda first, second: first >= second,
    "len": lambda value: len(value or ()),
    "index": _index,
    "print": lambda *values: "".join(show(one) for one in values),
    "printf": _printf,
    "Quote": _quote,
    "YAML": _yaml,
    "Version": lambda: "v0.0.0-bayplan",
    "dict": _dict,
    "list": lambda *values: list(values),
    "default": lambda fallback, value=None: value if is_true(value) else fallback,
    "coalesce": lambda *values: next((one for one in values if is_true(one)), None),
    "empty": lambda value: not is_true(value),
    "ternary": lambda yes, no, condition: yes if is_true(condition) else no,
    "hasKey": lambda mapping, key: key in (mapping or {}),
    "get": lambda mapping, key: (mapping or {}).get(key, ""),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "quote": lambda *values: " ".join(json.dumps(show(one)) for one in values),
    "toString": show,
    "toJson": lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True),
    "toYaml": lambda value: _yaml(value).rstrip("\n"),
    "int": _number,
    "int64": _number,
    "atoi": _number,
    "add": lambda *values: sum(_number(one) for one in values),
    "sub": lambda first, second: _number(first) - _number(second),
    "mul": lambda first, second: _number(first) * _number(second),
    "mod": lambda first, second: _number(first) % _number(second),
    "upper": lambda text: str(text).upper(),
    "lower": lambda text: str(text).lower(),
    "trim": lambda text: str(text).strip(),
    "trimPrefix": lambda prefix, text: str(text).removeprefix(prefix),
    "trimSuffix": lambda suffix, text: str(text).removesuffix(suffix),
    "replace": lambda old, new, text: str(text).replace(old, new),
    "contains": lambda part, text: part in str(text),
    "hasPrefix": lambda prefix, text: str(text).startswith(prefix),
    "hasSuffix": lambda suffix, text: str(text).endswith(suffix),
    "join": lambda separator, values: separator.join(show(one) for one in values),
    "splitList": lambda separator, text: str(text).split(separator),
    "b64enc": lambda text: base64.b64encode(str(text).encode()).decode(),
    "indent": lambda count, text: "\n".join(" " * count + line for line in str(text).split("\n")),
    "nindent": lambda count, text: "\n" + "\n".join(" " * count + line for line in str(text).split("\n")),
}
"""What every template may use."""


class Template:
    """A template that has been read. `names`: further functions that are given when it is carried out. Raises TemplateError."""

    def __init__(self, text: str, names: Sequence[str] = ()) -> None:
        self._nodes = parse(text, {*FUNCTIONS, *names})

    def render(self, data: Any, functions: Mapping[str, Function]) -> str:
        """The text that it makes of data. Raises TemplateError."""
        return _Run(data, {**FUNCTIONS, **functions}).text(self._nodes, data)


class _Run:
    """One run of a template: its functions and variables."""

    def __init__(self, root: Any, functions: Mapping[str, Function]) -> None:
        self._root = root
        self._functions = functions
        self._scopes: list[dict[str, Any]] = [{}]

    def text(self, nodes: Sequence[Any], dot: Any) -> str:
        parts = []
        for node in nodes:
            if isinstance(node, Text):
                parts.append(node.text)
            elif isinstance(node, Print):
                parts.append(show(self._pipeline(node.pipeline, dot)))
            elif isinstance(node, Assign):
                self._assign(node, dot)
            else:
                parts.append(self._branch(node, dot))
        return "".join(parts)

    def _assign(self, node: Assign, dot: Any) -> None:
        value = self._pipeline(node.pipeline, dot)
        if node.new:
            self._scopes[-1][node.name] = value
            return
        for scope in reversed(self._scopes):
            if node.name in scope:
                scope[node.name] = value
                return
        raise TemplateError(f"undefined variable {node.name}")

    def _branch(self, node: Branch, dot: Any) -> str:
        value = self._pipeline(node.pipeline, dot)
        if node.kind == "range" and is_true(value):
            if not isinstance(value, (Mapping, list, tuple)):
                raise TemplateError(f"range can't iterate over {show(value)}")
            items = sorted(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
            return "".join(self._scope(node, node.body, item, (key, item)) for key, item in items)
        if is_true(value):
            return self._scope(node, node.body, value if node.kind == "with" else dot, (value,))
        return self._scope(node, node.instead, dot, (value,))

    def _scope(self, node: Branch, body: Sequence[Any], dot: Any, values: tuple[Any, ...]) -> str:
        names = node.variables
        self._scopes.append(dict(zip(names, values[-len(names) :] if names else (), strict=False)))
        try:
            return self.text(body, dot)
        finally:
            self._scopes.pop()

    def _pipeline(self, pipeline: Pipeline, dot: Any) -> Any:
        value: Any = None
        for number, command in enumerate(pipeline.commands):
            value = self._command(command, dot, (value,) if number else ())
        return value

    def _command(self, command: Command, dot: Any, piped: tuple[Any, ...]) -> Any:
        arguments = [self._value(one, dot) for one in command.arguments]
        if not command.function:
            return arguments[0]
        try:
            return self._functions[command.function](*arguments, *piped)
        except TemplateError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise TemplateError(f"{command.function}: {error}") from error

    def _value(self, value: Value, dot: Any) -> Any:
        found: Any
        if value.base == "literal":
            return value.literal
        if value.base == "dot":
            found = dot
        elif value.base == "root":
            found = self._root
        elif isinstance(value.base, Pipeline):
            found = self._pipeline(value.base, dot)
        else:
            scope = next((one for one in reversed(self._scopes) if value.base in one), None)
            if scope is None:
                raise TemplateError(f"undefined variable {value.base}")
            found = scope[value.base]
        for name in value.fields:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found
