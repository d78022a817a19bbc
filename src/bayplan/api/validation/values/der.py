"""What Go says of PEM and DER that hold no certificate or certificate request. Only the outermost structure is looked at: what is deeper shows when it is signed.

Source: Go's `encoding/pem`, `encoding/asn1` and `crypto/x509`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

_BEGIN: Final = b"-----BEGIN "
_END: Final = b"\n-----END "
_DASHES: Final = b"-----"
_SEQUENCE: Final = 16
_INTEGER: Final = 2
_NO_PARAMETERS: Final = (
    "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> "
    "stringType:0 timeType:0 set:false omitEmpty:false}"
)


class PemBlock(NamedTuple):
    """A block of a PEM text."""

    type: str
    has_headers: bool
    content: bytes
    end: int
    """Where the line that ends it ends."""


class _Malformed(Exception):
    """The text says what is wrong."""


class _Header(NamedTuple):
    tag_class: int
    tag: int
    length: int
    is_compound: bool
    end: int
    """Where the content begins."""


def pem_blocks(text: bytes) -> list[PemBlock]:
    """The blocks of a text; what is no block is skipped, as in Go: each end belongs to the last beginning before it."""
    blocks: list[PemBlock] = []
    start = 0
    while (end := text.find(_END, start)) >= 0:
        behind = end + len(_END)
        begin = text.rfind(_BEGIN, start, end + 1)
        found = None if begin < 0 or (begin > 0 and text[begin - 1 : begin] != b"\n") else _block(text, begin, behind)
        if found is not None:
            behind = found.end
            blocks.append(found)
        start = behind
    return blocks


def _block(text: bytes, begin: int, behind: int) -> PemBlock | None:
    """The block from a beginning to the end whose type stands at `behind`; None if it is none."""
    line, at = _line(text, begin + len(_BEGIN))
    if not line.endswith(_DASHES):
        return None
    kind, has_headers = line.removesuffix(_DASHES), False
    while at < behind:
        line, following = _line(text, at)
        if b":" not in line:
            break
        has_headers, at = True, following
    end = behind - len(_END)
    if at > end + 1 or (at == end + 1 and has_headers):
        return None
    line, following = _line(text, behind)
    if line != kind + _DASHES:
        return None
    try:
        content = base64.b64decode(text[at:end].translate(None, b" \t\r\n"), validate=True)
    except binascii.Error:
        return None
    return PemBlock(kind.decode(errors="replace"), has_headers, content, following)


def _line(text: bytes, at: int) -> tuple[bytes, int]:
    """The line from a place on, without the blanks at its end, and where the next one begins."""
    end = text.find(b"\n", at)
    return (text[at:].rstrip(b" \t\r"), len(text)) if end < 0 else (text[at:end].rstrip(b" \t\r"), end + 1)


def certificate_request_problem(der: bytes) -> str:
    """Why bytes are no certificate request; "" if they may be one."""
    try:
        content, rest = _read(der, _SEQUENCE, "certificateRequest")
        inner, _ = _read(content, _SEQUENCE, "tbsCertificateRequest")
        _read(inner, _INTEGER, "int")
    except _Malformed as error:
        return f"asn1: {error}"
    return "asn1: syntax error: trailing data" if rest else ""


def certificates_problem(text: bytes) -> str:
    """Why a text is no list of certificates in PEM; "" if it may be one."""
    blocks = pem_blocks(text)
    for block in blocks:
        if block.type != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.type}"'
        if block.has_headers:
            return "no PEM block headers are permitted"
        if not block.content:
            return "found CERTIFICATE PEM block containing 0 certificates"
        try:
            content, _ = _read(block.content, _SEQUENCE, "")
        except _Malformed:
            return "x509: malformed certificate"
        try:
            _read(content, _SEQUENCE, "")
        except _Malformed:
            return "x509: malformed tbs certificate"
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"


def _read(data: bytes, tag: int, type_name: str) -> tuple[bytes, bytes]:
    """The content of the element that data begin with, and what follows it. type_name: Go's, of what is expected. Raises _Malformed."""
    if not data:
        raise _Malformed("syntax error: sequence truncated")
    found = _header(data)
    if (found.tag_class, found.tag, found.is_compound) != (0, tag, tag == _SEQUENCE):
        shown = f"{{class:{found.tag_class} tag:{found.tag} length:{found.length} isCompound:{str(found.is_compound).lower()}}}"
        raise _Malformed(
            f"structure error: tags don't match ({tag} vs {shown}) {_NO_PARAMETERS} {type_name} @{found.end}"
        )
    end = found.end + found.length
    if end > len(data):
        raise _Malformed("syntax error: data truncated")
    return data[found.end : end], data[end:]


def _header(data: bytes) -> _Header:
    """Raises _Malformed."""
    first, at = data[0], 1
    tag = first & 0x1F
    if tag == 0x1F:
        tag, at = _long_tag(data)
    length, at = _length(data, at)
    return _Header(first >> 6, tag, length, bool(first & 0x20), at)


def _long_tag(data: bytes) -> tuple[int, int]:
    """A tag in base 128, and where it ends. Raises _Malformed."""
    tag, at = 0, 1
    while True:
        if at >= len(data):
            raise _Malformed("syntax error: truncated base 128 integer")
        if at == 1 and data[at] == 0x80:
            raise _Malformed("syntax error: integer is not minimally encoded")
        tag = tag << 7 | data[at] & 0x7F
        at += 1
        if not data[at - 1] & 0x80:
            break
        if at > 5:
            raise _Malformed("structure error: base 128 integer too large")
    if tag < 0x1F:
        raise _Malformed("syntax error: non-minimal tag")
    return tag, at


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A length, and where it ends. Raises _Malformed."""
    if at >= len(data):
        raise _Malformed("syntax error: truncated tag or length")
    first = data[at]
    at += 1
    if not first & 0x80:
        return first, at
    if first == 0x80:
        raise _Malformed("syntax error: indefinite length found (not DER)")
    length = 0
    for _ in range(first & 0x7F):
        if at >= len(data):
            raise _Malformed("syntax error: truncated tag or length")
        if length >= 1 << 23:
            raise _Malformed("structure error: length too large")
        length = length << 8 | data[at]
        at += 1
        if length == 0:
            raise _Malformed("structure error: superfluous leading zeros in length")
    if length < 0x80:
        raise _Malformed("structure error: non-minimal length")
    return length, at
