"""JSON as Go's `encoding/json` writes it: what browsers could take for markup is escaped inside strings.

Who compares the bytes of a `RawExtension`, as Kubernetes' controllers do with the revisions of a DaemonSet, needs this very form.
"""

from __future__ import annotations

from decimal import Decimal

_ESCAPES = (
    (b"&", rb"\u0026"),
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)


def escaped(data: bytes) -> bytes:
    """The same JSON with those characters escaped. They stand nowhere but inside strings."""
    for plain, escape in _ESCAPES:
        if plain in data:
            data = data.replace(plain, escape)
    return data


_LEAST, _MOST = 1e-6, 1e21
"""Go writes a float with an exponent below the one and from the other on."""


def number_text(number: float) -> str:
    """A number as Go writes it to JSON. Of a float no more digits than tell it from all others, then zeros; a whole one has no point."""
    if isinstance(number, int):
        return str(number)
    text = repr(number)
    if number == 0 or _LEAST <= abs(number) < _MOST:
        return f"{Decimal(text):f}".removesuffix(".0")
    mantissa, _, power = text.partition("e")
    return f"{mantissa}e{power[0]}{power[1:].lstrip('0')}"
