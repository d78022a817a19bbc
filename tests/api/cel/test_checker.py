"""Types of expressions, and what is said where they do not fit, in the words and at the places of cel-go."""

from __future__ import annotations

import pytest

from bayplan.api.cel.checker import Environment, check
from bayplan.api.cel.issues import display
from bayplan.api.cel.types import ANY, DYN, INT, STRING, TIMESTAMP, list_of, map_of, struct

THING = {
    "count": INT,
    "names": list_of(STRING),
    "labels": map_of(STRING, STRING),
    "when": TIMESTAMP,
    "any": DYN,
    "claims": map_of(STRING, ANY),
    "inner": struct("Thing"),
    "parts": list_of(struct("Thing")),
    "__namespace__": STRING,
}
ENVIRONMENT = Environment(
    {"object": struct("Thing"), "authorizer": struct("kubernetes.authorization.Authorizer")}, {"Thing": THING}
)


BEGINNINGS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def told(source: str) -> str:
    """The places and the messages of issues, one a line."""
    return "\n".join(f"{one.offset + 1}: {one.message}" for one in check(source, ENVIRONMENT).issues)


def first_issue(source: str) -> str:
    """The place and the message of the only issue."""
    checked = check(source, ENVIRONMENT)
    assert len(checked.issues) == 1, display(source, checked.issues)
    return told(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("object.count + 1", "int"),
        ("-object.count > 1.5 || object.count < 2u", "bool"),
        ("object.names + ['a']", "list(string)"),
        ("object.labels['a']", "string"),
        ("object.labels.a", "string"),
        ("object.namespace", "string"),
        ("has(object.inner.inner)", "bool"),
        ("object.inner == null", "bool"),
        ("object.any.what.ever[1]", "dyn"),
        ("object.any + 1", "int"),
        ("[1, object.names]", "list(dyn)"),
        ("{'a': 1, 2: 3}", "map(dyn, int)"),
        ("object.names.all(n, n.startsWith('a')) ? 1 : 2", "int"),
        ("object.names.exists(i, n, i > 0 && n == 'a')", "bool"),
        ("object.names.exists_one(n, n == 'a')", "bool"),
        ("object.names.map(n, size(n))", "list(int)"),
        ("object.names.map(n, n != '', size(n))", "list(int)"),
        ("object.parts.filter(p, p.count > 1)", "list(Thing)"),
        ("object.labels.map(k, object.labels[k])", "list(string)"),
        ("object.names.transformList(i, n, i)", "list(int)"),
        ("object.names.transformMap(i, n, n)", "map(int, string)"),
        ("object.labels.transformMapEntry(k, v, {v: k})", "map(string, string)"),
        ("object.parts.sortBy(p, p.count)[0].count", "int"),
        ("object.?inner.?count.orValue(3)", "int"),
        ("object.names[?0].optMap(n, size(n))", "optional_type(int)"),
        ("object.?inner.optFlatMap(i, i.?count)", "optional_type(int)"),
        ("[?object.names[?0], 'b']", "list(string)"),
        ("[]", "list(dyn)"),
        ("{'a': 1}", "map(string, int)"),
        ("timestamp('2026-01-01T00:00:00Z') - object.when", "duration"),
        ("object.when.getHours('UTC')", "int"),
        ("quantity('1Gi').add(1).compareTo(quantity('1'))", "int"),
        ("ip('10.0.0.1').family()", "int"),
        ("type(ip('10.0.0.1')) == net.IP", "bool"),
        ("cidr('10.0.0.0/8').containsIP('10.0.0.1')", "bool"),
        ("url('https://a').getQuery()", "map(string, list(string))"),
        ("format.dns1123Label().validate('a').hasValue()", "bool"),
        ("sets.contains(object.names, ['a'])", "bool"),
        ("'%s'.format([object.count])", "string"),
        ("authorizer.group('apps').resource('deployments').check('get').allowed()", "bool"),
        ("type(object.count) == int", "bool"),
        ("[3, 1].sort().max()", "int"),
        ("semver('1.2.3').major()", "int"),
        ("object.names.join(',')", "string"),
        ('r\'a\\d\' + """x"""', "string"),
        ("b'ab'.size()", "int"),
        ("0x1F + -3", "int"),
        ("-9223372036854775808", "int"),
        ("18446744073709551615u", "uint"),
        ("'\\u00e9\\x41\\101\\n\\U0001F600'", "string"),
        ("5u % 2u", "uint"),
        ("!!true", "bool"),
        ("null", "null"),
        ("1.0 / .5e3", "double"),
        ("Thing{count: 1}.count", "int"),
        ("object.claims.groups", "any"),
        ("object.claims.groups[0].x + 1", "int"),
        ("dyn(object.claims.groups).all(n, n == 'a')", "bool"),
        ("object.claims.a ? object.claims.b : 1", "any"),
    ],
)
def test_what_an_expression_evaluates_to(source: str, expected: str) -> None:
    checked = check(source, ENVIRONMENT)
    assert not checked.issues, display(source, checked.issues)
    assert str(checked.type) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("object.foo > 1", "7: undefined field 'foo'"),
        ("object.inner.?foo", "13: undefined field 'foo'"),
        ("has(object.foo)", "4: undefined field 'foo'"),
        ("authorizer.requestResource", "11: unexpected failed resolution of 'kubernetes.authorization.Authorizer'"),
        ("kubernetes.Quantity", "1: undeclared reference to 'kubernetes' (in container '')"),
        ("foo", "1: undeclared reference to 'foo' (in container '')"),
        ("foo(1)", "4: undeclared reference to 'foo' (in container '')"),
        ("object.foo(1)", "11: undeclared reference to 'foo' (in container '')"),
        ("object.count == 'a'", "14: found no matching overload for '_==_' applied to '(int, string)'"),
        ("object.count == null", "14: found no matching overload for '_==_' applied to '(int, null)'"),
        ("object.when < 1", "13: found no matching overload for '_<_' applied to '(timestamp, int)'"),
        (
            "object.names[object.labels]",
            "13: found no matching overload for '_[_]' applied to '(list(string), map(string, string))'",
        ),
        ("object.count.size()", "18: found no matching overload for 'size' applied to 'int.()'"),
        (
            "authorizer.allowed()",
            "19: found no matching overload for 'allowed' applied to 'kubernetes.authorization.Authorizer.()'",
        ),
        ("object.count && true", "7: expected type 'bool' but found 'int'"),
        ("true && true && object.count && true", "23: expected type 'bool' but found 'int'"),
        ("object.count.x", "13: type 'int' does not support field selection"),
        ("quantity('1').x", "14: unexpected failed resolution of 'kubernetes.Quantity'"),
        ("object.names.all(n, n > 1)", "23: found no matching overload for '_>_' applied to '(string, int)'"),
        ("object.names.all(n, n)", "21: expected type 'bool' but found 'string'"),
        (
            "object.count.all(n, true)",
            "7: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            "object.claims.groups.all(n, true)",
            "14: expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("[?object.count]", "9: expected type 'optional_type(int)' but found 'int'"),
        ("true ? 1 : 'a'", "6: found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
        ("-object.names", "1: found no matching overload for '-_' applied to '(list(string))'"),
        ("Thing{count: 'a'}", "12: expected type of field 'count' is 'int' but provided type is 'string'"),
        ("Thing{foo: 1}", "10: undefined field 'foo'"),
        ("Other{}", "6: undeclared reference to 'Other' (in container '')"),
        ("object{}", "7: 'Thing' is not a type"),
        ("int{}", "4: 'int' is not a message type"),
    ],
)
def test_what_does_not_fit_is_told_once_and_where_it_is(source: str, expected: str) -> None:
    assert first_issue(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("object.", "8: Syntax error: no viable alternative at input '.'"),
        ("object. == 1", "9: Syntax error: no viable alternative at input '. =='"),
        ("object.\n*", "9: Syntax error: no viable alternative at input '.\\n*'"),
        ("1 +", f"4: Syntax error: mismatched input '<EOF>' expecting {BEGINNINGS}"),
        ("(1", "3: Syntax error: missing ')' at '<EOF>'"),
        ("[1", "3: Syntax error: mismatched input '<EOF>' expecting {']', ','}"),
        ("{1: 2", "6: Syntax error: mismatched input '<EOF>' expecting {'}', ','}"),
        (
            "a $ b",
            "3: Syntax error: token recognition error at: '$'\n5: Syntax error: extraneous input 'b' expecting <EOF>",
        ),
        ("a == = b", "6: Syntax error: token recognition error at: '= '"),
        (
            "'a",
            "1: Syntax error: token recognition error at: ''a'\n"
            f"3: Syntax error: mismatched input '<EOF>' expecting {BEGINNINGS}",
        ),
        ("1 2", "3: Syntax error: extraneous input '2' expecting <EOF>"),
        ("1 2 3", "3: Syntax error: mismatched input '2' expecting <EOF>"),
        (".", "2: Syntax error: no viable alternative at input '.'"),
        ("..", "2: Syntax error: no viable alternative at input '..'"),
        ("/abs", f"1: Syntax error: extraneous input '/' expecting {BEGINNINGS}"),
        ("for", "1: reserved identifier: for"),
        ("9223372036854775808", "1: invalid int literal"),
        ("-9223372036854775809", "1: invalid int literal"),
        ("0xFFFFFFFFFFFFFFFFFu", "1: invalid uint literal"),
        ("1.99e90000009", "1: invalid double literal"),
        ("'\\udead'", "1: invalid unicode code point"),
        ("'\\U00110000'", "1: invalid unicode code point"),
        ("has(a)", "5: invalid argument to has() macro"),
        ("[1].all(1, true)", "9: argument must be a simple name"),
        ("[1].map(1, true)", "9: argument is not an identifier"),
        ("[1].all(__result__, true)", "9: iteration variable overwrites accumulator variable"),
        ("[1].all(a, a, true)", "12: duplicate variable name: a"),
        ("a.optMap(1, 2)", "10: optMap() variable name must be a simple identifier"),
        (
            "'a'.sortBy(e, e)",
            "1: sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        ),
        ("(" * 80 + "1" + ")" * 80, "0: expression recursion limit exceeded: 60"),
    ],
)
def test_what_is_no_expression(source: str, expected: str) -> None:
    assert told(source) == expected
    assert check(source, ENVIRONMENT).root is None


