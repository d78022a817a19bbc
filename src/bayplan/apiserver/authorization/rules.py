"""Policy rules of RBAC: what one matches, what it covers, how it is shown. Functions of data.

Source: Kubernetes' `rbac/v1` helpers (matching) and `auth/rbac/validation` (covering).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bayplan.api.errors import quoted
from bayplan.api.types import rbac_v1
from bayplan.apiserver.authorization.attributes import Attributes

ALL = "*"
PolicyRule = rbac_v1.PolicyRule


class CompiledRule:
    """A rule prepared for matching."""

    __slots__ = ("groups", "names", "prefixes", "resources", "urls", "verbs")

    def __init__(self, rule: PolicyRule) -> None:
        self.verbs = frozenset(rule.verbs)
        self.groups = frozenset(rule.api_groups)
        self.resources = frozenset(rule.resources)
        self.names = frozenset(rule.resource_names)
        self.urls = frozenset(rule.non_resource_urls)
        self.prefixes = tuple(url.rstrip(ALL) for url in rule.non_resource_urls if url.endswith(ALL))

    def matches(self, attributes: Attributes) -> bool:
        """Whether the rule allows what is asked."""
        if ALL not in self.verbs and attributes.verb not in self.verbs:
            return False
        if not attributes.is_resource:
            path = attributes.path
            return path in self.urls or any(path.startswith(prefix) for prefix in self.prefixes)
        if ALL not in self.groups and attributes.group not in self.groups:
            return False
        if not self._has_resource(attributes):
            return False
        return not self.names or attributes.name in self.names

    def _has_resource(self, attributes: Attributes) -> bool:
        resources = self.resources
        if ALL in resources or attributes.combined in resources:
            return True
        return bool(attributes.subresource) and f"*/{attributes.subresource}" in resources


FULL_AUTHORITY = (
    PolicyRule(verbs=(ALL,), api_groups=(ALL,), resources=(ALL,)),
    PolicyRule(verbs=(ALL,), non_resource_urls=(ALL,)),
)
"""What the role `cluster-admin` holds."""


def missing(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The single permissions of `wanted` that no rule of `owned` holds, in order."""
    return [part for rule in wanted for part in broken_down(rule) if not any(_covers(one, part) for one in owned)]


def broken_down(rule: PolicyRule) -> Iterator[PolicyRule]:
    """The single permissions of a rule: one group, resource, verb and name each, or one path and verb.

    >>> [show(part) for part in broken_down(PolicyRule(verbs=("get", "list"), api_groups=("",), resources=("pods",)))]
    ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}', '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}']
    """
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                for name in rule.resource_names or (None,):
                    names = () if name is None else (name,)
                    yield PolicyRule(verbs=(verb,), api_groups=(group,), resources=(resource,), resource_names=names)
    for url in rule.non_resource_urls:
        for verb in rule.verbs:
            yield PolicyRule(verbs=(verb,), non_resource_urls=(url,))


def _covers(owner: PolicyRule, part: PolicyRule) -> bool:
    return (
        _has_all(owner.verbs, part.verbs)
        and _has_all(owner.api_groups, part.api_groups)
        and all(_has_resource(owner.resources, one) for one in part.resources)
        and all(_has_url(owner.non_resource_urls, one) for one in part.non_resource_urls)
        and (
            not owner.resource_names
            or (bool(part.resource_names) and set(part.resource_names) <= {*owner.resource_names})
        )
    )


def _has_all(owned: Sequence[str], wanted: Sequence[str]) -> bool:
    return ALL in owned or all(one in owned for one in wanted)


def _has_resource(owned: Sequence[str], wanted: str) -> bool:
    if ALL in owned or wanted in owned:
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"*/{subresource}" in owned


def _has_url(owned: Sequence[str], wanted: str) -> bool:
    return any(one == wanted or (one.endswith(ALL) and wanted.startswith(one.rstrip(ALL))) for one in owned)


def compacted(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Rules of which those about the same one resource (and name) are joined into one with all their verbs."""
    others: list[PolicyRule] = []
    joined: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for rule in rules:
        simple = len(rule.api_groups) == 1 and len(rule.resources) == 1 and len(rule.resource_names) <= 1
        if not simple or rule.non_resource_urls:
            others.append(rule)
            continue
        joined.setdefault((rule.api_groups[0], rule.resources[0], tuple(rule.resource_names)), []).extend(rule.verbs)
    return others + [
        PolicyRule(verbs=tuple(verbs), api_groups=(group,), resources=(resource,), resource_names=names)
        for (group, resource, names), verbs in joined.items()
    ]


def show(rule: PolicyRule) -> str:
    """A rule as messages show it."""
    parts = (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.non_resource_urls),
        ("ResourceNames", rule.resource_names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{show_list(values)}" for name, values in parts if values) + "}"


def show_list(values: Sequence[str]) -> str:
    """Strings as Go's %q shows a slice of them."""
    return "[" + " ".join(quoted(value) for value in values) + "]"
