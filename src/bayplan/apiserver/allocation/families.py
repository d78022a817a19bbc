"""Which address families a service has, from what it says, what it had and what the cluster offers.

Source: Kubernetes' service registry (`alloc.go`): a single-stack service never becomes a dual-stack one or back unless its ipFamilyPolicy says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.errors import FieldError, invalid
from bayplan.api.types import core_v1
from bayplan.api.validation.services import check_cluster_ips

SINGLE, PREFER, REQUIRE = "SingleStack", "PreferDualStack", "RequireDualStack"
FAMILIES = ("IPv4", "IPv6")


def family_of(address: str) -> str:
    """The family of a valid address."""
    return "IPv6" if ":" in address else "IPv4"


def settle_families(
    spec: core_v1.ServiceSpec, old: core_v1.ServiceSpec | None, configured: Sequence[str]
) -> list[FieldError]:
    """Fill in policy and families. `configured` are the cluster's families, the default one first. Returns what is wrong."""
    if spec.type == "ExternalName" or _is_untouched(spec, old):
        return []
    selectorless = spec.cluster_ip == "None" and not spec.selector
    if spec.ip_family_policy is None:
        inherited = old.ip_family_policy if old is not None else None
        spec.ip_family_policy = inherited or (REQUIRE if selectorless else SINGLE)
    errors: list[FieldError] = []
    check_cluster_ips(errors, spec)
    if errors:
        return errors
    errors = [*_check_change(spec, old), *_check_policy(spec), *_infer(spec, configured)]
    if errors:
        return errors
    if selectorless:
        spec.ip_families = spec.ip_families or (configured[0],)
        _add_second(spec, FAMILIES)
        return []
    errors = _check_configured(spec, configured)
    if not errors:
        spec.ip_families = spec.ip_families or (configured[0],)
        _add_second(spec, configured)
    return errors


def _is_untouched(spec: core_v1.ServiceSpec, old: core_v1.ServiceSpec | None) -> bool:
    """A service that takes what it gets stays as it is when the cluster changes."""
    if old is None or old.type == "ExternalName" or spec.ip_family_policy != PREFER:
        return False
    before = (old.cluster_ip, old.cluster_ips, old.ip_families, old.ip_family_policy)
    return (spec.cluster_ip, spec.cluster_ips, spec.ip_families, spec.ip_family_policy) == before


def _check_change(spec: core_v1.ServiceSpec, old: core_v1.ServiceSpec | None) -> list[FieldError]:
    """To become single-stack, the policy is changed and nothing else; what was second goes."""
    if old is None:
        return []
    if spec.ip_family_policy == SINGLE:
        if spec.cluster_ips == old.cluster_ips:
            spec.cluster_ips = spec.cluster_ips[:1]
        if spec.ip_families == old.ip_families:
            spec.ip_families = spec.ip_families[:1]
        return []
    errors = []
    for what, new, was in (
        ("cluster IP", spec.cluster_ips, old.cluster_ips),
        ("IP family", spec.ip_families, old.ip_families),
    ):
        if len(new) == 1 and len(was) == 2 and new[0] == was[0]:
            text = f"must be 'SingleStack' to release the secondary {what}"
            errors.append(invalid("spec.ipFamilyPolicy", spec.ip_family_policy, text))
    return errors


def _check_policy(spec: core_v1.ServiceSpec) -> list[FieldError]:
    if spec.ip_family_policy != SINGLE:
        return []
    several = (("cluster IPs", spec.cluster_ips), ("IP families", spec.ip_families))
    return [
        invalid(
            "spec.ipFamilyPolicy",
            SINGLE,
            f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified",
        )
        for what, values in several
        if len(values) == 2
    ]


def _infer(spec: core_v1.ServiceSpec, configured: Sequence[str]) -> list[FieldError]:
    """Families of addresses that were given without them."""
    errors = []
    for index, address in enumerate(spec.cluster_ips):
        if address == "None":
            break
        family = family_of(address)
        if index < len(spec.ip_families):
            continue
        if family in configured:
            spec.ip_families = (*spec.ip_families, family)
        else:
            text = f"{family} is not configured on this cluster"
            errors.append(invalid(f"spec.clusterIPs[{index}]", spec.cluster_ips, text))
    return errors


def _check_configured(spec: core_v1.ServiceSpec, configured: Sequence[str]) -> list[FieldError]:
    errors = []
    if spec.ip_family_policy == REQUIRE and len(configured) < 2:
        text = "this cluster is not configured for dual-stack services"
        errors.append(invalid("spec.ipFamilyPolicy", REQUIRE, text))
    for index, family in enumerate(spec.ip_families):
        if family not in configured:
            errors.append(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    return errors


def _add_second(spec: core_v1.ServiceSpec, available: Sequence[str]) -> None:
    if spec.ip_family_policy != SINGLE and len(spec.ip_families) == 1 and len(available) == 2:
        other = FAMILIES[1] if spec.ip_families[0] == FAMILIES[0] else FAMILIES[0]
        spec.ip_families = (*spec.ip_families, other)
