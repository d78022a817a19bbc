"""The authorizers of a server in their order, and the check that every request passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bayplan.api.kinds import Kind, KindTable
from bayplan.apiserver.authorization.attributes import Attributes, attributes_of
from bayplan.apiserver.authorization.interface import (
    MASTERS,
    AlwaysAllow,
    AlwaysDeny,
    Authorizer,
    Decision,
    Verdict,
)
from bayplan.apiserver.authorization.node import NodeAuthorizer, node_identity
from bayplan.apiserver.authorization.rbac import Rbac
from bayplan.apiserver.authorization.rules import FULL_AUTHORITY, PolicyRule
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.requests import Request, ResourcePath, User

MODES: Final = ("AlwaysAllow", "AlwaysDeny", "Node", "RBAC")
NAMESPACES: Final = "namespaces"
"""A namespace is in the namespace of its own name, so that roles in it may allow reading it; verdicts about it depend on the name."""
_LIMIT: Final = 50_000
_SELECTING: Final = ("list", "watch")
"""Verbs whose verdicts may depend on what is selected."""
_Key = tuple[str, tuple[str, ...], str, Kind, str, str, bool]


class RulesFound(NamedTuple):
    """What somebody may do, in rules."""

    rules: list[PolicyRule]
    is_incomplete: bool
    """Whether there may be more."""
    problems: list[Exception]
    """Why some rules could not be told."""


class AuthorizerChain:
    """Asks one authorizer after the other until one says yes or no.

    `context.authorizer` is this: `authorize` answers any question, `admit` is what every request passes.
    """

    def __init__(self, modes: Sequence[str], authorizers: Sequence[Authorizer], rbac: Rbac) -> None:
        self.modes = tuple(modes)
        self.rbac = rbac
        """Roles and bindings, whatever the modes are: escalation checks and reviews ask them."""
        self.allows_everything = "AlwaysAllow" in self.modes
        self._authorizers = tuple(authorizers)
        self._granted: set[_Key] = set()
        self._stamp = -1

    def authorize(self, attributes: Attributes) -> Verdict:
        """May this user do this? Masters may do everything."""
        if MASTERS in attributes.user.groups:
            return Verdict(Decision.ALLOW)
        reasons = []
        for authorizer in self._authorizers:
            verdict = authorizer.authorize(attributes)
            if verdict.decision is not Decision.NO_OPINION:
                return verdict
            if verdict.reason:
                reasons.append(verdict.reason)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons))

    def rules_for(self, user: User, namespace: str) -> RulesFound:
        """What a user may do in a namespace, as far as the authorizers can say it in rules."""
        rules: list[PolicyRule] = []
        problems: list[Exception] = []
        incomplete = False
        for mode in self.modes:
            if mode == "AlwaysAllow":
                rules += FULL_AUTHORITY
            elif mode == "Node" and node_identity(user)[0]:
                incomplete = True
                problems.append(NotImplementedError("node authorizer does not support user rule resolution"))
            elif mode == "RBAC":
                rules += self.rbac.rules_for(user, namespace)
                problems += self.rbac.problems(user, namespace)
        return RulesFound(rules, incomplete, problems)

    def admit(self, request: Request, path: ResourcePath | None) -> None:
        """Let a request pass. Raises ApiError (403).

        What a rule allows for every name is remembered by user, verb, resource and namespace, so that a permitted write costs a look-up.
        """
        if request.audit is not None:
            self._admit_noting(request)
            return
        user = request.user
        if self.allows_everything or MASTERS in user.groups:
            return
        stamp = self.rbac.stamp()
        if stamp != self._stamp or len(self._granted) > _LIMIT:
            self._stamp = stamp
            self._granted.clear()
        key: _Key | None = None
        if path is not None and path.verb not in _SELECTING and path.kind.plural != NAMESPACES:
            subresource = path.subresource.name if path.subresource is not None else ""
            named = bool(path.name)
            key = (user.name, user.groups, path.verb, path.kind, subresource, path.namespace, named)
            if key in self._granted:
                return
        attributes = attributes_of(request)
        verdict = self.authorize(attributes)
        if verdict.decision is not Decision.ALLOW:
            raise attributes.refused(verdict.reason)
        if verdict.general and key is not None:
            self._granted.add(key)

    def _admit_noting(self, request: Request) -> None:
        """Let a request pass, and note why, or why not. Raises ApiError (403)."""
        assert request.audit is not None
        attributes = attributes_of(request)
        verdict = self.authorize(attributes)
        allowed = verdict.allowed or self.allows_everything
        request.audit.authorized(allowed=allowed, reason=verdict.reason)
        if not allowed:
            raise attributes.refused(verdict.reason)


def build_authorizer(modes: Sequence[str], objects: ObjectStore, kinds: KindTable) -> AuthorizerChain:
    """The chain of `--authorization-mode`. Raises what `check_modes` raises."""
    check_modes(modes)
    rbac = Rbac(objects, kinds)
    made: list[Authorizer] = []
    for mode in modes:
        if mode == "AlwaysAllow":
            made.append(AlwaysAllow())
        elif mode == "AlwaysDeny":
            made.append(AlwaysDeny())
        elif mode == "RBAC":
            made.append(rbac)
        elif mode == "Node":
            made.append(NodeAuthorizer(objects, kinds))
    return AuthorizerChain(modes, made, rbac)


def check_modes(modes: Sequence[str]) -> None:
    """Raises ValueError for a mode that is not known or is given twice, and for no mode."""
    if not modes:
        raise ValueError("at least one authorization mode must be given")
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f"unknown authorization mode {mode!r}; known: {', '.join(MODES)}")
        if list(modes).count(mode) > 1:
            raise ValueError(f"authorization mode {mode!r} is given twice")
