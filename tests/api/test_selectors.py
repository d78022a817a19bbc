"""Label selectors: syntax, matching, error texts."""

from __future__ import annotations

import random

import pytest

from bayplan.api.selectors import labels as selectors
from bayplan.api.selectors.labels import (
    NOTHING,
    SelectorError,
    compile_selector,
    from_map,
    requirement,
)
from bayplan.api.selectors.syntax import parse_labels
from bayplan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a in (x, y)", {"a": "y"}, True),
        ("a notin (x,y)", {}, True),
        ("a notin (x,y)", {"a": "x"}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a>1", {"a": "2"}, True),
        ("a>1", {"a": "x"}, False),
        ("a<1", {}, False),
        ("a in (,x)", {"a": ""}, True),
        ("a=b,c!=d,!f", {"a": "b", "c": "e"}, True),
        ("example.com/a=b", {"example.com/a": "b"}, True),
    ],
)
def test_a_query_matches_labels(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_labels(text).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a>x", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("-a=b", "name part must consist of alphanumeric characters"),
    ],
)
def test_a_broken_query_says_where(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_labels(text)
    assert message in str(caught.value)


def test_object_selectors_compile() -> None:
    selector = LabelSelector(
        match_labels={"app": "web"},
        match_expressions=(LabelSelectorRequirement(key="tier", operator="NotIn", values=("test",)),),
    )
    compiled = compile_selector(selector)
    assert compiled.matches({"app": "web", "tier": "live"})
    assert not compiled.matches({"app": "web", "tier": "test"})
    assert compiled.exact_match("app") == "web"
    assert compiled.exact_match("tier") is None


def test_none_matches_nothing_and_empty_everything() -> None:
    assert compile_selector(None) is NOTHING
    assert not compile_selector(None).matches({})
    assert compile_selector(LabelSelector()).is_everything()
    assert from_map({}).matches({"any": "thing"})


def test_an_unknown_operator_is_refused() -> None:
    broken = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Like"),))
    with pytest.raises(SelectorError, match='"Like" is not a valid label selector operator'):
        compile_selector(broken)


def test_values_do_not_go_with_exists() -> None:
    with pytest.raises(SelectorError, match="values set must be empty for exists and does not exist"):
        requirement("a", "exists", ("x",))


def test_equal_selectors_are_equal_keys() -> None:
    assert len({parse_labels("a in (x,y),b=c"), parse_labels("b=c,a in (y,x)")}) == 1


def test_long_selectors_mean_what_their_requirements_say() -> None:
    chance = random.Random(3)
    names = ("IN", "NOT_IN", "EQUALS", "NOT_EQUALS", "EXISTS", "DOES_NOT_EXIST", "GREATER_THAN", "LESS_THAN")
    operators = [getattr(selectors, name) for name in names]
    matched = 0
    for _ in range(3000):
        labels = {key: chance.choice("12345") for key in "abc" if chance.random() < 0.8}
        made = []
        for _ in range(chance.randrange(9, 13)):
            key, operator = (
                chance.choice("abc"),
                chance.choice(operators if chance.random() < 0.2 else [selectors.NOT_EQUALS, selectors.NOT_IN]),
            )
            count = {selectors.IN: 3, selectors.NOT_IN: 2, selectors.EXISTS: 0, selectors.DOES_NOT_EXIST: 0}.get(
                operator, 1
            )
            values = [chance.choice("123456789") for _ in range(count)]
            made.append(selectors.Requirement(key, operator, tuple(sorted(set(values)))))
        expected = all(one.matches(labels) for one in made)
        matched += expected
        assert selectors.LabelSelector(tuple(made)).matches(labels) is expected
    assert matched > 50
