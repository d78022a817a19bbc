"""Certificates are asked for, renewed before they end, and say what the node's addresses are. In virtual time."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from bayplan.api.types import core_v1
from bayplan.kubelet.node.certificate_requests import (
    CertificateError,
    CertificateTemplate,
    load_certificate,
    load_key,
    make_request,
    new_key,
    request_name,
    satisfies,
    self_signed,
    serving_template,
)
from bayplan.kubelet.node.certificates import (
    Certificate,
    CertificateManager,
    CertificateStore,
    parse_pair,
    serving_files,
)
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run

START = 1_767_323_045.0
DAY = 86400.0
ADDRESSED = CertificateTemplate(("node-1",), ("10.0.0.1",))


def issued(key: bytes, template: CertificateTemplate, now: float, seconds: float = 10 * DAY) -> bytes:
    """A certificate for a key."""
    private, name = load_key(key), x509.Name([])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(datetime.fromtimestamp(now, UTC))
        .not_valid_after(datetime.fromtimestamp(now + seconds, UTC))
    )
    if template.dns_names or template.addresses:
        ips = [x509.IPAddress(ipaddress.ip_address(each)) for each in template.addresses]
        names = x509.SubjectAlternativeName([*(x509.DNSName(each) for each in template.dns_names), *ips])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class Signer:
    """Signs what it is asked for, unless it is to fail or to wait."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, CertificateTemplate]] = []
        self.failures = 0
        self.waits = False

    async def __call__(self, key: bytes, template: CertificateTemplate) -> bytes:
        now = asyncio.get_running_loop().time()
        self.asked.append((now, template))
        if self.failures:
            self.failures -= 1
            raise CertificateError("denied")
        if self.waits:
            await asyncio.Event().wait()
        return issued(key, template, START + now)


def check(test: Coroutine[Any, Any, None]) -> None:
    """Run in virtual time."""
    run(test)


def manager(directory: Path, signer: Signer, **more: Any) -> CertificateManager:
    """A manager on the running loop's time."""
    store = CertificateStore(directory, "kubelet-client")
    return CertificateManager(store, signer, LoopClock(START), SeededRandomness(1), **more)


def test_first_certificate_is_asked_for_and_the_next_before_it_ends(tmp_path: Path) -> None:
    async def steps() -> None:
        signer, seen = Signer(), list[Certificate]()
        it = manager(tmp_path, signer, changed=seen.append)
        has_none = it.current is None
        assert has_none
        running = asyncio.create_task(it.run())
        await asyncio.sleep(1)
        assert it.current is not None
        await asyncio.sleep(6.9 * DAY)
        assert len(signer.asked) == 1
        await asyncio.sleep(2.2 * DAY)
        assert len(signer.asked) == 2
        assert 7 * DAY <= signer.asked[1][0] <= 9 * DAY + 2
        assert seen[-1] == it.current
        running.cancel()
        later = manager(tmp_path, signer)
        assert later.current is not None
        assert later.current.not_after == it.current.not_after
        assert later.renewal_time() > START + 14 * DAY

    check(steps())


def test_certificate_that_has_ended_is_not_used(tmp_path: Path) -> None:
    async def steps() -> None:
        key = new_key()
        CertificateStore(tmp_path, "kubelet-client").update(
            issued(key, CertificateTemplate(), START - 2 * DAY, DAY), key, START
        )
        it = manager(tmp_path, Signer())
        assert it.current is None
        assert it.renewal_time() == START

    check(steps())


def test_failures_are_tried_again_after_longer_and_longer_times(tmp_path: Path) -> None:
    async def steps() -> None:
        signer = Signer()
        signer.failures = 7
        it = manager(tmp_path, signer)
        running = asyncio.create_task(it.run())
        await asyncio.sleep(300)
        running.cancel()
        times = [when for when, _ in signer.asked]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        for gap, least in zip(gaps, (2, 4, 8, 16, 32, 32, 32), strict=True):
            assert least <= gap <= least * 1.1 + 0.1
        assert it.current is not None

    check(steps())


def test_new_addresses_want_a_new_certificate(tmp_path: Path) -> None:
    async def steps() -> None:
        signer = Signer()
        wanted: list[CertificateTemplate | None] = [None]
        it = manager(tmp_path, signer, template=lambda: wanted[0])
        running = asyncio.create_task(it.run())
        await asyncio.sleep(100)
        assert signer.asked == []
        wanted[0] = ADDRESSED
        await asyncio.sleep(2)
        assert [template for _, template in signer.asked] == [ADDRESSED]
        await asyncio.sleep(DAY)
        assert len(signer.asked) == 1
        wanted[0] = CertificateTemplate(("node-1",), ("10.0.0.2",))
        await asyncio.sleep(2)
        assert len(signer.asked) == 2
        assert it.current is not None
        assert satisfies(it.current.certificate, CertificateTemplate(("node-1",), ("10.0.0.2",)))
        signer.waits = True
        wanted[0] = CertificateTemplate(("node-1",), ("10.0.0.3",))
        await asyncio.sleep(5)
        assert len(signer.asked) == 3
        signer.waits = False
        last = wanted[0] = CertificateTemplate(("node-1",), ("10.0.0.4",))
        await asyncio.sleep(5)
        assert signer.asked[-1][1] == last
        assert satisfies(it.current.certificate, last)
        running.cancel()

    check(steps())


