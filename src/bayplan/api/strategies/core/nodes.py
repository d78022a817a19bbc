"""Nodes."""

from __future__ import annotations

import itertools
import operator
import re

from bayplan.api import quantity
from bayplan.api.defaults.quantities import canonical_list
from bayplan.api.errors import OMITTED, ErrorType, FieldError, duplicate, forbidden, invalid, quoted
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import (
    GREATER_THAN_ZERO,
    check_cidr,
    parse_cidr,
    repeats,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.ip_warnings import cidr_warnings
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.pods.alpha_keys import ALPHA_ANNOTATIONS, key_warnings
from bayplan.api.validation.pods.scheduling import check_taints
from bayplan.api.validation.resources import is_integer_resource
from bayplan.api.validation.values import formats


class NodeStrategy(Strategy):
    """Rules of nodes. Their status may be given at creation, as kubelets do."""

    update_checks = UpdateChecks(whole=1)
    has_status = True
    selectable_field_names = frozenset(("spec.unschedulable",))

    def default(self, obj: core_v1.Node) -> None:
        spec, status = obj.spec, obj.status
        if status.capacity or status.allocatable:
            canonical_list(status.capacity)
            canonical_list(status.allocatable)
            if not status.allocatable:
                status.allocatable = dict(status.capacity)
        if spec.pod_cidr and spec.pod_cidrs[:1] != (spec.pod_cidr,):
            spec.pod_cidrs = (spec.pod_cidr,)
        elif spec.pod_cidrs:
            spec.pod_cidr = spec.pod_cidrs[0]

    def prepare_create(self, obj: core_v1.Node) -> None:
        """The status of a new node counts; configuration from the API is no longer a feature."""
        obj.spec.config_source = obj.status.config = None

    def prepare_update(self, obj: core_v1.Node, old: core_v1.Node) -> None:
        obj.status = old.status
        if old.spec.config_source is None:
            obj.spec.config_source = None

    def prepare_status_update(self, obj: core_v1.Node, old: core_v1.Node) -> None:
        obj.spec = old.spec
        if old.status.config is None:
            obj.status.config = None

    def validate(self, obj: core_v1.Node) -> list[FieldError]:
        errors: list[FieldError] = []
        status, swap = obj.status, obj.status.node_info.swap
        if obj.spec.taints:
            check_taints(errors, "metadata.taints", obj.spec.taints)
        if status.capacity or status.allocatable:
            _check_resources(errors, status)
        if swap is not None and swap.capacity is not None and swap.capacity <= 0:
            errors.append(invalid("metadata.nodeSwapStatus.capacity", swap.capacity, GREATER_THAN_ZERO))
        if status.declared_features:
            _check_features(errors, status.declared_features)
        if obj.spec.pod_cidrs:
            _check_cidrs(errors, obj.spec.pod_cidrs)
        return errors

    def validate_update(self, obj: core_v1.Node, old: core_v1.Node) -> list[FieldError]:
        """Some rules are applied twice, as in Kubernetes: see `validate`."""
        errors: list[FieldError] = []
        _check_resources(errors, obj.status)
        _check_features(errors, obj.status.declared_features)
        _check_addresses(errors, obj.status)
        cidrs, before = obj.spec.pod_cidrs, old.spec.pod_cidrs
        changes = int(len(cidrs) != len(before)) or sum(map(operator.ne, cidrs, before))
        if before:
            text = 'node updates may not change podCIDR except from "" to valid'
            errors += [forbidden("spec.podCIDRs", text)] * changes
        if old.spec.provider_id and obj.spec.provider_id != old.spec.provider_id:
            errors.append(
                forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
            )
        check_taints(errors, "metadata.taints", obj.spec.taints)
        if obj.spec.external_id != old.spec.external_id:
            errors.append(forbidden("spec.externalID", "may not be updated"))
        return errors

    def validate_status_update(self, obj: core_v1.Node, old: core_v1.Node) -> list[FieldError]:
        errors: list[FieldError] = []
        _check_resources(errors, obj.status)
        _check_features(errors, obj.status.declared_features)
        _check_addresses(errors, obj.status)
        return errors

    def warnings(self, obj: core_v1.Node, old: core_v1.Node | None) -> list[str]:
        found = []
        if obj.spec.config_source is not None:
            found.append("spec.configSource: the feature is removed")
        if obj.spec.external_id:
            found.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        for index, value in enumerate(obj.spec.pod_cidrs):
            found.extend(cidr_warnings(f"spec.podCIDRs[{index}]", value))
        found.extend(key_warnings("spec.taints", obj.spec.taints))
        annotations = obj.metadata.annotations
        found.extend(
            f"metadata.annotations[{name}]: {ALPHA_ANNOTATIONS[name]}"
            for name in ALPHA_ANNOTATIONS
            if name in annotations
        )
        return found

    def selectable_fields(self, obj: core_v1.Node) -> dict[str, str]:
        return {"spec.unschedulable": "true" if obj.spec.unschedulable else "false"}


_FEATURE = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*", re.ASCII)
_LONGEST_FEATURE = 253
_FEATURE_FORM = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)


