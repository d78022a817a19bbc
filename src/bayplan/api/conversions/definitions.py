"""Definitions of custom resources as kube-apiserver keeps them: `apiextensions.k8s.io/v1beta1`, which nobody serves any more, to v1.

What all versions have in common stands above them there. Source: `pkg/apis/apiextensions/v1/conversion.go`, `v1beta1/defaults.go`.
"""

from __future__ import annotations

from typing import Any, Final

_COMMON: Final = {"validation": "schema", "subresources": "subresources", "selectableFields": "selectableFields"}
"""Field above the versions -> field of each version."""


def from_v1beta1(tree: dict[str, Any]) -> dict[str, Any]:
    """The same definition in v1. Both are JSON trees; the one that is given is left as it is."""
    spec = dict(tree.get("spec", {}))
    name = spec.pop("version", "")
    common = {field: spec.pop(above) for above, field in _COMMON.items() if above in spec}
    if "additionalPrinterColumns" in spec:
        common["additionalPrinterColumns"] = spec.pop("additionalPrinterColumns")
    versions = spec.get("versions") or ([{"name": name, "served": True, "storage": True}] if name else [])
    spec["versions"] = [_version({**version, **common}) for version in versions]
    spec.setdefault("scope", "Namespaced")
    spec["conversion"] = _conversion(spec.get("conversion") or {"strategy": "None"})
    if spec.setdefault("preserveUnknownFields", True) is False:
        del spec["preserveUnknownFields"]
    return {**tree, "apiVersion": "apiextensions.k8s.io/v1", "spec": spec}


def _version(version: dict[str, Any]) -> dict[str, Any]:
    columns = version.get("additionalPrinterColumns")
    if columns is None:
        return version
    return {**version, "additionalPrinterColumns": [_column(column) for column in columns]}


def _column(column: dict[str, Any]) -> dict[str, Any]:
    return {("jsonPath" if name == "JSONPath" else name): value for name, value in column.items()}


def _conversion(conversion: dict[str, Any]) -> dict[str, Any]:
    found = {name: conversion[name] for name in ("strategy",) if name in conversion}
    client, reviews = conversion.get("webhookClientConfig"), conversion.get("conversionReviewVersions")
    if found.get("strategy") == "Webhook" and not reviews:
        reviews = ["v1beta1"]
    if client is not None or reviews is not None:
        found["webhook"] = {"conversionReviewVersions": reviews or []}
        if client is not None:
            found["webhook"]["clientConfig"] = client
    return found
