"""What a scalar of a YAML document means to go-yaml (version 2), which Kubernetes reads YAML with.

Timestamps stay text, numbers to the base of 60 are text, integers of more than 64 bits are floats, and floats that are too large are text.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from typing import Any, Final

import msgspec
import yaml

from bayplan.api.json.writing import number_text

PREFIX: Final = "tag:yaml.org,2002:"
STRING, BOOL, INT, FLOAT, NULL, TIME, BINARY = (
    PREFIX + name for name in ("str", "bool", "int", "float", "null", "timestamp", "binary")
)
_RESOLVABLE: Final = frozenset((BOOL, INT, FLOAT, NULL, TIME))
_WORDS: Final[dict[str, tuple[str, Any]]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), (BOOL, True)),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), (BOOL, False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), (NULL, None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), (FLOAT, math.nan)),
    **{sign + word: (FLOAT, math.inf) for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), (FLOAT, -math.inf)),
}
_HINTS: Final = frozenset("+-0123456789.")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_LONGEST_INTEGER: Final = 100
"""Letters of an integer that may have 64 bits, with room for zeros in front."""


class YamlProblem(yaml.YAMLError):
    """A document that cannot be read, in the words of go-yaml."""


def resolve(text: str, tag: str | None, *, is_plain: bool) -> Any:
    """The value of a scalar. tag: the one in the document, if any. Raises YamlProblem."""
    if tag is None:
        return plain_value(text) if is_plain else text
    if tag == BINARY:
        try:
            return base64.b64decode(text, validate=True).decode(errors="replace")
        except ValueError:
            raise YamlProblem("yaml: !!binary value contains invalid base64 data") from None
    if tag not in _RESOLVABLE:
        return text
    found, value = _typed(text)
    if tag == FLOAT and found == INT:
        return value
    if tag not in (found, TIME):
        raise YamlProblem(f"yaml: cannot decode {_short(found)} `{text}` as a {_short(tag)}")
    return text if tag == TIME else value


def plain_value(text: str) -> Any:
    """The value of a scalar without tag and quotation marks."""
    if text in _WORDS:
        return _WORDS[text][1]
    return _number(text)[1] if text[0] in _HINTS else text


def _typed(text: str) -> tuple[str, Any]:
    return _WORDS[text] if text in _WORDS else _number(text) if text[0] in _HINTS else (STRING, text)


def _number(text: str) -> tuple[str, Any]:
    """The tag and value of a text that begins like a number."""
    plain = text if text[0] == "." else text.replace("_", "")
    if len(plain) <= _LONGEST_INTEGER and (match := _INTEGER.fullmatch(plain)):
        sign, hexadecimal, binary, octal, decimal = match.groups()
        digits, base = next(
            (one, base) for one, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)) if one is not None
        )
        value = int(sign + digits, base)
        if -(2**63) <= value < 2**64 and (value >= 0 or sign != "+"):
            return INT, value
    if _FLOAT.fullmatch(plain):
        as_float = float(plain)
        if math.isfinite(as_float):
            return FLOAT, as_float
    return STRING, text


def json_number(number: float) -> float | msgspec.Raw:
    """A float as Go writes it to JSON: a whole one has no point. Raises YamlProblem for what is no number."""
    if not math.isfinite(number):
        shown = "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
        raise YamlProblem(f"json: unsupported value: {shown}")
    return msgspec.Raw(number_text(number).encode())


def key_text(key: Any) -> str:
    """A key that is not null as JSON has it."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int) else _float_key(key)


def _float_key(number: float) -> str:
    """As Go's `FormatFloat(number, 'g', -1, 32)`."""
    if not math.isfinite(number):
        return ".nan" if math.isnan(number) else ".inf" if number > 0 else "-.inf"
    try:
        short = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return ".inf" if number > 0 else "-.inf"
    digits = next(
        one for one in range(1, 18) if struct.unpack("f", struct.pack("f", float(f"{short:.{one}g}")))[0] == short
    )
    mantissa, _, exponent = f"{short:.{digits - 1}e}".partition("e")
    if -4 <= int(exponent) < 6:
        return f"{float(mantissa + 'e' + exponent):.{max(digits - 1 - int(exponent), 0)}f}"
    return f"{mantissa}e{exponent}"


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(PREFIX)
