"""YAML as Kubernetes reads and writes it.

Kubernetes uses YAML 1.1 as go-yaml understands it: `y` and `n` are booleans, keys of any type become JSON strings, and on the way out every text
that could be read as something else stands in double quotes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import msgspec
import yaml

from bayplan.api.json.nesting import EXCEEDED, MAX_DEPTH
from bayplan.apiserver.yaml.reading import read_document
from bayplan.apiserver.yaml.scalars import YamlProblem

_TOO_DEEP = "exceeded maximum nesting depth"
"""What newer libyaml says of what is nested thousands of times, which it reads ahead of who counts."""
_AMBIGUOUS = re.compile(
    r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])*|([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?|\.inf|\.Inf|\.INF)"
    r"|\.nan|\.NaN|\.NAN|~|null|Null|NULL||<<"
    r"|[yYnN]|(yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|true|True|TRUE|false|False|FALSE)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"([Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.][0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.][0-9]+)?)?"
)


_Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_READINGS: Final[dict[str, list[tuple[str, re.Pattern[str]]]]] = _Dumper.yaml_implicit_resolvers
"""First letter of a text -> what readers of YAML may take it for."""
_represent_float: Final = yaml.representer.SafeRepresenter().represent_float


def to_yaml(data: bytes) -> bytes:
    """JSON as YAML, keys in order of the alphabet, texts in the style that go-yaml chooses, lists not indented.

    Events go to libyaml's emitter as they come: the nodes that `yaml.dump` makes of a tree first take twice as long as all else.
    """
    text = io.StringIO()
    emit = _Dumper(text, width=80, allow_unicode=True).emit
    emit(yaml.StreamStartEvent())
    emit(yaml.DocumentStartEvent(explicit=False))
    for event in _events(msgspec.json.decode(data)):
        emit(event)
    emit(yaml.DocumentEndEvent(explicit=False))
    emit(yaml.StreamEndEvent())
    return text.getvalue().encode()


def _events(tree: Any) -> Iterator[yaml.Event]:
    """Of a tree of JSON, without recursion."""
    open_ones: list[tuple[Iterator[Any], yaml.Event]] = [(iter((tree,)), yaml.StreamEndEvent())]
    while open_ones:
        values, end = open_ones[-1]
        for value in values:
            kind = value.__class__
            if kind is dict:
                yield yaml.MappingStartEvent(None, None, True, flow_style=False)
                members = chain.from_iterable(sorted(value.items()))
                open_ones.append((members, yaml.MappingEndEvent()))
                break
            if kind is list:
                yield yaml.SequenceStartEvent(None, None, True, flow_style=False)
                open_ones.append((iter(value), yaml.SequenceEndEvent()))
                break
            yield _text(value) if kind is str else yaml.ScalarEvent(None, None, (True, False), _number_or_word(value))
        else:
            open_ones.pop()
            if open_ones:
                yield end


def _text(value: str) -> yaml.Event:
    style = "|" if "\n" in value else '"' if _AMBIGUOUS.fullmatch(value) else None
    readings = _READINGS.get(value[:1])
    is_plain = style is None and not (readings and any(form.match(value) for _, form in readings))
    return yaml.ScalarEvent(None, None, (is_plain, True), value, style=style)


def _number_or_word(value: float | None) -> str:
    if isinstance(value, float):
        return str(_represent_float(value).value)
    return "null" if value is None else str(value).lower()


def to_json(data: bytes) -> bytes:
    """The first document of a YAML stream as JSON, names in order as Go writes them. Raises yaml.YAMLError."""
    return msgspec.json.encode(read_document(data).tree, order="sorted")


def problem_text(error: yaml.YAMLError) -> str:
    """What is wrong with a document, worded as go-yaml does."""
    if isinstance(error, YamlProblem):
        return str(error)
    if isinstance(error, yaml.reader.ReaderError):
        return f"yaml: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"yaml: {error}"
    mark = next((one for one in (error.problem_mark, error.context_mark) if one is not None and one.line), None)
    counts_one_more = isinstance(error, yaml.scanner.ScannerError) and mark is error.problem_mark
    line = mark.line + counts_one_more if mark is not None else 0
    where = f"line {line}: " if line else ""
    problem = f"{EXCEEDED} of {MAX_DEPTH}" if error.problem == _TOO_DEEP else error.problem
    return f"yaml: {where}{problem}"


def repeated_keys(data: bytes) -> str:
    """Which keys a mapping of this YAML document (or JSON, which is YAML) has twice, worded as go-yaml does; "" if none. Raises yaml.YAMLError."""
    found = read_document(data).repeated
    return "\n".join(["yaml: unmarshal errors:", *found]) if found else ""
