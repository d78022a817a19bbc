"""`EncryptionConfiguration` files: `apiserver.config.k8s.io/v1`, checked with kube-apiserver's words.

Source: `k8s.io/apiserver/pkg/apis/apiserver/validation/validation_encryption.go`, `.../server/options/encryptionconfig/config.go`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import yaml

from bayplan.api.errors import FieldError, invalid, required
from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.apiserver.encryption.envelopes import PREFIX, Envelopes
from bayplan.apiserver.encryption.metrics import TransformationMetrics
from bayplan.apiserver.encryption.providers import (
    IDENTITY,
    AesCbc,
    AesGcm,
    Provider,
    RandomBytes,
    Secret,
    SecretBox,
)
from bayplan.apiserver.encryption.resources import Resource, Resources, parse_resource
from bayplan.apiserver.yaml.documents import problem_text, repeated_keys, to_json
from bayplan.support.durations import go_seconds

API_VERSIONS: Final = ("apiserver.config.k8s.io/v1", "v1")
_AES_BYTES: Final = (16, 24, 32)
_SECRETBOX_BYTES: Final = (32,)
_NOT_OBJECTS: Final = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")
_KINDS: Final[dict[str, tuple[Callable[[bytes, RandomBytes], Secret], tuple[int, ...]]]] = {
    "aesgcm": (AesGcm, _AES_BYTES),
    "aescbc": (AesCbc, _AES_BYTES),
    "secretbox": (SecretBox, _SECRETBOX_BYTES),
}
"""Provider -> what makes a secret of a key, and how many bytes a key may have."""


class _Struct(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A part of the file: unknown fields are errors."""


class _Key(_Struct):
    name: str = ""
    secret: str = ""


class _Keys(_Struct):
    keys: tuple[_Key, ...] = ()


class _Kms(_Struct):
    name: str = ""
    api_version: str = "v1"
    endpoint: str = ""
    timeout: str = "3s"
    cachesize: int | None = None


class _Provider(_Struct):
    aesgcm: _Keys | None = None
    aescbc: _Keys | None = None
    secretbox: _Keys | None = None
    identity: dict[str, Any] | None = None
    kms: _Kms | None = None


class _Resources(_Struct):
    resources: tuple[str, ...] = ()
    providers: tuple[_Provider, ...] = ()


class _File(_Struct):
    api_version: str
    kind: str
    resources: tuple[_Resources, ...] = ()


OpenEnvelopes = Callable[[str, str, float], Envelopes]
"""Makes the provider of a key management service: (name, endpoint, seconds of the longest call). Raises ImportError without gRPC."""


def _no_services(name: str, endpoint: str, seconds: float) -> Envelopes:
    raise ConfigurationError(f"kms provider {name!r}: this program reaches no key management service")


def read_configuration(
    text: str,
    random_bytes: RandomBytes,
    open_envelopes: OpenEnvelopes = _no_services,
    metrics: TransformationMetrics | None = None,
) -> Resources:
    """The encrypted resources of a file's text (YAML or JSON). Raises ConfigurationError."""
    data = text.encode()
    try:
        if repeated := repeated_keys(data):
            raise ConfigurationError(f"error while parsing file: strict decoding error: {repeated}")
        file = msgspec.json.decode(to_json(data), type=_File)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"error while parsing file: {problem_text(error)}") from error
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"error while parsing file: {error}") from error
    if file.kind != "EncryptionConfiguration" or file.api_version not in API_VERSIONS:
        raise ConfigurationError(
            f"error while parsing file: got unexpected config type: {file.api_version}, Kind={file.kind}; "
            f"expected {API_VERSIONS[0]}, Kind=EncryptionConfiguration"
        )
    errors = list(_errors(file))
    if errors:
        raise ConfigurationError("error while parsing file: " + "; ".join(map(str, errors)))
    opened: list[Envelopes] = []

    def opening(name: str, endpoint: str, seconds: float) -> Envelopes:
        opened.append(open_envelopes(name, endpoint, seconds))
        return opened[-1]

    return Resources(_chosen(file, random_bytes, opening), opened, metrics)


def _errors(file: _File) -> Iterator[FieldError]:
    if not file.resources:
        yield required("resources", "at least one resources is required")
    names: set[str] = set()
    for index, one in enumerate(file.resources):
        resources, providers = f"resources[{index}].resources", f"resources[{index}].providers"
        if not one.resources:
            yield required(resources, f"at least one {resources} is required")
        yield from _overlaps(one.resources, resources)
        yield from _name_errors(one.resources, resources)
        if not one.providers:
            yield required(providers, f"at least one {providers} is required")
        for number, provider in enumerate(one.providers):
            yield from _provider_errors(provider, f"{providers}[{number}]", names)


def _overlaps(names: Sequence[str], path: str) -> Iterator[FieldError]:
    found = [parse_resource(name) for name in names]
    if len(set(found)) < len(found):
        yield invalid(path, list(names), "the same resource cannot be specified multiple times")
    for at, one in enumerate(found):
        others = [other for index, other in enumerate(found) if index != at and other != one]
        if any(one == Resource("*", "*") or (one.group == other.group and one.resource == "*") for other in others):
            text = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked"
            yield invalid(path, list(names), text)
            return


