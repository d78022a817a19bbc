"""Read how Go shows objects of Kubernetes' internal types, and write it to `src/bayplan/api/types/internal_structs.json`.

    python -m tools.extract_internal_structs --source DIR

DIR is a checkout of kubernetes/kubernetes at the release that Bayplan targets. Some messages of validation contain a whole object of an internal type,
whose fields have Go's names, and an order of their own: `{"Name":"a","HostPath":null,...}`. Only names of fields are taken, and only of structs that the
published type does not tell them of; run this script only when the target release changes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import re
import sys

import msgspec

from bayplan.api.validation.go_structs import published_names

TYPES = pathlib.Path(__file__).parent.parent / "src" / "bayplan" / "api" / "types"
TARGET = TYPES / "internal_structs.json"
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^\t(?:(\w+(?:, \w+)*)\s+)?([*\[\]\w.]+)(?:\s+`.*`)?\s*(?://.*)?$", re.M)
_METADATA = ("ObjectMeta", "TypeMeta", "ListMeta")
"""Embedded structs whose fields have JSON names, for internal types too."""


def structs_of(text: str) -> dict[str, list[tuple[str, str]]]:
    """The structs of one Go file: name and type of each field; the name of an embedded struct is ""."""
    return {
        name: [(field, go_type) for names, go_type in _FIELD.findall(body) for field in names.split(", ")]
        for name, body in _STRUCT.findall(text)
    }


def flattened(structs: dict[str, list[tuple[str, str]]], name: str) -> list[str]:
    """The names of a struct's fields as JSON shows them: those of embedded structs among its own."""
    shown: list[str] = []
    for field, go_type in structs[name]:
        embedded = go_type.rpartition(".")[2]
        if field:
            shown.append(field)
        elif embedded in _METADATA:
            shown += [embedded] if embedded == "ObjectMeta" else []
        else:
            shown += flattened(structs, embedded)
    return shown


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, type=pathlib.Path, metavar="DIR")
    source = parser.parse_args().source
    facts: dict[str, str] = {}
    for path in sorted(TYPES.glob("*_v*.py")):
        group, _, version = path.stem.partition("_")
        internal = source / "pkg" / "apis" / group / "types.go"
        if not internal.exists() or version not in ("v1", "v2"):
            continue
        structs = structs_of(internal.read_text())
        module = importlib.import_module(f"bayplan.api.types.{path.stem}")
        for name, cls in vars(module).items():
            if name not in structs or not isinstance(cls, type) or not issubclass(cls, msgspec.Struct):
                continue
            if "api_version" in cls.__struct_fields__:  # messages show parts of objects
                continue
            names = flattened(structs, name)
            if names != published_names(cls):
                facts[f"{path.stem}.{name}"] = " ".join(names)
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(facts.items()))
    TARGET.write_text(f"{{\n{rows}\n}}\n")
    print(f"{len(facts)} structs, {TARGET.stat().st_size} bytes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
