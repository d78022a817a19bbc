from __future__ import annotations

from bayplan.api.types import core_v1
from bayplan.controllers.cleanup.namespace_rules import Content, conditions

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def shown(found: tuple[core_v1.NamespaceCondition, ...]) -> dict[str, tuple[str, str, str]]:
    return {one.type.removeprefix("Namespace"): (one.status, one.reason, one.message) for one in found}


def test_an_empty_namespace_has_only_good_news() -> None:
    assert shown(conditions((), Content(), NOW)) == {
        "DeletionDiscoveryFailure": ("False", "ResourcesDiscovered", "All resources successfully discovered"),
        "DeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "DeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "ContentRemaining": ("False", "ContentRemoved", "All content successfully removed"),
        "FinalizersRemaining": ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    }


def test_what_remains_and_what_holds_it_is_counted_in_order() -> None:
    content = Content()
    content.count("pods.", [(), ("example.com/hold",)])
    content.count("configmaps.", [("example.com/hold", "a.example.com/other")])
    content.count("secrets.", [])
    found = shown(conditions((), content, NOW))
    assert found["ContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 1 resource instances, pods. has 2 resource instances",
    )
    assert found["FinalizersRemaining"] == (
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: "
        "a.example.com/other in 1 resource instances, example.com/hold in 2 resource instances",
    )


def test_failures_are_told_together() -> None:
    content = Content(failures=["second went wrong", "first went wrong"])
    assert shown(conditions((), content, NOW))["DeletionContentFailure"] == (
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, 2 remaining: first went wrong; second went wrong",
    )


def test_equal_news_are_no_news_and_a_change_of_state_has_its_time() -> None:
    content = Content()
    content.count("pods.", [()])
    first = conditions((), content, NOW)
    assert conditions(first, content, LATER) == first
    after = {one.type: one.last_transition_time for one in conditions(first, Content(), LATER)}
    assert after["NamespaceContentRemaining"] == LATER
    assert after["NamespaceDeletionDiscoveryFailure"] == NOW
