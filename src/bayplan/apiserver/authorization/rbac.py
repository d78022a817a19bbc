"""RBAC: who holds which rules, by roles and bindings in the caches.

Bindings are indexed by subject and roles compiled when they are first needed; both are thrown away as soon as a cache of the four kinds has a newer
revision. Source: Kubernetes' `pkg/registry/rbac/validation/rule.go` and `plugin/pkg/auth/authorizer/rbac`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bayplan.api.errors import quoted
from bayplan.api.kinds import KindTable
from bayplan.api.types import rbac_v1
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.interface import Decision, Verdict
from bayplan.apiserver.authorization.rules import CompiledRule, PolicyRule
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.reads.cache import ResourceCache
from bayplan.apiserver.requests import User
from bayplan.support.memory.memo import Memo

GROUP = "rbac.authorization.k8s.io"
API_VERSION = f"{GROUP}/v1"
Binding = rbac_v1.RoleBinding | rbac_v1.ClusterRoleBinding
_Subject = tuple[bool, str]
"""Whether it is a group, and the name. Service accounts count as the users that they are."""


class RoleMissing(LookupError):
    """A binding names a role that is not there (or can never be)."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(
            f"{kind.lower()}.{GROUP} {quoted(name)} not found"
            if kind in ("Role", "ClusterRole")
            else f"unsupported role reference kind: {quoted(kind)}"
        )

    @property
    def is_unsupported(self) -> bool:
        """Whether there are no roles of this kind at all."""
        return self.kind not in ("Role", "ClusterRole")


class _Held(NamedTuple):
    """What applies to a user in one scope."""

    grants: list[tuple[Grant, tuple[CompiledRule, ...]]]
    """With the rules that they bring."""
    problems: list[RoleMissing]
    """Roles that are not there."""


class Grant(NamedTuple):
    """One binding that applies to a user."""

    binding: Binding
    subject: rbac_v1.Subject

    def describe(self) -> str:
        """`RoleBinding "reader/ns" of Role "reader" to User "carol"`."""
        metadata, role, subject = self.binding.metadata, self.binding.role_ref, self.subject
        kind, name = type(self.binding).__name__, metadata.name
        if kind == "RoleBinding":
            name = f"{name}/{metadata.namespace}"
        whom = subject.name
        if subject.kind == "ServiceAccount":
            whom = f"{whom}/{subject.namespace or metadata.namespace}"
        return f"{kind} {quoted(name)} of {role.kind} {quoted(role.name)} to {subject.kind} {quoted(whom)}"


class _Index:
    """The bindings of one scope by subject, in order of their names."""

    def __init__(self, bindings: Iterator[Binding], namespace: str) -> None:
        self._grants: dict[_Subject, list[tuple[int, int, Grant]]] = {}
        for number, binding in enumerate(bindings):
            for place, subject in enumerate(binding.subjects):
                key = _subject_key(subject, namespace)
                if key is not None:
                    self._grants.setdefault(key, []).append((number, place, Grant(binding, subject)))

    def of(self, user: User) -> list[Grant]:
        """What applies to a user: each binding once, by its first subject that fits."""
        found: dict[int, tuple[int, Grant]] = {}
        for key in ((False, user.name), *((True, group) for group in user.groups)):
            for number, place, grant in self._grants.get(key, ()):
                if number not in found or place < found[number][0]:
                    found[number] = (place, grant)
        return [found[number][1] for number in sorted(found)]


def _subject_key(subject: rbac_v1.Subject, namespace: str) -> _Subject | None:
    if subject.kind == "User":
        return False, subject.name
    if subject.kind == "Group":
        return True, subject.name
    home = subject.namespace or namespace
    if subject.kind == "ServiceAccount" and home:
        return False, f"system:serviceaccount:{home}:{subject.name}"
    return None