def test_conditions_lean_to_the_left_and_what_failed_is_no_bool() -> None:
    assert told("(foo && 1 && 2).size()") == (
        "2: undeclared reference to 'foo' (in container '')\n"
        "9: expected type 'bool' but found 'int'\n"
        "14: expected type 'bool' but found 'int'"
    )


def test_what_is_wrong_as_a_whole_has_no_place() -> None:
    source = "1" * 100_001
    assert display(source, check(source, ENVIRONMENT).issues) == (
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    )


def test_a_value_that_is_used_twice_by_a_macro_is_told_twice() -> None:
    checked = check("object.foo.optMap(f, f)", ENVIRONMENT)
    assert [one.message for one in checked.issues] == ["undefined field 'foo'"] * 2


def test_long_conditions_are_no_deep_ones() -> None:
    assert str(check(" && ".join(["[] == [] && object.count > 1"] * 2000), ENVIRONMENT).type) == "bool"


def test_sums_that_are_too_long_are_refused_as_too_deep() -> None:
    checked = check(" + ".join(["1"] * 5000), ENVIRONMENT)
    assert [one.message for one in checked.issues] == ["expression recursion limit exceeded: 250"]


def test_what_is_copied_again_and_again_is_refused_as_too_large() -> None:
    source = "object.?inner" + ".optMap(x, x)" * 40
    assert [one.message for one in check(source, ENVIRONMENT).issues] == ["expression is too large"]
    assert str(check("object.?inner" + ".optMap(x, x)" * 5, ENVIRONMENT).type) == "optional_type(Thing)"


