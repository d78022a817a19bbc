"""The functions that expressions of admission policies may call: CEL's own, its extensions, and those of Kubernetes.

Written as signatures: `size(list(A)) -> int` is a function, `(string).contains(string) -> bool` one that is called on a string, capital letters stand for types.
Sources: cel-go's standard library, optional types, strings (version 2), sets, lists (version 3), two-variable comprehensions; `k8s.io/apiserver/pkg/cel/library`
as of Kubernetes 1.36.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bayplan.api.cel.types import Type, TypeKind, named_type, split_arguments, type_of

_NUMBERS = ("int", "uint", "double")
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")

_STANDARD = """
_?_:_(bool, A, A) -> A
_&&_(bool, bool) -> bool
_||_(bool, bool) -> bool
!_(bool) -> bool
@not_strictly_false(bool) -> bool
_==_(A, A) -> bool
_!=_(A, A) -> bool
_+_(bytes, bytes) -> bytes
_+_(double, double) -> double
_+_(duration, duration) -> duration
_+_(duration, timestamp) -> timestamp
_+_(timestamp, duration) -> timestamp
_+_(int, int) -> int
_+_(list(A), list(A)) -> list(A)
_+_(string, string) -> string
_+_(uint, uint) -> uint
_-_(double, double) -> double
_-_(duration, duration) -> duration
_-_(int, int) -> int
_-_(timestamp, duration) -> timestamp
_-_(timestamp, timestamp) -> duration
_-_(uint, uint) -> uint
_*_(double, double) -> double
_*_(int, int) -> int
_*_(uint, uint) -> uint
_/_(double, double) -> double
_/_(int, int) -> int
_/_(uint, uint) -> uint
_%_(int, int) -> int
_%_(uint, uint) -> uint
-_(double) -> double
-_(int) -> int
_[_](list(A), int) -> A
_[_](map(A, B), A) -> B
_[_](optional_type(list(V)), int) -> optional_type(V)
_[_](optional_type(map(K, V)), K) -> optional_type(V)
_[?_](list(V), int) -> optional_type(V)
_[?_](optional_type(list(V)), int) -> optional_type(V)
_[?_](map(K, V), K) -> optional_type(V)
_[?_](optional_type(map(K, V)), K) -> optional_type(V)
@in(A, list(A)) -> bool
@in(A, map(A, B)) -> bool
type(A) -> type(A)
dyn(A) -> dyn
bool(bool) -> bool
bool(string) -> bool
bytes(bytes) -> bytes
bytes(string) -> bytes
double(double) -> double
double(int) -> double
double(string) -> double
double(uint) -> double
duration(duration) -> duration
duration(int) -> duration
duration(string) -> duration
int(int) -> int
int(double) -> int
int(duration) -> int
int(string) -> int
int(timestamp) -> int
int(uint) -> int
string(string) -> string
string(bool) -> string
string(bytes) -> string
string(double) -> string
string(duration) -> string
string(int) -> string
string(timestamp) -> string
string(uint) -> string
timestamp(timestamp) -> timestamp
timestamp(int) -> timestamp
timestamp(string) -> timestamp
uint(uint) -> uint
uint(double) -> uint
uint(int) -> uint
uint(string) -> uint
(string).contains(string) -> bool
(string).endsWith(string) -> bool
(string).startsWith(string) -> bool
matches(string, string) -> bool
(string).matches(string) -> bool
"""
_OPTIONAL = """
optional.of(V) -> optional_type(V)
optional.ofNonZeroValue(V) -> optional_type(V)
optional.none() -> optional_type(V)
optional.unwrap(list(optional_type(V))) -> list(V)
(list(optional_type(V))).unwrapOpt() -> list(V)
(optional_type(V)).value() -> V
(optional_type(V)).hasValue() -> bool
(optional_type(V)).or(optional_type(V)) -> optional_type(V)
(optional_type(V)).orValue(V) -> V
(list(V)).first() -> optional_type(V)
(list(V)).last() -> optional_type(V)
"""
_EXTENSIONS = """
(string).charAt(int) -> string
(string).indexOf(string) -> int
(string).indexOf(string, int) -> int
(string).lastIndexOf(string) -> int
(string).lastIndexOf(string, int) -> int
(string).lowerAscii() -> string
(string).replace(string, string) -> string
(string).replace(string, string, int) -> string
(string).split(string) -> list(string)
(string).split(string, int) -> list(string)
(string).substring(int) -> string
(string).substring(int, int) -> string
(string).trim() -> string
(string).upperAscii() -> string
(string).format(list(dyn)) -> string
strings.quote(string) -> string
(list(string)).join() -> string
(list(string)).join(string) -> string
sets.contains(list(T), list(T)) -> bool
sets.equivalent(list(T), list(T)) -> bool
sets.intersects(list(T), list(T)) -> bool
(list(T)).slice(int, int) -> list(T)
(list(list(T))).flatten() -> list(T)
(list(dyn)).flatten(int) -> list(dyn)
lists.range(int) -> list(int)
(list(T)).reverse() -> list(T)
(list(T)).distinct() -> list(T)
cel.@mapInsert(map(K, V), K, V) -> map(K, V)
cel.@mapInsert(map(K, V), map(K, V)) -> map(K, V)
"""
_KUBERNETES = """
(list(A)).indexOf(A) -> int
(list(A)).lastIndexOf(A) -> int
(string).find(string) -> string
(string).findAll(string) -> list(string)
(string).findAll(string, int) -> list(string)
url(string) -> kubernetes.URL
isURL(string) -> bool
(kubernetes.URL).getScheme() -> string
(kubernetes.URL).getHost() -> string
(kubernetes.URL).getHostname() -> string
(kubernetes.URL).getPort() -> string
(kubernetes.URL).getEscapedPath() -> string
(kubernetes.URL).getQuery() -> map(string, list(string))
quantity(string) -> kubernetes.Quantity
isQuantity(string) -> bool
sign(kubernetes.Quantity) -> int
(kubernetes.Quantity).isGreaterThan(kubernetes.Quantity) -> bool
(kubernetes.Quantity).isLessThan(kubernetes.Quantity) -> bool
(kubernetes.Quantity).compareTo(kubernetes.Quantity) -> int
(kubernetes.Quantity).asApproximateFloat() -> double
(kubernetes.Quantity).asInteger() -> int
(kubernetes.Quantity).isInteger() -> bool
(kubernetes.Quantity).add(kubernetes.Quantity) -> kubernetes.Quantity
(kubernetes.Quantity).add(int) -> kubernetes.Quantity
(kubernetes.Quantity).sub(kubernetes.Quantity) -> kubernetes.Quantity
(kubernetes.Quantity).sub(int) -> kubernetes.Quantity
semver(string) -> kubernetes.Semver
semver(string, bool) -> kubernetes.Semver
isSemver(string) -> bool
isSemver(string, bool) -> bool
(kubernetes.Semver).isGreaterThan(kubernetes.Semver) -> bool
(kubernetes.Semver).isLessThan(kubernetes.Semver) -> bool
(kubernetes.Semver).compareTo(kubernetes.Semver) -> int
(kubernetes.Semver).major() -> int
(kubernetes.Semver).minor() -> int
(kubernetes.Semver).patch() -> int
ip(string) -> net.IP
isIP(string) -> bool
ip.isCanonical(string) -> bool
(net.IP).family() -> int
(net.IP).isUnspecified() -> bool
(net.IP).isLoopback() -> bool
(net.IP).isLinkLocalMulticast() -> bool
(net.IP).isLinkLocalUnicast() -> bool
(net.IP).isGlobalUnicast() -> bool
string(net.IP) -> string
cidr(string) -> net.CIDR
isCIDR(string) -> bool
(net.CIDR).containsIP(string) -> bool
(net.CIDR).containsIP(net.IP) -> bool
(net.CIDR).containsCIDR(string) -> bool
(net.CIDR).containsCIDR(net.CIDR) -> bool
(net.CIDR).ip() -> net.IP
(net.CIDR).prefixLength() -> int
(net.CIDR).masked() -> net.CIDR
string(net.CIDR) -> string
format.named(string) -> optional_type(kubernetes.NamedFormat)
(kubernetes.NamedFormat).validate(string) -> optional_type(list(string))
(kubernetes.authorization.Authorizer).path(string) -> kubernetes.authorization.PathCheck
(kubernetes.authorization.Authorizer).group(string) -> kubernetes.authorization.GroupCheck
(kubernetes.authorization.Authorizer).serviceAccount(string, string) -> kubernetes.authorization.Authorizer
(kubernetes.authorization.GroupCheck).resource(string) -> kubernetes.authorization.ResourceCheck
(kubernetes.authorization.ResourceCheck).subresource(string) -> kubernetes.authorization.ResourceCheck
(kubernetes.authorization.ResourceCheck).namespace(string) -> kubernetes.authorization.ResourceCheck
(kubernetes.authorization.ResourceCheck).name(string) -> kubernetes.authorization.ResourceCheck
(kubernetes.authorization.ResourceCheck).fieldSelector(string) -> kubernetes.authorization.ResourceCheck
(kubernetes.authorization.ResourceCheck).labelSelector(string) -> kubernetes.authorization.ResourceCheck
(kubernetes.authorization.PathCheck).check(string) -> kubernetes.authorization.Decision
(kubernetes.authorization.ResourceCheck).check(string) -> kubernetes.authorization.Decision
(kubernetes.authorization.Decision).errored() -> bool
(kubernetes.authorization.Decision).error() -> string
(kubernetes.authorization.Decision).allowed() -> bool
(kubernetes.authorization.Decision).reason() -> string
"""
_FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix", "dns1123SubdomainPrefix",
    "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
)  # fmt: skip
_SIGNATURE = re.compile(
    r"(?:\((?P<target>.+?)\)\.(?=[a-zA-Z@]))?(?P<name>[^(]+)\((?P<arguments>.*)\) -> (?P<result>.+)"
)


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function."""

    is_member: bool
    """Whether it is called on something, which is its first argument."""
    arguments: tuple[Type, ...]
    result: Type
    parameters: tuple[str, ...]
    """Names of the types that are open."""


