"""Columns, subresources, selectable fields and conversion of CustomResourceDefinitions."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bayplan.api.validation.client_configs import certificate_problem
from bayplan.api.validation.custom_resource_definitions.columns import FieldPathError, field_path
from tests.api.validation.definitions import Tree, definition, problems, update_problems, version

STRING = {"type": "string"}
COLUMN = {"name": "n", "type": "string", "jsonPath": ".spec.x"}
FIELDS = {
    "a": STRING,
    "b": {"type": "object", "properties": {"c": {"type": "integer"}}},
    "metadata": {"type": "object"},
}
MANY: Tree = {"type": "object", "properties": {f"f{index}": STRING for index in range(10)}}
CLIENT = "spec.conversion.webhookClientConfig"


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (COLUMN, []),
        ({**COLUMN, "name": ""}, ["name: Required value"]),
        ({**COLUMN, "type": ""}, ["type: Required value: must be one of boolean,date,integer,number,string"]),
        ({**COLUMN, "type": "x"}, ['type: Invalid value: "x": must be one of boolean,date,integer,number,string']),
        (
            {**COLUMN, "format": "x"},
            ['format: Invalid value: "x": must be one of byte,date,date-time,double,float,int32,int64,password'],
        ),
        ({**COLUMN, "jsonPath": ""}, ["JSONPath: Required value"]),
        (
            {**COLUMN, "jsonPath": "spec"},
            ['JSONPath: Invalid value: "spec": must be a simple json path starting with .'],
        ),
    ],
)
def test_columns(column: Tree, expected: list[str]) -> None:
    path = "spec.additionalPrinterColumns[0]."
    assert [one.removeprefix(path) for one in problems(version(additionalPrinterColumns=[column]))] == expected


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ((".spec.r", ".status.r", ".status.s"), []),
        ((".spec.r", ".status.r", ".spec.s"), []),
        (
            (".status.r", ".spec.r", ".x"),
            [
                'specReplicasPath: Invalid value: ".status.r": should be a json path under .spec',
                'statusReplicasPath: Invalid value: ".spec.r": should be a json path under .status',
                'labelSelectorPath: Invalid value: ".x": should be a json path under either .spec or .status',
            ],
        ),
        (
            ("spec.r", ".status.r", "s"),
            [
                'specReplicasPath: Invalid value: "spec.r": must be a simple json path starting with .',
                'labelSelectorPath: Invalid value: "s": must be a simple json path starting with .',
            ],
        ),
    ],
)
def test_replicas(scale: tuple[str, str, str], expected: list[str]) -> None:
    names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    found = problems(version(subresources={"scale": dict(zip(names, scale, strict=True))}))
    assert [one.removeprefix("spec.subresources.scale.") for one in found] == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".a", []),
        (".b.c", []),
        ("", [": Required value"]),
        (
            ".b",
            [
                ": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
            ],
        ),
        (".z", [": is an invalid path: does not refer to a valid field"]),
        ("a", [": is an invalid path: expected [ or . but got: a"]),
        ("['a']", [": is an invalid path: array notation is not allowed"]),
    ],
)
def test_selectable_fields(path: str, expected: list[str]) -> None:
    schema = {"type": "object", "properties": FIELDS}
    found = problems(version(schema=schema, selectableFields=[{"jsonPath": path}]))
    shown = f': Invalid value: "{path}"'
    assert [one.removeprefix("spec.selectableFields[0].jsonPath").removeprefix(shown) for one in found] == expected


def test_metadata_is_selectable_without_saying_so() -> None:
    schema = {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": STRING}}}}
    [found] = problems(version(schema=schema, selectableFields=[{"jsonPath": ".metadata.name"}]))
    assert found.endswith("must not point to fields in metadata")


def test_too_many_selectable_fields_may_stay_but_not_change() -> None:
    def selecting(*numbers: int) -> Tree:
        return version(schema=MANY, selectableFields=[{"jsonPath": f".f{number}"} for number in numbers])

    text = "spec.selectableFields: Too many: 9: must have at most 8 items"
    assert problems(selecting(*range(8))) == []
    assert problems(selecting(*range(9))) == [text]
    assert update_problems(definition(selecting(*range(9))), definition(selecting(*range(9)))) == []
    assert update_problems(definition(selecting(*range(1, 10))), definition(selecting(*range(9)))) == [text]


def test_selectable_fields_and_schemas_are_the_same_in_all_versions_or_different_in_all() -> None:
    first = version(selectableFields=[{"jsonPath": ".f1"}], schema=MANY)
    second = version("v2", storage=False, selectableFields=[{"jsonPath": ".f2"}], schema=MANY)
    text = 'selectableFields: Invalid value: "": may only be set when `version.schema.openAPIV3Schema` is not included'
    assert problems(first, second) == [f"spec.versions[0].{text}", f"spec.versions[1].{text}"]
    other = version("v2", storage=False, selectableFields=[{"jsonPath": ".f1"}], schema={**MANY, "title": "t"})
    assert problems(first, other) == [
        'spec.selectableFields: Invalid value: "": may only be set when validations.schema is included'
    ]


PATHS: Tree = {
    "type": "object",
    "properties": {
        "a": {"type": "object", "additionalProperties": {"type": "object", "properties": {"it's": STRING}}},
        "list": {"type": "array", "items": STRING},
    },
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".a", "a"),
        (".a['b.c']", "a[b.c]"),
        (r".a['b.c']['it\'s']", "a[b.c].it's"),
        (".a.x", "a[x]"),
        (".list", "list"),
        (".list[0]", "expected single quoted string but got 0"),
        (".list.x", "does not refer to a valid field"),
        (".a[", "unexpected end of JSON path"),
        (".a['x'", "unexpected end of JSON path"),
        (".a['x'.", "expected ] but got ."),
        (r".a['\q']", r"invalid string literal: invalid escape char \q"),
        (".", "unexpected end of JSON path"),
        ("..a", "does not refer to a valid field"),
    ],
)
def test_paths_of_fields(text: str, expected: str) -> None:
    try:
        found = field_path(text, PATHS).text
    except FieldPathError as error:
        found = str(error)
    assert found == expected


def webhook(client: Tree | None = None, versions: tuple[str, ...] = ("v1",)) -> Tree:
    given = {"conversionReviewVersions": list(versions), **({} if client is None else {"clientConfig": client})}
    return {"strategy": "Webhook", "webhook": given}


def service(**more: object) -> Tree:
    return {"service": {"name": "s", "namespace": "n", **more}}


@pytest.mark.parametrize(
    ("conversion", "expected"),
    [
        ({"strategy": "None"}, []),
        ({"strategy": ""}, ["spec.conversion.strategy: Required value"]),
        ({"strategy": "X"}, ['spec.conversion.strategy: Unsupported value: "X": supported values: "None", "Webhook"']),
        (
            {"strategy": "Webhook"},
            [
                f"{CLIENT}: Required value: required when strategy is set to Webhook",
                "spec.conversion.conversionReviewVersions: Required value",
            ],
        ),
        (
            {**webhook(service()), "strategy": "None"},
            [
                f"{CLIENT}: Forbidden: should not be set when strategy is not set to Webhook",
                "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
            ],
        ),
        (webhook(service(path="/a", port=1)), []),
        (webhook({}), [f"{CLIENT}: Required value: exactly one of url or service is required"]),
        (
            webhook({"url": "https://a/b", **service()}),
            [f"{CLIENT}: Required value: exactly one of url or service is required"],
        ),
        (
            webhook({"url": "http://a"}),
            [
                f"{CLIENT}.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"
            ],
        ),
        (
            webhook({"url": "https://u:p@a#f"}),
            [
                f'{CLIENT}.url: Invalid value: "u:p": user information is not permitted in the URL',
                f'{CLIENT}.url: Invalid value: "f": fragments are not permitted in the URL',
            ],
        ),
        (
            webhook({"url": "https://a:x"}),
            [
                f'{CLIENT}.url: Required value: url must be a valid URL: parse "https://a:x": invalid port ":x" after host; desired format: https://host[/path]'
            ],
        ),
        (webhook(service(name="")), [f"{CLIENT}.service.namespace: Required value"]),
        (
            webhook(service(path="ab//c", port=0)),
            [
                f"{CLIENT}.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                f"{CLIENT}.service.path: Invalid value: \"ab//c\": must start with a '/'",
                f'{CLIENT}.service.path: Invalid value: "ab//c": segment[1] may not be empty',
            ],
        ),
        (
            webhook(service(), ("v1", "v1")),
            ['spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version'],
        ),
        (
            webhook(service(), ("v2",)),
            [
                'spec.conversion.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1'
            ],
        ),
    ],
)
def test_conversion(conversion: Tree, expected: list[str]) -> None:
    assert problems(conversion=conversion) == expected


def test_who_keeps_unknown_fields_converts_nothing() -> None:
    found = problems(conversion=webhook(service()), preserveUnknownFields=True)
    text = 'spec.conversion.strategy: Invalid value: "Webhook": must be None if spec.preserveUnknownFields is true'
    assert found[0] == text
    assert len(problems(conversion={"strategy": "None"}, preserveUnknownFields=True)) == 1


def test_bundles_of_certificates() -> None:
    def problem(pem: bytes) -> str:
        return certificate_problem(base64.b64encode(pem).decode()).removeprefix("unable to load root certificates: ")

    good = base64.b64decode(certificate())
    other = b"-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n"
    broken = other.replace(b"KEY", b"CERTIFICATE")
    assert problem(good) == problem(other + good) == problem(broken + good) == ""
    assert problem(other) == "no valid certificate authority data seen"
    assert problem(other + b"x") == problem(b"x") == "unable to parse bytes as PEM block"
    assert problem(broken + broken).startswith("failed to parse certificate: ")
    assert certificate_problem("?") == "unable to load root certificates: unable to parse bytes as PEM block"


def test_unknown_review_versions_may_stay() -> None:
    def speaking(*versions: str) -> Tree:
        return {"conversion": webhook(service(), versions)}

    assert update_problems(definition(**speaking("v3")), definition(**speaking("v2"))) == []
    assert len(update_problems(definition(**speaking("v3")), definition(**speaking("v1")))) == 1


def certificate() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ca")])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return base64.b64encode(pem).decode()


def test_certificates_of_established_definitions_stay_readable() -> None:
    def trusting(bundle: str) -> Tree:
        return {"conversion": webhook({**service(), "caBundle": bundle})}

    wrong, right = base64.b64encode(b"none").decode(), certificate()
    assert problems(**trusting(wrong)) == []
    assert update_problems(definition(**trusting(wrong)), definition(**trusting(right))) == []
    assert update_problems(definition(**trusting(wrong)), definition(**trusting(right)), established=True) == [
        f'{CLIENT}.caBundle: Invalid value: "{wrong}": unable to load root certificates: unable to parse bytes as PEM block'
    ]
    assert update_problems(definition(**trusting(right)), definition(**trusting(right)), established=True) == []
    assert update_problems(definition(**trusting(wrong)), definition(**trusting(wrong)), established=True) == []