def _check_features(errors: list[FieldError], features: tuple[str, ...]) -> None:
    """Features are named like types, in order, each once."""
    for index, (feature, following) in enumerate(itertools.zip_longest(features, features[1:])):
        problem = "" if _FEATURE.fullmatch(feature) else _FEATURE_FORM
        if formats.size(feature) > _LONGEST_FEATURE:
            problem = f"must be no more than {_LONGEST_FEATURE} characters"
        if problem:
            text = f"invalid feature name {quoted(feature)}: {problem}"
            errors.append(invalid(f"status.declaredFeatures[{index}]", feature, text))
        where = f"status.declaredFeatures[{index + 1}]"
        if following == feature:
            errors.append(duplicate(where, following))
        elif following is not None and following < feature:
            errors.append(invalid(where, following, "list must be sorted alphabetically"))


def _check_cidrs(errors: list[FieldError], cidrs: tuple[str, ...]) -> None:
    """The ranges of a node's pods: one of a family."""
    for index, value in enumerate(cidrs):
        check_cidr(errors, f"spec.podCIDRs[{index}]", value)
    if len(cidrs) < 2:
        return
    networks = list(map(parse_cidr, cidrs))
    if None in networks:
        place = networks.index(None)
        text = (
            "invalid PodCIDRs. failed to check with dual stack with error:"
            f"invalid CIDR[{place}]: <nil> (invalid CIDR address: {cidrs[place]})"
        )
        errors.append(FieldError(ErrorType.INTERNAL, "spec.podCIDRs", OMITTED, text))
    families = {network.version for network in networks if network is not None}
    if None in networks or len(families) != 2 or len(cidrs) > 2:
        errors.append(invalid("spec.podCIDRs", cidrs, "may specify no more than one CIDR for each IP family"))


def _check_resources(errors: list[FieldError], status: core_v1.NodeStatus) -> None:
    for part, amounts in (("capacity", status.capacity), ("allocatable", status.allocatable)):
        for name in sorted(amounts):
            parsed = quantity.parse(amounts[name])
            where = f"status.{part}.{name}" if name else f"status.{part}[]"
            if parsed.sign() < 0:
                errors.append(invalid(where, str(parsed), "must be greater than or equal to 0"))
            if parsed.scale and is_integer_resource(name):
                errors.append(invalid(where, str(parsed), "must be an integer"))


def _check_addresses(errors: list[FieldError], status: core_v1.NodeStatus) -> None:
    again = repeats(status.addresses)
    for index, address in enumerate(status.addresses):
        if index in again:
            errors.append(duplicate(f"status.addresses[{index}]", go_struct(address)))


STRATEGY = NodeStrategy()
