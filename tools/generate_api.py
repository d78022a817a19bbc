"""Generate `bayplan.api.types` (the built-in kinds as msgspec structs) and its schema facts from the published OpenAPI definitions.

    python -m tools.generate_api            write the files
    python -m tools.generate_api --check    exit 1 if a file differs from what would be written

The definitions come with the development dependency `kubernetes-validate`; `tools/field_facts.json` (see `extract_field_facts.py`) adds what they do not
say: the order of fields, which ones are pointers and when Go leaves them out, and `tools/openapi_facts.json` (see `extract_openapi_facts.py`) what documents
of servers have besides. Both together give structs that encode as Kubernetes does:

    Go                                  here
    string, omitempty                   str = ""                      left out when empty
    string                              str, "" if missing            always written
    *string                             str | None = None             "" is kept apart from missing
    []T / map[string]T                  tuple[T, ...] = () / dict     left out when empty
    T (struct)                          T, made if missing            always written
    *T                                  T | None = None
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import keyword
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import kubernetes_validate

from bayplan.api.json.decode_problems import plain_type
from tools.own_fields import with_own_fields

RELEASE = "v1.36.0"
NEWER_RELEASE = "v1.37.0"
NEWER_KINDS = {
    "io.k8s.api.scheduling.v1alpha3": ("CompositePodGroup", "PodGroup", "Workload"),
    "io.k8s.api.scheduling.v1beta1": ("PodGroup", "Workload"),
}
"""Kinds that only the newer release has, which servers have when they are asked for."""
ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "bayplan" / "api" / "types"
FACTS: dict[str, list[tuple[str, str, str, str, str, str]]] = json.loads(
    (pathlib.Path(__file__).parent / "field_facts.json").read_text()
)
NAMED: dict[str, str] = dict(FACTS.pop("named"))  # type: ignore[arg-type]
KINDS_OF_GROUPS = re.compile(
    r"io\.k8s\.(?:api|apimachinery\.pkg\.apis|apiextensions-apiserver\.pkg\.apis|kube-aggregator\.pkg\.apis)\.(\w+)\.(v\w+)\.(\w+)"
)
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ("Quantity", '"0"'),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ("IntOrString", "0"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": ("Time", "None"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": ("MicroTime", "None"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": ("Raw", "NO_JSON"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch": ("Any", "None"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ("Any", "None"),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": ("Any", "None"),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": ("Any", "None"),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": ("Any", "None"),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": ("Any", "None"),
}
"""Definitions that are no structs: type alias in `bayplan.api.types.scalars`, and what a missing non-pointer is written as."""
NULL_LISTS = {
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus": ("currentMetrics",),
    "io.k8s.api.batch.v1.PodFailurePolicy": ("rules",),
    "io.k8s.api.core.v1.ContainerImage": ("names",),
    "io.k8s.api.core.v1.LimitRangeSpec": ("limits",),
    "io.k8s.api.core.v1.ProjectedVolumeSource": ("sources",),
    "io.k8s.api.discovery.v1.EndpointSlice": ("endpoints", "ports"),
    "io.k8s.api.flowcontrol.v1.ResourcePolicyRule": ("namespaces",),
    "io.k8s.api.rbac.v1.ClusterRole": ("rules",),
    "io.k8s.api.rbac.v1.Role": ("rules",),
    "io.k8s.api.resource.v1.AllocatedDeviceStatus": ("conditions",),
    "io.k8s.api.resource.v1.DeviceClaim": ("requests",),
    "io.k8s.api.resource.v1beta1.AllocatedDeviceStatus": ("conditions",),
    "io.k8s.api.resource.v1beta1.DeviceClaim": ("requests",),
    "io.k8s.api.resource.v1beta2.AllocatedDeviceStatus": ("conditions",),
    "io.k8s.api.resource.v1beta2.DeviceClaim": ("requests",),
    "io.k8s.api.storage.v1.CSINodeDriver": ("topologyKeys",),
    "io.k8s.api.storage.v1.CSINodeSpec": ("drivers",),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus": ("conditions",),
}
"""Always written lists that may be empty, which Kubernetes writes as null then; `codec.with_null_lists` knows them as well."""
KEPT_EMPTY_BYTES = {"io.k8s.api.admissionregistration.v1.WebhookClientConfig": ("caBundle",)}
"""Bytes of which Kubernetes' strategies tell empty from missing ones, although it shows neither."""
MODULE_OF_OTHERS = {"io.k8s.apimachinery.pkg.version.Info": ("meta_v1", "VersionInfo")}
BUILT_IN = {"bool", "int", "str", "float", "dict", "tuple"}
ZERO = {"str": '""', "Int64": "0", "Int32": "0", "float": "0.0", "bool": "False"}
BANNER = "# Generated by tools/generate_api.py from the OpenAPI definitions of Kubernetes {release}; do not edit.\n"


