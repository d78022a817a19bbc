"""Acting as somebody else: who may, and who one is then.

Source: Kubernetes' `filters/impersonation` (KEP-5284). A constrained mode needs two permissions, `impersonate-on:MODE:VERB` for the request and
`impersonate:MODE` for the user (or node, service account) that one wants to be; the old way, the verb `impersonate`, allows every request. The modes are
tried in order, but the one in which somebody succeeded last comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bayplan.api.errors import ApiError, bad_request, quoted
from bayplan.api.validation.values import formats
from bayplan.apiserver.authorization.attributes import Attributes, attributes_of
from bayplan.apiserver.authorization.chain import AuthorizerChain
from bayplan.apiserver.authorization.interface import MASTERS, Decision
from bayplan.apiserver.requests import Impersonation, Request, User

ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED = "system:anonymous", "system:authenticated", "system:unauthenticated"
NODE_NAME = "authentication.kubernetes.io/node-name"
"""Key of the extra information that says on which node the pod of a service account's token runs."""
_NODE_KEYS = "authentication.kubernetes.io/associated-node-keys"
_AUTHENTICATION = "authentication.k8s.io"
_MANY = 4
_REMEMBERED = 10_000
"""Of so many users at most it is known how they became somebody else."""


def impersonated_user(authorizer: AuthorizerChain, request: Request, last: dict[str, str]) -> User:
    """Who the user is for this request. last: the mode in which a user, by name, did so before, which is tried first. Raises ApiError (400, 403)."""
    wanted = request.impersonation
    assert wanted is not None
    if not wanted.name:
        raise bad_request(f"requested {_shown(wanted)} without impersonating a user name")
    attributes = attributes_of(request)
    first: ApiError | None = None
    user, before = request.user, last.get(request.user.name)
    for mode, applies in sorted(_MODES, key=lambda one: one[0] != before) if before is not None else _MODES:
        if not applies(wanted, user):
            continue
        try:
            found = _Check(authorizer, user, mode).run(wanted, attributes)
            if len(last) >= _REMEMBERED:
                last.clear()
            last[user.name] = mode
            return found
        except ApiError as error:
            first = first or error
    assert first is not None  # the last mode takes everybody
    raise first


def _shown(wanted: Impersonation) -> str:
    extra = ", ".join(
        f"{quoted(key)}:[]string{{{', '.join(map(quoted, values))}}}" for key, values in wanted.extra.items()
    )
    groups = f"[]string{{{', '.join(map(quoted, wanted.groups))}}}" if wanted.groups else "[]string(nil)"
    extras = f"map[string][]string{{{extra}}}" if wanted.extra else "map[string][]string(nil)"
    return f"&user.DefaultInfo{{Name:{quoted(wanted.name)}, UID:{quoted(wanted.uid)}, Groups:{groups}, Extra:{extras}}}"


