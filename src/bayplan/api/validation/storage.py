"""Rules that the kinds of storage share."""

from __future__ import annotations

from bayplan.api.errors import invalid, required, too_long
from bayplan.api.validation.fields import Errors
from bayplan.api.validation.values import formats


def check_csi_driver_name(errors: Errors, path: str, name: str) -> None:
    """The name of a CSI driver: up to 63 characters of a domain name in any case."""
    if not name:
        errors.append(required(path))
        return
    if formats.size(name) > 63:
        errors.append(too_long(path, 63))
    for message in formats.dns_subdomain(name.lower()):
        errors.append(invalid(path, name, message))


_PARAMETERS_LIMIT = 256 * 1024
_MAX_PARAMETERS = 512


def check_parameters(errors: Errors, parameters: dict[str, str], *, needed: bool = False) -> None:
    """`parameters` of a class: named, and not too many."""
    if needed and not parameters:
        errors.append(required("parameters", "must contain at least one key/value pair"))
        return
    if len(parameters) > _MAX_PARAMETERS:
        errors.append(too_long("parameters", _MAX_PARAMETERS))
        return
    size = 0
    for key, value in parameters.items():
        if not key:
            errors.append(invalid("parameters", key, "field can not be empty."))
        size += formats.size(key) + formats.size(value)
    if size > _PARAMETERS_LIMIT:
        errors.append(too_long("parameters", _PARAMETERS_LIMIT))


def check_provisioner(errors: Errors, path: str, name: str) -> None:
    """The name of a provisioner or attacher: a qualified name in any case."""
    if not name:
        errors.append(required(path))
        return
    for message in formats.label_key(name.lower()):
        errors.append(invalid(path, name.lower(), message))
