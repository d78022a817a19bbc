"""Authorization by a file with one policy a line (`--authorization-policy-file`). Pure. Source: Kubernetes' `pkg/auth/authorizer/abac`, `pkg/apis/abac`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.interface import Decision, Verdict
from bayplan.apiserver.authorization.rules import PolicyRule
from bayplan.apiserver.requests import User

logger = logging.getLogger(__name__)

_API_VERSION: Final = "abac.authorization.kubernetes.io/v1beta1"
_READING: Final = ("get", "list", "watch")
_ANYBODY: Final = "system:authenticated"


class PolicyError(ValueError):
    """A line of a file is no policy; the message names it."""


class _Spec(msgspec.Struct, rename="camel"):
    user: str = ""
    group: str = ""
    readonly: bool = False
    api_group: str = msgspec.field(default="", name="apiGroup")
    resource: str = ""
    namespace: str = ""
    non_resource_path: str = ""


class _Line(_Spec):
    """A line: a versioned policy with a spec, or one of the oldest form, which is its own spec."""

    kind: str = ""
    api_version: str = ""
    spec: _Spec | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may do what. "*" stands for all."""

    user: str = ""
    group: str = ""
    readonly: bool = False
    api_group: str = ""
    resource: str = ""
    namespace: str = ""
    non_resource_path: str = ""

    def is_about(self, user: User) -> bool:
        """Whether a user is meant: by name and group, where these are given."""
        if self.user and self.user not in ("*", user.name):
            return False
        if self.group and self.group != "*" and self.group not in user.groups:
            return False
        return bool(self.user or self.group)

    def allows(self, asked: Attributes) -> bool:
        """Whether it allows a request."""
        if not self.is_about(asked.user) or (self.readonly and asked.verb not in _READING):
            return False
        if not asked.is_resource:
            path = self.non_resource_path
            return path in ("*", asked.path) or (path.endswith("*") and asked.path.startswith(path.rstrip("*")))
        return (
            self.namespace in ("*", asked.namespace)
            and self.resource in ("*", asked.resource)
            and self.api_group in ("*", asked.group)
        )


class AbacAuthorizer:
    """See Authorizer."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = tuple(policies)

    def authorize(self, attributes: Attributes) -> Verdict:
        """See Authorizer."""
        if any(policy.allows(attributes) for policy in self._policies):
            return Verdict(Decision.ALLOW)
        return Verdict(Decision.NO_OPINION, "No policy matched.")

    def rules_for(self, user: User, namespace: str) -> Iterator[PolicyRule]:
        """What a user may do in a namespace."""
        for policy in self._policies:
            if policy.is_about(user) and policy.namespace in ("*", namespace):
                verbs = _READING if policy.readonly else ("*",)
                if policy.resource:
                    yield PolicyRule(verbs=verbs, api_groups=(policy.api_group,), resources=(policy.resource,))
                if policy.non_resource_path:
                    yield PolicyRule(verbs=verbs, non_resource_urls=(policy.non_resource_path,))


def parse_policies(text: str, name: str) -> list[Policy]:
    """The policies of a file. name: of the file, for errors. Raises PolicyError."""
    found, is_old = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.strip().startswith("#"):
            continue
        try:
            read = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError as error:
            raise PolicyError(f"error reading policy file {name}, line {number}: {line}: {error}") from error
        if read.kind == "Policy" and read.api_version == _API_VERSION:
            found.append(_policy(read.spec or _Spec()))
        elif read.kind or read.api_version:
            problem = f'no kind "{read.kind}" is registered for version "{read.api_version}"'
            raise PolicyError(f"error reading policy file {name}, line {number}: {line}: {problem}")
        else:
            is_old = True
            found.append(_old_policy(read))
    if is_old:
        logger.warning("Policy file %s contained unversioned rules", name)
    return found


def _policy(spec: _Spec) -> Policy:
    made = Policy(
        spec.user, spec.group, spec.readonly, spec.api_group, spec.resource, spec.namespace, spec.non_resource_path
    )
    return replace(made, user="", group=_ANYBODY) if "*" in (spec.user, spec.group) else made


def _old_policy(line: _Line) -> Policy:
    """Of the oldest form: what is not given stands for all."""
    is_anybody = "*" in (line.user, line.group) or not (line.user or line.group)
    return Policy(
        user="" if is_anybody else line.user,
        group=_ANYBODY if is_anybody else line.group,
        readonly=line.readonly,
        api_group="*",
        resource=line.resource or "*",
        namespace=line.namespace or "*",
        non_resource_path="" if line.namespace or line.resource else "*",
    )
