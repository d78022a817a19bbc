"""Read what the published OpenAPI definitions leave out of the documents that a server gives, and write it to `tools/openapi_facts.json`.

    python -m tools.extract_openapi_facts --source DIR

DIR is a checkout of kubernetes/kubernetes at the release that Bayplan targets. The published definitions are made without defaults and enumerations; a
server's have them. Taken are, for every definition that is published: the default and the values of each field and what the values mean, and the
descriptions of the two scalars that have none; besides, the name, type and description of each query parameter, which are fields of Go's options.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
from typing import Any

from tools.generate_api import published

OPENAPI_FILES = (
    "pkg/generated/openapi/zz_generated.openapi.go",
    "staging/src/k8s.io/apiextensions-apiserver/pkg/generated/openapi/zz_generated.openapi.go",
    "staging/src/k8s.io/kube-aggregator/pkg/generated/openapi/zz_generated.openapi.go",
)
TEXT_FILES = (
    "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types_swagger_doc_generated.go",
    "staging/src/k8s.io/api/core/v1/types_swagger_doc_generated.go",
)
OPTIONS = (
    "CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "NodeProxyOptions", "PatchOptions", "PodAttachOptions", "PodExecOptions",
    "PodLogOptions", "PodPortForwardOptions", "PodProxyOptions", "ServiceProxyOptions", "UpdateOptions",
)  # fmt: skip
ENUM_TEXT = "Possible enum values:\n"
PROPERTY = re.compile(r'^\t{5}"([^"]+)": \{')
MEMBER = re.compile(r"^(\t+)(Description|Default|Enum|Type):\s+(.*),$")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
CONSTANTS = {"corev1.AzureSharedBlobDisk": "Shared", "corev1.AzureDataDiskCachingReadWrite": "ReadWrite"}


def value_of(text: str) -> Any:
    """What a Go literal stands for."""
    if text in CONSTANTS:
        return CONSTANTS[text]
    return {} if text.startswith("map[") else json.loads(text)


def functions_of(text: str) -> dict[str, str]:
    """The functions that make definitions: `core_v1_Pod` -> their lines."""
    parts = re.split(r"^func schema_(\w+)\(ref", text, flags=re.M)
    return {"_".join(name.split("_")[-3:]): body for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def fields_of(body: str) -> dict[str, dict[str, Any]]:
    """Every field of a definition: its own members, and under "inner" the values of its items or of its map."""
    fields: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] = {}
    for line in body.splitlines():
        if start := PROPERTY.match(line):
            current = fields[start[1]] = {}
        elif line.startswith("\t\t\t\t}"):
            current = {}
        elif member := MEMBER.match(line):
            depth, name, text = len(member[1]), member[2], member[3]
            place = current if depth == 7 else current.setdefault("inner", {})
            if name == "Enum":
                place["enum"] = [json.loads(one) for one in STRING.findall(text)]
            elif name == "Type" and (kinds := STRING.findall(text)):
                place["type"] = json.loads(kinds[0])
            elif name == "Default":
                place["default"] = value_of(text)
            elif name == "Description" and depth == 7:
                place["description"] = json.loads(text)
    return fields


def facts_of(body: str) -> dict[str, dict[str, Any]]:
    """The defaults and values of a definition's fields."""
    found: dict[str, dict[str, Any]] = {}
    for name, field in sorted(fields_of(body).items()):
        row: dict[str, Any] = {key: field[key] for key in ("default", "enum") if key in field}
        if "enum" in field.get("inner", {}):
            row["inner"] = {"enum": field["inner"]["enum"]}
        text, heading, meaning = field.get("description", "").partition(ENUM_TEXT)
        if meaning:
            row["values"] = text[len(text.rstrip()) :] + heading + meaning
        if row:
            found[name] = row
    return found


def option_texts(text: str) -> dict[str, dict[str, str]]:
    """The descriptions of the fields of each type."""
    found = {}
    for name, body in re.findall(r"^var map_(\w+) = map\[string\]string\{\n(.*?)^\}", text, re.M | re.S):
        rows = re.findall(r'^\t("[^"]*"):\s+("(?:[^"\\]|\\.)*"),$', body, re.M)
        found[name] = {json.loads(field): json.loads(meaning) for field, meaning in rows}
    return found


def parameters_of(body: str, texts: dict[str, str]) -> dict[str, list[str]]:
    """The fields of options that are query parameters: name -> type and description."""
    found = {}
    for name, field in sorted(fields_of(body).items()):
        kind = field.get("inner", field).get("type") if field.get("type") == "array" else field.get("type")
        if name not in ("kind", "apiVersion") and kind in ("string", "boolean", "integer"):
            found[name] = [kind, texts[name]]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, type=pathlib.Path, metavar="DIR")
    source = parser.parse_args().source
    functions: dict[str, str] = {}
    for file in reversed(OPENAPI_FILES):
        functions |= functions_of((source / file).read_text())
    texts: dict[str, dict[str, str]] = {}
    for file in TEXT_FILES:
        texts |= option_texts((source / file).read_text())
    definitions: dict[str, Any] = {}
    for name, schema in sorted(published().items()):
        body = functions.get("_".join(name.split(".")[-3:]), "")
        row: dict[str, Any] = {"properties": fields} if (fields := facts_of(body)) else {}
        if "oneOf" in schema and (description := re.search(r"Description: (\".*\"),$", body, re.M)):
            row["description"] = json.loads(description[1])
        if row:
            definitions[name] = row
    by_type = {
        name.rpartition("_")[2]: body for name, body in functions.items() if name.startswith(("meta_v1_", "core_v1_"))
    }
    options = {name: parameters_of(by_type[name], texts[name]) for name in OPTIONS}
    target = pathlib.Path(__file__).parent / "openapi_facts.json"
    rows = [f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in definitions.items()]
    shown = [f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in options.items()]
    target.write_text('{"definitions":{\n' + ",\n".join(rows) + '\n},"options":{\n' + ",\n".join(shown) + "\n}}\n")
    print(f"{len(definitions)} definitions, {len(options)} options", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
