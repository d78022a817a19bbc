"""YAML as Kubernetes reads and writes it.

Kubernetes uses YAML 1.1 as go-yaml understands it: `y` and `n` are booleans, keys of any type become JSON strings, and on the way out every text
that could be read as something else stands in double quotes.
"""

from __future__ import annotations

import re
from typing import Any

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


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Chooses the style of texts as go-yaml does; lists are not indented."""


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else '"' if _AMBIGUOUS.fullmatch(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)


_Dumper.add_representer(str, _text)


def to_yaml(data: bytes) -> bytes:
    """JSON as YAML, keys in order of the alphabet."""
    tree = msgspec.json.decode(data)
    text: str = yaml.dump(tree, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=True, width=80)
    return text.encode()


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