def snake(name: str) -> str:
    """`podIPs` -> `pod_ips`; a Python keyword gets a trailing underscore."""
    words = re.sub(r"([A-Z]{2,})s$", lambda match: match[1].capitalize() + "s", name.lstrip("$"))
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", words).lower().replace("-", "_")
    return words + "_" if keyword.iskeyword(words) or words in BUILT_IN or name.startswith("$") else words


def camel(name: str) -> str:
    """What msgspec's `rename="camel"` makes of an attribute name."""
    head, *rest = name.split("_")
    return head + "".join(word.title() for word in rest)


def module_of(definition: str) -> tuple[str, str] | None:
    """The module and class of a definition; None if it gets no class."""
    if definition in SCALARS:
        return None
    if definition in MODULE_OF_OTHERS:
        return MODULE_OF_OTHERS[definition]
    match = KINDS_OF_GROUPS.fullmatch(definition)
    return (f"{match[1]}_{match[2]}", match[3]) if match else None


class Generator:
    """Turns definitions into module texts."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self.definitions = definitions
        self.modules: dict[str, dict[str, str]] = collections.defaultdict(dict)
        for definition in definitions:
            if place := module_of(definition):
                self.modules[place[0]][place[1]] = definition

    def type_of(self, schema: dict[str, Any], module: str) -> tuple[str, str | None]:
        """The annotation of a field, and its zero as source text (None: the type is a struct)."""
        reference = schema.get("$ref", "").rpartition("/")[2]
        if reference in SCALARS:
            return SCALARS[reference]
        if reference:
            place = module_of(reference)
            assert place is not None, reference
            return (place[1] if place[0] == module else ".".join(place)), None
        kinds = schema.get("type", "object")
        kind = kinds if isinstance(kinds, str) else kinds[0]
        if kind == "array":
            return f"tuple[{self.type_of(schema['items'], module)[0]}, ...]", "()"
        if kind == "object":
            values = schema.get("additionalProperties")
            return (f"dict[str, {self.type_of(values, module)[0]}]" if values else "dict[str, Any]"), "{}"
        name = {"string": "str", "boolean": "bool", "number": "float"}.get(kind, "Int64")
        if kind == "integer":
            name = "Int32" if schema.get("format") == "int32" else "Int64"
        return name, ZERO[name]

    def field(self, name: str, flags: str, schema: dict[str, Any], module: str, definition: str) -> str:
        """One attribute line of a class."""
        attribute = snake(name)
        rename = "" if camel(attribute) == name else f'name="{name}"'
        annotation, zero = self.type_of(schema, module)
        if annotation == "Any":
            default = "None" if "p" in flags else "always_null"
        elif zero == "None":
            annotation += " | None"
            default = "None" if "p" in flags or "z" in flags else "always_null"
        elif annotation == "Raw":
            default = zero or ""
        elif "p" in flags or (
            schema.get("format") == "byte"  # bytes may be nil
            and ("o" not in flags or name in KEPT_EMPTY_BYTES.get(definition, ()))
        ):
            annotation, default = f"{annotation} | None", "None" if "o" in flags else "always_null"
        elif zero is None:
            default = annotation
        elif zero == "()":
            default = "()" if "o" in flags else "always_list"
            if name in NULL_LISTS.get(definition, ()):
                annotation = annotation.replace("tuple[", "NullList[").replace(", ...]", "]")
        elif zero == "{}":
            default = "dict" if "o" in flags else "always_map"
        elif annotation in ("Quantity", "IntOrString"):
            default = f"always_{'zero_quantity' if annotation == 'Quantity' else 'zero'}"
        elif "o" in flags:
            default = zero
        else:
            default = {"str": "str", "Int64": "int", "Int32": "int", "float": "float", "bool": "bool"}[annotation]
        if default in ("NO_JSON", "None", "()", '""', "0", "0.0", "False"):
            value = f"field(default={default}, {rename})" if rename else default
        else:
            value = f"field(default_factory={default}{', ' + rename if rename else ''})"
        return f"    {attribute}: {annotation} = {value}\n"

    def class_text(self, module: str, name: str) -> str:
        """The source of one struct."""
        definition = self.modules[module][name]
        schema = self.definitions[definition]
        properties = schema.get("properties", {})
        facts = FACTS.get(definition) or [(field, "o", "0", "", "", "") for field in properties]
        rows = [(row[0], row[1]) for row in facts if row[0] in properties]
        covered = {row[0] for row in facts}
        rows += [(extra, "o") for extra in properties if extra not in covered]
        lines = [self.field(field, flags, properties[field], module, definition) for field, flags in rows]
        if definition in NULL_LISTS:
            lines.append("\n    def __post_init__(self) -> None:\n")
            attributes = [snake(field) for field in NULL_LISTS[definition]]
            lines += [f"        self.{attribute} = self.{attribute} or ()\n" for attribute in attributes]
        summary = (
            re.split(r"(?<=[.!])\s|\n", schema.get("description", ""))[0]
            .replace("\\", "")
            .replace('"""', "'''")
            .strip()
        )
        if len(summary) > 110:
            summary = summary[:110].rsplit(" ", 1)[0] + " ..."
        doc = f'    """{summary or name}"""\n'
        return f"class {name}(Object):\n{doc}{'' if not lines else chr(10)}{''.join(lines)}"

    def needed_first(self, module: str, name: str) -> Iterator[str]:
        """Classes of the same module that must be defined before this one, because they are made when missing."""
        text = self.class_text(module, name)
        for other in re.findall(r"default_factory=(\w+)[,)]", text):
            if other in self.modules[module]:
                yield other

    def module_text(self, module: str) -> str:
        """The source of one module: classes in alphabetical order, except where one needs another first."""
        done: dict[str, str] = {}

        def emit(name: str) -> None:
            if name not in done:
                for other in self.needed_first(module, name):
                    emit(other)
                done[name] = self.class_text(module, name)

        for name in sorted(self.modules[module]):
            emit(name)
        body = "\n\n".join(done.values())
        others = sorted(other for other in self.modules if other != module and re.search(rf"[\[= (]{other}\.\w", body))
        scalars = [
            name
            for name in ("Int32", "Int64", "IntOrString", "MicroTime", "NullList", "Quantity", "Raw", "Time")
            if re.search(rf"\b{name}\b(?! is| of)", body)
        ]
        factories = [
            name
            for name in ("NO_JSON", "always_list", "always_map", "always_null", "always_zero", "always_zero_quantity")
            if re.search(rf"= ?{name}\b", body)
        ]
        text = (
            BANNER.format(release=NEWER_RELEASE if f"io.k8s.api.{module.replace('_', '.')}" in NEWER_KINDS else RELEASE)
            + f'"""API group version {module.replace("_", "/")}."""\n\nfrom __future__ import annotations\n\n'
        )
        text += "from typing import Any\n\n" if re.search(r"\bAny\b", body) else ""
        text += "from msgspec import field\n\n" if "field(" in body else ""
        text += f"from bayplan.api.types import {', '.join(others)}\n" if others else ""
        text += f"from bayplan.api.types.scalars import {', '.join(sorted([*scalars, *factories, 'Object']))}\n\n\n"
        return text + body