class Rbac:
    """The authorizer of mode RBAC, and the source of rules for escalation checks and reviews."""

    def __init__(self, objects: ObjectStore, kinds: KindTable) -> None:
        def cache(kind: str) -> ResourceCache:
            row = kinds.of_kind(API_VERSION, kind)
            assert row is not None
            return objects.cache(row)

        self._roles, self._bindings = cache("Role"), cache("RoleBinding")
        self._cluster_roles, self._cluster_bindings = cache("ClusterRole"), cache("ClusterRoleBinding")
        self._stamp = -1
        self._indexes: Memo[str, _Index] = Memo("rbac_indexes", most_bytes=_INDEX_BYTES)
        self._held: Memo[tuple[str, tuple[str, ...], str], _Held] = Memo("rbac_grants", most_bytes=_HELD_BYTES)
        self._compiled: Memo[tuple[str, str], tuple[int, tuple[CompiledRule, ...]]] = Memo(
            "compiled_roles", most_bytes=_COMPILED_BYTES
        )

    def stamp(self) -> int:
        """A number that grows with every change of a role or binding."""
        return max(
            self._roles.revision,
            self._bindings.revision,
            self._cluster_roles.revision,
            self._cluster_bindings.revision,
        )

    def authorize(self, attributes: Attributes) -> Verdict:
        """Whether a rule of the user allows it. RBAC never denies."""
        scopes = ("", attributes.namespace) if attributes.namespace else ("",)
        for scope in scopes:
            for grant, rules in self._holdings(attributes.user, scope).grants:
                for rule in rules:
                    if rule.matches(attributes):
                        return Verdict(Decision.ALLOW, f"RBAC: allowed by {grant.describe()}", not rule.names)
        problems = self.problems(attributes.user, attributes.namespace)
        return Verdict(Decision.NO_OPINION, f"RBAC: {aggregate(problems)}" if problems else "")

    def problems(self, user: User, namespace: str) -> list[RoleMissing]:
        """Roles that bindings of the user name and that are not there."""
        found: list[RoleMissing] = []
        for scope in ("", namespace) if namespace else ("",):
            found += self._holdings(user, scope).problems
        return found

    def rules_for(self, user: User, namespace: str) -> list[PolicyRule]:
        """All rules that a user holds in a namespace ("" for the cluster), those of the cluster first."""
        rules: list[PolicyRule] = []
        for scope in ("", namespace) if namespace else ("",):
            for grant, _ in self._holdings(user, scope).grants:
                rules += self.rules_of(grant.binding.role_ref, scope)
        return rules

    def rules_of(self, role: rbac_v1.RoleRef, namespace: str) -> Sequence[PolicyRule]:
        """The rules of a role. Raises RoleMissing."""
        cache, entry_namespace = self._home(role, namespace)
        entry = cache.get(entry_namespace, role.name)
        if entry is None:
            raise RoleMissing(role.kind, role.name)
        found: Sequence[PolicyRule] = cache.shared(entry).rules
        return found

    def _home(self, role: rbac_v1.RoleRef, namespace: str) -> tuple[ResourceCache, str]:
        if role.kind == "ClusterRole":
            return self._cluster_roles, ""
        if role.kind == "Role":
            return self._roles, namespace
        raise RoleMissing(role.kind, role.name)

    def _holdings(self, user: User, scope: str) -> _Held:
        """What applies to a user in one scope."""
        stamp = self.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            self._indexes.clear()
            self._held.clear()
        key = (user.name, user.groups, scope)
        held = self._held.get(key)
        if held is None:
            held = _Held([], [])
            for grant in self._index(scope).of(user):
                try:
                    held.grants.append((grant, self._compile(grant.binding.role_ref, scope)))
                except RoleMissing as problem:
                    held.problems.append(problem)
            self._held.put(key, held, _BYTES_PER_GRANT * (1 + len(held.grants) + len(held.problems)))
        return held

    def _index(self, scope: str) -> _Index:
        index = self._indexes.get(scope)
        if index is None:
            cache = self._bindings if scope else self._cluster_bindings
            index = _Index((cache.shared(entry) for entry in cache.ordered(scope)), scope)
            self._indexes.put(scope, index, _BYTES_PER_INDEX)
        return index

    def _compile(self, role: rbac_v1.RoleRef, scope: str) -> tuple[CompiledRule, ...]:
        cache, namespace = self._home(role, scope)
        entry = cache.get(namespace, role.name)
        if entry is None:
            raise RoleMissing(role.kind, role.name)
        kept = self._compiled.get((namespace, role.name))
        if kept is None or kept[0] != entry.revision:
            kept = entry.revision, tuple(CompiledRule(rule) for rule in cache.shared(entry).rules)
            self._compiled.put((namespace, role.name), kept, _BYTES_PER_RULE * len(kept[1]))
        return kept[1]


_INDEX_BYTES = _HELD_BYTES = 16 << 20
_BYTES_PER_INDEX = 1000
"""Besides the bindings, which are there anyway."""
_BYTES_PER_GRANT = 150
_COMPILED_BYTES = 32 << 20
_BYTES_PER_RULE = 1000


def aggregate(errors: Sequence[object]) -> str:
    """Errors as Kubernetes joins them: one as it is, several (each once) in brackets."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
