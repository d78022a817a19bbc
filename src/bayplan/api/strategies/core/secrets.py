"""Secrets."""

from __future__ import annotations

import base64
import json

from bayplan.api.errors import FieldError, forbidden, invalid, required, too_long
from bayplan.api.json.syntax import syntax_problem
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.encoded import canonical_base64, decoded_size

_LIMIT = 1024 * 1024
_NEEDED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_ACCOUNT = "kubernetes.io/service-account.name"


class SecretStrategy(Strategy):
    """Rules of secrets. `stringData` is written into `data`."""

    update_checks = UpdateChecks(whole=1, change_first=True)
    changes_come_first = True
    selectable_field_names = frozenset(("type",))

    def default(self, obj: core_v1.Secret) -> None:
        if not obj.type:
            obj.type = "Opaque"
        for key, value in obj.data.items():
            obj.data[key] = canonical_base64(value)
        if obj.string_data:
            for key, value in obj.string_data.items():
                obj.data[key] = base64.b64encode(value.encode()).decode()
            obj.string_data = {}

    def prepare_update(self, obj: core_v1.Secret, old: core_v1.Secret) -> None:
        obj.type = obj.type or old.type

    def validate(self, obj: core_v1.Secret) -> list[FieldError]:
        errors: list[FieldError] = []
        size = 0
        for key, value in obj.data.items():
            errors.extend(invalid(f"data[{key}]", key, message) for message in formats.config_map_key(key))
            size += decoded_size(value)
        if size > _LIMIT:
            errors.append(too_long("data", _LIMIT))
        if obj.type == "kubernetes.io/service-account-token":
            if not obj.metadata.annotations.get(_ACCOUNT):
                errors.append(required(f"metadata.annotations[{_ACCOUNT}]"))
        elif obj.type == "kubernetes.io/basic-auth":
            if "username" not in obj.data and "password" not in obj.data:
                errors.extend(required(f"data[{key}]") for key in ("username", "password"))
        else:
            self._check_keys(errors, obj)
        return errors

    def _check_keys(self, errors: list[FieldError], obj: core_v1.Secret) -> None:
        for key in _NEEDED_KEYS.get(obj.type, ()):
            if key not in obj.data or (obj.type == "kubernetes.io/ssh-auth" and not obj.data[key]):
                errors.append(required(f"data[{key}]"))
            elif obj.type.startswith("kubernetes.io/dockerc"):
                problem = _json_object_problem(obj.data[key])
                if problem:
                    errors.append(invalid(f"data[{key}]", "<secret contents redacted>", problem))

    def validate_update(self, obj: core_v1.Secret, old: core_v1.Secret) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj.type != old.type:
            errors.append(invalid("type", obj.type, "field is immutable"))
        if old.immutable:
            text = "field is immutable when `immutable` is set"
            if not obj.immutable:
                errors.append(forbidden("immutable", text))
            if obj.data != old.data:
                errors.append(forbidden("data", text))
        return errors

    def warnings(self, obj: core_v1.Secret, old: core_v1.Secret | None) -> list[str]:
        if obj.type == "kubernetes.io/tls":
            problem = _key_pair_problem(obj.data.get("tls.crt", ""), obj.data.get("tls.key", ""))
            return [problem] if problem else []
        return []

    def selectable_fields(self, obj: core_v1.Secret) -> dict[str, str]:
        return {"type": obj.type}


def _json_object_problem(encoded: str) -> str:
    text = base64.b64decode(encoded)
    if problem := syntax_problem(text):
        return problem
    parsed = json.loads(text.decode(errors="replace"))
    if parsed is None or isinstance(parsed, dict):
        return ""
    found = {str: "string", bool: "bool", list: "array"}.get(type(parsed), "number")
    return f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"


def _key_pair_problem(certificate: str, key: str) -> str:
    """What Go's `tls.X509KeyPair` would say of a pair that is no pair; only what shows without cryptography."""
    for text, kind in ((certificate, "certificate"), (key, "key")):
        if b"-----BEGIN " not in base64.b64decode(text):
            return f"tls: failed to find any PEM data in {kind} input"
    return ""


STRATEGY = SecretStrategy()