def trimmed(schema: Any) -> Any:
    """A schema without texts, without "null" among the types, with references by bare name."""
    if isinstance(schema, list):
        return [trimmed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: trimmed(value[name]) for name in value}
        elif key == "type" and isinstance(value, list):
            result[key] = value[0]
        elif key == "$ref":
            result[key] = value.rpartition("/")[2]
        elif key != "description":
            result[key] = trimmed(value)
    return result


def go_types(definitions: dict[str, Any]) -> dict[str, Any]:
    """What messages about malformed JSON need: definition -> field -> [Go type, inlined structs], where these cannot be guessed from the schema, and the
    lists and maps that have a name."""
    found: dict[str, Any] = {"named": NAMED}
    for definition in sorted(FACTS.keys() & definitions.keys()):
        properties = trimmed(definitions[definition]).get("properties", {})
        rows = {
            row[0]: [row[4], row[5]]
            for row in FACTS[definition]
            if row[0] in properties and (row[5] or row[4] != plain_type(properties[row[0]]))
        }
        if rows:
            found[definition] = rows
    return found


def published() -> dict[str, Any]:
    """The published definitions of the release by name, with the kinds of the newer one and the fields that Bayplan adds."""
    found, newer = definitions_of(RELEASE), definitions_of(NEWER_RELEASE)
    waiting = [
        f"{package}.{kind}{end}" for package, kinds in NEWER_KINDS.items() for kind in kinds for end in ("", "List")
    ]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = newer[name]
            waiting += [
                match.rpartition("/")[2] for match in re.findall(r'"\$ref": "([^"]+)"', json.dumps(newer[name]))
            ]
    return with_own_fields(found, FACTS)


