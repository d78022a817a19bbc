"""PEM and DER that hold no certificate: each message is what kube-apiserver 1.36.2 answers to these bytes."""

from __future__ import annotations

import base64
import time

import pytest

from bayplan.api.validation.client_configs import certificate_problem
from bayplan.api.validation.values.der import certificate_request_problem, certificates_problem, pem_blocks

_PARAMETERS = (
    "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> "
    "stringType:0 timeType:0 set:false omitEmpty:false}"
)


def tags(expected: int, found: str, type_name: str, at: int) -> str:
    return f"structure error: tags don't match ({expected} vs {{{found}}}) {_PARAMETERS} {type_name} @{at}"


@pytest.mark.parametrize(
    ("der", "problem"),
    [
        (b"", "syntax error: sequence truncated"),
        (b"\0\0\0", tags(16, "class:0 tag:0 length:0 isCompound:false", "certificateRequest", 2)),
        (b"\x30", "syntax error: truncated tag or length"),
        (b"\x30\x80", "syntax error: indefinite length found (not DER)"),
        (b"\x30\x05\x01", "syntax error: data truncated"),
        (b"\x31\x00", tags(16, "class:0 tag:17 length:0 isCompound:true", "certificateRequest", 2)),
        (b"\x30\x00", "syntax error: sequence truncated"),
        (b"\x30\x03\x02\x01\x00", tags(16, "class:0 tag:2 length:1 isCompound:false", "tbsCertificateRequest", 2)),
        (b"\x10\x00", tags(16, "class:0 tag:16 length:0 isCompound:false", "certificateRequest", 2)),
        (b"\x30\x81\x01\x00", "structure error: non-minimal length"),
        (b"\x30\x82\x00\x01\x00", "structure error: superfluous leading zeros in length"),
        (b"\x1f\x81\x00\x00", tags(16, "class:0 tag:128 length:0 isCompound:false", "certificateRequest", 4)),
        (b"\x30\x04\x30\x02\x05\x00", tags(2, "class:0 tag:5 length:0 isCompound:false", "int", 2)),
        (b"\xa0\x00", tags(16, "class:2 tag:0 length:0 isCompound:true", "certificateRequest", 2)),
        (b"\x30\x84\xff\xff\xff\xff", "structure error: length too large"),
    ],
)
def test_bytes_that_are_no_certificate_request(der: bytes, problem: str) -> None:
    assert certificate_request_problem(der) == f"asn1: {problem}"


def test_what_follows_a_certificate_request_is_refused() -> None:
    request = b"\x30\x05\x30\x03\x02\x01\x00"
    assert certificate_request_problem(request) == ""
    assert certificate_request_problem(request + b"\0") == "asn1: syntax error: trailing data"


def pem(content: bytes, kind: str = "CERTIFICATE", headers: str = "") -> bytes:
    return f"-----BEGIN {kind}-----\n{headers}{base64.b64encode(content).decode()}\n-----END {kind}-----\n".encode()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (pem(b"\0\0\0"), "x509: malformed certificate"),
        (pem(b""), "found CERTIFICATE PEM block containing 0 certificates"),
        (pem(b"\0\0\0", "FOO"), 'only CERTIFICATE PEM blocks are allowed, found "FOO"'),
        (b"x" + pem(b"\0\0\0"), "must contain at least one CERTIFICATE PEM block"),
        (pem(b"\0\0\0") + b"trail", "x509: malformed certificate"),
        (pem(b"\x30\x00"), "x509: malformed tbs certificate"),
        (pem(b"\0\0\0", headers="a: b\n\n"), "no PEM block headers are permitted"),
        (b"AAAA", "must contain at least one CERTIFICATE PEM block"),
        (pem(b"\x30\x02\x30\x00"), ""),
    ],
)
def test_texts_that_hold_no_certificates(text: bytes, problem: str) -> None:
    assert certificates_problem(text) == problem


def test_blocks_are_found_between_other_text() -> None:
    blocks = pem_blocks(b"before\n" + pem(b"a") + b"between\n" + pem(b"b", "FOO"))
    assert [(one.type, one.content) for one in blocks] == [("CERTIFICATE", b"a"), ("FOO", b"b")]


@pytest.mark.parametrize(
    "text",
    [
        b"-----BEGIN A-----\n" * 80_000,
        b"-----BEGIN A-----\n" + b"a:b\n" * 300_000,
        b"-----BEGIN A-----\n\n-----END B-----\n" * 40_000,
        b"\n-----END " * 140_000,
    ],
    ids=["beginnings", "headers", "wrong ends", "ends"],
)
def test_megabytes_that_hold_no_block_are_read_once(text: bytes) -> None:
    """Looking for an end from each beginning would take minutes."""
    started = time.process_time()
    assert pem_blocks(text) == []
    assert certificate_problem(base64.b64encode(text).decode()).endswith("unable to parse bytes as PEM block")
    assert time.process_time() - started < 2.0