def _made_signatures() -> Iterator[str]:
    """Signatures that differ by one type only."""
    for name in ("<", "<=", ">", ">="):
        for one in _COMPARABLE:
            yield f"_{name}_({one}, {one}) -> bool"
        for one in _NUMBERS:
            yield from (f"_{name}_({one}, {other}) -> bool" for other in _NUMBERS if other != one)
    for held in ("bytes", "list(A)", "map(A, B)", "string"):
        yield f"size({held}) -> int"
        yield f"({held}).size() -> int"
    for part in ("FullYear", "Month", "DayOfYear", "DayOfMonth", "Date", "DayOfWeek"):
        yield f"(timestamp).get{part}() -> int"
        yield f"(timestamp).get{part}(string) -> int"
    for part in ("Hours", "Minutes", "Seconds", "Milliseconds"):
        yield f"(timestamp).get{part}() -> int"
        yield f"(timestamp).get{part}(string) -> int"
        yield f"(duration).get{part}() -> int"
    for one in _COMPARABLE:
        yield f"(list({one})).isSorted() -> bool"
        yield f"(list({one})).max() -> {one}"
        yield f"(list({one})).min() -> {one}"
        yield f"(list({one})).sort() -> list({one})"
        yield f"(list(T)).@sortByAssociatedKeys(list({one})) -> list(T)"
    for one in (*_NUMBERS, "duration"):
        yield f"(list({one})).sum() -> {one}"
    yield from (f"format.{name}() -> kubernetes.NamedFormat" for name in _FORMATS)


