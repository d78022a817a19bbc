"""Storage versions: which versions of a resource the API servers of a cluster read and write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bayplan.api.errors import FieldError, duplicate, invalid, required
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apiserverinternal_v1alpha1
from bayplan.api.validation.fields import Errors, check_format, check_key_format
from bayplan.api.validation.values import formats

StorageVersion = apiserverinternal_v1alpha1.StorageVersion
_LABEL: Final = (
    "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_LABEL_PATTERN: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"


class StorageVersionStrategy(Strategy):
    """Rules of storage versions: the name is that of the resource, and the specification has nothing in it."""

    allow_unconditional_update = False
    has_status = True
    name_is_checked_as = "storage-version"
    reset_by_status = of_paths(("f:metadata",), ("f:spec",))

    def validate_status_update(self, obj: StorageVersion, old: StorageVersion) -> list[FieldError]:
        errors: list[FieldError] = []
        status = obj.status
        seen: set[str] = set()
        for index, server in enumerate(status.storage_versions):
            path = f"status.storageVersions[{index}]"
            if server.api_server_id in seen:
                errors.append(duplicate(f"{path}.apiServerID", server.api_server_id))
            seen.add(server.api_server_id)
            _check_server(errors, path, server)
        _check_common_version(errors, "status.commonEncodingVersion", status)
        _check_conditions(errors, "status", status.conditions)
        return errors


def _check_server(errors: Errors, path: str, server: apiserverinternal_v1alpha1.ServerStorageVersion) -> None:
    check_format(errors, f"{path}.apiServerID", server.api_server_id, formats.dns_subdomain)
    written, readable = server.encoding_version, server.decodable_versions
    if problems := _version_problems(written):
        errors.append(invalid(f"{path}.encodingVersion", written, ",".join(problems)))
    for index, version in enumerate(readable):
        if problems := _version_problems(version):
            errors.append(invalid(f"{path}.decodableVersions[{index}]", version, ",".join(problems)))
    if written not in readable:
        text = f"decodableVersions must include encodingVersion {written}"
        errors.append(invalid(f"{path}.decodableVersions", list(readable) or None, text))
    for index, version in enumerate(server.served_versions):
        where = f"{path}.servedVersions[{index}]"
        if problems := _version_problems(version):
            errors.append(invalid(where, version, ",".join(problems)))
        if version not in readable:
            text = (
                f"individual served version : {version} must be included in decodableVersions : [{' '.join(readable)}]"
            )
            errors.append(invalid(where, version, text))


def _version_problems(text: str) -> list[str]:
    """What is wrong with an `apiVersion`."""
    *before, version = text.split("/")
    if len(before) > 1:
        example = formats.regex_message(_LABEL, _LABEL_PATTERN, "my-name", "abc-123")
        return [
            f"an apiVersion is {example} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')"
        ]
    problems = [f"group part: {one}" for group in before for one in _non_empty(group) or formats.dns_subdomain(group)]
    return problems + [f"version part: {one}" for one in _non_empty(version) or formats.dns_1035_label(version)]


def _non_empty(text: str) -> Sequence[str]:
    return () if text else ("must be non-empty",)


def _check_common_version(errors: Errors, path: str, status: apiserverinternal_v1alpha1.StorageVersionStatus) -> None:
    versions = {server.encoding_version for server in status.storage_versions}
    common, told = versions.pop() if len(versions) == 1 else None, status.common_encoding_version
    if common is None and told is not None:
        text = "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet"
        errors.append(invalid(path, told, text))
    elif common is not None and told is None:
        errors.append(invalid(path, None, f"the common encoding version is {common}"))
    elif common != told:
        errors.append(invalid(path, told, f"the actual common encoding version is {common}"))


def _check_conditions(
    errors: Errors, path: str, conditions: Sequence[apiserverinternal_v1alpha1.StorageVersionCondition]
) -> None:
    seen: dict[str, int] = {}
    for index, condition in enumerate(conditions):
        where = f"{path}[{index}]"
        if condition.type in seen:
            text = f"the type of the condition is not unique, it also appears in conditions[{seen[condition.type]}]"
            errors.append(invalid(f"{where}.type", condition.type, text))
        seen[condition.type] = index
        check_key_format(errors, f"{where}.type", condition.type)
        check_key_format(errors, f"{where}.status", condition.status)
        if not condition.reason:
            errors.append(required(f"{where}.reason"))
        if not condition.message:
            errors.append(required(f"{where}.message"))


STRATEGY = StorageVersionStrategy()
