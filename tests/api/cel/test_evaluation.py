"""What expressions evaluate to, what is said where they have no value, and what they cost."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.cel.checker import Environment, check
from bayplan.api.cel.evaluation import CompilationError, Outcome, compile_expression
from bayplan.api.cel.functions.authorization import AuthorizerValue, Decision, Question
from bayplan.api.cel.types import DYN, INT, STRING, Type, list_of, map_of, named_type, struct
from bayplan.api.cel.values import (
    Duration,
    EvaluationError,
    MapValue,
    Timestamp,
    TypeValue,
    UInt,
    equals,
    from_json,
    text_of,
    type_name,
)

CONFORMANCE = json.loads(Path(__file__).with_name("conformance.json").read_text())
"""Expressions of CEL's conformance tests, with what they evaluate to, the types of their variables, and their values."""
VARIABLES: dict[str, Type] = {
    "any": DYN,
    "items": list_of(INT),
    "labels": map_of(STRING, STRING),
    "name": STRING,
    "authorizer": struct("kubernetes.authorization.Authorizer"),
}
VALUES = {
    "any": from_json({"a": 1, "text": "x", "list": [1, 2], "inner": {"b": None}}),
    "items": [1, 2, 3],
    "labels": from_json({"app": "web"}),
    "name": "bay-plan",
}


def outcome(source: str, values: dict[str, Any] | None = None, limit: int = 1_000_000) -> Outcome:
    environment = Environment(VARIABLES)
    checked = check(source, environment)
    assert not checked.issues, checked.issues
    return compile_expression(checked, environment).evaluate({**VALUES, **(values or {})}, limit)


def value_of(source: str) -> Any:
    found = outcome(source)
    assert found.error is None, found.error
    return found.value


def error_of(source: str) -> str:
    found = outcome(source)
    assert found.error is not None, found.value
    return found.error.message


def decoded(value: Any) -> Any:
    """A value of the conformance file."""
    if not isinstance(value, dict):
        return value
    [(kind, given)] = value.items()
    readers: dict[str, Any] = {
        "bytes": bytes.fromhex,
        "double": float,
        "duration": Duration,
        "list": lambda items: [decoded(one) for one in items],
        "map": lambda pairs: MapValue((decoded(key), decoded(one)) for key, one in pairs),
        "timestamp": Timestamp,
        "type": TypeValue,
        "uint": UInt,
    }
    return readers[kind](given)


