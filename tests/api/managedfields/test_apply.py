"""Updates and applies of several managers, on JSON trees of real kinds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.managedfields.compare import compare, field_set
from bayplan.api.managedfields.fieldset import FieldSet, paths
from bayplan.api.managedfields.managers import (
    APPLY,
    UPDATE,
    Conflict,
    Identity,
    Owned,
    Versions,
    apply,
    conflict_texts,
    identity,
    read_entries,
    update,
    write_entries,
)
from bayplan.api.managedfields.merge import validate
from bayplan.api.managedfields.typed import Type, TypedError, type_of_definition

CONFIG_MAP = type_of_definition("io.k8s.api.core.v1.ConfigMap")
DEPLOYMENT = type_of_definition("io.k8s.api.apps.v1.Deployment")
Managers = dict[Identity, Owned]


def keep_all(fields: FieldSet) -> FieldSet:
    return fields


class Story:
    """One object and the writes to it."""

    def __init__(self, kind: Type = CONFIG_MAP, version: str = "v1") -> None:
        self.kind = kind
        self.version = version
        self.live: Any = {"metadata": {}}
        self.managers: Managers = {}
        self.clock = 0

    def apply(self, manager: str, config: Any, *, force: bool = False) -> None:
        self.clock += 1
        merged, self.managers = apply(
            self.live,
            config,
            self.managers,
            who=identity(manager, APPLY, self.version),
            api_version=self.version,
            now=f"2026-01-01T00:00:{self.clock:02}Z",
            force=force,
            keep=keep_all,
            versions=Versions(lambda version: self.kind if version == self.version else None, lambda tree, *_: tree),
        )
        self.live = self.live if merged is None else merged

    def update(self, manager: str, new: Any) -> None:
        self.clock += 1
        self.managers = update(
            self.managers,
            compare(self.live, new, self.kind),
            who=identity(manager, UPDATE, self.version),
            api_version=self.version,
            now=f"2026-01-01T00:00:{self.clock:02}Z",
        )
        self.live = new

    def owned_by(self, manager: str) -> set[str]:
        from bayplan.api.managedfields.fieldset import path_text

        return {
            path_text(path)
            for who, owned in self.managers.items()
            if who.manager == manager
            for path in paths(owned.fields)
        }


def data(**items: str) -> Any:
    return {"data": items}


def test_what_is_applied_is_owned_and_what_is_left_out_later_goes() -> None:
    story = Story()
    story.apply("one", data(x="1", y="2"))
    assert story.owned_by("one") == {".data.x", ".data.y"}
    story.apply("one", data(x="3"))
    assert story.live["data"] == {"x": "3"}
    assert story.owned_by("one") == {".data.x"}


def test_a_field_of_another_manager_is_a_conflict_unless_forced_or_equal() -> None:
    story = Story()
    story.apply("one", data(x="1", y="1"))
    story.apply("two", data(x="1"))
    with pytest.raises(Conflict) as raised:
        story.apply("three", data(x="2", y="2"))
    message, causes = conflict_texts(raised.value)
    assert message.startswith('Apply failed with 3 conflicts: conflicts with "one":\n- .data.x\n- .data.y\n')
    assert len(causes) == 3
    story.apply("three", data(x="2"), force=True)
    assert story.owned_by("one") == {".data.y"}
    assert story.owned_by("two") == set()
    assert story.live["data"] == {"x": "2", "y": "1"}


def test_a_shared_field_stays_until_its_last_owner_drops_it() -> None:
    story = Story()
    story.apply("one", data(x="1"))
    story.apply("two", data(x="1"))
    story.apply("one", data())
    assert story.live["data"] == {"x": "1"}
    story.apply("two", data())
    assert "data" not in story.live or not story.live["data"]


def test_an_updater_takes_what_it_changes_and_only_that() -> None:
    story = Story()
    story.apply("one", data(x="1", y="1"))
    story.update("two", {"metadata": {}, "data": {"x": "2", "y": "1", "z": "3"}})
    assert story.owned_by("one") == {".data.y"}
    assert story.owned_by("two") == {".data.x", ".data.z"}
    story.update("two", {"metadata": {}, "data": {"x": "2", "y": "1"}})
    assert story.owned_by("two") == {".data.x"}


def test_dropping_what_an_updater_owns_does_not_remove_it() -> None:
    story = Story()
    story.apply("one", data(x="1"))
    story.update("two", {"metadata": {}, "data": {"x": "2"}})
    story.apply("one", data())
    assert story.live["data"] == {"x": "2"}


def test_items_of_keyed_lists_are_owned_one_by_one() -> None:
    def containers(*names: str) -> Any:
        return {"spec": {"template": {"spec": {"containers": [{"name": name} for name in names]}}}}

    def names(story: Story) -> list[str]:
        return [one["name"] for one in story.live["spec"]["template"]["spec"]["containers"]]

    story = Story(DEPLOYMENT, "apps/v1")
    story.apply("one", containers("a", "b", "c"))
    story.apply("one", containers("c", "a", "b"))
    assert names(story) == ["c", "a", "b"]
    story.apply("two", containers("a", "x"))
    assert names(story) == ["c", "a", "b", "x"]
    story.apply("one", containers("c"))
    assert names(story) == ["c", "a", "x"]


def test_a_missing_key_with_a_default_names_the_same_item() -> None:
    def ports(*ports: Any) -> Any:
        return {"spec": {"template": {"spec": {"containers": [{"name": "a", "ports": list(ports)}]}}}}

    story = Story(DEPLOYMENT, "apps/v1")
    story.apply("one", ports({"containerPort": 80}))
    story.apply("one", ports({"containerPort": 80, "protocol": "TCP", "name": "web"}))
    assert story.live["spec"]["template"]["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP", "name": "web"}
    ]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"spec": {"nosuch": 1}}, ".spec.nosuch: field not declared in schema"),
        ({"spec": {"replicas": "three"}}, ".spec.replicas: expected numeric (int or float), got string"),
        (
            {"spec": {"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}}},
            '.spec.template.spec.containers: duplicate entries for key [name="a"]',
        ),
    ],
)
def test_a_configuration_that_does_not_fit_the_schema_is_refused(config: Any, problem: str) -> None:
    with pytest.raises(TypedError) as raised:
        validate(config, DEPLOYMENT)
    assert str(raised.value) == problem


def test_more_than_ten_updaters_are_merged_into_one_entry() -> None:
    story = Story()
    story.apply("owner", data(own="1"))
    items = {"own": "1"}
    for number in range(15):
        items = {**items, f"k{number}": "v"}
        story.update(f"writer-{number:02}", {"metadata": {}, "data": items})
    updaters = [who for who in story.managers if who.operation == UPDATE]
    assert len(updaters) == 10
    assert {f".data.k{number}" for number in range(6)} <= story.owned_by("ancient-changes")
    assert {path for who in {one.manager for one in updaters} for path in story.owned_by(who)} == {
        f".data.k{number}" for number in range(15)
    }


def test_the_stored_form_round_trips() -> None:
    story = Story()
    story.apply("one", data(x="1"))
    story.update("two", {"metadata": {"labels": {"a": "b"}}, "data": {"x": "1"}})
    assert read_entries(write_entries(story.managers)) == story.managers


CONFIGS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12"), max_size=3)
STEPS = st.lists(
    st.tuples(st.sampled_from(["one", "two", "three"]), CONFIGS, st.booleans(), st.booleans()), max_size=12
)


@given(STEPS)
def test_after_any_writes_owners_own_what_is_there(steps: list[tuple[str, dict[str, str], bool, bool]]) -> None:
    story = Story()
    for manager, items, is_apply, force in steps:
        if is_apply:
            try:
                story.apply(manager, {"data": items}, force=force)
            except Conflict:
                assert not force
                continue
            assert items.items() <= (story.live.get("data") or {}).items()
        else:
            story.update(manager, {"metadata": {}, "data": items})
        there = set(paths(field_set(story.live, CONFIG_MAP)))
        for who, owned in story.managers.items():
            leaves = {path for path in paths(owned.fields) if len(path) == 2}
            assert leaves <= there, who


@given(CONFIGS, CONFIGS)
def test_comparing_is_symmetric_in_what_comes_and_goes(one: dict[str, str], other: dict[str, str]) -> None:
    there, back = (
        compare({"data": one}, {"data": other}, CONFIG_MAP),
        compare({"data": other}, {"data": one}, CONFIG_MAP),
    )
    assert there.added == back.removed
    assert there.modified == back.modified
    assert compare({"data": one}, {"data": one}, CONFIG_MAP).is_same


_NAMES = st.sampled_from(["a", "b", "c"])
_LABELS = st.dictionaries(_NAMES, st.sampled_from(["1", "2"]), max_size=2)
_CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": _NAMES},
        optional={
            "image": st.sampled_from(["x", "y"]),
            "env": st.lists(st.builds(lambda name: {"name": name, "value": "v"}, _NAMES), unique_by=str, max_size=2),
            "resources": st.sampled_from([{}, {"limits": {"cpu": "1"}}]),
        },
    ),
    unique_by=lambda one: str(one["name"]),
    max_size=2,
)
_CONFIGURATIONS = st.builds(
    lambda labels, selector, containers: {
        "metadata": {"labels": labels},
        "spec": {"selector": {"matchLabels": selector}, "template": {"spec": {"containers": containers}}},
    },
    _LABELS,
    _LABELS,
    _CONTAINERS,
)


@given(
    st.lists(st.tuples(st.sampled_from(["one", "two", "updater"]), _CONFIGURATIONS), max_size=4),
    _CONFIGURATIONS,
    st.booleans(),
)
def test_nothing_is_pruned_where_all_that_was_applied_is_applied_again(
    steps: list[tuple[str, Any]], config: Any, is_wider: bool
) -> None:
    def written(story: Story) -> tuple[Any, Managers]:
        for who, tree in [("one", config), *steps]:
            if who == "updater":
                story.update(who, {**story.live, **tree})
            else:
                story.apply(who, tree, force=True)
        last = {**config, "metadata": {**config["metadata"], "annotations": {"x": "y"}}} if is_wider else config
        story.apply("one", last, force=True)
        return story.live, story.managers

    short = written(Story(DEPLOYMENT, "apps/v1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayplan.api.managedfields.managers._applies_all_of", lambda *_: False)
        assert written(Story(DEPLOYMENT, "apps/v1")) == short
