"""The authorizers of a server in their order, and the check that every request passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from bayplan.api.kinds import Kind, KindTable
from bayplan.apiserver.authorization.abac import AbacAuthorizer
from bayplan.apiserver.authorization.attributes import Attributes, attributes_of
from bayplan.apiserver.authorization.interface import (
    MASTERS,
    AlwaysAllow,
    AlwaysDeny,
    Authorizer,
    Decision,
    Verdict,
)
from bayplan.apiserver.authorization.metrics import AuthorizationMetrics
from bayplan.apiserver.authorization.node import NodeAuthorizer, node_identity
from bayplan.apiserver.authorization.rbac import Rbac
from bayplan.apiserver.authorization.rules import FULL_AUTHORITY, PolicyRule
from bayplan.apiserver.authorization.waiting import waited
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.requests import Request, ResourcePath, User
from bayplan.support.memory.memo import Memo
from bayplan.support.metrics.instruments import Counter, Registry

MODES: Final = ("AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node")
_OF_FILES: Final = ("ABAC", "Webhook")
NAMESPACES: Final = "namespaces"
"""A namespace is in the namespace of its own name, so that roles in it may allow reading it; verdicts about it depend on the name."""
_GRANTED_BYTES: Final = 16 << 20
_KEY_BYTES: Final = 150
"""What is remembered of requests that a rule allows for every name, and what one sort of them takes."""
_SELECTING: Final = ("list", "watch")
"""Verbs whose verdicts may depend on what is selected."""
_Key = tuple[str, tuple[str, ...], str, Kind, str, str, bool]


class NoRules(Exception):
    """An authorizer cannot say in rules what a user may do."""


class RulesFound(NamedTuple):
    """What somebody may do, in rules."""

    rules: list[PolicyRule]
    is_incomplete: bool
    """Whether there may be more."""
    problems: list[Exception]
    """Why some rules could not be told."""


class Named(NamedTuple):
    """An authorizer of a configuration."""

    type: str
    name: str
    """By which it is measured."""
    authorizer: Authorizer


class _Asked(NamedTuple):
    """An authorizer with its series."""

    authorizer: Authorizer
    decisions: Mapping[Decision, Counter]


class AuthorizerChain:
    """Asks one authorizer after the other until one says yes or no.

    `context.authorizer` is this: `authorize` answers any question, `admit` is what every request passes. Both raise `Undecided` if a webhook has to be asked
    (`asks_webhooks`); callers that can wait go by way of `decided`.
    """

    def __init__(self, authorizers: Sequence[Named], rbac: Rbac, metrics: AuthorizationMetrics) -> None:
        self.rbac = rbac
        """Roles and bindings, whatever the modes are: escalation checks and reviews ask them."""
        self.metrics = metrics
        self._granted: Memo[_Key, Counter] = Memo("granted_requests", most_bytes=_GRANTED_BYTES)
        self._stamp = -1
        self.use(authorizers)

    def use(self, authorizers: Sequence[Named]) -> None:
        """Ask these from now on."""
        self._named = tuple(authorizers)
        self._asked = tuple(_Asked(one.authorizer, self.metrics.decisions(one.type, one.name)) for one in authorizers)
        self.modes = tuple(one.type for one in authorizers)
        self.is_open = "AlwaysAllow" in self.modes
        """Whether everybody who is known may do everything, unless an authorizer before says no."""
        self.asks_webhooks = "Webhook" in self.modes
        self.allows_everything = self.is_open and not self.asks_webhooks
        self._open_counter = next(
            (one.decisions[Decision.ALLOW] for one in self._asked if isinstance(one.authorizer, AlwaysAllow)), None
        )
        self._granted.clear()

    def authorize(self, attributes: Attributes) -> Verdict:
        """May this user do this? Masters may do everything. Raises Undecided."""
        if MASTERS in attributes.user.groups:
            return Verdict(Decision.ALLOW)
        reasons = []
        for authorizer, decisions in self._asked:
            verdict = authorizer.authorize(attributes)
            if verdict.decision is not Decision.NO_OPINION:
                decisions[verdict.decision].value += 1
                return verdict
            if verdict.reason:
                reasons.append(verdict.reason)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons))

    def rules_for(self, user: User, namespace: str) -> RulesFound:
        """What a user may do in a namespace, as far as the authorizers can say it in rules."""
        rules: list[PolicyRule] = []
        problems: list[Exception] = []
        incomplete = False
        for one in self._named:
            if one.type == "AlwaysAllow":
                rules += FULL_AUTHORITY
            elif one.type == "Webhook" or (one.type == "Node" and node_identity(user)[0]):
                incomplete = True
                problems.append(NoRules(f"{one.type.lower()} authorizer does not support user rule resolution"))
            elif one.type == "RBAC":
                rules += self.rbac.rules_for(user, namespace)
                problems += self.rbac.problems(user, namespace)
            elif isinstance(one.authorizer, AbacAuthorizer):
                rules += one.authorizer.rules_for(user, namespace)
        return RulesFound(rules, incomplete, problems)

    def admit(self, request: Request, path: ResourcePath | None) -> None:
        """Let a request pass. Raises ApiError (403), Undecided.

        What a rule allows for every name is remembered by user, verb, resource and namespace, so that a permitted write costs a look-up.
        """
        if request.audit is not None:
            self._admit_noting(request)
            return
        user = request.user
        if MASTERS in user.groups:
            self.metrics.masters.value += 1
            return
        if self.allows_everything:
            if self._open_counter is not None:
                self._open_counter.value += 1
            return
        stamp = self.rbac.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            self._granted.clear()
        key: _Key | None = None
        if path is not None and path.verb not in _SELECTING and path.kind.plural != NAMESPACES:
            subresource = path.subresource.name if path.subresource is not None else ""
            named = bool(path.name)
            key = (user.name, user.groups, path.verb, path.kind, subresource, path.namespace, named)
            counter = self._granted.get(key)
            if counter is not None:
                counter.value += 1
                return
        attributes = attributes_of(request)
        verdict = self._judged(attributes)
        if verdict.decision is not Decision.ALLOW:
            raise attributes.refused(verdict.reason)
        if verdict.general and key is not None and not self.asks_webhooks:
            self._granted.put(key, self._general_counter(), _KEY_BYTES)

    def _general_counter(self) -> Counter:
        """The series of verdicts that hold for every name: only one authorizer gives such."""
        found = next(one for one, named in zip(self._asked, self._named, strict=True) if named.type in _GENERAL)
        return found.decisions[Decision.ALLOW]

    def _judged(self, attributes: Attributes) -> Verdict:
        """The verdict about a request, which is counted. Raises Undecided."""
        verdict = self.authorize(attributes)
        self.metrics.no_opinion.value += verdict.decision is Decision.NO_OPINION
        if self.asks_webhooks and (seconds := waited()):
            self.metrics.waited(verdict.decision, seconds)
        return verdict

    def _admit_noting(self, request: Request) -> None:
        """Let a request pass, and note why, or why not. Raises ApiError (403), Undecided."""
        assert request.audit is not None
        attributes = attributes_of(request)
        verdict = self._judged(attributes)
        allowed = verdict.allowed or self.allows_everything
        request.audit.authorized(allowed=allowed, reason=verdict.reason)
        if not allowed:
            raise attributes.refused(verdict.reason)


_GENERAL: Final = ("RBAC", "AlwaysAllow")
"""Authorizers whose verdicts may hold whatever the object's name is."""


