"""For which names and addresses the API server's certificate is."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path

import pytest
from cryptography import x509

from bayplan.apiserver.settings import ApiServerSettings
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings


def addresses_of(cluster: Cluster) -> set[IPv4Address | IPv6Address | IPv4Network | IPv6Network]:
    certificate = x509.load_pem_x509_certificate(cluster.credentials.server.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(names.get_values_for_type(x509.IPAddress))


@pytest.mark.parametrize(
    ("service_ranges", "cluster_ip"),
    [
        ("10.96.0.0/16", "10.96.0.1"),
        ("10.7.0.0/24,fd00:7::/112", "10.7.0.1"),
        ("fd00:7::/112,10.7.0.0/24", "fd00:7::1"),
    ],
)
def test_it_is_for_the_cluster_ip_of_the_kubernetes_service(service_ranges: str, cluster_ip: str) -> None:
    cluster = Cluster(ClusterSettings(api=ApiServerSettings(service_cluster_ip_range=service_ranges)))
    assert cluster.api.context.allocators.addresses.ranges[0].first == cluster_ip
    assert addresses_of(cluster) == {ip_address(one) for one in (cluster_ip, "127.0.0.1", "::1")}


def test_a_kept_one_is_made_anew_for_another_service_range(tmp_path: Path) -> None:
    def settings(service_range: str) -> ClusterSettings:
        return ClusterSettings(api=ApiServerSettings(service_cluster_ip_range=service_range), directory=tmp_path)

    first = Cluster(settings("10.96.0.0/16"))
    assert Cluster(settings("10.96.0.0/16")).credentials == first.credentials
    moved = Cluster(settings("10.97.0.0/16"))
    assert ip_address("10.97.0.1") in addresses_of(moved)
    assert moved.credentials.authority == first.credentials.authority


def test_it_is_for_all_addresses_of_the_machine_where_it_listens_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.cluster.cluster.machine_addresses", lambda: ("10.0.0.7", "fd00::2"))
    found = addresses_of(Cluster(ClusterSettings(bind_address="0.0.0.0")))
    assert {ip_address("10.0.0.7"), ip_address("fd00::2")} < found
    assert ip_address("10.0.0.7") not in addresses_of(Cluster(ClusterSettings()))
