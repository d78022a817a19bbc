"""How storage versions look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import UNSET, at_most, object_age, printers
from bayplan.api.types import apiserverinternal_v1alpha1


def _storage_version(obj: apiserverinternal_v1alpha1.StorageVersion, now: float) -> list[Any]:
    status = obj.status
    versions = [f"{one.api_server_id}={one.encoding_version}" for one in status.storage_versions]
    common = UNSET if status.common_encoding_version is None else status.common_encoding_version
    return [obj.metadata.name, common, at_most(versions, 3, UNSET), object_age(obj, now)]


PRINTERS = printers("internal", {"StorageVersion": _storage_version})