def build_authorizer(
    modes: Sequence[str], objects: ObjectStore, kinds: KindTable, registry: Registry
) -> AuthorizerChain:
    """The chain of `--authorization-mode`. Raises what `check_modes` raises.

    Authorizers that need files deny everything until whoever can read those calls `use`.
    """
    check_modes(modes)
    rbac = Rbac(objects, kinds)
    if any(mode in _OF_FILES for mode in modes):
        modes = ("AlwaysDeny",)
    made = [Named(mode, mode.lower(), built_in_authorizer(mode, rbac, objects, kinds)) for mode in modes]
    return AuthorizerChain(made, rbac, AuthorizationMetrics(registry))


def built_in_authorizer(mode: str, rbac: Rbac, objects: ObjectStore, kinds: KindTable) -> Authorizer:
    """The authorizer of a mode that needs no file. Raises KeyError for another one."""
    makers: dict[str, Callable[[], Authorizer]] = {
        "AlwaysAllow": AlwaysAllow,
        "AlwaysDeny": AlwaysDeny,
        "Node": lambda: NodeAuthorizer(objects, kinds),
        "RBAC": lambda: rbac,
    }
    return makers[mode]()


def check_modes(modes: Sequence[str]) -> None:
    """Raises ValueError for a mode that is not known or is given twice, and for no mode."""
    if not modes:
        raise ValueError("at least one authorization-mode must be passed")
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f'authorization-mode "{mode}" is not a valid mode; known: {", ".join(MODES)}')
        if list(modes).count(mode) > 1:
            shown = " ".join(f'"{one}"' for one in modes)
            raise ValueError(f"authorization-mode [{shown}] has mode specified more than once")