def test_files_are_kubelets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = CertificateStore(Path("pki"), "kubelet-server")
    assert store.current() is None
    key = new_key()
    store.update(issued(key, ADDRESSED, START), key, START)
    file = tmp_path / "pki" / "kubelet-server-2026-01-02-03-04-05.pem"
    assert store.current_path.readlink() == file
    assert file.stat().st_mode & 0o777 == 0o600
    current = store.current()
    assert current is not None
    assert (current.not_before, current.not_after) == (START, START + 10 * DAY)
    assert load_certificate(current.certificate) == load_certificate(file.read_bytes())
    assert load_key(current.key).public_key() == load_key(key).public_key()
    with pytest.raises(CertificateError, match="not for this key"):
        store.update(issued(key, ADDRESSED, START), new_key(), START)
    file.write_text("nothing")
    assert store.current() is None


def test_request_names_the_node_and_its_addresses() -> None:
    key = new_key()
    request = x509.load_pem_x509_csr(make_request(key, "node-1", ADDRESSED))
    assert request.subject.rfc4514_string() == "CN=system:node:node-1,O=system:nodes"
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node-1"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]
    assert not list(x509.load_pem_x509_csr(make_request(key, "node-1", CertificateTemplate())).extensions)
    name = request_name(key, "node-1", ("client auth",))
    assert name == request_name(key, "node-1", ("client auth",))
    assert name.startswith("node-csr-")
    assert (
        len({name, request_name(key, "node-2", ("client auth",)), request_name(new_key(), "node-1", ("client auth",))})
        == 3
    )


def test_servers_certificate_is_for_names_and_addresses_of_the_node() -> None:
    def address(kind: str, text: str) -> core_v1.NodeAddress:
        return core_v1.NodeAddress(type=kind, address=text)

    addresses = [
        address("InternalIP", "10.0.0.2"),
        address("InternalIP", "10.0.0.1"),
        address("Hostname", "node-1"),
        address("InternalDNS", "node-1.local"),
        address("ExternalIP", ""),
        address("ExternalDNS", "1.2.3.4"),
    ]
    assert serving_template(addresses) == CertificateTemplate(("node-1", "node-1.local"), ("10.0.0.1", "10.0.0.2"))
    assert serving_template([address("Hostname", "node-1")]) is None
    assert serving_template([address("Hostname", "10.0.0.1")]) == CertificateTemplate((), ("10.0.0.1",))
    assert satisfies(issued(new_key(), ADDRESSED, START), CertificateTemplate((), ("10.0.0.1",)))
    assert not satisfies(issued(new_key(), ADDRESSED, START), CertificateTemplate(("other",), ("10.0.0.1",)))
    assert not satisfies(issued(new_key(), CertificateTemplate(), START), ADDRESSED)
    assert satisfies(issued(new_key(), CertificateTemplate(), START), CertificateTemplate())
    assert not satisfies(issued(new_key(), CertificateTemplate(), START), CertificateTemplate(("node-1",)))
    assert not satisfies(issued(new_key(), CertificateTemplate(), START), CertificateTemplate((), ("10.0.0.1",)))


@pytest.mark.parametrize("host", ["node-1", "10.0.0.1", "x" * 63])
def test_server_without_a_signer_signs_itself(tmp_path: Path, host: str) -> None:
    certificate_file, key_file = serving_files(tmp_path / "pki", host, START)
    pair = parse_pair(certificate_file.read_bytes(), key_file.read_bytes())
    assert pair.not_after == START + 365 * DAY
    assert satisfies(
        pair.certificate, CertificateTemplate((), (host,)) if "." in host else CertificateTemplate((host,))
    )
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert serving_files(tmp_path / "pki", host, START + DAY) == (certificate_file, key_file)
    assert certificate_file.read_bytes() == pair.certificate
    serving_files(tmp_path / "pki", host, START + 366 * DAY)
    assert certificate_file.read_bytes() != pair.certificate


def test_self_signed_certificates_have_names_of_their_own() -> None:
    certificate, _ = self_signed("node-1", START)
    assert load_certificate(certificate).subject.rfc4514_string() == f"CN=node-1@{int(START)}"