def _name_errors(names: Sequence[str], path: str) -> Iterator[FieldError]:
    for index, name in enumerate(names):
        group, resource = parse_resource(name)
        text = ""
        if name != name.lower():
            text = "resource name should not contain capital letters"
        elif name == "*":
            text = "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
        elif name in _NOT_OBJECTS:
            text = "resources which do not have REST API/s cannot be encrypted"
        elif group == "events.k8s.io":
            text = "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
        elif group == "extensions":
            text = "'extensions' group has been removed and cannot be used for encryption"
        elif group == "*" and resource != "*":
            text = "encrypting the same resource across groups is not supported"
        if text:
            yield invalid(f"{path}[{index}]", name, text)


def _kms_errors(kms: _Kms, path: str, names: set[str]) -> Iterator[FieldError]:
    """names: of the services before."""
    if not kms.name:
        yield required(f"{path}.name", "name is a mandatory field for a provider")
    if ":" in kms.name:
        yield invalid(f"{path}.name", kms.name, f"invalid KMS provider name {kms.name}, must not contain ':'")
    if kms.name in names:
        yield invalid(f"{path}.name", kms.name, f"duplicate KMS provider name {kms.name}, names must be unique")
    if _kms_seconds(kms) <= 0:
        yield invalid(f"{path}.timeout", kms.timeout, "timeout should be a positive value")
    scheme, separator, _ = kms.endpoint.partition(":")
    if not kms.endpoint:
        yield invalid(f"{path}.endpoint", "", "endpoint is a mandatory field for a kms")
    elif not separator or scheme != "unix":
        shown = scheme if separator else ""
        yield invalid(
            f"{path}.endpoint", kms.endpoint, f'unsupported scheme "{shown}" for KMS provider, only unix is supported'
        )
    if kms.cachesize is not None:
        yield invalid(f"{path}.cachesize", kms.cachesize, "cachesize is not supported in v2")
    if kms.api_version != "v2":
        yield invalid(
            f"{path}.apiVersion",
            kms.api_version,
            "unsupported apiVersion for KMS provider, only v2 is supported: v1 is deprecated",
        )


def _kms_seconds(kms: _Kms) -> float:
    """The timeout; 0 for what is none."""
    try:
        return go_seconds(kms.timeout)
    except ValueError:
        return 0.0


def _provider_errors(provider: _Provider, path: str, names: set[str]) -> Iterator[FieldError]:
    given = [name for name in provider.__struct_fields__ if getattr(provider, name) is not None]
    if len(given) != 1:
        text = (
            "more than one provider specified in a single element, should split into different list elements"
            if given
            else "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
        )
        yield invalid(path, {name: {} for name in given}, text)
    elif provider.kms is not None:
        yield from _kms_errors(provider.kms, f"{path}.kms", names)
        names.add(provider.kms.name)
    elif provider.identity is None:
        name = given[0]
        yield from _key_errors(getattr(provider, name).keys, f"{path}.{name}.keys", _KINDS[name][1])


def _key_errors(keys: Sequence[_Key], path: str, sizes: tuple[int, ...]) -> Iterator[FieldError]:
    if not keys:
        yield required(path, "at least one keys is required")
    for index, key in enumerate(keys):
        where = f"{path}[{index}]"
        if not key.name:
            yield required(f"{where}.name", "name is a mandatory field for a key")
        if not key.secret:
            yield required(f"{where}.secret", "secret is a mandatory field for a key")
            continue
        try:
            size = len(base64.b64decode(key.secret, validate=True))
        except ValueError:
            yield invalid(f"{where}.secret", "REDACTED", "secrets must be base64 encoded")
            continue
        if size not in sizes:
            shown = " ".join(map(str, sizes))
            text = f"secret is not of the expected length, got {size}, expected one of [{shown}]"
            yield invalid(f"{where}.secret", "REDACTED", text)


def _chosen(file: _File, random_bytes: RandomBytes, opening: OpenEnvelopes) -> dict[Resource, list[Provider]]:
    """The providers by resource. Raises ConfigurationError for what an earlier rule masks."""
    found: dict[Resource, list[Provider]] = {}
    for one in file.resources:
        providers = [made for provider in one.providers for made in _providers(provider, random_bytes, opening)]
        for name in one.resources:
            resource = parse_resource(name)
            for mask in (Resource(resource.group, "*"), Resource("*", "*")):
                if mask in found:
                    shown = f"*.{mask.group}"
                    text = f'resource "{name}" is masked by earlier rule "{shown}"'
                    raise ConfigurationError(f"error while building transformers: {text}")
            found.setdefault(resource, []).extend(providers)
    return found


def _providers(provider: _Provider, random_bytes: RandomBytes, opening: OpenEnvelopes) -> Iterator[Provider]:
    if provider.identity is not None:
        yield IDENTITY
    if provider.kms is not None:
        kms = provider.kms
        try:
            envelopes = opening(kms.name, kms.endpoint, _kms_seconds(kms))
        except ImportError as error:
            raise ConfigurationError(f"kms: {error}") from None
        yield Provider(f"{PREFIX}{kms.name}:".encode(), envelopes)
    for name, (make, _) in _KINDS.items():
        keys: _Keys | None = getattr(provider, name)
        for key in keys.keys if keys is not None else ():
            prefix = f"k8s:enc:{name}:v1:{key.name}:".encode()
            try:
                yield Provider(prefix, make(base64.b64decode(key.secret), random_bytes))
            except ImportError:
                raise ConfigurationError(f"{name} needs PyNaCl: pip install 'bayplan[encryption]'") from None