@pytest.mark.parametrize("row", CONFORMANCE, ids=[row[0][:60] for row in CONFORMANCE])
def test_expressions_of_the_conformance_tests(row: list[Any]) -> None:
    source, wanted, types, values = (*row, {}, {})[:4]
    environment = Environment({name: named_type(one) for name, one in types.items()})
    try:
        program = compile_expression(check(source, environment), environment)
    except CompilationError:
        assert wanted == {"error": True}
        return
    found = program.evaluate({name: decoded(one) for name, one in values.items()})
    if wanted == {"error": True}:
        assert isinstance(found.error, EvaluationError)
        return
    expected = decoded(wanted)
    assert found.error is None
    assert type_name(found.value) == type_name(expected)
    is_nan = isinstance(expected, float) and math.isnan(expected)
    assert math.isnan(found.value) if is_nan else equals(found.value, expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("any.missing", "no such key: missing"),
        ("any['missing']", "no such key: missing"),
        ("items[3]", "index out of bounds: 3"),
        ("items[-1]", "index out of bounds: -1"),
        ("any.list[5]", "index out of bounds: 5"),
        ("any.list['a']", "unsupported index type 'string' in list"),
        ("any.list[1.5]", "unsupported index value 1.5 in list"),
        ("any.a.b", "no such key: b"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("1u / 0u", "division by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("-9223372036854775808 - 1", "integer overflow"),
        ("-9223372036854775808 / -1", "integer overflow"),
        ("-(-9223372036854775808)", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("int(any.a * 9223372036854775807 * 2)", "integer overflow"),
        ("any.a + any.text", "no such overload"),
        ("any.inner + 1", "no such overload: _+_"),
        ("any.a && true", "no such overload"),
        ("any.a ? 1 : 2", "no such overload"),
        ("!any.a", "no such overload: !_"),
        ("-any.text", "no such overload: -_"),
        ("any.a < any.text", "no such overload"),
        ("any.list < any.list", "no such overload: _<_"),
        ("any.a.startsWith('x')", "no such overload: startsWith(int, string)"),
        ("size(any.a)", "no such overload: size(int)"),
        ("1 in any.a", "no such overload"),
        ("any.text.all(c, true)", "got 'types.String', expected iterable type"),
        ("any.text.all(i, c, true)", "unsupported comprehension range type: types.String"),
        ("int(any.text)", "type conversion error from 'string' to 'int'"),
        ("duration(any.text)", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("any.list.map(x, {'k': x}).map(m, m.k)[2]", "index out of bounds: 2"),
        ("items.transformMap(i, x, x).transformMapEntry(k, v, {'same': v})", "insert failed: key same already exists"),
        ("items.filter(x, x > 5).min()", "min called on empty list"),
        ("[?any.?list.optMap(x, any.missing)]", "no such key: missing"),
        ("optional.none().value()", "optional.none() dereference"),
        ("name.charAt(9)", "index out of range: 9"),
        ("name.substring(3, 1)", "invalid substring range. start: 3, end: 1"),
        ("items.slice(2, 1)", "cannot slice(2, 1), start index must be less than or equal to end index"),
        ("items.slice(0, 9)", "cannot slice(0, 9), list is length 3"),
        ("name.matches(name + '(')", "error parsing regexp: missing closing ): `bay-plan(`"),
        ("name.find(name + '++')", "Illegal regex: error parsing regexp: invalid nested repetition operator: `++`"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("timestamp('2026-01-01T00:00:00Z').getHours('Nowhere/Land')", "unknown time zone Nowhere/Land"),
        ("double('NaN') < 1.0", "NaN values cannot be ordered"),
    ],
)  # fmt: skip
def test_what_is_said_where_there_is_no_value(source: str, expected: str) -> None:
    assert error_of(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("any.missing == 1 && false", False),
        ("false && any.missing == 1", False),
        ("any.missing == 1 || true", True),
        ("any.list.all(x, 1 / (x - 1) > 5)", False),
        ("any.list.exists(x, 1 / (x - 1) > 0)", True),
        ("dyn(1) == 1u && 1u == dyn(1.0)", True),
        ("dyn(1) == 'a'", False),
        ("1 in any.list && !('x' in any.list)", True),
        ("any.inner.b == null", True),
        ("has(any.inner.b) && !has(any.inner.c)", True),
        ("any.?inner.?c.hasValue()", False),
        ("any.?list[1].orValue(0)", 2),
        ("any.a.?b.hasValue()", False),
        ("type(any.list) == list && type(any.inner) == map", True),
        ("{true: 'yes', 1: 'one'}[1]", "one"),
        ("[0.1, 0.2].sum() > 0.3 && dyn([]).size() == 0", True),
        ("items.map(x, x * 2).filter(x, x > 2)", [4, 6]),
        ("items.map(x, items.map(y, x * y)).flatten().sum()", 36),
        ("items.transformList(i, x, i > 0, x + i)", [3, 5]),
        ("['b', 'a'].sortBy(x, x) + ['c']", ["a", "b", "c"]),
        ("[2, 1, 2].distinct()", [2, 1]),
        ("lists.range(3).reverse()", [2, 1, 0]),
        ("'a-b_c'.split('-').join('+')", "a+b_c"),
        ("'ab1c22'.findAll('[0-9]+')", ["1", "22"]),
        ("'ab1c'.findAll('[a-z]*')", ["ab", "c"]),
        ("'%s is %d%%, %.1f, %x, %e'.format([name, 5, 2.25, 255, 1000.0])", "bay-plan is 5%, 2.2, ff, 1.000000×10⁰³"),
        ("'%s'.format([[1.5, 'a', duration('90s')]])", '[1.500000, "a", duration("90s")]'),
        ("'%s'.format([{'b': 1, 'a': null}])", '{"a":null, "b":1}'),
        ("string(1000000.0) + string(0.00001) + string(123456.5)", "1e+061e-05123456.5"),
        ("string(duration('1h1.5s')) + string(timestamp('2026-01-01T00:00:00.5+02:00'))", "3601.5s2026-01-01T00:00:00.5+02:00"),
        ("timestamp('2026-03-01T12:00:00Z').getHours('-02:30')", 9),
        ("timestamp('2026-07-01T12:00:00Z').getHours('Europe/Berlin')", 14),
        ("duration('-90s').getMinutes()", -1),
        ("strings.quote('a\\n\"b\"')", '"a\\n\\"b\\""'),
        ("url('https://u@h.example:80/a%20b?x=1&x=2').getQuery()['x'] == ['1', '2']", True),
        ("url('https://h.example:80/a b?x=1').getEscapedPath()", "/a%20b"),
        ("url('https://[::1]:80/').getHostname() + url('https://[::1]:80/').getPort()", "::180"),
        ("['/a', 'nope', 'https://a.b', 'https://a:b', ':', 'a%zz', 'https://a b/'].map(x, isURL(x))",
         [True, False, True, False, False, False, False]),
        ("ip('::FFFF').isGlobalUnicast() && ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')", True),
        ("['1.2.3', '01.2.3.4', '1.2.3.256', '::1', '::ffff:1.2.3.4', 'fe80::1%eth0', '1::2::3', ''].map(x, isIP(x))",
         [False, False, False, True, False, False, False, False]),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsCIDR('0.0.0.0/0')", True),
        ("string(cidr('192.168.1.7/24').masked())", "192.168.1.0/24"),
        ("quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1.5').add(1).asApproximateFloat() == 2.5", True),
        ("['1.0', '50k', '1Ei', '0.5k', '1000m'].map(x, quantity(x).isInteger())", [False, True, False, True, False]),
        ("semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && semver('v01.2', true).minor() == 2", True),
        ("['1.2', '1.2.3', '01.2.3', '1.2.3-a..b', '1.2.3+x'].map(x, isSemver(x))", [False, True, False, False, True]),
        ("format.dns1123LabelPrefix().validate('a-').hasValue() || format.named('nope').hasValue()", False),
        ("format.uri().validate('nope').value()", ['parse "nope": invalid URI for request']),
        ("sets.contains(items, [1.0 == 1.0 ? 1 : 2]) && sets.equivalent([1, 1, 2], [2, 1]) && !sets.intersects(items, [9])", True),
        ("optional.of(items).optMap(x, x[0] + 1).orValue(0) + optional.none().orValue(40)", 42),
        ("optional.unwrap([optional.of(1), optional.none()])", [1]),
        ("[?optional.none(), ?optional.of(2)]", [2]),
        ("{?'a': optional.none(), 'b': 1}.size()", 1),
        ("name.upperAscii().lowerAscii().trim()", "bay-plan"),
        ("b'\\xc3\\xa9' == bytes('\\u00e9') && b'\\u00e9' == b'\\303\\251'", True),
        ("'''a\r\nb''' == 'a\\nb'", True),
    ],
)  # fmt: skip
def test_what_expressions_evaluate_to(source: str, expected: Any) -> None:
    found = value_of(source)
    assert equals(found, expected), text_of(found)


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        ("true", 0),
        ("name", 1),
        ("any.a", 2),
        ("any.inner.b", 3),
        ("any.list[0]", 3),
        ("any.list[any.a]", 4),
        ("has(any.inner.b)", 2),
        ("any.?missing.?b", 1),
        ("any.?inner.?b", 3),
        ("any.a == 1 ? any.a : 3", 4),
        ("[1, 2]", 0),
        ("[name]", 11),
        ("{'a': name}", 31),
        ("name in ['a', 'b']", 1),
        ("name in [name]", 13),
        ("1 in items", 4),
        ("'app' in labels", 2),
        ("name + name", 4),
        ("name.contains('plan')", 2),
        ("name.matches('[a-z]{1,20}')", 4),
        ("any.text.matches('[a-z]+')", 4),
        ("items.all(x, x > 0)", 17),
        ("items.map(x, x + 1)", 44),
        ("any.missing == 1 || true", 3),
        ("lists.range(100).size() > 0", 113),
        ("quantity('1Gi') == quantity('1Gi')", 3),
        ("ip('10.0.0.1') == ip('10.0.0.1')", 3),
        ("cidr('10.0.0.0/8').containsIP('10.0.0.1')", 3),
        ("format.dns1123Label().validate(name).hasValue()", 11),
        ("duration('1h') > duration('1m')", 1),
    ],
)
def test_evaluation_costs_what_it_costs_in_kubernetes(source: str, cost: int) -> None:
    assert outcome(source).cost == cost


@pytest.mark.parametrize(
    "source",
    [
        "lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))",
        "lists.range(1000000000).size() > 0",
        "lists.range(200).map(x, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').map(s, items.map(i, s + s)).size() > 0",
        "lists.range(500).distinct().size() > 0 || true",
    ],
)
def test_what_costs_too_much_is_cut_off(source: str) -> None:
    found = outcome(source, limit=10_000)
    assert found.error is not None
    assert found.error.message == "operation cancelled: actual cost limit exceeded"


def test_constants_that_cannot_be_converted_have_no_program() -> None:
    environment = Environment(VARIABLES)
    with pytest.raises(CompilationError, match="program instantiation failed: type conversion error"):
        compile_expression(check("int('x') > 1", environment), environment)
    with pytest.raises(CompilationError, match="program instantiation failed: error parsing regexp: unexpected"):
        compile_expression(check("name.find(')') == ''", environment), environment)


def test_missing_variables_are_errors_where_they_are_looked_at() -> None:
    environment = Environment(VARIABLES)
    program = compile_expression(check("true || name == 'a'", environment), environment)
    assert program.evaluate({}).value is True
    program = compile_expression(check("name == 'a'", environment), environment)
    found = program.evaluate({})
    assert found.error is not None
    assert found.error.message == "no such attribute(s): name"
    assert program.variables == {"name"}


def test_programs_can_be_evaluated_again() -> None:
    environment = Environment(VARIABLES)
    program = compile_expression(check("items.map(x, x + 1)", environment), environment)
    first = program.evaluate(VALUES).value
    assert program.evaluate({**VALUES, "items": [7]}).value == [8]
    assert first == [2, 3, 4]


def test_questions_about_permissions_are_asked_as_they_are_put() -> None:
    asked: list[Question] = []

    def answer(question: Question) -> Decision:
        asked.append(question)
        return Decision(question.verb == "get", "because")

    values = {"authorizer": AuthorizerValue(answer)}
    resource = "authorizer.group('apps').resource('deployments').subresource('scale').namespace('a').name('web')"
    selected = ".fieldSelector('a=b').labelSelector('c')"
    found = outcome(
        f"{resource}{selected}.check('get').allowed() && authorizer.path('/x').check('get').reason() == 'because'",
        values,
    )
    assert found.value is True
    question = Question(
        group="apps", resource="deployments", subresource="scale", namespace="a", name="web",
        field_selector="a=b", label_selector="c", verb="get",
    )  # fmt: skip
    assert asked == [question, Question(path="/x", verb="get")]
    account = outcome("authorizer.serviceAccount('ns', 'sa').path('/x').check('list').errored()", values)
    assert (account.value, asked[-1].service_account) == (False, ("ns", "sa"))
    assert outcome("authorizer.path('')", values).error is not None
    refused = outcome("authorizer.serviceAccount('Bad', 'sa')", values).error
    assert refused is not None
    assert refused.message == "Invalid service account namespace"
