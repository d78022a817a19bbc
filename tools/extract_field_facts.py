"""Read what the published OpenAPI definitions leave out from the Go sources of the Kubernetes API, and write it to `tools/field_facts.json`.

    python -m tools.extract_field_facts --source DIR... [--definitions FILE] [--add]

Each DIR is a checkout of kubernetes/api, kubernetes/apimachinery, kubernetes/apiextensions-apiserver or kubernetes/kube-aggregator at the release
that Bayplan targets. Only facts are taken: for every field its place in the struct, whether it is a pointer, when it is left out of JSON, its protobuf
field number and wire type, the name of its Go type, and the inlined structs that it comes from; besides, what lists and maps that have a name in Go are made
of. `tools/generate_api.py` needs them; run this script only when the target release changes.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys

DEFINITION_PREFIX = {
    "k8s.io/api": "io.k8s.api",
    "k8s.io/apimachinery": "io.k8s.apimachinery",
    "k8s.io/apiextensions-apiserver": "io.k8s.apiextensions-apiserver",
    "k8s.io/kube-aggregator": "io.k8s.kube-aggregator",
}
STRUCT = re.compile(r"^type (\w+) struct \{")
LIST = re.compile(r"^type (\w+) \[\]", re.M)
FIELD = re.compile(r"^\s+(?:(\w+)\s+)?([*\[\]\w.]+)\s+`(.*)`")
ALIAS = re.compile(r"^type (\w+) = (\w+)\.(\w+)$", re.M)
NAMED = re.compile(r"^type (\w+) ((?:\[\]|map\[)\S+)", re.M)
IMPORT = re.compile(r'^\s*(?:import\s+)?(\w+)?\s*"([\w./-]+)"$', re.M)
GO_NAME = re.compile(r"\b(?:(\w+)\.)?([A-Z]\w*)\b")
JSON_TAG = re.compile(r'json:"([^"]*)"')
PROTOBUF_TAG = re.compile(r'protobuf:"([^"]*)"')

Field = tuple[str, str, str, int, str, str]
"""JSON name ("" for an inlined struct), Go type, options of the json tag, protobuf number (0: none), protobuf wire type, the Go type as Go's messages
name it."""
NAMED_LIST: list[Field] = [("items", "[]", "", 1, "bytes", "")]
"""What stands for a list that has a name in Go: in protobuf it is a message of its own."""


def shown_type(go_type: str, package: str, imports: dict[str, str]) -> str:
    """A type as Go's messages name it: `[]v1.Container`, without the star of a pointer."""

    def qualified(match: re.Match[str]) -> str:
        return f"{imports.get(match[1], match[1]) if match[1] else package}.{match[2]}"

    return GO_NAME.sub(qualified, go_type.removeprefix("*")).replace("[]byte", "[]uint8")


def imports_of(text: str) -> dict[str, str]:
    """The names by which one Go file knows packages -> the packages' own names."""
    return {alias or path.rpartition("/")[2]: path.rpartition("/")[2] for alias, path in IMPORT.findall(text)}


def named_of(text: str, package: str) -> dict[str, str]:
    """The lists and maps that one Go file gives a name: `v1.ResourceList` -> `map[v1.ResourceName]resource.Quantity`."""
    imports = imports_of(text)
    return {f"{package}.{name}": shown_type(go_type, package, imports) for name, go_type in NAMED.findall(text)}


def parse_structs(text: str, package: str) -> dict[str, list[Field]]:
    """The structs of one Go file: name -> fields in order. Lists that have a name are there, too."""
    imports = imports_of(text)
    structs: dict[str, list[Field]] = dict.fromkeys(LIST.findall(text), NAMED_LIST)
    current: list[Field] | None = None
    for line in text.splitlines():
        start = STRUCT.match(line)
        if start:
            current = structs.setdefault(start[1], [])
        elif line.startswith("}"):
            current = None
        elif current is not None and (field := FIELD.match(line)):
            tag = JSON_TAG.search(field[3])
            if tag is None:
                continue
            name, _, options = tag[1].partition(",")
            protobuf = PROTOBUF_TAG.search(field[3])
            wire, number = protobuf[1].split(",")[:2] if protobuf else ("", "0")
            shown = shown_type(field[2], package, imports)
            current.append((name, field[2], options, int(number) if number.isdigit() else 0, wire, shown))
    return structs


def flags_of(go_type: str, options: str) -> str:
    """p: pointer, o: omitempty, z: omitzero."""
    marks = "p" if go_type.startswith("*") else ""
    marks += "o" if "omitempty" in options else ""
    return marks + ("z" if "omitzero" in options else "")


