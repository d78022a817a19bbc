"""Pods get the certificates of trust bundles, each once."""

from __future__ import annotations

import json
from typing import cast

import pytest

from bayplan.api.errors import ApiError, not_found_error
from bayplan.api.types import meta_v1
from bayplan.client import Client
from bayplan.kubelet.objects import ObjectError
from bayplan.kubelet.trust_bundles import TrustBundles, distinct_certificates, pem_certificate
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run
from bayplan.testing.clock import ManualClock

ONE, TWO, THREE = (pem_certificate(name * 40) for name in (b"one", b"two", b"three"))


class Server:
    """Lists bundles."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lists = 0
        self.items = [
            self.bundle("a", "example.com/a", ONE + b"between\n" + TWO, env="prod"),
            self.bundle("b", "example.com/a", TWO + THREE),
            self.bundle("c", "", ONE),
        ]
        self.error: ApiError | None = None
        self.bundles = TrustBundles(cast(Client, self), self.clock, SeededRandomness(1))

    @staticmethod
    def bundle(name: str, signer: str, certificates: bytes, **labels: str) -> dict[str, object]:
        spec = {"signerName": signer, "trustBundle": certificates.decode()}
        return {"metadata": {"name": name, "labels": labels}, "spec": spec}

    async def raw(self, method: str, path: str) -> bytes:
        assert (method, path) == ("GET", "/apis/certificates.k8s.io/v1beta1/clustertrustbundles")
        if self.error is not None:
            raise self.error
        self.lists += 1
        return json.dumps({"metadata": {}, "items": self.items}).encode()

    def anchors(
        self,
        name: str | None = None,
        signer: str | None = None,
        selector: meta_v1.LabelSelector | None = None,
        *,
        optional: bool = False,
    ) -> list[bytes]:
        found = run(self.bundles.anchors(name=name, signer=signer, selector=selector, optional=optional))
        return distinct_certificates([found])


EVERYTHING = meta_v1.LabelSelector()
PROD = meta_v1.LabelSelector(match_labels={"env": "prod"})


def test_a_bundle_by_its_name() -> None:
    assert Server().anchors("a") == distinct_certificates([ONE, TWO])


def test_all_bundles_of_a_signer() -> None:
    assert Server().anchors(signer="example.com/a", selector=EVERYTHING) == distinct_certificates([ONE, TWO, THREE])
    assert Server().anchors(signer="example.com/a", selector=PROD) == distinct_certificates([ONE, TWO])


def test_what_is_not_there_is_an_error_unless_it_is_optional() -> None:
    server = Server()
    text = 'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "x" not found'
    with pytest.raises(ObjectError) as error:
        server.anchors("x")
    assert str(error.value) == text
    with pytest.raises(ObjectError, match="matched zero ClusterTrustBundles"):
        server.anchors(signer="example.com/b", selector=EVERYTHING)
    with pytest.raises(ObjectError, match="matched zero ClusterTrustBundles"):
        server.anchors(signer="example.com/a")
    assert server.anchors("x", optional=True) == []


def test_a_server_without_bundles_is_an_error() -> None:
    server = Server()
    server.error = not_found_error("clustertrustbundles", "certificates.k8s.io", "x")
    with pytest.raises(ObjectError, match="while listing ClusterTrustBundles: "):
        server.anchors("a", optional=True)


def test_bundles_are_listed_again_before_volumes_are_brought_up_to_date() -> None:
    server = Server()
    server.anchors("a")
    server.anchors("b")
    assert server.lists == 1
    server.clock.advance(60)
    server.items = [server.bundle("a", "", THREE)]
    assert server.anchors("a") == distinct_certificates([THREE])


def test_certificates_are_written_in_lines_of_64() -> None:
    lines = ONE.decode().splitlines()
    assert (lines[0], lines[-1]) == ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----")
    assert [len(each) for each in lines[1:-2]] == [64] * (len(lines) - 3)
    assert distinct_certificates([ONE]) == [b"one" * 40]
