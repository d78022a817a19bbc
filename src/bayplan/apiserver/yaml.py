"""YAML as Kubernetes reads and writes it.

Kubernetes uses YAML 1.1 as go-yaml understands it: `y` and `n` are booleans, keys of any type become JSON strings, and on the way out every text
that could be read as something else stands in double quotes.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec
import yaml

from bayplan.api.codec import encode

_BOOLEANS = {"y": True, "yes": True, "on": True, "true": True, "n": False, "no": False, "off": False, "false": False}
_AMBIGUOUS = re.compile(
    r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])*|([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?|\.inf|\.Inf|\.INF)"
    r"|\.nan|\.NaN|\.NAN|~|null|Null|NULL||<<"
    r"|[yYnN]|(yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|true|True|TRUE|false|False|FALSE)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?"
)


@functools.cache
def _loader() -> Any:
    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Timestamps stay text; `y` and `n` are booleans."""

    Loader.yaml_implicit_resolvers = {
        first: [
            (tag, pattern)
            for tag, pattern in rows
            if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")
        ]
        for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    booleans = re.compile("^(?:y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", booleans, list("yYnNtTfFoO"))
    Loader.add_constructor(
        "tag:yaml.org,2002:bool", lambda loader, node: _BOOLEANS[loader.construct_scalar(node).lower()]
    )
    return Loader


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
    """A YAML document as JSON. Raises yaml.YAMLError."""
    loader = _loader()(data)
    try:
        return encode(_json_keys(loader.get_data()))  # of the first document; what follows is not looked at
    finally:
        loader.dispose()


def problem_text(error: yaml.YAMLError) -> str:
    """What is wrong with a document, worded as go-yaml does."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"yaml: {error}"
    mark = next((one for one in (error.context_mark, error.problem_mark) if one is not None and one.line), None)
    line = mark.line + isinstance(error, yaml.scanner.ScannerError) if mark is not None else 0
    where = f"line {line}: " if line else ""
    return f"yaml: {where}{error.problem}"


def repeated_keys(data: bytes) -> str:
    """Which keys a mapping of this YAML document (or JSON, which is YAML) has twice, worded as go-yaml does; "" if none. Raises yaml.YAMLError."""
    found: list[str] = []

    def walk(node: Any) -> None:
        if isinstance(node, yaml.MappingNode):
            seen: set[tuple[str, str]] = set()
            for key, value in node.value:
                identity = (key.tag, str(key.value))
                if identity in seen:
                    shown = f'"{key.value}"' if key.tag == "tag:yaml.org,2002:str" else key.value
                    found.append(f"  line {key.start_mark.line + 1}: key {shown} already set in map")
                seen.add(identity)
                walk(value)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                walk(item)

    loader = _loader()(data)
    try:
        if loader.check_node():
            walk(loader.get_node())
    finally:
        loader.dispose()
    return "\n".join(["yaml: unmarshal errors:", *found]) if found else ""


def _json_keys(tree: Any) -> Any:
    """Keys of YAML mappings as JSON strings: booleans and numbers become their text."""
    if isinstance(tree, dict):
        return {_key(key): _json_keys(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_json_keys(item) for item in tree]
    return _rounded(tree) if isinstance(tree, int) and not -(2**63) <= tree < 2**64 else tree


def _rounded(number: int) -> int | float | str:
    """A number too long for an integer, which is a float then, or no number at all; up to 21 digits it still is written as an integer."""
    try:
        as_float = float(number)
    except OverflowError:
        return str(number)
    return int(as_float) if abs(as_float) < 1e21 else as_float


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)