def _overload(signature: str) -> tuple[str, Overload]:
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        raise ValueError(f"{signature!r} is no signature")
    target = match["target"]
    arguments = tuple(named_type(part) for part in split_arguments(match["arguments"]))
    if target is not None:
        arguments = (named_type(target), *arguments)
    result = named_type(match["result"])
    parameters = dict.fromkeys(name for one in (*arguments, result) for name in _parameters(one))
    return match["name"], Overload(target is not None, arguments, result, tuple(parameters))


def _parameters(found: Type) -> Iterator[str]:
    if found.kind is TypeKind.PARAMETER:
        yield found.name
    for one in found.parameters:
        yield from _parameters(one)


@functools.cache
def functions() -> Mapping[str, tuple[Overload, ...]]:
    """All functions and operators by name, with every way to call them."""
    found: dict[str, list[Overload]] = {}
    tables = (_STANDARD, _OPTIONAL, _EXTENSIONS, _KUBERNETES)
    for signature in (*(line for table in tables for line in table.splitlines() if line), *_made_signatures()):
        name, overload = _overload(signature)
        found.setdefault(name, []).append(overload)
    return {name: tuple(overloads) for name, overloads in found.items()}


@functools.cache
def patch_functions() -> Mapping[str, tuple[Overload, ...]]:
    """Those, and what expressions that make patches may call besides."""
    return functions_with("jsonpatch.escapeKey(string) -> string")


def functions_with(*signatures: str) -> Mapping[str, tuple[Overload, ...]]:
    """Those, and others of new names."""
    found: dict[str, tuple[Overload, ...]] = {}
    for signature in signatures:
        name, overload = _overload(signature)
        found[name] = (*found.get(name, ()), overload)
    return {**functions(), **found}


@functools.cache
def type_names() -> Mapping[str, Type]:
    """Types that expressions can name, such as `int` in `type(x) == int`: name -> the type of that type."""
    plain = ("bool", "bytes", "double", "duration", "int", "null", "string", "timestamp", "type", "uint")
    open_ones = ("list(A)", "map(A, B)", "optional_type(V)")
    held = [named_type(one) for one in (*plain, *open_ones, "net.IP", "net.CIDR")]
    return {one.name: type_of(one) for one in held}