def split_service_account(name: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name, or None if it is none."""
    prefix, _, rest = name.partition("system:serviceaccount:")
    namespace, colon, account = rest.partition(":")
    if prefix or not colon or formats.dns_label(namespace) or formats.dns_subdomain(account):
        return None
    return namespace, account


def node_of(name: str) -> str:
    """The node of a node's user name; "" if it is none."""
    node = name.removeprefix("system:node:")
    return "" if node == name or formats.dns_subdomain(node) else node


def _only_name(wanted: Impersonation) -> bool:
    return not (wanted.uid or wanted.groups or wanted.extra)


def _associated_node(wanted: Impersonation, user: User) -> bool:
    node = node_of(wanted.name) if _only_name(wanted) else ""
    return (
        bool(node) and split_service_account(user.name) is not None and tuple(user.extra.get(NODE_NAME, ())) == (node,)
    )


def _arbitrary_node(wanted: Impersonation, user: User) -> bool:
    return _only_name(wanted) and bool(node_of(wanted.name))


def _service_account(wanted: Impersonation, user: User) -> bool:
    return _only_name(wanted) and split_service_account(wanted.name) is not None


def _user_info(wanted: Impersonation, user: User) -> bool:
    return not node_of(wanted.name) and split_service_account(wanted.name) is None


def _always(wanted: Impersonation, user: User) -> bool:
    return True


_MODES: tuple[tuple[str, Callable[[Impersonation, User], bool]], ...] = (
    ("associated-node", _associated_node),
    ("arbitrary-node", _arbitrary_node),
    ("serviceaccount", _service_account),
    ("user-info", _user_info),
    ("", _always),
)
"""Name of each mode and whom it is for; "" is the old way."""


class _Check:
    """The permissions that one mode asks for."""

    def __init__(self, authorizer: AuthorizerChain, user: User, mode: str) -> None:
        self._authorizer = authorizer
        self._mode = mode
        self._user = user
        if mode == "associated-node":
            self._user = replace(user, extra={_NODE_KEYS: tuple(sorted(user.extra))})

    def run(self, wanted: Impersonation, attributes: Attributes) -> User:
        """The new user. Raises ApiError (403)."""
        if self._mode:
            self._check_request(attributes)
        groups = self._name(wanted)
        if wanted.uid:
            self._ask(_AUTHENTICATION, "uids", wanted.uid)
        self._groups(wanted.groups)
        self._extra(wanted)
        if wanted.name == ANONYMOUS:
            added = UNAUTHENTICATED
        else:
            added = "" if UNAUTHENTICATED in groups else AUTHENTICATED
        if added and added not in groups:
            groups = (*groups, added)
        return User(wanted.name, groups, wanted.uid, wanted.extra)

    def _check_request(self, given: Attributes) -> None:
        asked = Attributes(
            self._user,
            f"impersonate-on:{self._mode}:{given.verb}",
            group=given.group,
            version=given.version,
            resource=given.resource,
            subresource=given.subresource,
            namespace=given.namespace,
            name=given.name,
            path=given.path,
            is_resource=given.is_resource,
            field_selector=given.field_selector,
        )
        self._decide(asked)

    def _name(self, wanted: Impersonation) -> tuple[str, ...]:
        """Ask for the name; the groups that go with it."""
        group = _AUTHENTICATION if self._mode else ""
        node = node_of(wanted.name)
        if self._mode and node:
            self._ask(group, "nodes", "*" if self._mode == "associated-node" else node)
            return ("system:nodes",)
        account = split_service_account(wanted.name)
        if account is not None:
            namespace, name = account
            self._ask(group, "serviceaccounts", name, namespace=namespace)
            return wanted.groups or ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        self._ask(group, "users", wanted.name)
        return wanted.groups

    def _groups(self, groups: tuple[str, ...]) -> None:
        api_group = _AUTHENTICATION if self._mode else ""
        if self._mode:
            self._refuse_groups(api_group, groups)
            if len(groups) >= _MANY and self._may(api_group, "groups", "*"):
                return
        for group in groups:
            self._ask(api_group, "groups", group)

    def _refuse_groups(self, api_group: str, groups: tuple[str, ...]) -> None:
        if "" in groups:
            raise self._attributes(api_group, "groups", "").refused(
                "impersonating the empty string group is not allowed"
            )
        if MASTERS in groups:
            text = "impersonating the system:masters group is not allowed"
            raise self._attributes(api_group, "groups", MASTERS).refused(text)

    def _extra(self, wanted: Impersonation) -> None:
        if self._mode and wanted.extra:
            problem = _extra_problem(wanted)
            if problem:
                raise self._attributes(_AUTHENTICATION, "userextras", "").refused(problem)
            count = max(len(wanted.extra), sum(map(len, wanted.extra.values())))
            if count >= _MANY and self._may(_AUTHENTICATION, "userextras", "*", subresource="*"):
                return
        for key, values in wanted.extra.items():
            for value in values:
                self._ask(_AUTHENTICATION, "userextras", value, subresource=key)

    def _attributes(
        self, group: str, resource: str, name: str, *, namespace: str = "", subresource: str = ""
    ) -> Attributes:
        return Attributes(
            self._user,
            f"impersonate:{self._mode}" if self._mode else "impersonate",
            group=group,
            version="v1",
            resource=resource,
            subresource=subresource,
            namespace=namespace,
            name=name,
        )

    def _ask(self, group: str, resource: str, name: str, *, namespace: str = "", subresource: str = "") -> None:
        self._decide(self._attributes(group, resource, name, namespace=namespace, subresource=subresource))

    def _may(self, group: str, resource: str, name: str, *, subresource: str = "") -> bool:
        asked = self._attributes(group, resource, name, subresource=subresource)
        return self._authorizer.authorize(asked).decision is Decision.ALLOW

    def _decide(self, asked: Attributes) -> None:
        verdict = self._authorizer.authorize(asked)
        if verdict.decision is not Decision.ALLOW:
            raise asked.refused(verdict.reason)


def _extra_problem(wanted: Impersonation) -> str:
    """What is wrong with extra information that a constrained mode is asked for; "" if nothing is."""
    for key, values in wanted.extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        domain, slash, path = key.partition("/")
        if not slash or not path or formats.dns_subdomain(domain):
            shown = f'extra.key: Invalid value: {quoted(key)}: must be a domain-prefixed path (such as "acme.io/foo")'
            return f"impersonating an invalid key in extra is not allowed: {shown}"
        if key != key.lower():
            return f"impersonating a non-lowercase key in extra is not allowed: {quoted(key)}"
        if not values:
            return "impersonating empty values in extra is not allowed"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""
