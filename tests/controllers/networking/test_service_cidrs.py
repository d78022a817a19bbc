"""Ranges of cluster IPs."""

from __future__ import annotations

import pytest

from bayplan.api.types import meta_v1, networking_v1
from bayplan.controllers.networking.service_cidrs import addresses_left


def ranges(name: str, *cidrs: str, deleted: bool = False) -> networking_v1.ServiceCIDR:
    stamp = "2026-01-01T00:00:00Z" if deleted else None
    metadata = meta_v1.ObjectMeta(name=name, deletion_timestamp=stamp)
    return networking_v1.ServiceCIDR(metadata=metadata, spec=networking_v1.ServiceCIDRSpec(cidrs=cidrs))


GONE = ranges("gone", "10.1.0.0/24", "fd00::/120", deleted=True)


@pytest.mark.parametrize(
    ("others", "addresses", "expected"),
    [
        pytest.param([], ["10.1.0.7", "10.2.0.1"], ["10.1.0.7"], id="its own addresses hold it"),
        pytest.param([], ["fd00::1"], ["fd00::1"], id="those of its second range as well"),
        pytest.param([ranges("wide", "10.0.0.0/8")], ["10.1.0.7"], [], id="another range that has them sets it free"),
        pytest.param(
            [ranges("wide", "10.0.0.0/8", deleted=True)],
            ["10.1.0.7"],
            ["10.1.0.7"],
            id="but not one that is going too",
        ),
        pytest.param([GONE], [], [], id="nothing holds an unused range"),
    ],
)
def test_what_holds_a_deleted_range(
    others: list[networking_v1.ServiceCIDR], addresses: list[str], expected: list[str]
) -> None:
    assert addresses_left(GONE, others, addresses) == expected