def flatten(structs: dict[str, list[Field]], name: str) -> list[list[str | int]]:
    """Fields of a struct as JSON shows them: inlined structs replaced by their fields, which keep the number of the inlined message in front, as named
    lists do, and say in which structs they were."""
    rows: list[list[str | int]] = []
    for json_name, go_type, options, number, wire, shown in structs[name]:
        bare = go_type.lstrip("*").rsplit(".", 1)[-1]
        if json_name == "-":
            continue
        if json_name:
            inner = ".1" if structs.get(go_type) is NAMED_LIST and number else ""
            rows.append([json_name, flags_of(go_type, options), f"{number}{inner}", wire, shown, ""])
        elif bare != "TypeMeta" and bare in structs:
            rows += [
                [row[0], row[1], f"{number}.{row[2]}" if number else row[2], row[3], row[4], f"{bare}.{row[5]}"]
                for row in flatten(structs, bare)
            ]
        elif bare == "TypeMeta":
            rows += [[name, "o", "0", "", "string", "TypeMeta."] for name in ("kind", "apiVersion")]
    return rows


def facts_of(source: pathlib.Path) -> tuple[dict[str, list[list[str | int]]], dict[str, str]]:
    """Every struct of a checkout: OpenAPI definition name -> [JSON name, flags, protobuf number(s), protobuf wire type, Go type, inlined structs with a dot
    behind each] in Go order; and what its named lists and maps are made of."""
    module = re.search(r"^module (\S+)", (source / "go.mod").read_text(), re.M)
    if module is None or module[1] not in DEFINITION_PREFIX:
        raise SystemExit(f"{source}: not a checkout of one of {', '.join(DEFINITION_PREFIX)}")
    packages: dict[str, dict[str, list[Field]]] = {}
    aliases: dict[tuple[str, str], tuple[str, str]] = {}
    named: dict[str, str] = {}
    for path in sorted(source.rglob("*.go")):
        if path.name.endswith("_test.go") or path.name.startswith(("zz_", "generated")):
            continue
        folder = ".".join(path.parent.relative_to(source).parts)
        text, package = path.read_text(), path.parent.name
        packages.setdefault(folder, {}).update(parse_structs(text, package))
        named |= named_of(text, package)
        paths = {alias or path.rpartition("/")[2]: path for alias, path in IMPORT.findall(text)}
        for name, other, target in ALIAS.findall(text):
            imported = paths.get(other, "").removeprefix(f"{module[1]}/").replace("/", ".")
            aliases[folder, name] = (imported, target)
    inlined = {
        folder: {name: packages[there][what] for (at, name), (there, what) in aliases.items() if at == folder and what in packages.get(there, {})}
        for folder in packages
    }  # fmt: skip
    """Structs of other packages by the names that a package gives them."""
    prefix = DEFINITION_PREFIX[module[1]]
    facts = {
        f"{prefix}.{folder}.{name}": flatten(inlined[folder] | structs, name)
        for folder, structs in packages.items()
        for name in sorted(structs)
        if structs[name] and structs[name] is not NAMED_LIST
    }
    return facts, named


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", action="append", required=True, type=pathlib.Path, metavar="DIR")
    parser.add_argument(
        "--definitions", type=pathlib.Path, help="keep only structs that this OpenAPI definitions file names"
    )
    parser.add_argument("--add", action="store_true", help="keep what the file says of other structs")
    options = parser.parse_args()
    facts: dict[str, list[list[str | int]]] = {}
    named: dict[str, str] = {}
    for source in options.source:
        found, lists = facts_of(source)
        facts |= found
        named |= lists
    if options.definitions:
        wanted = json.loads(options.definitions.read_text())["$defs"]
        print("without facts:", sorted(wanted.keys() - facts.keys()), file=sys.stderr)
        facts = {name: facts[name] for name in sorted(facts) if name in wanted}
    target = pathlib.Path(__file__).parent / "field_facts.json"
    if options.add:
        known = json.loads(target.read_text())
        named = dict(known.pop("named")) | named
        facts = dict(sorted((facts | known).items()))
    used = {str(row[4]) for fields in facts.values() for row in fields}
    rows = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(fields, separators=(',', ':'))}"
        for name, fields in {"named": sorted(item for item in named.items() if item[0] in used), **facts}.items()
    )
    target.write_text("{\n" + rows + "\n}\n")
    print(f"{len(facts)} structs, {sum(map(len, facts.values()))} fields", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