def definitions_of(release: str) -> dict[str, Any]:
    """The definitions of a release as they are published."""
    folder = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"{release}-local"
    found: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())["$defs"]
    return found


def texts_file() -> str:
    """What `texts.json.gz` has, unpacked: `texts` in the order in which definitions, by name, and their fields, by name, need them, each once for fields of one
    name; `definitions` with a row for each of them, its own text first: 0 for none, 1 for the first text of fields of this name, and so on. It is a fifth smaller
    than the texts in the form of definitions, packed."""
    definitions = published()
    texts: list[str] = []
    known: dict[str, dict[str, int]] = {}
    rows: list[list[int]] = []
    for name in sorted(definitions):
        fields = definitions[name].get("properties", {})
        row: list[int] = []
        for field, one in (("", definitions[name]), *sorted(fields.items())):
            text, places = one.get("description", ""), known.setdefault(field, {"": 0})
            if text not in places:
                places[text] = len(places)
                texts.append(text)
            row.append(places[text])
        rows.append(row)
    return json.dumps({"texts": texts, "definitions": rows}, separators=(",", ":"))


def outputs() -> dict[pathlib.Path, str]:
    """Every generated file and its text."""
    definitions = published()
    generator = Generator(definitions)
    files = {TARGET / f"{module}.py": generator.module_text(module) for module in generator.modules}
    rows = [
        f"{json.dumps(name)}:{json.dumps(trimmed(definitions[name]), separators=(',', ':'))}"
        for name in sorted(definitions)
    ]
    files[TARGET / "schema.json.gz"] = "{\n" + ",\n".join(rows) + "\n}\n"
    protobuf = {
        name: {row[0]: [row[2], row[3]] for row in FACTS[name] if row[3]}
        for name in sorted(FACTS)
        if name in definitions
    }
    rows = [
        f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}" for name, fields in protobuf.items() if fields
    ]
    files[TARGET / "protobuf.json.gz"] = "{\n" + ",\n".join(rows) + "\n}\n"
    rows = [
        f"{json.dumps(name)}:{json.dumps(types, separators=(',', ':'))}"
        for name, types in go_types(definitions).items()
    ]
    files[TARGET / "go_types.json.gz"] = "{\n" + ",\n".join(rows) + "\n}\n"
    files[TARGET / "texts.json.gz"] = texts_file()
    files[TARGET / "openapi.json.gz"] = (pathlib.Path(__file__).parent / "openapi_facts.json").read_text()
    return files


def current(path: pathlib.Path) -> str | None:
    """What a generated file has now, unpacked; None if there is none."""
    if not path.exists():
        return None
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def write(path: pathlib.Path, text: str) -> None:
    """Write a generated file; equal texts give equal bytes."""
    if path.suffix == ".gz":
        import zopfli.gzip  # whose bytes are a twentieth fewer, which the wheel needs; nothing but this line wants it

        path.write_bytes(zopfli.gzip.compress(text.encode()))
    else:
        path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not up to date")
    options = parser.parse_args()
    stale = {path: text for path, text in outputs().items() if current(path) != text}
    if options.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not up to date: run python -m tools.generate_api", file=sys.stderr)
        return 1 if stale else 0
    for path, text in stale.items():
        write(path, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
