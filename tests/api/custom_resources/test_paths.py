"""What JSON paths find."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.custom_resources.paths import PathError, path_of

TREE: dict[str, Any] = {
    "metadata": {"labels": {"app.kubernetes.io/name": "web", "a": {"b": "deep"}}},
    "spec": {"replicas": 3, "null": None, "names": ["x", "y", "z"], "empty": [], "on": True, "ratio": 1.5, "@odd": 1},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "count": 1, "ok": True},
            {"type": "Old (very)", "status": "False", "count": 5, "ok": False, "reason": None},
        ]
    },
}
FOUND: dict[str, list[Any]] = {
    "": [TREE],
    ".spec.replicas": [3],
    "$.spec.replicas": [3],
    "@.spec.replicas": [3],
    " .spec.replicas ": [3],
    ".spec.null": [None],
    ".spec.null.further": [],
    ".spec.missing": [],
    ".spec.replicas.further": [],
    ".spec['replicas']": [3],
    "['spec']['replicas']": [3],
    ".metadata.labels.app\\.kubernetes\\.io/name": ["web"],
    ".metadata.labels['app\\.kubernetes\\.io/name']": ["web"],
    ".metadata.labels['a.b']": ["deep"],
    ".spec.names[0]": ["x"],
    ".spec.names[-1]": ["z"],
    ".spec.names[-2]": ["y"],
    ".spec.names[]": ["x"],
    ".spec.names[*]": ["x", "y", "z"],
    ".spec.names[:]": ["x", "y", "z"],
    ".spec.names[1:]": ["y", "z"],
    ".spec.names[:-1]": ["x", "y"],
    ".spec.names[0:3:2]": ["x", "z"],
    ".spec.names[1:1]": [],
    ".spec.names[-3:0]": [],
    ".spec.names[0,2]": ["x", "z"],
    ".spec['replicas', 'on']": [3, True],
    ".spec.names.*": ["x", "y", "z"],
    ".spec.empty[*]": [],
    ".spec.null[0]": [],
    ".status.conditions[*].type": ["Ready", "Old (very)"],
    '.status.conditions[?(@.type=="Ready")].status': ["True"],
    ".status.conditions[?(@.type == 'Old (very)')].status": ["False"],
    '.status.conditions[?(@.type!="Ready")].count': [5],
    ".status.conditions[?(@.count>1)].type": ["Old (very)"],
    ".status.conditions[?(@.count>=5)].type": ["Old (very)"],
    ".status.conditions[?(@.count<5)].type": ["Ready"],
    ".status.conditions[?(@.count<=1)].type": ["Ready"],
    ".status.conditions[?(@.ok==true)].type": ["Ready"],
    ".status.conditions[?(@.ok==false)].type": ["Old (very)"],
    '.status.conditions[?(@.type=~"^Re")].count': [1],
    '.status.conditions[?(@.type=="a\\"b")].count': [],
    ".status.conditions[?(@.reason)].type": ["Old (very)"],
    ".status.conditions[?(@.missing==1)].type": [],
    "..type": ["Ready", "Old (very)"],
    "..labels.a.b": ["deep"],
    ".spec..x": [],
    "..conditions[0].count": [1],
}
NOTHING_THERE = (
    ".spec.names[3]", ".spec.names[-4]", ".spec.names[2:1]", ".spec.names[0:4]", ".spec.names[0:2:0]", ".spec.empty[0]", ".spec.replicas[0]", ".spec[?(@.a)]",
    ".spec.null[?(@.a)]", '.status.conditions[?(@.count=="1")].type', ".status.conditions[?(@.count==1.0)].type", ".status.conditions[?(@.ok<true)].type",
    ".status.conditions[?(@.reason==1)].type", ".status.conditions[?(@.count=~1)].type", '.status.conditions[?(@.type=~"(")].type',
)  # fmt: skip
MALFORMED = (
    ".spec[", ".spec[a]", ".spec[1:2:3:4]", ".spec[?(@.a]", ".spec[?(@.a==\"x)]", ".spec[?(@.a=>1)]", "....a", " \"x", ".spec[-]",
    ".a]", ".a}", ".a[0]b", "-", ".a['b",
    ".spec[?(@.a=='\\q')]",
)  # fmt: skip


@pytest.mark.parametrize(("path", "expected"), FOUND.items())
def test_paths_lead_to_values(path: str, expected: list[Any]) -> None:
    assert path_of(path).find(TREE) == expected


@pytest.mark.parametrize("path", NOTHING_THERE)
def test_what_no_tree_should_be_asked_for(path: str) -> None:
    with pytest.raises(PathError):
        path_of(path).find(TREE)


@pytest.mark.parametrize("path", MALFORMED)
def test_malformed_paths(path: str) -> None:
    with pytest.raises(PathError):
        path_of(path)


def test_the_first_value() -> None:
    assert path_of(".spec.names[*]").first(TREE) == "x"
    assert path_of(".spec.missing").first(TREE) is None
