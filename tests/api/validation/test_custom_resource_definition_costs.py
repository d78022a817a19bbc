"""What rules are estimated to cost. Expected values are those of Kubernetes for the same schemas and rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.api.cel.checker import Environment, check
from bayplan.api.validation.custom_resource_definitions.budget import Budget
from bayplan.api.validation.custom_resource_definitions.costs import estimated_cost
from bayplan.api.validation.custom_resource_definitions.rules import compiled
from bayplan.api.validation.custom_resource_definitions.sizes import MOST
from tests.api.validation.definitions import SCHEMA, Tree, definition, problems, update_problems, version

Make = Callable[[int | None], Tree]
TIMES = ("duration", "date", "date-time")


def limited(schema: Tree, **limits: int | None) -> Tree:
    return {**schema, **{name: value for name, value in limits.items() if value is not None}}


def of(kind: str) -> Tree:
    if kind in TIMES:
        return {"type": "string", "format": kind}
    return {"x-kubernetes-int-or-string": True} if kind == "int-or-string" else {"type": kind}


def array(kind: str) -> Make:
    return lambda most: limited({"type": "array", "items": of(kind)}, maxItems=most)


def map_of(values: Tree) -> Make:
    return lambda most: limited({"type": "object", "additionalProperties": values}, maxProperties=most)


def text(most: int | None) -> Tree:
    return limited({"type": "string"}, maxLength=most)


def octets(most: int | None) -> Tree:
    return limited({"type": "string", "format": "byte"}, maxLength=most)


def texts(most: int | None) -> Tree:
    return limited({"type": "array", "items": text(most)}, maxItems=most)


def text_map(most: int | None) -> Tree:
    return limited({"type": "object", "additionalProperties": text(most)}, maxProperties=most)


def letters(most: int | None) -> Tree:
    return {**text(most), "enum": ["A", "B", "LongValue"]}


def fields(most: int | None) -> Tree:
    named = {"str": text(most), "before": text(2), "after": text(4), "separator": text(most)}
    return {"type": "object", "properties": named}


def number_or_text(most: int | None) -> Tree:
    return limited(of("int-or-string"), maxLength=most)


OBJECT = {"type": "object", "properties": {"required": text(None), "optional": text(None)}, "required": ["required"]}


def objects(most: int | None) -> Tree:
    return limited({"type": "array", "items": OBJECT}, maxItems=most)


def lists(most: int | None) -> Tree:
    return limited({"type": "array", "items": {"type": "array", "items": of("number")}}, maxItems=most)


def maps(most: int | None) -> Tree:
    return limited({"type": "array", "items": {"type": "object", "additionalProperties": of("number")}}, maxItems=most)


def maps_of_objects(most: int | None) -> Tree:
    return limited({"type": "array", "items": map_of(OBJECT)(most)}, maxItems=most)


@pytest.mark.parametrize(
    ("make", "rule", "unlimited", "most", "expected"),
    [
        (array("number"), "self.all(x, true)", 4718591, 10, 32),
        (array("string"), "self.all(x, true)", 3145727, 20, 62),
        (array("boolean"), "self.all(x, true)", 1887437, 5, 17),
        (array("duration"), "self.all(x, true)", 2359295, 5, 17),
        (array("date"), "self.all(x, true)", 725936, 15, 47),
        (array("date-time"), "self.all(x, true)", 428963, 25, 77),
        (array("int-or-string"), "self.all(x, true)", 4718591, 10, 32),
        (lists, "self.all(x, true)", 3145727, 100, 302),
        (objects, "self.all(x, true)", 555128, 50, 152),
        (map_of(of("number")), "self.all(x, true)", 1348169, 10, 32),
        (map_of(of("string")), "self.all(x, true)", 1179647, 3, 11),
        (map_of(of("boolean")), "self.all(x, true)", 943718, 100, 302),
        (map_of(of("duration")), "self.all(x, true)", 1048577, 5, 17),
        (map_of(of("date")), "self.all(x, true)", 524288, 10, 32),
        (map_of(of("date-time")), "self.all(x, true)", 349526, 25, 77),
        (map_of(OBJECT), "self.all(x, true)", 428963, 20, 62),
        (map_of(of("number")), "has(self.x)", 1, 100, 1),
        (text, "self.contains('test')", 314574, 10, 5),
        (text, "self.startsWith('test')", 2, 15, 2),
        (text, 'size(self + "hello") > size("hello")', 314578, 4, 7),
        (array("number"), "self[1] == 0.0", 2, 5000, 2),
        (array("string"), "self[1] == self[1]", 314577, 8, 314577),
        (array("number"), "self.all(x, self.all(y, true))", None, 10, 352),
        (array("number"), "self.all(x, self.all(y, self.all(z, true)))", None, 10, 3552),
        (text, 'self.matches("x")', 314574, 50, 22),
        (text, '"".matches("(((((((((())))))))))[0-9]")', 7, 10, 7),
        (text, 'self.matches("")', 1, 100, 1),
        (text_map, "self.all(x, x.contains(self[x]))", 2752507, 10, 72),
        (map_of(of("number")), 'self["x"] == 0.0', 2, 0, 2),
        (text, 'self == "x"', 2, 0, 1),
        (octets, 'self == b"x"', 2, 0, 1),
        (array("number"), "self.all(x, x == 0.0)", 6291454, 3 * 1024 * 2048, 25165826),
        (maps_of_objects, 'self.all(x, x["y"].required == "z")', 7340027, 10, 72),
        (array("int-or-string"), "self[0] == 5", 3, 10, 3),
        (array("boolean"), "self[0] == false", 2, 25, 2),
        (objects, "self[0] == null", 2, 422, 2),
        (lists, "self[0][0] == -1.0", 3, 51, 3),
        (maps, "self.all(x, x.y == 25.2)", 6291452, 12, 74),
        (maps, "self[0].x > 2.0", 4, 3000, 4),
        (array("duration"), "self[0].getHours() == 2", 4, 525, 4),
        (text, "self.find('[0-9]+') == ''", 629147, 10, 11),
        (texts, "self.join(' ') == 'aa bb'", 329853068905, 10, 43),
        (texts, "self.isSorted() == true", 329854432052, 10, 52),
        (fields, "self.str.replace(self.before, self.after) == 'does not matter'", 629154, 4, 12),
        (fields, "self.str.split(self.separator) == []", 629160, 10, 22),
        (text, "self.lowerAscii() == 'lower!'", 314575, 10, 6),
        (map_of(of("integer")), "oldSelf.size() == self.size()", 5, 10, 5),
        (map_of(of("date-time")), 'self["a"] == self["b"]', 8, 7, 8),
        (letters, "self.contains('A')", 2, 1000, 401),
        (number_or_text, "isQuantity(self)", 314574, 20, 9),
    ],
)
def test_costs(make: Make, rule: str, unlimited: int | None, most: int, expected: int) -> None:
    def cost(schema: Tree) -> int:
        [found] = compiled({**schema, "x-kubernetes-validations": [{"rule": rule}]}, is_root=False)
        assert found.problem == ""
        return found.cost

    found = cost(make(None))
    assert found == unlimited or (unlimited is None and 10_000_000 < found <= MOST)
    assert cost(make(most)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", 9),
        ("strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')", 11),
        ("'abc 123 def 123'.replace('', 'x')", 3),
        ("'abc 123 def 123'.split(' ', 1)", 3),
        ("'abc 123 def 123'.substring(5, 8)", 2),
        ("'abc 123 def 123'.findAll('123', 1)", 2),
        ("url('https:://kubernetes.io/') == url('http://x.b')", 5),
        ("url('https:://kubernetes.io/').getHost()", 4),
        ("ip('2001:db8:3333:4444:5555:6666:7777:8888').family()", 5),
        ("ip('192.168.0.1') == ip('192.168.0.1')", 5),
        ("ip.isCanonical('2001:db8:3333:4444:5555:6666:7777:8888')", 8),
        ("cidr('192.168.0.0/16').ip()", 3),
        ('quantity("200M") == quantity("0.2G")', 3),
        ('quantity("50k").add(20).sub(quantity("100k")).asInteger() > 0', 6),
        ('format.named("dns1123Label").value().validate("my-name")', 34),
        ('format.named("dns1123Label").value() == format.named("dns1123Label").value()', 11),
        ('semver("1234.56789012345.67890123456789")', 4),
        ("sets.contains([1, 2, 3, 4], [2, 3])", 29),
        ("sets.equivalent([1, 2, 3], [3u, 2.0, 1])", 39),
        ("sets.intersects([[1], [2, 3]], [[1, 2], [2, 3.0]])", 65),
        ("{'a': 1, 'b': 2}.all(k, v, v > 0)", 41),
        ("{'a': 1, 'b': 2}.existsOne(k, v, v > 0)", 40),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)", 75),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})", 131),
        ("[1, 2].exists(i, v, v > 0)", 23),
        ("[1, 2].transformList(i, v, v < 5, v + 1)", 53),
    ],
)
def test_costs_of_functions(expression: str, expected: int) -> None:
    checked = check(expression, Environment({}))
    assert not checked.issues
    assert estimated_cost(checked, {"type": "object"}) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cidr('10.0.0.0/8').containsIP(ip('10.0.0.1'))", 1 + 1 + 4),
        ("cidr('10.0.0.0/8').containsIP('10.0.0.1')", 1 + 4 + 1),
        ("cidr('10.0.0.0/8').containsCIDR('10.0.0.0/9')", 1 + 4 + 2 + 1 + 1),
        ("[3, 1, 2].sort()", 10 + 18 + 1 + 10),
        ("['c', 'b'].sort()", 10 + 9 + 1 + 10),
        ("[1, 2].distinct()", 10 + 8 + 1 + 10),
        ("[1, 2, 3].reverse()", 10 + 3 + 1 + 10),
        ("[1, 2, 3].slice(1, 2)", 10 + 1 + 1 + 10),
        ("[1, 2, 3].slice(1, 3)", 10 + 2 + 1 + 10),
        ("lists.range(7)", 7 + 1 + 10),
        ("[[1], [2]].flatten()", 30 + 2 + 1 + 10),
        ("[[1], [2]].flatten(3)", 30 + 6 + 1 + 10),
        ("1 in [1, 2, 3]", 10 + 3),
        ("1 in {1: 2}", 30 + 1),
        ("'abcdefghijk' < 'b'", 1),
        ("1 < 2", 1),
        ("b'abcdefghijk' + b'a'", 2),
        ("[1] + [2]", 21),
        ("1 + 2", 1),
        ("string(b'abcdefghijk')", 2),
        ("string(1)", 1),
        ("bytes('abcdefghijk')", 2),
        ("[1, 2, 3].sum()", 10 + 3),
        ("'%d'.format([1])", 10 + 1),
        ("true ? [1, 2].all(x, x > 0) : false", 10 + 2 * (2 + 2 + 1 + 1) + 1 - 2),
        ("[1, 2].sortBy(x, -x)", 10 + 10 + (1 + 10 + 2 * 14 + 1) + 1 + (8 + 1 + 10)),
        ("['c', 'b'].sortBy(x, x)", 10 + 10 + (1 + 10 + 2 * 13 + 1) + 1 + (9 + 1 + 10)),
        ("dyn('aaaaaaaaaaaaaaaa') < 'bbbbbbbbbbbbbbbbbbbb'", 1 + 2),
        # items of a list that is written there count as large as `self`, here an object
        ("['abcdefghijklmnopqrstuvwxyz'].all(x, x.startsWith(x))", 10 + 2 + (1 + 1 + 1 + 0) + 1),
        ("dyn([1]) == dyn([2])", 10 + 10 + 2 + 1),
        # a loop over a list without items makes items as large as its body says, though it never runs
        ("[].map(x, 'abcdefghijklmnopqrstuvwxyz')[0].contains('x')", 10 + 10 + 1 + 1 + 3),
    ],
)
def test_costs_follow_from_sizes(expression: str, expected: int) -> None:
    checked = check(expression, Environment({}))
    assert not checked.issues
    assert estimated_cost(checked, {"type": "object"}) == expected


def test_as_much_as_is_allowed_is_not_too_much() -> None:
    budget = Budget(limits_rules=True)
    assert list(budget.spend("a", 10_000_000, "rule")) == []
    assert [str(one)[:40] for one in budget.spend("b", 10_000_001, "rule")] == [
        "b: Forbidden: estimated rule cost exceed"
    ]
    for _ in range(8):
        assert list(budget.spend("c", 9_999_999, "rule")) == []
    assert list(budget.errors("s")) == []
    assert list(budget.spend("d", 8, "rule")) == []
    named = [one.field for one in budget.errors("s")]
    assert named == ["b", "a", "c", "c", "s"]


CONTAINS = {"x-kubernetes-validations": [{"rule": "self.contains('keyword')"}]}
CONTRIBUTED = "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
ADVICE = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"


def within(**fields: Tree) -> Tree:
    return {"type": "object", "properties": fields}


def test_rules_that_are_too_expensive_are_named_and_how_much() -> None:
    words = {**text(5000), **CONTAINS}
    schema = within(
        list=limited({"type": "array", "items": words}, maxItems=100_000),
        map=map_of(words)(1000),
        field={"type": "integer", "x-kubernetes-validations": [{"rule": "self > 50 && self < 100"}]},
    )
    rule = "x-kubernetes-validations[0].rule"
    items = f"{SCHEMA}.properties[list].items.{rule}"
    values = f"{SCHEMA}.properties[map].additionalProperties.{rule}"
    assert problems(version(schema=schema)) == [
        f"{items}: Forbidden: estimated rule cost exceeds budget by factor of 20.0x {ADVICE}",
        f"{items}: {CONTRIBUTED}",
        f"{values}: {CONTRIBUTED}",
        f"{SCHEMA}: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor"
        f" of 2.0x {ADVICE}",
    ]


KEYED = {"type": "object", "required": ["key"], "properties": {"key": text(10)}}


def nested(items: int | None, entries: int | None) -> Tree:
    rule = {"x-kubernetes-validations": [{"rule": "self.all(x, x.all(y, x[y].key == x[y].key))"}]}
    return within(value={**limited({"type": "array", "items": map_of(KEYED)(entries)}, maxItems=items), **rule})


def test_loops_inside_loops_need_limits() -> None:
    found = problems(version(schema=nested(None, None)))
    path = f"{SCHEMA}.properties[value].x-kubernetes-validations[0].rule"
    assert [one.partition(": ")[0] for one in found] == [path, path, SCHEMA]
    assert problems(version(schema=nested(10, 10))) == []


def test_rules_cost_as_often_as_they_are_evaluated() -> None:
    word = {**text(None), **CONTAINS}
    assert problems(version(schema=within(a=word))) == []
    [found] = problems(version(schema=within(a={"type": "array", "maxItems": 40, "items": word})))
    assert "estimated rule cost exceeds budget by factor of 1.258296x" in found
    inside = within(a={"type": "array", "maxItems": 40, "items": within(b=word)})
    assert problems(version(schema=inside)) == [found.replace("items", "items.properties[b]", 1)]
    unbounded = problems(version(schema=within(a={"type": "array", "items": word})))
    assert [one for one in unbounded if "more than 100x" in one] == [unbounded[0], unbounded[2]]


def test_schemas_that_did_not_change_keep_expensive_rules() -> None:
    expensive = version(schema=within(a={"type": "array", "maxItems": 40, "items": {**text(None), **CONTAINS}}))
    assert len(problems(expensive)) == 1
    assert update_problems(definition(expensive), definition(expensive)) == []
    assert len(update_problems(definition(expensive), definition())) == 1


def test_messages_may_be_too_expensive_as_well() -> None:
    joined = " + ".join(f"self[{index}]" for index in range(40))
    rule = {"x-kubernetes-validations": [{"rule": "true", "messageExpression": joined}]}
    found = problems(version(schema=within(f={"type": "array", "items": text(None), **rule})))
    assert found[0].startswith(
        f"{SCHEMA}.properties[f].x-kubernetes-validations[0].messageExpression: Forbidden: estimated messageExpression cost"
    )
    assert problems(version(schema=within(f={"type": "array", "items": text(10), **rule}))) == []