def test_chains_that_are_too_long_to_be_copied_are_refused_as_too_deep() -> None:
    checked = check("object" + ".inner" * 5000 + ".optMap(x, x)", ENVIRONMENT)
    assert [one.message for one in checked.issues] == ["expression recursion limit exceeded: 250"]


def test_variables_of_loops_hide_others_and_end_with_them() -> None:
    assert str(check("object.names.map(object, object)", ENVIRONMENT).type) == "list(string)"
    assert first_issue("object.names.all(n, true) && n") == "30: undeclared reference to 'n' (in container '')"


def test_issues_are_shown_below_their_lines() -> None:
    source = "object.count > 1 &&\n\tobject.ü && object.foo"
    plain = "object.count > 1 &&\n\tobject.bar && object.foo"
    assert display(plain, check(plain, ENVIRONMENT).issues) == (
        "ERROR: <input>:2:8: undefined field 'bar'\n |  object.bar && object.foo\n | .......^\n"
        "ERROR: <input>:2:22: undefined field 'foo'\n |  object.bar && object.foo\n | .....................^"
    )
    shown = display(source, check(source, ENVIRONMENT).issues)
    assert shown.partition("ERROR: <input>:2:11")[0].rstrip().endswith(" | ........\uff3e")


def test_only_a_hundred_issues_are_shown() -> None:
    source = "[" + ", ".join(["object.foo"] * 102) + "]"
    text = display(source, check(source, ENVIRONMENT).issues)
    assert text.count("undefined field") == 100
    assert text.endswith("\n2 more errors were truncated")
